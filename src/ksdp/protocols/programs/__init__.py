"""A whole run of a mechanism among parties: what they agree on, their rounds, the protocol file."""
