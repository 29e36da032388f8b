"""Runs of the protocol: one party, all parties of this machine, PEM."""
