"""Runs that open their final output alone: the result, two organisations, clearances."""

import json
import tomllib

import numpy as np
import pytest

from ksdp.audit.errors import ClearanceError
from ksdp.audit.mechanisms.factorisation.power_iteration import subspace_sine
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.mechanisms.schema import opened
from ksdp.audit.registry import make_mechanism
from ksdp.audit.screening.clearance import Covered, MechanismIdentity
from ksdp.flows.runs.protocol_files import read_run
from ksdp.protocols.programs.run_terms import who_must_be_trusted

from .test_protocol import Organisations, organisations, results

FINAL = 'name = "pd-svd"\nrank = {rank}\nopens = "final"\n[shares]\nblock = {block}\nrounds = {rounds}'
TOLD = ("time", "what", "kind", "round", "peer", "bytes")
POWER = 'name = "pd-svd"\nrank = 2\nsolver = "power"'


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Organisations:
    return organisations(tmp_path_factory.mktemp("three"), 3)


def test_three_parties_learn_the_exact_result_and_nothing_of_the_rounds(three: Organisations) -> None:
    protocol = three.protocol(FINAL.format(rank=1, block=4, rounds=7))
    ends = three.run(protocol)
    assert all(isinstance(end, dict) for end in ends.values()), ends
    found = results(protocol, three.names)
    ideal = read_run(protocol).terms.mechanism.run(three.database(protocol), np.random.default_rng(0))
    assert set(found["ada"]) == {"V"}
    assert subspace_sine(found["ada"]["V"], ideal["V"]) < 1e-4
    for name in three.names:
        assert found[name]["V"].tobytes() == found["ada"]["V"].tobytes()
        about = json.loads((protocol.with_suffix("") / name / "run.json").read_text())
        assert about["opens"] == "final"
        assert "Any two of ada, bob, cyd that put together" in about["reveals"]
        lines = (protocol.with_suffix("") / name / "transcript.jsonl").read_text().splitlines()
        told = [line for line in map(json.loads, lines) if line["what"] in ("sent", "received")]
        assert {line["kind"] for line in told} >= {"shares", "computation", "opened", "result"}
        assert {frozenset(line) for line in told} == {frozenset(TOLD)}, "sizes and times, no values"


def test_a_clearance_of_a_final_run_is_refused_by_one_that_opens_every_round(three: Organisations) -> None:
    final = read_run(three.protocol(FINAL.format(rank=2, block=12, rounds=10)))
    every = read_run(three.protocol(POWER))
    looked = three.clear(final, "ada", ["2", "3"], coverage=Covered("final", ("V",)))
    assert three.enter(final, "ada", clearance=looked).statement.cleared
    with pytest.raises(ClearanceError, match="opens"):
        three.enter(every, "ada", clearance=looked)


def test_a_clearance_of_every_round_covers_the_final_output(three: Organisations) -> None:
    every = 'name = "pd-svd"\nrank = 2\nopens = "every round"'
    final = read_run(three.protocol(FINAL.format(rank=2, block=12, rounds=10)))
    wide = three.clear(
        final,
        "bob",
        ["2", "3", "5"],
        coverage=Covered("every round", ("V", "span", "span_sigma", "first_blocks", "block_sums")),
        mechanism=_identity(every),
    )
    assert three.enter(final, "bob", clearance=wide).statement.cleared
    other = three.clear(final, "bob", ["2"], mechanism=_identity('name = "pd-svd"\nrank = 3'))
    with pytest.raises(ClearanceError, match="rank"):
        three.enter(final, "bob", clearance=other)


@pytest.mark.parametrize(("tolerance", "covers"), [("0.0", True), ("1e-4", False)])
def test_topics_of_a_run_that_may_stop_early_are_others(
    three: Organisations, tolerance: str, covers: bool
) -> None:
    table = f'name = "pd-nmf"\nrank = 2\nbeta = 0.1\ndelta = 0.1\ntolerance = {tolerance}'
    final = read_run(three.protocol(f'{table}\nopens = "final"'))
    assert final.terms.shares is not None
    assert "rows, its documents entry by entry" in who_must_be_trusted(final.terms)
    whole = opened(make_mechanism("pd-nmf", {"rank": 2, "beta": 0.1, "delta": 0.1}), final.terms.features)
    seen = Covered("every round", whole)
    every = three.clear(final, "cyd", ["2", "3", "5", "6"], coverage=seen, mechanism=_identity(table))
    if covers:
        assert three.enter(final, "cyd", clearance=every).statement.cleared
    else:
        with pytest.raises(ClearanceError, match="opens"):
            three.enter(final, "cyd", clearance=every)


def _identity(table: str) -> MechanismIdentity:
    said = tomllib.loads(table)
    mechanism = make_mechanism(said.pop("name"), said)
    return MechanismIdentity(mechanism.name, mechanism.version, parameters_of(mechanism))
