"""What the papers measured, measured again: each table and figure as a function of data and seed."""
