"""A joint audit in a ledger: what it must have found, and which runs it covers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.mechanisms.privacy.spent import Spent
from ksdp.audit.registry import make_mechanism
from ksdp.audit.results.parts import CertificateSummary, VerdictCounts
from ksdp.audit.results.summary import Summary
from ksdp.audit.specs.models import parse_spec
from ksdp.flows.runs.budget import covering, joint_audits, joint_table, record_joint, spent_words
from ksdp.storage.readers.files import read_toml
from ksdp.storage.runs.ledger import Ledger

from ...summaries import example

NOW = datetime(2026, 6, 1, tzinfo=UTC)
RUNS = [{"name": "pd-nmf", "rank": 2}, {"name": "pd-nmf", "rank": 2}, {"name": "pd-svd", "rank": 3}]


def identity(name: str, **parameters: Any) -> dict[str, Any]:
    mechanism = make_mechanism(name, parameters)
    return {"name": mechanism.name, "version": mechanism.version, **parameters_of(mechanism)}


def joint(runs: list[dict[str, Any]], sensitive: int = 0, undecided: int = 0, **changes: Any) -> Summary:
    spec = parse_spec({"seed": 1, "corpus": {"path": "x"}, "mechanism": {"name": "together", "runs": runs}})
    usual = example(audit="a1")
    counts = VerdictCounts(sensitive, usual.documents - sensitive - undecided, undecided)
    parameters = parameters_of(make_mechanism("together", {"runs": runs}))
    whole = {
        "parameters": parameters,
        "mechanism": "together",
        "spec": spec,
        "verdicts": counts,
        "valid": True,
        "unread": (),
        "corpus": "c",
    }
    return replace(usual, **(whole | changes))


def test_an_audit_covers_runs_that_are_all_in_it_with_every_parameter(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ada.ledger")
    record_joint(ledger, joint(RUNS), NOW)
    audits = joint_audits(ledger)
    nmf, svd = ("c", identity("pd-nmf", rank=2)), ("c", identity("pd-svd", rank=3))
    assert covering(audits, [nmf, svd]) == covering(audits, [nmf, nmf, svd]) == audits[0]
    for others in (
        [nmf, nmf, nmf],  # once more than was audited
        [nmf, ("d", identity("pd-svd", rank=3))],  # of another corpus
        [("c", identity("pd-svd", rank=4))],
        [("c", identity("pd-nmf", rank=2, sweeps=21))],
    ):
        assert covering(audits, others) is None


def test_a_ledger_keeps_what_pairs_of_all_runs_together_prove(tmp_path: Path) -> None:
    ledger, whole = Ledger(tmp_path / "ada.ledger"), joint(RUNS)
    record_joint(ledger, whole, NOW)
    assert whole.certificate is None
    assert joint_audits(ledger)[0].bound is None
    proved = CertificateSummary(10, 0, 0, 200, 0.005, 2200, 0.05, 0.13, 0.02, 0.04)
    record_joint(ledger, replace(whole, certificate=proved), NOW)
    assert joint_audits(ledger)[1].bound == 0.13
    said = spent_words(Spent(2, 0.0, 0, 2, 0.13))
    assert said.endswith("No attack on them together has an advantage above 0.130, by pairs of runs.")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mechanism": "pd-nmf"}, "a joint one is of `together`"),
        ({"valid": False}, "is void"),
        ({"unread": ("run1_sums",)}, "did not look at run1_sums"),
        ({"sensitive": 1}, "found 1 sensitive, 4 clear"),
        ({"undecided": 2}, "2 undecided"),
        ({"verdicts": VerdictCounts(0, 4, 0)}, "0 sensitive, 4 clear"),  # the fifth has no verdict that is known
    ],
)
def test_what_found_less_than_everything_clear_is_not_taken(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    ledger = Ledger(tmp_path / "ada.ledger")
    with pytest.raises(InputError, match=message):
        record_joint(ledger, joint(RUNS, **changes), NOW)
    assert ledger.read() == []


def test_the_table_that_is_printed_is_the_spec_of_that_audit(tmp_path: Path) -> None:
    runs = [identity("pd-nmf", rank=2), identity("pd-svd", rank=3)]
    (tmp_path / "spec.toml").write_text(joint_table(runs))
    tables = read_toml(tmp_path / "spec.toml", "the spec") | {"seed": 1, "corpus": {"path": "x"}}
    found = record_joint(Ledger(tmp_path / "l"), joint(tables["mechanism"]["runs"]), NOW)
    assert covering([found], [("c", run) for run in runs]) == found
    parse_spec(tables)
    assert "simulated" in tables["statistics"]["families"], "without it nobody is clear"
    again = joint_table(runs[:1])
    assert again.count("[[mechanism.runs]]") == 2
