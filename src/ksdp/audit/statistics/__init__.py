"""What an adversary looks at: functions of (observables, document) to a number."""
