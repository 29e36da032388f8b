"""Prose: what happens in an audit, a screening, a forecast, in which order."""
