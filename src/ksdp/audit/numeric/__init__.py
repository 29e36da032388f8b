"""Arrays: types, compiled products, rows of sparse matrices."""
