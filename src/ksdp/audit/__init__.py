"""The numerics: corpora, designs, mechanisms, statistics, verdicts. Knows neither Prefect, Dask nor files."""
