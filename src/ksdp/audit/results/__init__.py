"""What an audit found, as typed values."""
