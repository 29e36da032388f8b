"""The source of somebody's own PEM functions: the sum of every column."""

OWN = """
from dataclasses import dataclass
from ksdp.audit.mechanisms.pem.algorithm import PemState
from ksdp.audit.mechanisms.pem.noise import VectorBlock


@dataclass(frozen=True)
class ColumnSums:
    columns: int = 6
    name: str = "column sums"

    def init(self):
        return PemState(0, {}, (VectorBlock(self.columns, bound=2.0, cap=1.0, nonnegative=True),))

    def map_in_client(self, records, state):
        return records

    def reduce_in_aggregator(self, state, total):
        return PemState(1, {"sums": total.values[0]}, ())
"""
