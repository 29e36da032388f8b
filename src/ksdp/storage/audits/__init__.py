"""What the store holds of an audit, and questions to it."""
