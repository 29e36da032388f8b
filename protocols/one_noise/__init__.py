"""Remove the noise of all devices but one, so that nobody knows whose is left (FedPower, Algorithm 2)."""
