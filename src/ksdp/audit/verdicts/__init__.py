"""From two arms of values to a verdict: exact tests, corrections, bands, power, effects."""
