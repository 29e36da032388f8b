"""Flows for one's own Prefect server."""
