"""Screening: rounds of audit and exclusion, the levers beside it, and the list that a clearance holds."""
