"""Connections between the parties of a run. The only place that may open a socket."""
