"""Secure sums: of parties that all stay, and of clients some of which drop out."""
