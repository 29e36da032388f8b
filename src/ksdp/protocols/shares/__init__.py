"""Computations of three parties on shares of all parties' numbers (MPyC), which open their result alone."""
