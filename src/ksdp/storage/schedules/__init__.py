"""Schedules, their history, and notices that are to be sent."""
