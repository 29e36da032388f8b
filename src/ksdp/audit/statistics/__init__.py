"""Statistics of an adversary: functions of (observables, document) to a number."""
