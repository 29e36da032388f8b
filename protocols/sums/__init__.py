"""Secure sums: among parties that all stay to the end, and of clients that may drop out."""
