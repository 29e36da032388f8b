"""Audits that come back, and who is told of them."""
