"""All three computing parties in one process."""

import random
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np

from ksdp.audit.randomness import RandomBytes
from ksdp.protocols.shares.engine import COMPUTING, ComputingParty
from ksdp.protocols.shares.field import PRIME

__all__ = ["compute_together", "shared"]


def shared(values: Any, seed: int = 1) -> list[np.ndarray]:
    """Whole numbers as lines whose slopes a seed decides, read at the three places."""
    whole, source = np.array(values, dtype=object), random.Random(seed)
    slope = np.array([source.randrange(PRIME) for _ in range(whole.size)], dtype=object).reshape(whole.shape)
    return [(whole + slope * place) % PRIME for place in (1, 2, 3)]


def compute_together(
    works: list[Callable[[Any], Coroutine[Any, Any, Any]]], random_bytes: RandomBytes
) -> tuple[list[Any], int, int]:
    """Their results; how many turns it took, and how many bytes the first one sent."""
    parties = [ComputingParty(place, random_bytes) for place in range(COMPUTING)]
    for party, work in zip(parties, works, strict=True):
        party.start(work)
    boxes: list[dict[int, bytes]] = [{} for _ in parties]
    rounds = sent = 0
    while not all(party.done for party in parties):
        boxes = [
            party.turn({p: box[party.place] for p, box in enumerate(boxes) if party.place in box})
            for party in parties
        ]
        assert any(data for box in boxes for data in box.values()) or all(party.done for party in parties)
        rounds, sent = rounds + 1, sent + sum(map(len, boxes[0].values()))
    return [party.result for party in parties], rounds, sent
