"""The papers' tables and figures: what each needs and how long it takes, why ours differ, and what is left out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ksdp.audit.errors import InputError
from ksdp.storage.reproducing.data import missing

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
