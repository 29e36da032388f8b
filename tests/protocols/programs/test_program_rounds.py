"""Mechanisms with noise among parties in one process: sums, and what ends a run."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.party_side import OneNoiseSum, Sizes, Upload
from ksdp.audit.mechanisms.privacy.hardt_roth import BrokenPower
from ksdp.audit.mechanisms.privacy.transcript import GaussianReleases
from ksdp.audit.mechanisms.schema import final_output
from ksdp.protocols.channel.rounds import run_together
from ksdp.protocols.channel.wire import pack_number
from ksdp.protocols.programs.programs import Precision, sum_entries
from ksdp.protocols.programs.rounds import largest_message, request_body, vetted_noise

from ..conftest import ended_by, instead, participant
from .noisy_parties import BY_SUMS, BY_UPLOADS, ONE_NOISE, SERVER, ideal, kinds_said, scripted, sides, terms_of
from .test_party_rounds import parts

POWER = BY_SUMS[0]


@pytest.mark.parametrize(("m", "mechanism"), [(2, POWER), (5, POWER), *((3, mechanism) for mechanism in BY_SUMS)])
def test_a_run_announces_what_the_audit_simulates_with_the_same_noise(m: int, mechanism: GaussianReleases) -> None:
    outcomes, said = run_together(sides(m, mechanism))
    assert len({outcome.digest for outcome in outcomes.values()}) == 1
    public = outcomes["ada"].result.public
    simulated = ideal(m, mechanism)
    assert set(final_output(mechanism, 2**20)) <= set(public) <= set(simulated)
    for name, array in public.items():
        np.testing.assert_allclose(array, simulated[name], rtol=0, atol=1e-12, err_msg=name)
    limit = largest_message(terms_of(m, mechanism), sum_entries(mechanism, 12))
    assert all(len(message) <= limit for _, spoken in said for message in spoken.messages.values())


def test_every_party_adds_its_own_noise() -> None:
    """Without one party's noise the result is another one."""
    silent = {"cyd": lambda shape, deviation: np.zeros(shape)}
    one, _ = run_together(sides(3, POWER))
    other, _ = run_together(sides(3, POWER, sources=lambda name: silent.get(name) or scripted(name)))
    assert one["ada"].digest != other["ada"].digest


def test_two_runs_with_the_vetted_sampler_differ() -> None:
    digests = {run_together(sides(2, POWER, sources=lambda _: vetted_noise))[0]["ada"].digest for _ in range(2)}
    assert len(digests) == 2


def test_sizes_are_told_where_the_mechanism_makes_them_public() -> None:
    private = BY_SUMS[2]
    outcomes, said = run_together(sides(3, private, matrices=[part[: 4 + i] for i, part in enumerate(parts(3))]))
    assert {outcome.sizes for outcome in outcomes.values()} == {(4, 5, 6)}
    assert outcomes["ada"].asked == {"sizes": 1, "keep": 2, "sum": 2}
    assert kinds_said(said, "ada")["sizes"] == 1
    assert run_together(sides(3, POWER))[0]["ada"].sizes == ()


def test_what_follows_from_noisy_sums_is_said() -> None:
    outcomes, _ = run_together(sides(3, POWER))
    assert outcomes["ada"].reveals == "Any 2 learn the last one's share of every sum, with its noise."
    assert outcomes["ada"].sums == POWER.iterations  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"mechanism": replace(POWER, sampler="fast")}, "the other does not protect anybody"),
        ({"mechanism": BrokenPower(rank=2, sampler="discrete")}, "in a run among parties"),
        ({"mechanism": replace(POWER, colluders=3)}, "at least 4 parties; got 3"),  # type: ignore[call-arg]
        ({"precision": Precision(30, 8.0)}, "`precision.fraction_bits` must be 31 for hardt-roth"),
        ({"precision": Precision(31, 2.0**23)}, "`precision.bound` must be at most 4194304"),
        ({"server": participant(SERVER)}, "`server` must not be given for hardt-roth"),
        ({"mechanism": BY_UPLOADS[0]}, "`server` must be given for fedpower: it collects"),
        ({"mechanism": BY_UPLOADS[2]}, "`server` must be given for dpdispca: it collects"),
        ({"mechanism": ONE_NOISE}, "`server` must be given for fedpower-utility: it takes the noises"),
        ({"mechanism": BY_UPLOADS[0], "server": participant("ada")}, "sorted by name, each once"),
    ],
)
def test_what_would_not_be_the_audited_mechanism_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(terms_of(3, POWER), **changed)


def test_two_devices_know_each_others_noise() -> None:
    with pytest.raises(InputError, match="at least 3 parties; got 2"):
        terms_of(2, ONE_NOISE)


def test_a_share_that_does_not_fit_with_its_noise_ends_the_run() -> None:
    with pytest.raises(InputError, match=r"share has an entry that is not finite, or larger than 0.25 .*bound"):
        run_together(sides(3, POWER, precision=Precision(31, 0.25)))

    def loud(name: str) -> Any:
        return lambda shape, deviation: np.full(shape, 2.0**16)

    with pytest.raises(InputError, match=r"with noise of deviation .* larger than 65536 \(`precision.bound`\)"):
        run_together(sides(3, POWER, sources=loud))


def test_parties_that_make_other_sizes_public_end_the_run() -> None:
    lie = instead("sizes", "bob", "ada", pack_number(2))  # it has 9
    assert "another result" in ended_by(sides(3, BY_SUMS[2]), lie)


def test_a_server_is_told_nothing_that_only_one_party_knows() -> None:
    share = np.ones((2, 3))
    assert request_body(Upload(share, 0.5)) == request_body(Upload(2 * share, 0.25))
    assert request_body(Sizes(3)) == request_body(Sizes(4))
    assert request_body(OneNoiseSum(share, 0.5)) != request_body(OneNoiseSum(share, 0.25)), (
        "it is the same at every device"
    )
    assert request_body(None) != request_body(Sizes(3))
