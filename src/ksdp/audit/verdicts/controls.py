"""Controls: what every audit carries whose answer is known, and when they void it.

Canaries: every real document's proof that its bits are those of the databases that the mechanism was handed.

Controls are invented: their values follow bits that no database ever saw, so they come out right even where each
real document is tested with another's bits. A canary is a column N(0, 1) + `SHIFT` x [the document is in the
matrix that the mechanism was handed]. Which rows were handed over is taken from the database itself, when it is
handed over, and travels with what the mechanism announced; the bits that everything is tested with are derived
from the design, by itself. The two agree in every run or the audit is void.

The shift is 16 standard deviations, so D is 1 where they agree (a value on the wrong side of the middle has
probability 6e-16) and below 1 as soon as a single run of a document differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.contract import Database
from ksdp.audit.corpus.groups import Units
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import KsdpError
from ksdp.audit.numeric.array_types import Bits
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.specs.models import DecisionSpec
from ksdp.audit.verdicts.decide import Verdict, decide
from ksdp.audit.verdicts.laws import ArmTests
from ksdp.audit.verdicts.power import detectable_distance, sensitive_distance

CANARY = "_canary"
HANDED = "_handed"
"""Name under which the rows handed over stand beside a run's observables."""
SHIFT = 16.0

# Where the rule detects a D of this and more, it must detect a canary; where it calls such a D sensitive, too.
# With few runs, or under a high margin, a rule without fault can do neither.
_SURE = 0.99
# Below it, a bit was wrong; D is a difference of two sums of floats.
_WHOLE = 1 - 1e-12


@dataclass(frozen=True)
class Canaries:
    """Result of the canaries."""

    count: int
    """Documents tested, over all looks; without those that have an empty arm."""
    smallest_distance: float
    sensitive: int
    """How many the rule called sensitive, where so many runs let it."""
    reason: str | None


def handed_bits(database: Database, documents: int) -> NDArray[np.uint8]:
    """Which rows of the corpus were stacked into the victim's matrix, packed, shape (ceil(documents / 8),)."""
    rows, bits = () if database.held is None else database.held, np.zeros(documents, dtype=np.bool_)
    bits[rows] = True
    if not len(rows) == database.parties[0].shape[0] == np.count_nonzero(bits):
        raise KsdpError("a database does not say which documents its rows are; its audit would be void.")
    return np.packbits(bits, bitorder="little")


def handed_units(stored: Mapping[str, NDArray[Any]], corpus: Corpus, units: Units) -> Bits:
    """Whether each unit was handed over, whole, shape (n_units,): a group by the names of its documents."""
    if HANDED not in stored:
        raise KsdpError("a run does not say which documents the mechanism was handed; run the audit again.")
    bits = np.unpackbits(stored[HANDED], count=len(corpus), bitorder="little").astype(np.bool_)
    if units.word == "document" or corpus.group is None:
        return bits
    place = np.searchsorted(units.ids, corpus.group)
    return np.asarray(np.bincount(place, weights=~bits, minlength=len(units)) == 0)


def canary_values(handed: Bits, seed: int, lane: int, run: int) -> NDArray[np.float32]:
    """Every unit's canary in one run, shape (n_units,). It does not depend on which units are audited."""
    noise = generator(seed, Purpose.CANARY, lane, run).standard_normal(len(handed), dtype=np.float32)
    return np.asarray(noise + np.float32(SHIFT) * handed)


def judge_canaries(looks: Sequence[ArmTests], rule: DecisionSpec, levels: Sequence[float]) -> Canaries:
    """Decide the canaries of each look by the audit's own rule: none may be clear.

    Every one must be detected, and called sensitive, where the arms are large enough for that.
    """
    count, sensitive, missed, smallest, distance = 0, 0, 0, 1.0, 0
    for tests, level in zip(looks, levels, strict=True):
        measured = ~np.isnan(tests.distance[:, 0])
        if not measured.any():
            continue
        tested = tests[measured]
        decided = decide(tested, rule, level=level)
        of = tested.n_with[:, 0], tested.n_without[:, 0], len(tested), 1, rule, level
        must_detect, must_call = detectable_distance(*of) < _SURE, sensitive_distance(*of) < _SURE
        called = decided.verdict == Verdict.SENSITIVE
        count += len(tested)
        sensitive += int((must_call & called).sum())
        wrong = (must_detect & ~decided.detected) | (must_call & ~called) | (decided.verdict == Verdict.CLEAR)
        missed += int(wrong.sum())
        distance += int((tested.distance[:, 0] < _WHOLE).sum())
        smallest = min(smallest, float(tested.distance[:, 0].min()))
    reason = None
    if distance:
        reason = (
            f"the bits of {distance} of {count} documents are not those of the databases that the mechanism was "
            f"handed (a canary's D is {smallest:.3f} and must be 1)"
        )
    elif missed:
        reason = (
            f"{missed} of {count} canaries, which leak everything, were not detected, not called sensitive, or "
            "called clear"
        )
    return Canaries(count, smallest, sensitive, reason)
