"""Runs that open only their final output: shares among three parties, inside MPyC."""
