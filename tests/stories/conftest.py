"""What the dashboard's tests look at."""

from ..dashboards.conftest import history_store, own_store

__all__ = ["history_store", "own_store"]
