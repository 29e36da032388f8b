"""Runs that parties may leave: what comes out, how much noise is left, what is refused."""

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ksdp.audit.contract import Mechanism
from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.factorisation.pd_svd import SigmaSVD
from ksdp.audit.mechanisms.privacy.dp_nmf import DPNMF
from ksdp.audit.mechanisms.privacy.fedpower_private import PrivateFedPower
from ksdp.audit.mechanisms.privacy.hardt_roth import HardtRoth
from ksdp.audit.mechanisms.privacy.moments import Moments, TermCounts
from ksdp.audit.mechanisms.privacy.noise import account
from ksdp.audit.mechanisms.privacy.transcript import GaussianReleases
from ksdp.protocols.programs.programs import party_program
from ksdp.protocols.programs.rounds import NoiseSource, party_rounds
from ksdp.protocols.programs.run_terms import Statement, who_must_be_trusted

from ..conftest import identity
from ..shares.test_leaving import carried
from .noisy_parties import BY_UPLOADS, DISCRETE, scripted, terms_of
from .test_party_rounds import NAMES, parts

MECHANISMS: tuple[GaussianReleases, ...] = (
    HardtRoth(rank=2, iterations=2, epsilon=2.0, **DISCRETE),
    HardtRoth(rank=2, iterations=2, epsilon=2.0, colluders=2, **DISCRETE),
    DPNMF(rank=1, sweeps=2, epsilon=20.0, **DISCRETE),
    PrivateFedPower(rank=2, iterations=2, epsilon=3.0, **DISCRETE),
    PrivateFedPower(rank=2, iterations=3, period=2, epsilon=3.0, colluders=1, **DISCRETE),
    Moments(rank=2, advantage=0.4, **DISCRETE),
    TermCounts(advantage=0.4, colluders=1, **DISCRETE),
)
WITHIN = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: f"{m.name}-{getattr(m, 'colluders', '')}")


def played(mechanism: Mechanism, threshold: int, lost: dict[str, Any]) -> tuple[Any, dict[str, list[float]]]:
    terms = terms_of(5, mechanism, threshold=threshold)
    deviations: dict[str, list[float]] = {name: [] for name in NAMES}

    def source(name: str) -> NoiseSource:
        inner = scripted(name)

        def noted(shape: tuple[int, ...], deviation: float) -> NDArray[np.float64]:
            deviations[name].append(deviation)
            return inner(shape, deviation)

        return noted

    nodes = {}
    for name, matrix in zip(NAMES, parts(5), strict=True):
        program = party_program(terms.as_run, matrix, 5)
        nodes[name] = party_rounds(
            terms, name, identity(name), program, Statement(cleared=False), noise=source(name)
        )
    return carried(nodes, lost), deviations


@WITHIN
def test_the_others_end_alike_and_say_who_is_missing(mechanism: GaussianReleases) -> None:
    """Eve is lost in the first sum before her vector is there, in the last one after it, or at the result."""
    (whole, errors, said), _ = played(mechanism, 4, {})
    assert not errors
    rounds = {kind: [each.number for name, each in said if each.kind == kind] for kind in ("sum", "result")}
    sums = whole["ada"].sums
    for at, inside in ((rounds["sum"][0], 0), (rounds["sum"][-1] + 1, sums), (rounds["result"][0], sums)):
        (outcomes, errors, _), _ = played(mechanism, 4, {"eve": (at, ())})
        assert not errors
        assert outcomes.keys() == {*NAMES} - {"eve"}
        assert {outcome.digest for outcome in outcomes.values()} == {outcomes["ada"].digest}
        assert outcomes["ada"].departed == {"eve": inside}
        assert outcomes["ada"].sums == sums
        same = outcomes["ada"].digest == whole["ada"].digest
        assert same is (inside == sums), "with all her vectors in it the result is the whole one"
    assert "Any 4 together learn every party's share" in whole["ada"].reveals
    assert not whole["ada"].departed


def promised(mechanism: GaussianReleases) -> list[float]:
    """Deviation of the noise in each sum that its promise counts on."""
    if isinstance(mechanism, Moments | TermCounts):
        return [mechanism.scale(12)]
    if isinstance(mechanism, DPNMF):
        return [mechanism.deviation(12)] * (mechanism.rank * mechanism.sweeps)
    assert isinstance(mechanism, HardtRoth)
    return [mechanism.deviation(np.zeros((mechanism.rank, 12)))] * mechanism.iterations


@pytest.mark.parametrize("mechanism", [m for m in MECHANISMS if not isinstance(m, PrivateFedPower)])
@pytest.mark.parametrize("threshold", [3, 4])
def test_no_sum_has_less_noise_than_was_promised(mechanism: Any, threshold: int) -> None:
    """The noise of the parties that stay is enough, less that of colluders, whoever stays."""
    _, drawn = played(mechanism, threshold, {})
    honest = threshold - (mechanism.colluders or 0)
    for number, needed in enumerate(promised(mechanism)):
        for stay in combinations(NAMES, honest):
            assert math.hypot(*(drawn[name][number] for name in stay)) >= needed * (1 - 1e-9)
        if mechanism.colluders is not None:
            assert drawn["ada"][number] * math.sqrt(honest) == pytest.approx(needed), "and no more than is needed"


@pytest.mark.parametrize("mechanism", [m for m in MECHANISMS if isinstance(m, PrivateFedPower)])
@pytest.mark.parametrize("sizes", [(9,) * 5, (1, 2, 30, 400, 5000)])
def test_fedpower_keeps_its_epsilon_whoever_leaves_and_however_large_they_are(mechanism: Any, sizes: Any) -> None:
    as_run: Any = terms_of(5, mechanism, threshold=3).as_run
    each, change = as_run._each(as_run.sigma(sizes, 12), 5), math.sqrt(2)
    honest = combinations(sizes, 3 - mechanism.colluders)
    announced = min(each * math.hypot(*stay) / change for stay in honest)
    local = (each * min(sizes) / change,) * (as_run.iterations - as_run.rounds)
    assert account((announced,) * as_run.rounds + local, mechanism.delta).exact <= mechanism.epsilon * (1 + 1e-6)
    _, drawn = played(mechanism, 3, {})
    equal = as_run._each(as_run.sigma((9,) * 5, 12), 5)
    assert max(drawn["ada"]) == pytest.approx(equal / (5 if mechanism.period == 1 else 1)), "and draws it"


@pytest.mark.parametrize(
    ("mechanism", "threshold", "why"),
    [
        (SigmaSVD(rank=2, solver="power"), 3, "two exact sums, with and without a party, differ by"),
        (BY_UPLOADS[0], 3, "`leave` must be left out for fedpower"),
        (PrivateFedPower(rank=2, unit="entry-printed", noise=0.1, **DISCRETE), 3, "promises no record anything"),
        (HardtRoth(rank=2, colluders=3, **DISCRETE), 3, r"above `mechanism.colluders` \(3\); got 3"),
        (MECHANISMS[0], 2, "from 3 to 4 of 5 parties"),
        (MECHANISMS[0], 5, "from 3 to 4 of 5 parties"),
    ],
)
def test_runs_that_nobody_may_leave_are_refused(mechanism: Any, threshold: int, why: str) -> None:
    with pytest.raises(InputError, match=why):
        terms_of(5, mechanism, threshold=threshold)


def test_all_agree_that_parties_may_leave_and_are_told_what_that_means() -> None:
    terms = terms_of(5, MECHANISMS[0], threshold=4)
    assert terms.terms["leave.threshold"] == 4
    assert terms.digest != terms_of(5, MECHANISMS[0]).digest
    assert "Up to 1 of the 5 parties may leave." in who_must_be_trusted(terms)
