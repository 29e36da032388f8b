"""Requests of a user: the tables of a spec and its design; values only."""
