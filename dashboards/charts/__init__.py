"""Numbers in, SVG markup out."""
