"""An audit from its spec to its report."""
