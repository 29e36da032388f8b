"""What every protocol is built on: keys, messages, and state machines that take messages in order."""
