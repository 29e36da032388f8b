"""Normalised secure sums: s / ||s|| and nothing else, by oblivious transfer."""
