"""Foundations of every protocol: keys, messages, and state machines that take messages in order."""
