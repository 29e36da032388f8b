"""Extras that the core never imports: PEM among hosts, and FedPower's run with one noise."""
