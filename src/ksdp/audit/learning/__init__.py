"""Gain of the parties by a run, and its loss by protecting documents."""
