"""One reader a format, each refusing bad input with file, row and column."""
