"""Thin Prefect tasks over Dask, and what a worker does with one block."""
