"""What a secret draw keeps of the gain where everything that is opened is made of the draw itself.

::

    python -m benchmarks drawn --corpora enron-mail6 20newsgroups covertype online-news-popularity kos --splits 10
    python -m benchmarks drawn-attacks --corpora enron-mail6 20newsgroups kos movielens-1m

One run of `counted-svd` opens in how many drawn documents each term is, and V of the drawn rows, weighed by these
counts and with columns shrunk or not. It tells no more than the share drawn about who is held. A line a share: of
the exact run's gain over working alone what is kept, with its interval of 95 % over splits; then the energy of a
party's own held-out documents: alone, in the exact run, and in the drawn one.

A table takes two runs: the first opens sums and squares of the drawn rows, and the second takes columns in
these units. The tables are Covertype (ten numbers and the soil of every plot; its wilderness is its party), and
Online News (articles of three channels). Online News in public units is measured too, where noise (`moments`)
is a second way to 0.2: a line a setting and measure says what is gained over working alone.

Documents are judged as the exact run weighs them, by the counts of all. In each split a fifth is held out, and
every party's draw is another.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray
from scipy.sparse.linalg import lsqr
from scipy.stats import ks_2samp

from benchmarks import ROOT, data_folder, news_parts
from benchmarks.frontier import RANK, SEED, TEXTS
from ksdp.audit.contract import Database, Mechanism, Observables
from ksdp.audit.corpus.matrix import canonical, weighed
from ksdp.audit.learning.gain import gain_scores, interval, summarise_gain
from ksdp.audit.learning.learners import Learnt, learn
from ksdp.audit.learning.measures import energy
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.mechanisms.privacy.counted_svd import CountedSVD
from ksdp.audit.mechanisms.privacy.moments import Moments
from ksdp.audit.numeric.sparse_rows import take_rows
from ksdp.audit.specs.models import parse_spec
from ksdp.audit.statistic import Documents, Pool
from ksdp.flows.learning import spec_rows
from ksdp.protocols.programs.secret_draw import secret_draw
from ksdp.storage.gain_rows import gain_rows
from ksdp.storage.readers.spec_files import read_spec_file

NEWS = "online-news-popularity"
TABLES = ("covertype", NEWS)
CORPORA, RATED = (*TEXTS, *TABLES), "movielens-1m"
HELD_OUT, SHARES = 0.2, (0.1, 0.2)
MECHANISM = PDSVD(rank=RANK, opens="final")


def run(corpora: Sequence[str], splits: int) -> None:
    """Print what each share keeps, corpus by corpus."""
    for name in corpora:
        raw, party = read(name)
        rows = exact_rows(name, raw, party)
        drawing = _TableDraw(raw, party, _units(raw)) if name in TABLES else _CountDraw(raw, party)
        print(f"{name}: {raw.shape[0]:,} documents, {len(np.unique(party))} parties", flush=True)
        kept: dict[str, list[float]] = {}
        own: dict[str, list[float]] = {}
        for split in range(splits):
            _measure(rows, party, np.random.default_rng([SEED, split]), kept, own, drawing)
        ratio = HELD_OUT / (1 - HELD_OUT)
        for what, values in kept.items():
            found = interval(values, ratio)
            print(f"  {what:28} kept {found.mean:.3f} ({found.low:.3f} to {found.high:.3f})", flush=True)
        for what, values in own.items():
            print(f"  {what:28} energy of a party's own held-out documents {np.mean(values):.4f}", flush=True)
        if name == NEWS:
            _news(splits)


def read(name: str) -> tuple[sp.csr_array, NDArray[np.str_]]:
    """The counts or the numbers of a corpus, and who holds each row."""
    return _table(name) if name in TABLES else _counts(name)


def exact_rows(name: str, raw: sp.csr_array, party: NDArray[np.str_]) -> sp.csr_array:
    """Rows as the exact run weighs them: a table in its own units, counts by tf-idf over all."""
    if name in TABLES:
        return _standardised(raw, _units(raw))
    return weighed(raw, party, "tf-idf", "global", "l2", None)


def attack(names: Sequence[str]) -> None:
    """Print what single runs of each corpus give away (`attacked`)."""
    for name in names:
        attacked(name)


def attacked(name: str, documents: int = 600, share: float = 0.2, runs: int = 8) -> None:
    """Print what single runs give away: half of some documents is held, a secret draw of these is in a run.

    First the equations of the first rounds are solved for everybody at once; then the counts alone.
    """
    rng = np.random.default_rng(SEED)
    rows = _rated() if name == RATED else _counts(name)[0]
    rows = take_rows(rows, np.sort(rng.choice(rows.shape[0], documents, replace=False)))
    mechanism, pool = CountedSVD(rank=RANK), Pool(rows, 0.5 * share)
    holds, draws, scores = [], [], []
    for _ in range(runs):
        held = rng.random(documents) < 0.5
        key = Ed25519PrivateKey.from_private_bytes(rng.bytes(32))
        drawn = np.array(held)
        drawn[held] = secret_draw(key, map(str, np.flatnonzero(held)), share)
        seen = mechanism.run(Database((take(rows, drawn),)), rng)
        known = Documents(rows, pool=replace(pool, mechanism=mechanism))
        solved = mechanism.statistics[0].evaluate(Observables(seen), known)
        here = sp.csr_array((rows != 0).T, dtype=np.float64)
        inverse = lsqr(here, seen["counts"][:-1], damp=1e-3, iter_lim=300)[0]
        scores.append((solved, inverse))
        holds.append(held)
        draws.append(drawn)
    for place, what in enumerate(("equations of rounds", "counts alone")):
        told = np.concatenate([score[place] for score in scores])
        of_in, of_held = (
            ks_2samp(told[bits], told[~bits]).statistic for bits in (np.concatenate(draws), np.concatenate(holds))
        )
        print(
            f"{name}, {what}: D of who is in {of_in:.3f}, of who is held {of_held:.3f} (share {share:g})",
            flush=True,
        )


def _rated() -> sp.csr_array:
    """The films that each user has rated."""
    table = pd.read_parquet(data_folder() / RATED / "ratings.parquet")
    users, films = (np.unique(table[key], return_inverse=True)[1] for key in ("user_id", "item_id"))
    return canonical(sp.csr_array((table["rating"].to_numpy(np.float64), (users, films))))


def _news(splits: int) -> None:
    """The same of the table, by the product's own gain."""
    with tempfile.TemporaryDirectory() as folder:
        news_parts.main([str(data_folder() / NEWS), folder])
        read, base = read_spec_file(Path(folder) / "news.toml")
        tables = read.tables() | {"gain": {"splits": splits, "target": "log_shares"}}
        settings: list[tuple[str, Mechanism, dict[str, float]]]
        settings = [(f"draw {share:g}", MECHANISM, {"drawn": share}) for share in SHARES]
        settings.append(("moments, advantage 0.2", Moments(rank=RANK, advantage=0.2, colluders=1), {}))
        for what, mechanism, levers in settings:
            corpus = tables["corpus"] | {"levers": tables["corpus"].get("levers", {}) | levers}
            spec = parse_spec(tables | {"corpus": corpus})
            rows = gain_rows(spec_rows(spec, base), spec, nonnegative=False)
            scores = list(gain_scores(mechanism, rows, spec.gain, SEED))
            for found in summarise_gain(scores, mechanism.name, spec.gain, True).measures:
                gain, exact = found.gain, found.exact.mean - found.alone.mean
                print(
                    f"{NEWS}, {what}, {found.measure}: {gain.mean:+.4f} ({gain.low:+.4f} to {gain.high:+.4f}) "
                    f"over working alone; the exact run {exact:+.4f}",
                    flush=True,
                )


def _counts(name: str) -> tuple[sp.csr_array, NDArray[np.str_]]:
    """The counts of a corpus, and who holds each document; of a corpus without parties three that are alike."""
    path, keys = f"$KSDP_DATA/{name}", dict(TEXTS[name])
    if "labels" in keys:
        keys["labels"] = f"{path}/{keys['labels']}"
    corpus = keys | {"path": f"{path}/counts.npz", "vocabulary": f"{path}/vocabulary.txt", "weighting": "counts"}
    spec = parse_spec({"corpus": corpus, "mechanism": {"name": "pd-svd"}, "seed": SEED})
    raw: Any = spec_rows(spec, ROOT)
    party = raw.labels.party
    if party is None:
        party = np.array([f"alike {place % 3}" for place in range(raw.matrix.shape[0])])
    return raw.matrix, party


def _table(name: str) -> tuple[sp.csr_array, NDArray[np.str_]]:
    """The numbers of a table, and who holds each row."""
    if name == NEWS:
        with tempfile.TemporaryDirectory() as folder:
            news_parts.main([str(data_folder() / NEWS), folder])
            rows = pd.read_parquet(Path(folder) / "articles.parquet")
        return sp.csr_array(rows.iloc[:, 3:].to_numpy(np.float64)), rows["channel"].to_numpy(np.str_)
    rows = pd.read_parquet(data_folder() / name / "table.parquet")
    wild = rows.filter(like="Wilderness").to_numpy().argmax(axis=1)
    numbers = pd.concat([rows.iloc[:, :10], rows.filter(like="Soil")], axis=1).to_numpy(np.float64)
    varies = numbers.std(axis=0) > 0
    return sp.csr_array(numbers[:, varies]), np.array([f"wilderness {area}" for area in wild])


def _units(rows: sp.csr_array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation of each column, by sums and squares; 1 for a column that does not vary."""
    mean = np.asarray(rows.mean(axis=0)).ravel()
    spread = np.sqrt(np.maximum(np.asarray(rows.multiply(rows).mean(axis=0)).ravel() - mean**2, 0))
    return mean, np.where(spread > 0, spread, 1.0)


def _standardised(rows: sp.csr_array, units: tuple[NDArray[np.float64], NDArray[np.float64]]) -> sp.csr_array:
    return sp.csr_array((rows.toarray() - units[0]) / units[1])


@dataclass(frozen=True, eq=False)
class _TableDraw:
    """What the second run opens of a table, in units that the first one opened of the same draw."""

    rows: sp.csr_array
    party: NDArray[np.str_]
    judged: tuple[NDArray[np.float64], NDArray[np.float64]]
    shrinks: tuple[float | None, ...] = (None,)

    def learnt(self, names: Sequence[str], drawn: NDArray[np.bool_], shrink: float | None) -> Learnt:
        """Brought back to the units in which all are judged."""
        units = _units(take(self.rows, drawn))
        parts = [_standardised(take(self.rows, drawn & (self.party == name)), units) for name in names]
        return learn_subspace(parts, sp.csr_array(sp.diags_array(units[1] / self.judged[1])))


@dataclass(frozen=True, eq=False)
class _CountDraw:
    """Counts and V that one run opens of the draw."""

    counts: sp.csr_array
    party: NDArray[np.str_]
    shrinks: tuple[float | None, ...] = (None, CountedSVD.shrink)

    def learnt(self, names: Sequence[str], drawn: NDArray[np.bool_], shrink: float | None) -> Learnt:
        """As parties run it."""
        parties = [take(self.counts, drawn & (self.party == name)) for name in names]
        return learn_subspace(parties, mechanism=CountedSVD(rank=RANK, shrink=shrink or 1e-9))


def _measure(
    rows: sp.csr_array,
    party: NDArray[np.str_],
    rng: np.random.Generator,
    kept: dict[str, list[float]],
    own: dict[str, list[float]],
    drawing: _CountDraw | _TableDraw,
) -> None:
    """One split: add what is kept, and the energy of own documents."""
    test = rng.random(len(party)) < HELD_OUT
    names = [name for name in np.unique(party) if (~test & (party == name)).sum() > RANK]
    judged = take(rows, test)
    exact = learn_subspace([take(rows, ~test & (party == name)) for name in names])
    alone = {name: learn_subspace([take(rows, ~test & (party == name))]) for name in names}
    top, bottom = energy(exact, judged), np.mean([energy(one, judged) for one in alone.values()])
    draw = rng.random(len(party))
    learnt = {"alone": alone, "exact run": dict.fromkeys(names, exact)}
    for share in SHARES:
        for shrink in drawing.shrinks:
            drawn = drawing.learnt(names, ~test & (draw < share), shrink)
            what = f"draw {share:g}{', columns shrunk' if shrink else ''}"
            kept.setdefault(what, []).append(float((energy(drawn, judged) - bottom) / (top - bottom)))
            learnt[what] = dict.fromkeys(names, drawn)
    for what, by_party in learnt.items():
        each = [energy(by_party[name], take(rows, test & (party == name))) for name in names]
        own.setdefault(what, []).append(float(np.mean(each)))


def learn_subspace(
    parties: Sequence[sp.csr_array], back: sp.csr_array | None = None, mechanism: Mechanism = MECHANISM
) -> Learnt:
    """Directions that a run with these rows gives, of all columns (`back`)."""
    return learn(mechanism, [part for part in parties if part.shape[0]], back, np.random.default_rng(SEED))


def take(matrix: sp.csr_array, mask: NDArray[np.bool_]) -> sp.csr_array:
    """Rows by a mask."""
    return take_rows(matrix, np.flatnonzero(mask))
