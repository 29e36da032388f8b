"""Results of an audit, as typed values."""
