"""What can be repeated: each experiment reads its data sets and returns what it came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import scipy.sparse as sp

from ksdp.audit.corpus import Corpus
from ksdp.audit.reproducing import fedpower
from ksdp.audit.reproducing.arm_tables import FAMILIES
from ksdp.audit.reproducing.captured import SYNTHETIC, CurvePoints, captured, captured_outcome, synthetic
from ksdp.audit.reproducing.compared import compare
from ksdp.audit.reproducing.outcome import Outcome
from ksdp.audit.reproducing.pem_curves import (
    adult,
    adult_curve,
    curve_outcome,
    mushroom_curve,
    nursery_curve,
    one_hot,
)
from ksdp.audit.reproducing.privacy import figure_6, table_2
from ksdp.audit.reproducing.rated import AskedRatings, rating_uplift
from ksdp.audit.reproducing.starts import AskedStarts, starts_outcome, starts_scores
from ksdp.audit.reproducing.uplift import Asked, LowRank, Regression, Topics, uplift, uplift_outcome
from ksdp.storage.reproducing import data

Say = Callable[[str], None]
Keys = Mapping[str, Any]


@dataclass(frozen=True)
class Effort:
    """How much of an experiment is run."""

    short: bool = False
    """Fewer documents, sizes, ranks and trials: minutes where the whole takes an hour."""


def _starts(folder: Path, effort: Effort, say: Say) -> Outcome:
    names = ("kos",) if effort.short else ("kos", "enron-mail6", "20newsgroups")
    asked = AskedStarts(trials=2) if effort.short else AskedStarts((3, 5, 30), (0.03, 0.1, 0.3), (20, 40, 60), 5)
    return starts_outcome({name: starts_scores(data.counts(folder, name), asked, say) for name in names})


def _table_2(folder: Path, effort: Effort, say: Say) -> Outcome:
    documents, runs = (20, 200) if effort.short else (50, 200)
    corpora: dict[str, tuple[Corpus, Keys]] = {
        "topics": (data.documents(folder, "enron-mail6"), {"name": "pd-nmf", "rank": 7}),
        "ratings": (
            data.stars(folder),
            {"name": "pd-nmf", "rank": 7, "weighted": True, "beta": 1.0, "delta": 1.0},
        ),
    }
    families = FAMILIES[:2] if effort.short else FAMILIES  # filters of rounds take most of the time
    return table_2(corpora, documents=documents, runs=runs, families=families, say=say)


def _figure_4a(folder: Path, effort: Effort, say: Say) -> Outcome:
    task = Topics(data.documents(folder, "enron-mail6").matrix, epsilon=0.25, delta=0.01)
    asked = Asked(splits=2, asked=2) if effort.short else Asked(ranks=(7, 14, 20))
    return uplift_outcome({"enron-mail6": uplift(task, asked, say)}, "DP-NMF")


def _figure_4b(folder: Path, effort: Effort, say: Say) -> Outcome:
    asked = AskedRatings() if effort.short else AskedRatings(ranks=(7, 14), asked=3)
    return rating_uplift(data.stars(folder).matrix, asked, say)


def _figure_5(folder: Path, effort: Effort, say: Say) -> Outcome:
    asked = Asked(splits=2, asked=2) if effort.short else Asked()
    tasks: dict[str, LowRank] = {
        "Million Songs (PCR)": Regression(*data.songs(folder)),
        "Online News (PCR)": Regression(*data.news(folder)),
        "20 Newsgroups (LRA)": LowRank(data.documents(folder, "20newsgroups").matrix),
        "enron-mail6 (LRA)": LowRank(data.documents(folder, "enron-mail6").matrix),
    }
    found = {}
    for name, task in tasks.items():
        say(name)
        found[name] = uplift(task, asked, say)
    return uplift_outcome(found, "Hardt-Roth")


def _figure_6(folder: Path, effort: Effort, say: Say) -> Outcome:
    songs, _ = data.songs(folder)
    names = pd.RangeIndex(songs.shape[0]).astype(str).to_numpy(str)
    corpora = {
        "Million Songs": (Corpus(songs, names), 7),
        "enron-mail6": (data.documents(folder, "enron-mail6"), 7),
    }
    return figure_6(corpora, documents=60 if effort.short else 200, runs=50, say=say)


def _fedpower_2(folder: Path, effort: Effort, say: Say) -> Outcome:
    return fedpower.figure_2()


def _fedpower_3(folder: Path, effort: Effort, say: Say) -> Outcome:
    counts = (4, 20, 40) if effort.short else (4, 8, 20, 40, 60, 92)
    return fedpower.figure_3(data.ratings(folder), iterations=counts, say=say)


def _fedpower_4(folder: Path, effort: Effort, say: Say) -> Outcome:
    return fedpower.figure_4(data.ratings(folder), iterations=20 if effort.short else 60, say=say)


def _captured(folder: Path, effort: Effort, say: Say) -> Outcome:
    curve = CurvePoints((0.5, 2.0, 8.0), (500, 2000)) if effort.short else CurvePoints()
    found = {SYNTHETIC: captured(synthetic(40_000, 0), 50, curve, say)}
    return captured_outcome(found | {"MNIST (784, K = 50)": captured(data.digits(folder), 50, curve, say)})


_FEW = (0.3, 1.0, 10.0, 100.0)


def _adult(folder: Path, effort: Effort, say: Say) -> Outcome:
    records = sp.csr_array(sp.vstack(adult(data.columns(folder, "adult")), format="csr"))
    if effort.short:
        return curve_outcome([adult_curve(records, 30, folds=3, epsilons=_FEW, say=say)])
    return curve_outcome([adult_curve(records, 1000, say=say), adult_curve(records, 30, say=say)])


def _nursery(folder: Path, effort: Effort, say: Say) -> Outcome:
    rows = one_hot(data.columns(folder, "nursery").iloc[:, :8])
    if effort.short:
        return curve_outcome([nursery_curve(rows, 50, seeds=2, epsilons=_FEW, say=say)])
    return curve_outcome([nursery_curve(rows, 50, say=say), nursery_curve(rows, 5, say=say)])


def _mushroom(folder: Path, effort: Effort, say: Say) -> Outcome:
    rows = one_hot(data.columns(folder, "mushroom").drop(columns="class"))
    if effort.short:
        return curve_outcome([mushroom_curve(rows, 0.3, epsilons=_FEW, say=say)])
    return curve_outcome([mushroom_curve(rows, 0.01, say=say), mushroom_curve(rows, 0.3, say=say)])


def _compare(name: str) -> Callable[[Path, Effort, Say], Outcome]:
    def run(folder: Path, effort: Effort, say: Say) -> Outcome:
        documents, runs = (40, 60) if effort.short else (150, 300)
        return compare(data.documents(folder, name, 500), name, documents=documents, runs=runs, say=say)

    return run


RUNS: dict[str, Callable[[Path, Effort, Say], Outcome]] = {
    "pd-ml-lite-table-1": _starts,
    "pd-ml-lite-table-2": _table_2,
    "pd-ml-lite-figure-4a": _figure_4a,
    "pd-ml-lite-figure-4b": _figure_4b,
    "pd-ml-lite-figure-5": _figure_5,
    "pd-ml-lite-figure-6": _figure_6,
    "fedpower-figure-2": _fedpower_2,
    "fedpower-figure-3": _fedpower_3,
    "fedpower-figure-4": _fedpower_4,
    "dpdispca": _captured,
    "pem-figure-2a": _adult,
    "pem-figure-2b": _nursery,
    "pem-figure-2c": _mushroom,
    "compare-enron-mail6": _compare("enron-mail6"),
    "compare-20newsgroups": _compare("20newsgroups"),
    "compare-kos": _compare("kos"),
}
"""By name; each has a line in `ksdp.flows.reproducing.catalogue`."""
