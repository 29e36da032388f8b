"""Decisions about documents, and what follows from them."""
