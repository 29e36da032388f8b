"""The papers' data sets, and what their tables came to when they were repeated."""
