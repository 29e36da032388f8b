"""The protocols that real parties run: messages in, messages out; only `network` opens sockets."""
