"""Sizes that are said of products, on data at the limits: by them nothing wraps, and masks hide what is opened."""

import contextlib
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

from ksdp.protocols.shares import matrices, subspace
from ksdp.protocols.shares.arithmetic import HIDING, Local, SharedArithmetic
from ksdp.protocols.shares.field import PRIME, added, integers_of, split, symmetric_residues
from ksdp.protocols.shares.matrices import SUM_BITS, mean_of
from ksdp.protocols.shares.sizes import COEFFICIENT_BITS, cubic_steps, growth_bits, quadratic_steps
from ksdp.protocols.shares.subspace import MOMENT_BITS, Decomposition, NotConverged, decompose
from ksdp.protocols.shares.topics import NotProjected

from ..conftest import seeded
from .together import compute_together

SIZE = 9
TURN = np.linalg.qr(np.random.default_rng(2).standard_normal((SIZE, SIZE)))[0]
UNIT = TURN[:, 0]
WORST = {
    "nothing": np.zeros((SIZE, SIZE)),
    "one entry is all": np.diag([1.0, *[0.0] * (SIZE - 1)]),
    "one direction is all": np.outer(UNIT, UNIT),
    "all directions alike": np.eye(SIZE) / SIZE,
    "two alike": (np.outer(UNIT, UNIT) + np.outer(TURN[:, 1], TURN[:, 1])) / 2.0,
    "tiny": np.eye(SIZE) * 2.0**-61,
    "below what a reciprocal reaches": TURN @ np.diag(0.5 ** np.arange(26, 26 + SIZE)) @ TURN.T,
    "falling fast": TURN @ np.diag(0.5 ** (1.0 + 6.0 * np.arange(SIZE))) @ TURN.T,
}


def watched(
    monkeypatch: pytest.MonkeyPatch, module: Any, works: list[Callable[[Any], Coroutine[Any, Any, Any]]]
) -> list[list[Local]]:
    """What the three parties rounded; the end of a run that opens nothing is an end, too."""
    said: list[list[Local]] = [[], [], []]

    class Watched(SharedArithmetic):
        async def rounded(self, *locals_: Local) -> Any:
            said[self._runtime.pid].extend(locals_)
            return await super().rounded(*locals_)

    monkeypatch.setattr(module, "SharedArithmetic", Watched)
    with contextlib.suppress(NotConverged, NotProjected):
        compute_together(works, seeded("bounds"))
    return said


def check(said: list[list[Local]]) -> None:
    shortest = min(map(len, said))  # where one has heard the end first, the others have not gone on
    assert shortest > 10
    for first, second, third in itertools.islice(zip(*said, strict=False), shortest):
        value = (3 * (first.value - second.value) + third.value) % PRIME
        value = np.abs(np.where(value > PRIME // 2, value - PRIME, value)).max(initial=0)
        assert value < 1 << first.bits
        assert first.bits + HIDING + 3 < PRIME.bit_length()


@pytest.mark.parametrize(("name", "reveal"), [*((name, False) for name in WORST), ("falling fast", True)])
def test_no_product_of_a_decomposition_is_larger_than_was_said(
    name: str, reveal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrices, "HALVINGS", 2)
    upper = np.triu_indices(SIZE)
    entered = np.rint(WORST[name][upper] * 2.0**MOMENT_BITS * (1 - 2.0**-40)).astype(np.int64)
    task = Decomposition(2, SIZE, 6, 3, 0, reveal)
    works = []
    for share in split(entered, seeded("entered")):
        total = added([share])
        trace = int(integers_of(total[upper[0] == upper[1]], (SIZE,)).sum() % PRIME)
        moments = symmetric_residues(total, SIZE)
        works.append(lambda runtime, moments=moments, trace=trace: decompose(runtime, moments, trace, task))
    check(watched(monkeypatch, subspace, works))


@pytest.mark.parametrize("rows", [0, 1, 3 * matrices.MOST_ROWS])
@pytest.mark.parametrize("bound", [2.0**20, 2.0**27])
def test_no_product_of_a_mean_is_larger_than_was_said(
    rows: int, bound: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = np.array([3.0 * bound, -3.0 * bound, 0.0, rows]) * 2.0**SUM_BITS
    shares = [integers_of(added([s]), (4,)) for s in split(entered.astype(np.int64), seeded("mean"))]
    check(
        watched(monkeypatch, matrices, [lambda runtime, s=s: mean_of(runtime, s, 3, 3.0 * bound) for s in shares])
    )


def test_what_the_steps_multiply_by_is_most_at_nothing() -> None:
    """Of numbers smaller than was promised, which the steps do not bring to 1."""
    unit = 2.0**COEFFICIENT_BITS
    x = np.concatenate([[0.0], np.geomspace(2.0**-60, 1.0, 500)])
    for steps, power in ((quadratic_steps(2.0**-24), 1), (cubic_steps(2.0**-11), 2), (cubic_steps(2.0**-18), 2)):
        at, factor = x.copy(), np.ones_like(x)
        for a, b in steps:
            step = (a - b * at**power) / unit
            at, factor = at * step, factor * step
        assert np.argmax(factor) == 0
        assert 2.0 ** (growth_bits(steps) - 1) < factor.max() <= 2.0 ** growth_bits(steps)


def test_a_product_that_would_wrap_is_refused() -> None:
    async def work(runtime: Any) -> Any:
        return await SharedArithmetic(runtime).rounded(Local(np.zeros(1, dtype=object), 157))

    with pytest.raises(Exception, match="would wrap|fit no computation"):
        compute_together([work] * 3, seeded("wrap"))


@pytest.mark.parametrize("value", [0, 1, 12345 << 40])
def test_shares_that_are_sent_do_not_follow_the_number(value: int) -> None:
    """Of 400 equal products, shared without any randomness: every bit that is sent is as often 1 as 0."""
    sent: list[np.ndarray] = []

    class Listening(SharedArithmetic):
        async def _exchanged(self, share: Any) -> Any:
            parts = await super()._exchanged(share)
            sent.extend(part for place, part in enumerate(parts) if place != self._runtime.pid)
            return parts

    async def work(runtime: Any) -> Any:
        (found,) = await Listening(runtime).rounded(Local(np.full(400, value, dtype=object), 60, 8))
        return await Listening(runtime).opened(found)

    results, _, _ = compute_together([work] * 3, seeded("sent"))
    assert len(sent) == 12, "two products and two openings at each of three"
    # Every party's first two are the others' shares of a masked product.
    for shares in sent[:6]:
        bits = np.unpackbits(np.ascontiguousarray(shares).view(np.uint8), axis=1)
        assert np.abs(bits.mean(axis=0) - 0.5).max() < 5.5 * 0.5 / 20
    off = results[0] - (value >> 8)
    assert np.abs(np.where(off > PRIME // 2, off - PRIME, off)).max() <= 3
