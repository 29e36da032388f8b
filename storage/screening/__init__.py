"""Screens and signed clearances in the store."""
