"""Remove every device's noise but one, nobody knowing whose is left (FedPower, Algorithm 2)."""
