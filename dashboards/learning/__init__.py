"""Pages of gain against leak."""
