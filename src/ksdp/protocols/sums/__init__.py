"""Secure sums among parties that all stay to the end."""
