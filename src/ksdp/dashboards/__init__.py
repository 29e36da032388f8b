"""Pages that only render what is stored."""
