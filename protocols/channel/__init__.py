"""What every protocol says and how: keys, messages, and machines that take them in order."""
