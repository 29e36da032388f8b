"""Findings about claims, in a store."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from ksdp.audit.errors import StoreError
from ksdp.audit.mechanisms.claims import ClaimFinding, audit_claim
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.mechanisms.privacy.hardt_roth import BrokenPower
from ksdp.audit.mechanisms.schema import as_it_runs
from ksdp.storage.audits.claims import ClaimInputs, StoredClaim, read_claim, shown_claim, write_claim
from ksdp.storage.store import Store

from ...summaries import example

MECHANISM = BrokenPower(rank=2, iterations=1, epsilon=1.0)
INPUTS = ClaimInputs(MECHANISM.name, MECHANISM.version, parameters_of(MECHANISM), 3, 60, 0.95)
SUMMARY = example(mechanism=INPUTS.mechanism, mechanism_version=INPUTS.version, parameters=INPUTS.parameters)
DAY = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture(scope="module")
def refuted() -> ClaimFinding:
    return audit_claim(MECHANISM, runs=60, rng=np.random.default_rng(3))


def put(store: Store, inputs: ClaimInputs, finding: ClaimFinding, code: str = "c1", hour: int = 0) -> Path:
    when = DAY.replace(hour=hour)
    return write_claim(store, StoredClaim(inputs, finding, when.isoformat(timespec="seconds"), {"code": code}))


def test_what_was_written_is_read_if_inputs_and_code_are_the_same(store: Store, refuted: ClaimFinding) -> None:
    assert refuted.refuted
    path = put(store, INPUTS, refuted)
    assert path.parent == store.root / "claims"
    found = read_claim(store, INPUTS, "c1")
    assert found == StoredClaim(INPUTS, refuted, "2026-11-21T00:00:00+00:00", {"code": "c1"})
    assert read_claim(store, INPUTS, "c2") is None
    for other in ({"seed": 4}, {"runs": 61}, {"confidence": 0.9}, {"version": 3}, {"parameters": {"rank": 3}}):
        assert read_claim(store, replace(INPUTS, **other), "c1") is None
    assert put(store, INPUTS, refuted, "c2") == path
    assert read_claim(store, INPUTS, "c1") is None


def test_a_refutation_is_shown_before_more_runs_and_more_runs_before_newer_ones(
    store: Store, refuted: ClaimFinding
) -> None:
    kept = replace(refuted, measured_low=0.1)
    assert shown_claim(store, SUMMARY) is None
    put(store, INPUTS, kept, hour=5)
    put(store, replace(INPUTS, runs=900), kept, hour=1)
    put(store, replace(INPUTS, parameters={"rank": 9}), refuted, hour=9)  # another mechanism's
    shown = shown_claim(store, SUMMARY)
    assert shown.inputs.runs == 900
    put(store, replace(INPUTS, seed=8), refuted, hour=0)
    shown = shown_claim(store, SUMMARY)
    assert shown.finding.refuted


def test_a_claim_of_own_code_is_shown_beside_audits_of_this_code(store: Store, refuted: ClaimFinding) -> None:
    put(store, replace(INPUTS, own={"mine": "1"}), refuted)
    runs = [store.runs({"code": {"mine": text}}) for text in ("1", "2")]
    audits = [replace(SUMMARY, provenance=replace(SUMMARY.provenance, runs_folder=path.name)) for path in runs]
    assert [shown_claim(store, audit) is not None for audit in (SUMMARY, *audits)] == [False, True, False]
    (store.root / "runs" / runs[0].name / "identity.json").write_text('{"code": {}}')
    with pytest.raises(StoreError, match="identity"):
        shown_claim(store, audits[0])


def test_what_really_runs_is_shown_before_what_was_simulated(store: Store, refuted: ClaimFinding) -> None:
    kept = replace(refuted, measured_low=0.1)
    vetted = replace(INPUTS, parameters=parameters_of(as_it_runs(MECHANISM)))
    assert vetted.parameters["sampler"] == "discrete" != INPUTS.parameters["sampler"]
    put(store, vetted, kept, hour=1)
    put(store, replace(INPUTS, runs=900), kept, hour=5)
    shown = shown_claim(store, SUMMARY)
    assert shown.inputs.parameters["sampler"] == "discrete"
    put(store, INPUTS, refuted, hour=0)
    shown = shown_claim(store, SUMMARY)
    assert shown.finding.refuted


@pytest.mark.parametrize("content", ["{", json.dumps({"finding": {}}), json.dumps({"version": 2, "inputs": {}})])
def test_a_damaged_file_is_named(content: str, store: Store, refuted: ClaimFinding) -> None:
    path = put(store, INPUTS, refuted)
    path.write_text(content)
    for read in (lambda: read_claim(store, INPUTS, "c1"), lambda: shown_claim(store, SUMMARY)):
        with pytest.raises(StoreError, match=path.name):
            read()
