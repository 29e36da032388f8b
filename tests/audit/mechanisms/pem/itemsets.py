"""How far two sets of frequent itemsets are apart."""

from __future__ import annotations


def itemset_loss(found: dict[tuple[int, ...], float], true: dict[tuple[int, ...], float]) -> float:
    """The paper's loss: sum |a - b| / sum |a + b| over the itemsets of either; 1 where none is in both."""
    both = found.keys() | true.keys()
    off = sum(abs(found.get(s, 0.0) - true.get(s, 0.0)) for s in both)
    return off / sum(abs(found.get(s, 0.0) + true.get(s, 0.0)) for s in both)
