"""Pages and reports of screens."""
