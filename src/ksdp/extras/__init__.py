"""What the core never imports: PEM among hosts and processes, and the papers' tables."""
