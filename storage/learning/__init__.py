"""What is gained and advised, as it is kept."""
