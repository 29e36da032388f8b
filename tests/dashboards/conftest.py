"""Finished audits to look at: real tests and decisions on seeded values, written as the flow writes them."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import measured
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.results.parts import CorpusSummary, count_verdicts
from ksdp.audit.results.summarise import chance
from ksdp.audit.results.summary import Summary
from ksdp.audit.runs import BlockValues
from ksdp.audit.specs.content_keys import content_key
from ksdp.audit.specs.design import Block
from ksdp.audit.specs.models import parse_spec
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.decide import decide
from ksdp.audit.verdicts.laws import ArmTests
from ksdp.audit.verdicts.margins import band_width
from ksdp.audit.verdicts.power import detectable_distance
from ksdp.audit.verdicts.verdict import VERDICTS, Verdict
from ksdp.storage.audits.screens import RoundVerdicts, write_left_out, write_screen
from ksdp.storage.blocks import write_values
from ksdp.storage.findings import Curve, read_verdicts, write_curves, write_findings, write_spec, write_summary
from ksdp.storage.mapped_corpus import store_corpus
from ksdp.storage.schedules.schedule_files import Schedule, ScheduledRun, append_run, write_schedule
from ksdp.storage.store import Store

from ..screens import round_of, screened
from ..summaries import example, stored_values

PAPER = ("w-max", "sigma")
STATISTICS = ("first-order-mean", "missing-weight", "row-space-energy", "w-max")

MakeAudit = Callable[..., tuple[Store, str]]


def _summary(
    spec: Any, tested: ArmTests, names: Sequence[str], family: dict[str, str], parties: dict[str, int] | None
) -> dict[str, Any]:
    rule = spec.decision
    arms = (tested.n_with[:, 0], tested.n_without[:, 0])
    decisions = decide(tested, rule)
    statistics = {}
    for column, name in enumerate(names):
        own = decide(tested.columns([column]), rule)
        distance = np.nan_to_num(tested.distance[:, column])
        statistics[name] = {
            "version": 1,
            "family": family[name],
            "sentence": "How much of the document is explained.",
            "median_D": float(np.median(distance)),
            "max_D": float(distance.max()),
            "sensitive": int((own.verdict == Verdict.SENSITIVE).sum()),
            "strongest_for": int((decisions.strongest == column).sum()),
        }
    paper = [column for column, name in enumerate(names) if family[name] == "paper"]
    alone = None
    if paper:
        own = decide(tested.columns(paper), rule)
        smallest = tested.log10_p[:, paper].min(axis=1)
        alone = {
            "statistics": [names[column] for column in paper],
            "detected": int(own.detected.sum()),
            "median_D": float(np.median(np.nan_to_num(tested.distance[:, paper]).max(axis=1))),
            "mean_smallest_p": float((10**smallest).mean()),
            "uncorrected_below_level": int((smallest <= np.log10(rule.level)).sum()),
        }
    needed = decisions.runs_to_decide[np.isfinite(decisions.runs_to_decide)]
    runs, usual = int((tested.n_with + tested.n_without).max()), example()
    return usual.to_json() | {
        "audit": "0123456789ab",
        "mechanism": spec.mechanism.name,
        "parameters": spec.mechanism.parameters,
        "guarantee": measured("a test").as_json(),
        "documents": len(tested),
        "runs": runs,
        "verdicts": asdict(count_verdicts(decisions.verdict, decisions.proof == "every attack")),
        "detected": int(decisions.detected.sum()),
        "statistics": statistics,
        "skipped_statistics": {"w-max-revealed": "needs sigma"},
        "paper_alone": alone,
        "power": {
            "detectable_D": float(np.median(detectable_distance(*arms, len(tested), len(names), rule))),
            "certifiable_margin": float(np.median(band_width(*arms, rule.level / tested.distance.size))),
            "runs_to_decide_median": float(np.median(needed)) if len(needed) else None,
        },
        "chance": asdict(chance(*arms)),
        "looks": [
            {"runs": runs, "level": rule.level, "tested": len(tested), "verdicts": dict.fromkeys(VERDICTS, 0)}
        ],
        "corpus_about": asdict(CorpusSummary(len(tested), 12164, 88 * len(tested), 3, parties)),
        "design": asdict(usual.design)
        | {
            "kind": spec.design.kind,
            "sampling": spec.design.sampling,
            "party_rows": max(1, len(tested) // 10),
            "share": 0.1,
            "n_with": [int(f(tested.n_with)) for f in (np.min, np.median, np.max)],
        },
        "spec": spec.model_dump(mode="json"),
        "sampled_runs": runs,
        "provenance": asdict(usual.provenance)
        | {
            "finished": "2026-11-21T07:02:11+00:00",
            "spec": spec.hash,
            "seed": spec.seed,
            "stages": [_stored("5f2d0c9a1b7e4d3386aa", names, len(tested), runs)],
        },
    }


def _stored(source: str, names: Sequence[str], documents: int, runs: int) -> dict[str, Any]:
    chosen = content_key(dict.fromkeys(names, 1))
    where = {"values": f"runs/{source}/values/{chosen}", "key": f"{source}/{chosen}"}
    return asdict(stored_values(documents=documents, runs=runs, statistics=list(names), **where))


def _values(
    rng: np.random.Generator, inclusion: np.ndarray, count: int, leaking: float, strength: float
) -> list[np.ndarray]:
    """Gaussian statistics; a share of the documents is shifted in its with-arm, more in later columns."""
    documents = len(inclusion)
    effect = strength * rng.gamma(2.0, 0.5, documents) * (rng.random(documents) < leaking)
    weight = np.linspace(0.15, 1.0, count)
    return [
        (rng.normal(size=inclusion.shape) + (w * effect)[:, None] * inclusion).astype(np.float32) for w in weight
    ]


@pytest.fixture(scope="session")
def make_audit(tmp_path_factory: pytest.TempPathFactory) -> MakeAudit:
    """`make_audit(documents=..., ...)` writes a finished audit into a store of its own: (store, its id)."""
    return lambda **options: build_audit(tmp_path_factory.mktemp("audit") / "store", **options)


def build_audit(
    root: Path,
    *,
    documents: int = 60,
    runs: int = 400,
    names: Sequence[str] = STATISTICS,
    families: dict[str, str] | None = None,
    leaking: float = 0.5,
    strength: float = 2.0,
    ids: Sequence[str] | None = None,
    parties: dict[str, int] | None = None,
    spec: dict[str, Any] | None = None,
    change: Callable[[dict[str, Any]], None] = lambda summary: None,
    seed: int = 7,
    stored: bool = False,
) -> tuple[Store, str]:
    """Test seeded values, decide, and write everything a flow writes, the report excepted.

    With `stored`, the corpus and the blocks of values are written too.
    """
    rng = np.random.default_rng(seed)
    family = {name: "paper" if name in PAPER else "geometry" for name in names} | (families or {})
    tables = {
        "seed": 7,
        "corpus": {"path": "mail.parquet", "text": "body", "id": "message_id"},
        "mechanism": {"name": "pd-svd", "rank": 7},
        "design": {"party_size": 0.1},
    }
    parsed = parse_spec(tables | (spec or {}))
    inclusion = rng.random((documents, runs)) < 0.1
    # Weak statistics first in `_values`, the paper's among them.
    order = sorted(range(len(names)), key=lambda n: (family[names[n]] != "paper", n))
    drawn = _values(rng, inclusion, len(names), leaking, strength)
    values = {names[n]: drawn[place] for place, n in enumerate(order)}
    values = {name: values[name] for name in names}
    tested = compare_arms(values, inclusion)
    rule = parsed.decision
    decisions = decide(tested, rule)
    detectable = detectable_distance(tested.n_with[:, 0], tested.n_without[:, 0], documents, len(names), rule)
    known = np.array(ids if ids is not None else [f"mail-{n:05d}" for n in range(documents)])
    store = Store.open(root)
    summary = _summary(parsed, tested, names, family, parties)
    summary |= {"store": str(store.root), "report": "report.html"}
    change(summary)
    if stored:
        summary["corpus"] = _store_corpus(store, known)
        _store_values(store, summary, values, inclusion)
    folder = store.audit(summary["audit"])
    write_spec(folder, parsed)
    write_findings(folder, known, [(name, 1) for name in names], tested, decisions, detectable, {})
    write_curves(folder, _curves(values, inclusion, known, names, family, decisions, tested))
    write_summary(folder, Summary.from_json(summary))
    return store, summary["audit"]


def _store_corpus(store: Store, ids: np.ndarray) -> str:
    counts = np.random.default_rng(5).poisson(0.6, (len(ids), 40)).astype(float)
    counts[:, 0] += 1
    corpus = Corpus(canonical(sp.csr_array(counts)), ids.astype(np.str_))
    store_corpus(corpus, store.corpus(corpus.hash))
    return corpus.hash


def _store_values(
    store: Store, summary: dict[str, Any], values: dict[str, np.ndarray], inclusion: np.ndarray
) -> None:
    where = _stored(summary["provenance"]["runs_folder"], list(values), len(inclusion), summary["runs"])
    summary["provenance"]["stages"], size = [where], where["runs_a_block"]
    for start in range(0, summary["runs"], size):
        block = Block(0, start, min(start + size, summary["runs"]))
        part = {name: array[:, start : block.stop] for name, array in values.items()}
        measured = BlockValues(block, inclusion[:, start : block.stop], part)
        write_values(store.root / where["values"], measured, where["key"], "float32")


HISTORY = (1, 2, 3, 4, 5, 9, 10, 11, 12)
"""Days of November on which the audits of `history_store` were finished: one void, and a gap."""


def build_history(root: Path) -> Store:
    """A store with a history: nine audits of one question (`svd-01` ...), another, a screening, a schedule."""
    for number, day in enumerate(HISTORY, 1):

        def change(summary: dict[str, Any], number: int = number, day: int = day) -> None:
            summary["audit"] = f"svd-{number:02d}"
            summary["provenance"]["finished"] = f"2026-11-{day:02d}T02:31:07+00:00"
            summary["provenance"]["runs_folder"] = f"{number:020d}"
            if number == 3:
                summary["valid"] = False
                summary["controls"]["reason"] = "a planted leak was not detected"

        last = number >= len(HISTORY) - 1
        asked = {"decision": {"margin": 0.55}, "mechanism": {"name": "pd-svd", "rank": 3}}
        build_audit(root, leaking=0.25 + 0.02 * number, strength=1.0, runs=1200 if last else 400, seed=number,
                    change=change, stored=last, spec=asked)  # fmt: skip

    def other(summary: dict[str, Any]) -> None:
        summary |= {"audit": "nmf-01"}
        summary["provenance"] |= {"finished": "2026-11-12T05:00:00+00:00", "runs_folder": "f" * 20}

    nmf = {"mechanism": {"name": "pd-nmf", "rank": 7}}
    store, _ = build_audit(
        root, spec=nmf, names=("first-order-mean", "sigma", "topics"), change=other, stored=True
    )
    verdicts = read_verdicts(store.audit("svd-08"))
    rounds = [round_of(n, audit=f"svd-0{n + 6}", among=60, documents=60, level=0.02,
                       verdicts={"sensitive": 12 * (2 - n), "clear": 40, "undecided": 8},
                       seed=n, runs=400) for n in (0, 1, 2)]  # fmt: skip
    names = verdicts["document"].to_pylist()[:12]
    write_left_out(store, "screen01", [(RoundVerdicts(1, verdicts), names)])
    write_screen(store, screened(
        screen="screen01", mechanism="pd-svd", spec="0" * 20, rounds=rounds, documents=60,
        proposed=52, left_out=12, allowed=40,
        reason="All 40 documents of the list hold in an audit of exactly this list.", gain=[],
        clearance="mail.clearance", fingerprint="ab:cd", reviewer="Ada", seconds=12.0, store=str(root),
    ))  # fmt: skip
    made = datetime(2026, 11, 1, tzinfo=UTC)
    write_schedule(store, Schedule(name="nightly-mail", spec="/srv/mail.toml", created=made))
    for number, day in enumerate(HISTORY, 1):
        at = datetime(2026, 11, day, 2, 30, tzinfo=UTC)
        done = ScheduledRun(
            started=at, finished=at + timedelta(minutes=1),
            outcome="void" if number == 3 else "audited",
            audit=f"svd-{number:02d}", number=number, documents={"changed": 7, "audited": 60},
            verdicts={"sensitive": 10 + number}, became_sensitive=number % 3 == 0, largest_d=0.9,
            largest_drift=0.05, level=0.004, seconds=61.0,
        )  # fmt: skip
        append_run(store, "nightly-mail", done)
    return store


@pytest.fixture(scope="session")
def history_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store that nobody may change."""
    return build_history(tmp_path_factory.mktemp("history") / "store")


@pytest.fixture
def own_store(history_store: Store, tmp_path: Path) -> Store:
    """The same, for a test to change."""
    shutil.copytree(history_store.root, tmp_path / "store")
    return Store.open(tmp_path / "store", create=False)


def _curves(
    values: dict[str, np.ndarray],
    inclusion: np.ndarray,
    ids: np.ndarray,
    names: Sequence[str],
    family: dict[str, str],
    decisions: Any,
    tested: ArmTests,
) -> list[Curve]:
    curves = []
    paper = [column for column, name in enumerate(names) if family[name] == "paper"]
    for row in np.lexsort((-np.nan_to_num(tested.distance.max(axis=1)), decisions.log10_p))[:12]:
        shown = [int(decisions.strongest[row])]
        if paper:
            shown.append(paper[int(np.argmin(tested.log10_p[row, paper]))])
        for column in dict.fromkeys(shown):
            column_values, bits = values[names[column]][row].astype(np.float64), inclusion[row]
            curves.append(Curve.of(str(ids[row]), names[column], column_values, bits))
    return curves
