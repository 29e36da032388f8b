"""Screening, clearances, and their verification."""
