"""Pages and forms of reviews."""
