"""Summaries come back from JSON as they were, and nothing else is taken for one."""

import json
from dataclasses import FrozenInstanceError, replace

import pytest

from ksdp.audit.mechanisms.privacy.hardt_roth import HardtRoth
from ksdp.audit.results.parts import (
    AbsenceSummary,
    AnnouncedArray,
    BoundSummary,
    FreshSummary,
    GuaranteeSummary,
    PaperAlone,
    ShareSummary,
    VerdictCounts,
)
from ksdp.audit.results.summary import VERSION, Summary
from ksdp.audit.verdicts.verdict import ProvedBy

from ...summaries import example

KEYS = [
    "version", "audit", "corpus", "mechanism", "mechanism_version", "parameters", "guarantee", "documents",
    "runs", "valid", "verdicts", "detected", "statistics", "skipped_statistics", "opens", "announced",
    "coverage", "unread", "paper_alone", "controls", "power", "chance", "looks", "fresh",
    "knows_all", "corpus_about", "design", "spec", "cached_runs", "sampled_runs", "fresh_sampled_runs",
    "damaged_blocks", "seconds", "seconds_by_stage", "provenance", "store", "report",
    "share", "bounds", "absence",
]  # fmt: skip


def full() -> Summary:
    """With every part that may be missing."""
    return example(
        guarantee=GuaranteeSummary.from_json(HardtRoth(epsilon=0.5).guarantee.as_json()),
        announced=(AnnouncedArray("V", (3, 40)),),
        paper_alone=PaperAlone(("w-max",), 1, 0.25, 1e-7, 2),
        fresh=FreshSummary(50, 1, 20, 1, 0.5, 0.5, 0.25, 1.25, 0.5, 0.25),
        knows_all=1.0,
        damaged_blocks=("values/00-0000.parquet",),
        share=ShareSummary(5, 40, 0.05, 0.125, 0.75),
        bounds=(
            BoundSummary(
                ProvedBy.PAIRS, "noise", False, False, 0.005, 3, 1, 0, 0.1, 0.3, 0.2, None, 200, 0.05, 0.2
            ),
            BoundSummary(ProvedBy.COPIES, "order", False, False, 0.0, 40, 1, 0, 0.125, 1.0, 0.125, 38),
        ),
        absence=AbsenceSummary(2, 0.5, 0.75),
    )


@pytest.mark.parametrize("summary", [example(), full()])
def test_what_was_written_is_read(summary: Summary) -> None:
    told = json.loads(json.dumps(summary.to_json(), allow_nan=False))
    assert Summary.from_json(told) == summary
    assert list(told) == KEYS


def test_keys_are_those_that_scripts_read() -> None:
    told = full().to_json()
    assert told["guarantee"] == HardtRoth(epsilon=0.5).guarantee.as_json()
    assert told["verdicts"] == {"sensitive": 1, "clear": 1, "undecided": 3, "every_attack": 0}
    assert told["statistics"]["energy"]["median_D"] == 0.125
    assert told["announced"] == [{"name": "V", "shape": [3, 40]}]
    assert told["spec"] == example().spec.model_dump(mode="json")
    assert told["spec"]["mechanism"] == {"name": "pd-svd", "rank": 3}


def test_another_version_and_other_keys_are_refused() -> None:
    told = full().to_json()
    assert told["version"] == VERSION
    for version in (0, VERSION + 1, "1"):
        with pytest.raises(ValueError, match="this ksdp reads version"):
            Summary.from_json(told | {"version": version})
    with pytest.raises(ValueError, match="controls"):
        Summary.from_json(told | {"controls": told["controls"] | {"more": 1}})
    with pytest.raises(ValueError, match="shuffled"):
        Summary.from_json(told | {"controls": {k: v for k, v in told["controls"].items() if k != "shuffled"}})
    with pytest.raises(ValueError, match="verdicts"):
        Summary.from_json(told | {"verdicts": told["verdicts"] | {"clear": "none"}})


def test_a_summary_is_a_value() -> None:
    with pytest.raises(FrozenInstanceError):
        example().valid = False  # type: ignore[misc]
    assert replace(example(), verdicts=VerdictCounts(0, 5, 0)).verdicts.clear == 5
    assert example().largest_distance == 0.5
