"""What a user asks for: the tables of a spec and its design; values only."""
