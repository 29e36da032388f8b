"""Plots of repeated tables."""
