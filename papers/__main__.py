"""One command a table or figure, its numbers beside the paper's.

::

    python -m papers --list                # what each needs, whether it is there, minutes of one idle core
    python -m papers table-1 --short       # papers-out/table-1.md, .json and, with matplotlib, .png
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp
from joblib import Memory

from papers import data, dpdispca, fedpower, gains, leaks, outcome, pem

Run = Callable[[Path, bool, Memory], outcome.Outcome]
"""Given the folder of data sets, whether the short version will do, and where parts that take long are kept."""


@dataclass(frozen=True)
class Entry:
    """One table or figure."""

    title: str
    data: tuple[str, ...]
    minutes: tuple[float, float]
    """Of one idle core: whole, and with `--short`."""
    differs: tuple[str, ...]
    """Why its numbers are not the paper's."""
    run: Run


ENTRIES: dict[str, Entry] = {}


def _entry(
    name: str, title: str, sets: tuple[str, ...], minutes: tuple[float, float], *differs: str
) -> Callable[[Run], None]:
    def register(run: Run) -> None:
        ENTRIES[name] = Entry(title, sets, minutes, differs, run)

    return register


_PD, _FED = "PD-ML-Lite, ", "Liu, Pejo & Tang 2023 (FedPower), "
_MAILS = "enron-mail6"
_ENRON = "enron-mail6 has 17,706 of the paper's 39,861 mails and 12,164 of its 28,102 terms, weighed by tf-idf."
_STARS = "MovieLens-1M, treated alike, in place of Netflix: a user for every 75."


@_entry(
    "table-1", _PD + "Table 1: where NMF starts", ("kos", "reuters-21578", _MAILS, "20newsgroups"), (125, 0.3),
    _ENRON + " KOS is beside the paper's corpora. Rows have unit length; terms of one Snowball stem are one.",
    "The paper makes five trials of every setting, ours one: 27 settings of each corpus are averaged. Its errors "
    "are absolute, so that differences from nnsvd are compared.",
    "The paper does not define its coherence; ours is NPMI of ten terms. Nor does it define its perplexity, which "
    "of some 44 is not that of words; it is left out.",
)  # fmt: skip
def _table_1(folder: Path, short: bool, parts: Memory) -> outcome.Outcome:
    names = ("kos",) if short else ("kos", "reuters-21578", _MAILS, "20newsgroups")
    few: dict[str, Any] = {"parties": (3, 5), "shares": (0.03, 0.1), "ranks": (20,), "trials": 2}
    printed: dict[str, Any] = {
        "parties": (3, 5, 30),
        "shares": (0.03, 0.1, 0.3),
        "ranks": (20, 40, 60),
        "trials": 1,
    }
    how = {**(few if short else printed), "parts": parts}
    return gains.starts_outcome({name: gains.starts_scores(data.stemmed(folder, name), **how) for name in names})


@_entry(
    "starts", _PD + "Section 5.1: what the five starts leak, and the recommender's RMSE",
    ("kos", "movielens-1m"), (21, 10),
    "The paper asks whether PD-NMF-Init is more or less revealing than a random start, prints no numbers, and "
    "says of the recommender that results are similar.",
    "A sample of texts by their most frequent terms and of users by the most rated movies, half of them in a run "
    "of one party, whose own topics are then all there are.",
)  # fmt: skip
def _starts(folder: Path, short: bool, parts: Memory) -> outcome.Outcome:
    count, columns = (200, 300) if short else (1000, 1000)
    sizes: dict[str, Any] = {"documents": 20, "runs": 40} if short else {"documents": 50, "runs": 100}
    rows, stars = data.documents(folder, "kos", columns)[0], data.stars(folder)
    often = np.sort(np.argsort(-np.bincount(stars.indices))[:columns])
    rng = np.random.default_rng(0)
    texts, users = (np.sort(rng.choice(of.shape[0], count, replace=False)) for of in (rows, stars))
    return leaks.starts(sp.csr_array(rows[texts]), sp.csr_array(stars[users][:, often]), **sizes)


@_entry(
    "table-2", _PD + "Table 2: p-values of PD-NMF", (_MAILS, "movielens-1m"), (230, 15), _ENRON,
    "The paper's conclusion does not follow from its numbers: a p-value below 0.05 rejects that nothing leaks, "
    "and a large one says that sigma saw nothing. Other columns of such runs do.",
)  # fmt: skip
def _table_2(folder: Path, short: bool, parts: Memory) -> outcome.Outcome:
    corpora = {
        "topics": (data.documents(folder, _MAILS)[0], leaks.TOPICS),
        "ratings": (data.stars(folder), leaks.RATINGS),
    }
    few: dict[str, Any] = {"documents": 6, "runs": 40, "ranks": (7,)}
    how = few if short else {"documents": 50, "runs": 200}
    return leaks.table_2(corpora, **how, parts=parts)


@_entry(
    "figure-4a", _PD + "Figure 4 (a): what topics gain", (_MAILS,), (6, 0.1), _ENRON,
    "The error is on mails that nobody learnt from; the paper does not say on which. Its baseline is the best of "
    "all parties' topics, ours each party's own. Its axis goes from 0 to 6 %. DP-NMF stands beside it.",
)  # fmt: skip
def _figure_4a(folder: Path, short: bool, parts: Memory) -> outcome.Outcome:
    task = gains.Topics(data.documents(folder, _MAILS)[0])
    shares = (0.03, 0.1, 0.3)
    few: dict[str, Any] = {"shares": shares, "splits": 2, "parties": 2}
    found = gains.uplift(task, **few) if short else gains.uplift(task, (7, 20, 40, 60), shares)
    return gains.uplift_outcome({_MAILS: found}, task.private_name)


@_entry(
    "figure-4b", _PD + "Figure 4 (b), (c): what recommendation gains, and what DP takes", ("movielens-1m",),
    (8, 0.3), "A fifth of every user's ratings is hidden, at random; MovieLens-1M in place of 20M.",
    "Hyperband chooses one regulariser for both factors, over a tenth of the ratings; parties need "
    "secure sums of squared errors for it. Axes of the short paper: gains of 0 to 50 %, with DP of -50 to -200 %.",
    "The paper says no more of DP than epsilon and delta: where it clips is ours, and rows have a norm of at most "
    "50.",
)  # fmt: skip
def _figure_4b(folder: Path, short: bool, parts: Memory) -> outcome.Outcome:
    ratings = data.stars(folder)
    few: dict[str, Any] = {"shares": (0.01, 0.34), "parties": 1, "sweeps": 9}
    return gains.rating_uplift(ratings, **few) if short else gains.rating_uplift(ratings, ranks=(7, 14, 21))


@_entry(
    "figure-5", _PD + "Figure 5: what PCR and low-rank approximation gain, and what DP-SVD takes",
    ("yearpredictionmsd", "online-news-popularity", "20newsgroups", _MAILS), (0.4, 0.2),
    "7,000 of 515,345 songs and 7,928 of 39,644 articles are here, so that a party of a size in per cent is much "
    "smaller. " + _ENRON,
    "PCR has two readings. The formula fits each party's own coefficients to everybody's components: then small "
    "parties lose here. The caption speaks of all of X: everybody's coefficients, targets pooled as well, are a "
    "column and a line of their own.",
    "The paper does not say which k nor how columns are scaled; ours is 7, in standard units. Shares are "
    "predicted as logarithms. It prints no numbers.",
    "Components are of five parties' rows, less each party's own mean (Algorithm 6, whose formula takes the sum "
    "of rows times n_m / n where the mean is meant).",
)  # fmt: skip
def _figure_5(folder: Path, short: bool, parts: Memory) -> outcome.Outcome:
    tasks: dict[str, gains.LowRank] = {
        "Million Songs (PCR)": gains.Regression(*data.songs(folder)),
        "Online News (PCR)": gains.Regression(*data.news(folder)),
        "20 Newsgroups (LRA)": gains.LowRank(data.documents(folder, "20newsgroups")[0]),
        "enron-mail6 (LRA)": gains.LowRank(data.documents(folder, _MAILS)[0]),
    }
    measured = {}
    for name, task in tasks.items():
        outcome.say(name)
        measured[name] = gains.uplift(task, splits=2, parties=2) if short else gains.uplift(task)
    return gains.uplift_outcome(measured, gains.LowRank.private_name)


@_entry(
    "figure-6", _PD + "Figure 6: p-values of PD-SVD, Sigma hidden and revealed", ("yearpredictionmsd", _MAILS),
    (42, 12), _ENRON + " 7,000 songs.",
    "The smallest p is not corrected, as in the paper: with no leak it is "
    "0.25 (independent columns) to 0.5 (equal ones) in the mean, so that its size says little. The figure prints "
    "no numbers.",
)  # fmt: skip
def _figure_6(folder: Path, short: bool, parts: Memory) -> outcome.Outcome:
    corpora = {"Million Songs": data.songs(folder)[0], _MAILS: data.documents(folder, _MAILS)[0]}
    return leaks.figure_6(corpora, documents=20 if short else 100, runs=30 if short else 50)


@_entry(
    "fedpower-figure-2", _FED + "Figure 2: how many iterations", (), (0.3, 0.3),
    "The paper's matrix is random; it says neither the seed nor how it measures against singular values.",
)  # fmt: skip
def _fedpower_2(folder: Path, short: bool, parts: Memory) -> outcome.Outcome:
    return fedpower.figure_2()


@_entry(
    "fedpower-figure-3", _FED + "Figure 3: distance to the true basis", ("movielens-1m",), (15, 3),
    _STARS + " `python -m benchmarks figure-3` has ratings drawn after it in Netflix's size, where the paper's "
    "order comes out.",
    "With 43 users a device the error of four local iterations drowns the noise (period 4); period 1 shows it.",
)  # fmt: skip
def _fedpower_3(folder: Path, short: bool, parts: Memory) -> outcome.Outcome:
    counts = (4, 20, 40) if short else (4, 8, 20, 40, 60, 92)
    return fedpower.figure_3(data.ratings(folder), iterations=counts)


@_entry(
    "fedpower-figure-4", _FED + "Figure 4: distance by sigma and by clipping", ("movielens-1m",), (10, 3), _STARS,
    "The paper clips entries of the covariance to 0.05; ours clips rows, which a guarantee for records needs, and "
    "its form stands beside. It prints no numbers.",
)  # fmt: skip
def _fedpower_4(folder: Path, short: bool, parts: Memory) -> outcome.Outcome:
    return fedpower.figure_4(data.ratings(folder), iterations=20 if short else 60)


@_entry(
    "dpdispca", "Imtiaz & Sarwate 2018 (DPdisPCA), Captured energy by epsilon and by site size",
    ("mnist", "covertype"), (20, 1.2),
    "The slides print curves without numbers or seeds, and do not say which covariance the synthetic set has.",
    "Rows are clipped to norm 1, the Gaussian is calibrated exactly and for records that are replaced; negative "
    "eigenvalues are dropped: the slides do none of these. Of COVTYPE a 16 % sample is here.",
)  # fmt: skip
def _captured(folder: Path, short: bool, parts: Memory) -> outcome.Outcome:
    curve = dpdispca.CurvePoints((0.5, 2.0, 8.0), (500, 2000)) if short else dpdispca.CurvePoints()
    sets = {dpdispca.SYNTHETIC: dpdispca.synthetic(40_000, 0), "MNIST (784, K = 50)": data.digits(folder)}
    measured = {name: dpdispca.captured(rows, 50, curve) for name, rows in sets.items()}
    return dpdispca.outcome(measured | {"COVTYPE (54, K = 10)": dpdispca.captured(data.cover(folder), 10, curve)})


def _pem(experiments: Sequence[pem.Experiment], short: bool) -> outcome.Outcome:
    return pem.outcome(experiments, (0.3, 1.0, 10.0, 100.0) if short else pem.EPSILONS)


@_entry(
    "pem-figure-2a", "PEM, Figure 2 (a): logistic regression on Adult", ("adult",), (50, 2),
    "Ten folds with the paper's 1,000 iterations, and 30 beside them; noise is discrete Laplace, of the paper's "
    "L = 28.",
    "Bins of numbers are round and fixed before (quantiles would be a release); the paper does not say which it "
    "took. It prints no numbers.",
)  # fmt: skip
def _adult(folder: Path, short: bool, parts: Memory) -> outcome.Outcome:
    records = sp.csr_array(sp.vstack(data.adult(data.table(folder, "adult")), format="csr"))
    few = [pem.adult_experiment(records, 30, folds=3)] if short else []
    return _pem(few or [pem.adult_experiment(records, iterations) for iterations in (1000, 30)], short)


@_entry(
    "pem-figure-2b", "PEM, Figure 2 (b): k-means on Nursery", ("nursery",), (1.2, 0.3),
    "The paper says 21,960 records; the set has 12,960. The figure prints no numbers.",
)  # fmt: skip
def _nursery(folder: Path, short: bool, parts: Memory) -> outcome.Outcome:
    rows = data.one_hot(data.table(folder, "nursery").iloc[:, :8])
    few = [pem.nursery_experiment(rows, 50, seeds=2)] if short else []
    return _pem(few or [pem.nursery_experiment(rows, iterations) for iterations in (50, 5)], short)


@_entry(
    "pem-figure-2c", "PEM, Figure 2 (c): frequent itemsets of Mushroom", ("mushroom",), (10, 0.1),
    "Itemsets of two to four items, of at most 200,000 candidates of a length. The paper's support is 0.01; 0.3 "
    "stands beside it. It prints no numbers.",
)  # fmt: skip
def _mushroom(folder: Path, short: bool, parts: Memory) -> outcome.Outcome:
    rows = data.one_hot(data.table(folder, "mushroom").drop(columns="class"))
    return _pem([pem.mushroom_experiment(rows, support) for support in ((0.3,) if short else (0.01, 0.3))], short)


def _compared(name: str) -> Run:
    def run(folder: Path, short: bool, parts: Memory) -> outcome.Outcome:
        documents, runs = (40, 60) if short else (150, 300)
        return leaks.compare(*data.documents(folder, name, 500), name, documents=documents, runs=runs)

    return run


for _name, _minutes in ((_MAILS, (25, 8)), ("20newsgroups", (22, 8)), ("kos", (10, 4))):
    _entry(f"compare-{_name}", f"ksdp, All mechanisms: {_name}", (_name,), _minutes)(_compared(_name))

ELSEWHERE = {
    "table-3": "seconds of NormedSecSum: `python -m benchmarks normed-sum`; SPDZ's machines are not ours.",
    "figures-1-to-3": "are drawings and pseudocode.",
    "fedpower-table-1": "states properties of three techniques; nothing is measured.",
    "fedpower-table-2": "counts operations; nothing is measured.",
    "fedpower-table-3": "seconds of devices: `python -m benchmarks peers` (docs/peers.md).",
    "pem-figure-3": "seconds of roles: `python -m benchmarks.pem --only cost`, `python -m benchmarks pem-hosts`.",
}
"""What has no script, and why, or where it is."""


def listing(folder: Path) -> str:
    """Every table: its data, whether they are in the folder, and its minutes."""
    lines = [f"{'table':22} {'minutes, --short':>16}  data"]
    for name, entry in ENTRIES.items():
        absent = data.missing(folder, entry.data)
        there = f"; not there: {', '.join(absent)}" if absent else ""
        minutes = ", ".join(f"{number:g}" for number in entry.minutes)
        lines += [f"{name:22} {minutes:>16}  {', '.join(entry.data) or 'none'}{there}", f"{'':22}   {entry.title}"]
    return "\n".join([*lines, "", "Not here:", *(f"  {name}: {why}" for name, why in ELSEWHERE.items())])


def measure(name: str, folder: Path, out: Path, *, short: bool) -> Path:
    """Run a script, and write its page."""
    entry = ENTRIES[name]
    if absent := data.missing(folder, entry.data):
        sys.exit(f"{name} needs {', '.join(absent)}, which {folder} lacks (`--data` or KSDP_DATA).")
    begin, clock = time.process_time(), time.monotonic()
    measured = entry.run(folder, short, Memory(out / "parts", verbose=0))
    about = {
        "size": "short" if short else "whole",
        "CPU seconds": round(time.process_time() - begin),
        "seconds": round(time.monotonic() - clock),
    }
    return outcome.write(out, name, entry.title, measured, entry.differs, about)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        "python -m papers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", nargs="?", choices=[*ENTRIES], metavar="TABLE")
    parser.add_argument("--list", action="store_true", help="what each table needs, and how long it takes")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("KSDP_DATA", "data")))
    parser.add_argument("--out", type=Path, default=Path("papers-out"), help="folder of pages, numbers and plots")
    parser.add_argument("--short", action="store_true", help="a smaller version, in minutes")
    chosen = parser.parse_args(arguments)
    if chosen.list:
        print(listing(chosen.data))
    elif chosen.table is None:
        parser.error("name a table; `--list` shows them.")
    else:
        page = measure(chosen.table, chosen.data, chosen.out, short=chosen.short)
        print(page.read_text(encoding="utf-8"))
        outcome.say(f"page  {page}")


if __name__ == "__main__":
    main()
