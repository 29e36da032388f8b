"""The cryptographic protocols as state machines: messages in, messages out, no sockets."""
