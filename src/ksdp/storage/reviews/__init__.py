"""Decisions of people about documents, in a log that is only ever added to."""
