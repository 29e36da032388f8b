"""A summary of an audit that nobody had to run, for tests of what reads summaries."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ksdp.audit.contract import NOTHING
from ksdp.audit.results.parts import (
    ChanceSummary,
    CorpusSummary,
    DesignSummary,
    GuaranteeSummary,
    LookSummary,
    PowerSummary,
    Provenance,
    StatisticSummary,
    StoredValues,
    VerdictCounts,
)
from ksdp.audit.results.summary import VERSION, Summary
from ksdp.audit.specs.models import parse_spec
from ksdp.audit.verdicts.control_outcome import Controls
from ksdp.storage.findings import VERDICTS

SPEC = parse_spec({"corpus": {"path": "mail.parquet"}, "mechanism": {"name": "pd-svd", "rank": 3}})


def verdict_table(verdicts: Mapping[str, str]) -> pa.Table:
    """Verdicts of an audit as `verdicts.parquet` holds them; the figures say nothing."""
    figures: dict[Any, Any] = {True: 0, False: 0.0}
    columns = {field.name: [figures[pa.types.is_integer(field.type)]] * len(verdicts) for field in VERDICTS.schema}
    words = {"statistic": "s", "detected": False, "proof": None}
    columns |= {name: [value] * len(verdicts) for name, value in words.items()}
    return VERDICTS.of(columns | {"document": list(verdicts), "verdict": list(verdicts.values())})


def stored_values(**changes: Any) -> StoredValues:
    """Where one look's values would be."""
    usual = StoredValues("first", 5, 200, 128, ("energy",), "runs/r/values/v", "r/v")
    return replace(usual, **changes)


def example(**changes: Any) -> Summary:
    """A valid audit of five documents under one statistic; `changes` replace whole parts."""
    usual = Summary(
        version=VERSION,
        audit="one",
        corpus="sha256:" + "0f" * 32,
        mechanism="pd-svd",
        mechanism_version=1,
        parameters={"rank": 3},
        guarantee=GuaranteeSummary.from_json(NOTHING.as_json()),
        documents=5,
        runs=200,
        valid=True,
        verdicts=VerdictCounts(sensitive=1, clear=1, undecided=3),
        detected=2,
        statistics={"energy": StatisticSummary(1, "geometry", "How much.", 0.125, 0.5, 1, 5)},
        skipped_statistics={},
        opens="every round",
        announced=(),
        coverage={},
        unread=(),
        paper_alone=None,
        controls=Controls(24, 0.031, 8, 3.1e-74, 5, 0.4, 5, 1.0, 5, None),
        power=PowerSummary(0.4, 0.3, None),
        chance=ChanceSummary(0.1, 0.2),
        looks=(LookSummary(200, 0.05, 5, VerdictCounts(1, 1, 3)),),
        fresh=None,
        knows_all=None,
        corpus_about=CorpusSummary(5, 40, 100, 0, None),
        design=DesignSummary("shared", "document", "fixed", 2, 0, 0, 0.4, (60, 80, 90)),
        spec=SPEC,
        cached_runs=0,
        sampled_runs=200,
        fresh_sampled_runs=0,
        damaged_blocks=(),
        seconds=1.5,
        seconds_by_stage={"sample": 1.25, "test": 0.25},
        provenance=Provenance(
            finished="2026-02-01T00:00:00+00:00",
            versions={"python": "3.11.2", "ksdp": "0.1.0"},
            packages={"ksdp": "0.1.0"},
            spec=SPEC.hash,
            runs_folder="r",
            seed=0,
            blocks=2,
            runs_a_block=128,
            stages=(stored_values(),),
        ),
        store="store",
        report="report.html",
    )
    return replace(usual, **changes)
