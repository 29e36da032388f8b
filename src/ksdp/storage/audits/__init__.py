"""Files of an audit in the store, and queries on them."""
