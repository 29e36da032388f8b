"""Mechanisms with noise: what a user would weigh against the ones without."""
