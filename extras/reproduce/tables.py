"""The papers' tables and figures: what each needs, how long it takes, why ours differ; and how one is repeated."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import InputError
from ksdp.extras.reproduce import curves, data
from ksdp.extras.reproduce.curves import (
    SYNTHETIC,
    CurvePoints,
    adult,
    adult_curve,
    captured,
    captured_outcome,
    curve_outcome,
    mushroom_curve,
    nursery_curve,
    one_hot,
    synthetic,
)
from ksdp.extras.reproduce.data import missing
from ksdp.extras.reproduce.learning import (
    Asked,
    AskedRatings,
    AskedStarts,
    LowRank,
    Regression,
    Topics,
    rating_uplift,
    starts_outcome,
    starts_scores,
    uplift,
    uplift_outcome,
)
from ksdp.extras.reproduce.outcomes import Outcome, can_draw, draw_panels, write_outcome
from ksdp.extras.reproduce.privacy import FAMILIES, compare, figure_6, table_2

_PD = "PD-ML-Lite"
_FED = "Liu, Pejo & Tang 2023 (FedPower)"
_ENRON = "Enron is not the paper's matrix (39,861 x 28,102) but 17,706 mails of six mailboxes."
_MAILS = "enron-mail6"


@dataclass(frozen=True)
class PaperEntry:
    """One table or figure."""

    name: str
    paper: str
    title: str
    data: tuple[str, ...]
    minutes: tuple[float, float]
    """Of one idle core: with `--short`, and whole."""
    differs: tuple[str, ...]


CATALOGUE = (
    PaperEntry(
        "pd-ml-lite-table-1",
        _PD,
        "Table 1: where NMF starts",
        ("kos", _MAILS, "20newsgroups"),
        (2, 240),
        (
            _ENRON + " KOS stands in for Reuters, which is not here.",
            "Rows have unit length, ours are not stemmed. The paper's errors are absolute, so that "
            "differences from nnsvd "
            "are compared.",
            "The paper names no coherence measure; ours is NPMI of ten terms.",
            "Its perplexity of some 44 is not that of words under a mixture of topics over a vocabulary of "
            "this size; it is not "
            "defined. Ours is, in the module.",
        ),
    ),
    PaperEntry(
        "pd-ml-lite-table-2",
        _PD,
        "Table 2: p-values of PD-NMF",
        (_MAILS, "movielens-1m"),
        (7, 60),
        (
            _ENRON,
            "Documents share runs, each in half of them by its own coin; the paper runs each document's arms "
            "by themselves.",
            "The paper's conclusion does not follow from its numbers: a p-value below 0.05 rejects that "
            "nothing leaks, and a "
            "large one says that sigma saw nothing. Other columns of the same runs do.",
        ),
    ),
    PaperEntry(
        "pd-ml-lite-figure-4a",
        _PD,
        "Figure 4 (a), (c): what topics gain, and what DP takes",
        (_MAILS,),
        (3, 60),
        (
            _ENRON,
            "The error is on mails that nobody learnt from; the paper does not say on which. Its baseline is "
            "the best of all "
            "parties' topics, ours each party's own.",
            "The figure prints no numbers.",
        ),
    ),
    PaperEntry(
        "pd-ml-lite-figure-4b",
        _PD,
        "Figure 4 (b): what recommendation gains",
        ("movielens-1m",),
        (6, 30),
        (
            "A fifth of every user's ratings is hidden, at random. Alone, a party has the best of all "
            "regularisers in hindsight: "
            "the gain is a lower bound.",
            "One bracket of Hyperband, four values; the figure prints no numbers.",
        ),
    ),
    PaperEntry(
        "pd-ml-lite-figure-5",
        _PD,
        "Figure 5: what PCR and low-rank approximation gain, and what DP-SVD takes",
        ("yearpredictionmsd", "online-news-popularity", "20newsgroups", _MAILS),
        (3, 15),
        (
            "7,000 of 515,345 songs and 7,928 of 39,644 articles are here, so that a party of a size in per "
            "cent is much smaller.",
            _ENRON + " 20 Newsgroups has another vocabulary.",
            "PCR has two readings. The formula fits each party's own coefficients to everybody's components: "
            "then small parties lose here. The caption speaks of all of X: everybody's coefficients, targets "
            "pooled as well, are a column and a line of their own.",
            "The paper does not say which k nor how columns are scaled; ours is 7, in standard units. Shares "
            "are predicted as "
            "logarithms.",
            "The figure prints no numbers.",
        ),
    ),
    PaperEntry(
        "pd-ml-lite-figure-6",
        _PD,
        "Figure 6: p-values of PD-SVD, Sigma hidden and revealed",
        ("yearpredictionmsd", _MAILS),
        (4, 15),
        (
            _ENRON + " 7,000 songs.",
            "Three of the paper's six statistics; the smallest p is not corrected, as in the paper: with no leak "
            "it is 0.25 (independent columns) to 0.5 (equal ones) in the mean, so that its size says little.",
            "The figure prints no numbers.",
        ),
    ),
    PaperEntry(
        "fedpower-figure-2",
        _FED,
        "Figure 2: how many iterations",
        (),
        (0.5, 0.5),
        ("The paper's matrix is random; it says neither the seed nor how it measures against singular values.",),
    ),
    PaperEntry(
        "fedpower-figure-3",
        _FED,
        "Figure 3: distance to the true basis",
        ("movielens-1m",),
        (3, 15),
        (
            "Netflix is not here: MovieLens-1M, treated alike, has a user for every 75. `python -m benchmarks"
            " figure-3` has ratings "
            "drawn after it in Netflix's size, where the paper's order comes out.",
            "With 43 users a device the error of four local iterations drowns the noise (period 4); period 1 "
            "shows the noise.",
        ),
    ),
    PaperEntry(
        "fedpower-figure-4",
        _FED,
        "Figure 4: distance by sigma and by clipping",
        ("movielens-1m",),
        (3, 10),
        (
            "MovieLens-1M in place of Netflix.",
            "The paper clips entries of the covariance to 0.05; ours clips rows, which a guarantee for "
            "records needs.",
            "The figure prints no numbers.",
        ),
    ),
    PaperEntry(
        "dpdispca",
        "Imtiaz & Sarwate 2018 (DPdisPCA)",
        "Captured energy by epsilon and by site size",
        ("mnist",),
        (3, 15),
        (
            "The slides print curves without numbers or seeds, and do not say which covariance the synthetic "
            "set has.",
            "Rows are clipped to norm 1, the Gaussian is calibrated exactly and for records that are "
            "replaced; negative "
            "eigenvalues are dropped: the slides do none of these.",
            "COVTYPE is not here.",
        ),
    ),
    PaperEntry(
        "pem-figure-2a",
        "PEM",
        "Figure 2 (a): logistic regression on Adult",
        ("adult",),
        (4, 120),
        (
            "Ten folds with the paper's 1,000 iterations, and 30 beside them; noise is discrete Laplace, of "
            "the paper's L = 28.",
            "Bins of numbers are round and fixed before (quantiles would be a release); the paper does not "
            "say which it took.",
            "The figure prints no numbers.",
        ),
    ),
    PaperEntry(
        "pem-figure-2b",
        "PEM",
        "Figure 2 (b): k-means on Nursery",
        ("nursery",),
        (1, 5),
        ("The paper says 21,960 records; the set has 12,960.", "The figure prints no numbers."),
    ),
    PaperEntry(
        "pem-figure-2c",
        "PEM",
        "Figure 2 (c): frequent itemsets of Mushroom",
        ("mushroom",),
        (2, 60),
        (
            "Support 0.01, the paper's, has 190,858 itemsets; 0.3 stands beside it.",
            "The figure prints no numbers.",
        ),
    ),
    PaperEntry(
        "compare-enron-mail6", "ksdp", "All mechanisms beside each other: enron-mail6", (_MAILS,), (8, 40), ()
    ),
    PaperEntry("compare-20newsgroups", "ksdp", "All mechanisms: 20 Newsgroups", ("20newsgroups",), (8, 40), ()),
    PaperEntry("compare-kos", "ksdp", "All mechanisms beside each other: KOS", ("kos",), (4, 20), ()),
)

ELSEWHERE = {
    "pd-ml-lite-table-3": (
        "seconds of NormedSecSum: `python -m benchmarks normed-sum`; SPDZ's machines are not ours."
    ),
    "fedpower-table-1": "states properties of three techniques; nothing is measured.",
    "fedpower-table-2": "counts operations; nothing is measured.",
    "fedpower-table-3": "seconds of devices: `python -m benchmarks peers` (docs/peers.md).",
    "pem-figure-3": (
        "seconds of roles: `python -m benchmarks.pem --only cost`, `python -m benchmarks pem-hosts` (docs/pem.md)."
    ),
    "dpdispca on COVTYPE": "the data set could not be had.",
    "pd-ml-lite-figures-1-to-3": "are drawings and pseudocode.",
}
"""What is not repeated here, and why, or where it is."""


@dataclass(frozen=True)
class Listed:
    """An entry, and which of its data sets are not there."""

    entry: PaperEntry
    missing: tuple[str, ...]


def listed(folder: Path) -> tuple[Listed, ...]:
    """All entries, against a folder of data sets."""
    return tuple(Listed(one, missing(folder, one.data)) for one in CATALOGUE)


def entry(name: str) -> PaperEntry:
    """The entry of that name."""
    for one in CATALOGUE:
        if one.name == name:
            return one
    if name in ELSEWHERE:
        raise InputError(f"{name} is not reproduced here: {ELSEWHERE[name]}")
    raise InputError(f"there is no table {name!r}; `ksdp reproduce --list` names them.")


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
    return curves.figure_2()


def _fedpower_3(folder: Path, effort: Effort, say: Say) -> Outcome:
    counts = (4, 20, 40) if effort.short else (4, 8, 20, 40, 60, 92)
    return curves.figure_3(data.ratings(folder), iterations=counts, say=say)


def _fedpower_4(folder: Path, effort: Effort, say: Say) -> Outcome:
    return curves.figure_4(data.ratings(folder), iterations=20 if effort.short else 60, say=say)


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
"""By name; each has a line in `CATALOGUE`."""


class Repeated(dict[str, Any]):
    """What `NAME.json` holds, and where the page and the plot are."""

    page: Path
    plot: Path | None


def reproduce(
    name: str, folder: Path, out: Path, *, short: bool = False, say: Callable[[str], None] = lambda _: None
) -> Repeated:
    """Run it here, in this process.

    Parameters
    ----------
    folder : Path
        Where the data sets are.
    out : Path
        Where NAME.json, NAME.md and, with matplotlib, NAME.png are written.
    short : bool
        A smaller one.
    """
    asked = entry(name)
    if absent := missing(folder, asked.data):
        raise InputError(f"{name} needs {', '.join(absent)}, which {folder} lacks (`--data` or KSDP_DATA).")
    begin, clock = time.process_time(), time.monotonic()
    outcome: Outcome = RUNS[name](folder, Effort(short), say)
    about: dict[str, Any] = {
        "size": "short" if short else "whole",
        "CPU seconds": round(time.process_time() - begin),
        "seconds": round(time.monotonic() - clock),
    }
    content = asdict(outcome)
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    drawn = out / f"{name}.png"
    drawn.unlink(missing_ok=True)
    if outcome.lines and can_draw():
        draw_panels(content["lines"], outcome.x, outcome.y, outcome.logarithmic, drawn)
    title = f"{asked.paper}, {asked.title}"
    page, plot = write_outcome(out, name, title, outcome, asked.differs, about)
    found = Repeated(content | {"name": name, "title": title, "differs": list(asked.differs), "about": about})
    found.page, found.plot = page, plot if plot.exists() else None
    return found
