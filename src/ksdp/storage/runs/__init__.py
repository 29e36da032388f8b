"""Files that a party keeps of a run."""
