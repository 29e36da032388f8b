"""One party lies in every rounding and opening: the run ends, or what is opened is no longer than it may be."""

import ast
import contextlib
import struct
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ksdp.audit.errors import ProtocolError
from ksdp.audit.mechanisms.privacy.noise import FRACTION_BITS
from ksdp.protocols.shares import matrices, subspace, topics
from ksdp.protocols.shares.arithmetic import PairedBits, SharedArithmetic, fixed
from ksdp.protocols.shares.engine import ComputingParty
from ksdp.protocols.shares.field import PRIME, integers_of, left_residues, words_of
from ksdp.protocols.shares.sizes import ROW_BITS, sizes_of

from ..conftest import seeded
from .together import compute_together

ROOT = Path(__file__).resolve().parents[3]
WITHOUT_NOISE = {"_open", "normed_rows", "mean_of"}
ENDS = (ProtocolError, subspace.NotConverged, topics.NotProjected)
SENDING = {"rounded", "rounded_symmetric", "opened", "_reshared", "_both", "_exchanged", "_opened_words"}


class Liar:
    """Adds a number to its share, or flips bits, where it is called from one place for the n-th time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lies: dict[tuple[str, int, int], Any] = {}
        self.passed = Counter[tuple[str, int]]()
        plus = lambda share, lie: words_of((integers_of(share, (len(share),)) + lie) % PRIME)  # noqa: E731
        for kind, name, how in (
            (SharedArithmetic, "_exchanged", plus),
            (PairedBits, "_reshared", lambda s, _: ~s),
        ):
            monkeypatch.setattr(kind, name, self.lying(getattr(kind, name), how))

    def lying(self, send: Any, how: Callable[[Any, Any], Any]) -> Any:
        async def sent(shares: Any, share: Any) -> Any:
            frame = sys._getframe(1)
            while frame.f_back and (frame.f_code.co_name in SENDING or "shares" not in frame.f_code.co_filename):
                frame = frame.f_back
            where = frame.f_code.co_name, frame.f_lineno
            self.passed[where] += shares._runtime.pid == 1
            lie = self.lies.get((*where, self.passed[where])) if shares._runtime.pid == 1 else None
            return await send(shares, share if lie is None else how(share, lie))

        return sent


def shared(work: Callable[..., Any], *values: np.ndarray[Any, Any]) -> list[Any]:
    slopes = [2**200 * np.arange(1, value.size + 1).astype(object).reshape(value.shape) for value in values]
    sides = [[(v + at * slope) % PRIME for v, slope in zip(values, slopes, strict=True)] for at in (1, 2, 3)]
    return [lambda runtime, side=side: work(runtime, *side) for side in sides]


def vectors(noise: bool) -> list[Any]:
    """Of one direction with noise, which passes every place; without, the end of two has more."""
    rank = 1 if noise else 2
    task, nothing = subspace.Decomposition(rank, 4, rank + 1, 2, 0, False), np.zeros((rank, 4), dtype=object)

    def work(runtime: Any, share: Any) -> Any:
        trace = int(np.trace(share) % PRIME)
        return subspace.decompose(runtime, left_residues(share), trace, task, nothing if noise else None)

    squares = [0.8, 0.002, 0.0, 0.0] if noise else [0.8, 0.15, 0.002, 0.0]
    return shared(work, fixed(np.diag(squares), subspace.MOMENT_BITS))


def words(penalty: float, weighted: bool = False) -> list[Any]:
    sweeps = topics.Sweeps(sizes_of(2, 3, (0.0, penalty, 0.0, penalty), 1.0), 1)
    start = np.array([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]])

    def work(runtime: Any, share: Any, ones: Any) -> Any:
        rows, all_of_it = (topics.SharedRows(left_residues(part)) for part in (share, ones))
        pattern = all_of_it if weighted else None
        return topics.topics_of(runtime, rows, start, sweeps, None, pattern, np.zeros((2, 3), dtype=object))

    rows = np.array([[0.5, 0.2, 0.0], [0.0, 0.3, 0.4], [0.1, 0.4, 0.1]])
    return shared(work, fixed(rows, ROW_BITS), np.ones((3, 3), dtype=object))


RUNS: dict[str, tuple[list[Any], float]] = {
    "noisy vectors": (vectors(noise=True), 1.0 + 2.0**-10),
    "vectors": (vectors(noise=False), np.inf),
    "topics": (words(0.1), sizes_of(2, 3, (0.0, 0.1, 0.0, 0.1), 1.0).longest),
    "topics of ratings": (words(0.1, weighted=True), sizes_of(2, 3, (0.0, 0.1, 0.0, 0.1), 1.0).longest),
    "topics on the simplex": (words(0.0), 1.0 + 2.0**-9),
    "rows": (shared(matrices.normed_rows, fixed(np.eye(2) / 3, matrices.NORM_BITS)), np.inf),
    "mean": (
        shared(lambda *given: matrices.mean_of(*given, 3, 64.0), fixed(np.array([2.0, 4.0]), matrices.SUM_BITS)),
        np.inf,
    ),
}


def longest_opened(works: list[Any]) -> float:
    first, _, third = compute_together(works, seeded("lies"))[0]
    found = [
        o.basis if isinstance(o, subspace.OpenedSubspace) else next(iter(o.values())) if isinstance(o, dict) else o
        for o in (first, third)
    ]
    np.testing.assert_array_equal(*found)
    return float(np.linalg.norm(np.atleast_2d(found[0]), axis=1).max())


@pytest.mark.deviation("shares: as computing party: compute something else")
@pytest.mark.parametrize("name", RUNS)
def test_a_lie_in_any_place_ends_the_run_or_moves_it_within_its_length(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrices, "HALVINGS", 1)
    monkeypatch.setattr(topics, "PASSES", 2)
    (works, longest), liar, ended = RUNS[name], Liar(monkeypatch), 0
    with contextlib.suppress(*ENDS):
        assert longest_opened(works) <= longest
    places = {w: times for w, times in liar.passed.items() if longest < np.inf or w[0] in WITHOUT_NOISE}
    assert {where for where, _ in liar.passed} <= listed()
    for where, times in places.items():
        liar.passed.clear()
        liar.lies = {(*where, times): 2**100}
        try:
            assert longest_opened(works) <= longest, where
        except ENDS:
            ended += 1
    assert ended


def listed() -> set[str]:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    section = text.split("## What one of the three gains by a lie\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name.strip(" `") for row in rows for name in row.split(",")}


def test_every_rounding_and_opening_is_listed() -> None:
    found = set()
    for path in (ROOT / "src/ksdp/protocols/shares").glob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            calls = {getattr(c.func, "attr", "") for c in ast.walk(function) if isinstance(c, ast.Call)}
            if isinstance(function, ast.AsyncFunctionDef) and calls & SENDING:
                found.add(function.name)
    assert found - SENDING == listed()


@pytest.mark.deviation("shares: as computing party: compute something else")
@pytest.mark.parametrize("length", [0.0, 0.9, 1.0, 1.01, 2.0, 2.0**20])
def test_no_lie_in_the_check_of_lengths_lets_another_length_pass(
    length: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, liar = fixed(np.array([[0.6, 0.8], [0.8 * length, -0.6 * length]]), FRACTION_BITS), Liar(monkeypatch)
    one = 1 << 2 * FRACTION_BITS

    async def work(runtime: Any, share: Any) -> Any:
        await SharedArithmetic(runtime).check_lengths(share, one + (1 << 52), 53)
        return np.zeros(1)

    works = shared(work, rows)
    if length == 1.0:
        assert longest_opened(works) == 0.0
        return
    with pytest.raises(ProtocolError, match="not as long as"):
        longest_opened(works)
    # What this party sends counts -3 times. It knows the rows, and makes a claim of length 1 of the second.
    off, places = ((rows**2).sum(axis=1)[1] - one) * pow(-3, -1, PRIME) % PRIME, dict(liar.passed)
    claimed = sorted(where for where in places if where[0] == "check_lengths")[1]
    for claim in ({}, {(*claimed, 1): np.array([0, off, 0, off], dtype=object)}):
        for where, times in places.items():
            liar.passed.clear()
            liar.lies = {(*where, times): 2**100} | claim
            with pytest.raises(ProtocolError):
                longest_opened(works)


async def opened_twice(runtime: Any) -> Any:
    for _ in range(2):
        await SharedArithmetic(runtime).opened(np.array([5], dtype=object))  # a constant is a share of itself


@pytest.mark.deviation("shares: as computing party: send shares that do not fit, or twice")
@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda data: data * 3, "bob sent shares that fit no computation, or sent some twice"),
        (lambda data: data[:12] + bytes(28 * [255]), "opened value do not fit: bob or cyd deviates"),
        (lambda data: data[:8] + struct.pack("<I", 56) + bytes(56), "bob sent shares of another length"),
    ],
)
def test_shares_that_deviate_name_who_sent_them(spoil: Callable[[bytes], bytes], sentence: str) -> None:
    names, boxes = ("ada", "bob", "cyd"), [dict[int, bytes]() for _ in range(3)]
    parties = [ComputingParty(place, seeded(name), names) for place, name in enumerate(names)]
    for party in parties:
        party.start(opened_twice)
    with pytest.raises(ProtocolError, match=sentence):  # noqa: PT012
        for turn in range(6):
            arrived = [{p: box[at] for p, box in enumerate(boxes) if at in box} for at in range(3)]
            if turn == 2:
                arrived[0][1] = spoil(arrived[0][1])
            boxes = [party.turn(box) for party, box in zip(parties, arrived, strict=True)]
