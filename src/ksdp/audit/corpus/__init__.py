"""The corpus of an audit: its matrix, weights, levers and groups."""
