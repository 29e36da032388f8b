"""What a party keeps of a run."""
