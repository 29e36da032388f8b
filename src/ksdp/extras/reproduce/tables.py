"""The papers' tables and figures: what each needs, how long it takes, why ours differ; and how one is repeated."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import InputError
from ksdp.extras.reproduce import curves, data
from ksdp.extras.reproduce.curves import (
    EPSILONS,
    SYNTHETIC,
    CurvePoints,
    PemExperiment,
    adult,
    adult_experiment,
    captured,
    captured_outcome,
    curve_outcome,
    mushroom_experiment,
    nursery_experiment,
    one_hot,
    pem_curve,
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
from ksdp.extras.reproduce.outcomes import Outcome, Repeated, write_outcome
from ksdp.extras.reproduce.privacy import FAMILIES, compare, figure_6, table_2

_PD = "PD-ML-Lite"
_FED = "Liu, Pejo & Tang 2023 (FedPower)"
_ENRON = "Enron is not the paper's matrix (39,861 x 28,102) but 17,706 mails of six mailboxes."
_MAILS = "enron-mail6"


Say = Callable[[str], None]
Keys = Mapping[str, Any]
Run = Callable[[Path, bool, Say], Outcome]
"""Given the folder of data sets, and whether a short version will do: minutes where the whole takes an hour."""


@dataclass(frozen=True)
class PaperEntry:
    """One table or figure."""

    name: str
    paper: str
    title: str
    data: tuple[str, ...]
    minutes: tuple[float, float]
    """Of one idle core: with `--short`, and whole."""
    run: Run
    differs: tuple[str, ...]


def _starts(folder: Path, short: bool, say: Say) -> Outcome:
    names = ("kos",) if short else ("kos", "enron-mail6", "20newsgroups")
    asked = AskedStarts(trials=2) if short else AskedStarts((3, 5, 30), (0.03, 0.1, 0.3), (20, 40, 60), 5)
    return starts_outcome({name: starts_scores(data.counts(folder, name), asked, say) for name in names})


def _table_2(folder: Path, short: bool, say: Say) -> Outcome:
    documents, runs = (20, 200) if short else (50, 200)
    corpora: dict[str, tuple[Corpus, Keys]] = {
        "topics": (data.documents(folder, "enron-mail6"), {"name": "pd-nmf", "rank": 7}),
        "ratings": (
            data.stars(folder),
            {"name": "pd-nmf", "rank": 7, "weighted": True, "beta": 1.0, "delta": 1.0},
        ),
    }
    families = FAMILIES[:2] if short else FAMILIES  # filters of rounds take most of the time
    return table_2(corpora, documents=documents, runs=runs, families=families, say=say)


def _figure_4a(folder: Path, short: bool, say: Say) -> Outcome:
    task = Topics(data.documents(folder, "enron-mail6").matrix, epsilon=0.25, delta=0.01)
    asked = Asked(splits=2, asked=2) if short else Asked(ranks=(7, 14, 20))
    return uplift_outcome({"enron-mail6": uplift(task, asked, say)}, "DP-NMF")


def _figure_4b(folder: Path, short: bool, say: Say) -> Outcome:
    asked = AskedRatings() if short else AskedRatings(ranks=(7, 14), asked=3)
    return rating_uplift(data.stars(folder).matrix, asked, say)


def _figure_5(folder: Path, short: bool, say: Say) -> Outcome:
    asked = Asked(splits=2, asked=2) if short else Asked()
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


def _figure_6(folder: Path, short: bool, say: Say) -> Outcome:
    songs, _ = data.songs(folder)
    names = pd.RangeIndex(songs.shape[0]).astype(str).to_numpy(str)
    corpora = {
        "Million Songs": (Corpus(songs, names), 7),
        "enron-mail6": (data.documents(folder, "enron-mail6"), 7),
    }
    return figure_6(corpora, documents=60 if short else 200, runs=50, say=say)


def _fedpower_3(folder: Path, short: bool, say: Say) -> Outcome:
    counts = (4, 20, 40) if short else (4, 8, 20, 40, 60, 92)
    return curves.figure_3(data.ratings(folder), iterations=counts, say=say)


def _fedpower_4(folder: Path, short: bool, say: Say) -> Outcome:
    return curves.figure_4(data.ratings(folder), iterations=20 if short else 60, say=say)


def _captured(folder: Path, short: bool, say: Say) -> Outcome:
    curve = CurvePoints((0.5, 2.0, 8.0), (500, 2000)) if short else CurvePoints()
    found = {SYNTHETIC: captured(synthetic(40_000, 0), 50, curve, say)}
    return captured_outcome(found | {"MNIST (784, K = 50)": captured(data.digits(folder), 50, curve, say)})


_FEW = (0.3, 1.0, 10.0, 100.0)


def _pem(experiments: Sequence[PemExperiment], short: bool, say: Say) -> Outcome:
    return curve_outcome([pem_curve(one, _FEW if short else EPSILONS, say) for one in experiments])


def _adult(folder: Path, short: bool, say: Say) -> Outcome:
    records = sp.csr_array(sp.vstack(adult(data.columns(folder, "adult")), format="csr"))
    few = [adult_experiment(records, 30, folds=3)] if short else []
    return _pem(few or [adult_experiment(records, iterations) for iterations in (1000, 30)], short, say)


def _nursery(folder: Path, short: bool, say: Say) -> Outcome:
    rows = one_hot(data.columns(folder, "nursery").iloc[:, :8])
    few = [nursery_experiment(rows, 50, seeds=2)] if short else []
    return _pem(few or [nursery_experiment(rows, iterations) for iterations in (50, 5)], short, say)


def _mushroom(folder: Path, short: bool, say: Say) -> Outcome:
    rows = one_hot(data.columns(folder, "mushroom").drop(columns="class"))
    supports = (0.3,) if short else (0.01, 0.3)
    return _pem([mushroom_experiment(rows, support) for support in supports], short, say)


def _compare(name: str) -> Run:
    def run(folder: Path, short: bool, say: Say) -> Outcome:
        documents, runs = (40, 60) if short else (150, 300)
        return compare(data.documents(folder, name, 500), name, documents=documents, runs=runs, say=say)

    return run


CATALOGUE = (
    PaperEntry(
        "pd-ml-lite-table-1",
        _PD,
        "Table 1: where NMF starts",
        ("kos", _MAILS, "20newsgroups"),
        (2, 240),
        _starts,
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
        _table_2,
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
        _figure_4a,
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
        _figure_4b,
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
        _figure_5,
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
        _figure_6,
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
        lambda folder, short, say: curves.figure_2(),
        ("The paper's matrix is random; it says neither the seed nor how it measures against singular values.",),
    ),
    PaperEntry(
        "fedpower-figure-3",
        _FED,
        "Figure 3: distance to the true basis",
        ("movielens-1m",),
        (3, 15),
        _fedpower_3,
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
        _fedpower_4,
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
        _captured,
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
        _adult,
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
        _nursery,
        ("The paper says 21,960 records; the set has 12,960.", "The figure prints no numbers."),
    ),
    PaperEntry(
        "pem-figure-2c",
        "PEM",
        "Figure 2 (c): frequent itemsets of Mushroom",
        ("mushroom",),
        (2, 60),
        _mushroom,
        (
            "Support 0.01, the paper's, has 190,858 itemsets; 0.3 stands beside it.",
            "The figure prints no numbers.",
        ),
    ),
    PaperEntry(
        "compare-enron-mail6",
        "ksdp",
        "All mechanisms beside each other: enron-mail6",
        (_MAILS,),
        (8, 40),
        _compare("enron-mail6"),
        (),
    ),
    PaperEntry(
        "compare-20newsgroups",
        "ksdp",
        "All mechanisms: 20 Newsgroups",
        ("20newsgroups",),
        (8, 40),
        _compare("20newsgroups"),
        (),
    ),
    PaperEntry(
        "compare-kos", "ksdp", "All mechanisms beside each other: KOS", ("kos",), (4, 20), _compare("kos"), ()
    ),
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


def listed(folder: Path) -> list[dict[str, Any]]:
    """All entries as `--list --json` prints them, against a folder of data sets."""
    return [
        {
            "name": one.name,
            "paper": one.paper,
            "title": one.title,
            "data": list(one.data),
            "missing": list(missing(folder, one.data)),
            "minutes": {"short": one.minutes[0], "whole": one.minutes[1]},
        }
        for one in CATALOGUE
    ]


def entry(name: str) -> PaperEntry:
    """The entry of that name."""
    for one in CATALOGUE:
        if one.name == name:
            return one
    if name in ELSEWHERE:
        raise InputError(f"{name} is not reproduced here: {ELSEWHERE[name]}")
    raise InputError(f"there is no table {name!r}; `ksdp reproduce --list` names them.")


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
    outcome = asked.run(folder, short, say)
    about = {
        "size": "short" if short else "whole",
        "CPU seconds": round(time.process_time() - begin),
        "seconds": round(time.monotonic() - clock),
    }
    title = f"{asked.paper}, {asked.title}"
    return write_outcome(out, name, title, outcome, asked.differs, about)
