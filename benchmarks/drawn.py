"""What a secret draw keeps of the gain where everything that is opened is made of the draw itself.

::

    python -m benchmarks drawn --corpora enron-mail6 20newsgroups online-news-popularity kos --splits 10

Two runs on the same draw: the first opens in how many drawn documents each term is, the second V of the drawn
rows, weighed by these counts and with columns shrunk (`corpus.levers.shrink = 2`) or not. Both together tell no
more than the share drawn about who is held. A line a share: of the exact run's gain over working alone what is
kept, with its interval of 95 % over splits; then the energy of a party's own held-out documents: alone, in the
exact run, and in the drawn one.

Online News is a table in public units: nothing is counted, and noise (`moments`) is a second way to 0.2. A line a
setting and measure says what is gained over working alone.

Documents are judged as the exact run weighs them, by the counts of all. In each split a fifth is held out, and
every party's draw is another.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks import ROOT, data_folder, news_parts
from benchmarks.frontier import RANK, SEED, TEXTS
from ksdp.audit.contract import Mechanism
from ksdp.audit.corpus.levers import Levers, finished, lift, narrowed, shrinking
from ksdp.audit.corpus.matrix import weighed
from ksdp.audit.learning.gain import gain_scores, interval, summarise_gain
from ksdp.audit.learning.learners import Learnt, learn
from ksdp.audit.learning.measures import energy
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.mechanisms.privacy.moments import Moments
from ksdp.audit.numeric.sparse_rows import take_rows
from ksdp.audit.specs.models import parse_spec
from ksdp.flows.learning import spec_rows
from ksdp.storage.gain_rows import gain_rows
from ksdp.storage.readers.spec_files import read_spec_file

NEWS = "online-news-popularity"
CORPORA = (*TEXTS, NEWS)
HELD_OUT, SHARES, SHRINK = 0.2, (0.1, 0.2), 2.0
MECHANISM = PDSVD(rank=RANK, opens="final")


def run(corpora: Sequence[str], splits: int) -> None:
    """Print what each share keeps, corpus by corpus."""
    for name in corpora:
        if name == NEWS:
            _news(splits)
            continue
        counts, party = _counts(name)
        print(f"{name}: {counts.shape[0]:,} documents, {len(np.unique(party))} parties", flush=True)
        kept: dict[str, list[float]] = {}
        own: dict[str, list[float]] = {}
        for split in range(splits):
            _measure(counts, party, np.random.default_rng([SEED, split]), kept, own)
        ratio = HELD_OUT / (1 - HELD_OUT)
        for what, values in kept.items():
            found = interval(values, ratio)
            print(f"  {what:28} kept {found.mean:.3f} ({found.low:.3f} to {found.high:.3f})", flush=True)
        for what, values in own.items():
            print(f"  {what:28} energy of a party's own held-out documents {np.mean(values):.4f}", flush=True)


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


def _measure(
    counts: sp.csr_array,
    party: NDArray[np.str_],
    rng: np.random.Generator,
    kept: dict[str, list[float]],
    own: dict[str, list[float]],
) -> None:
    """One split: add what is kept, and the energy of own documents."""
    rows = weighed(counts, party, "tf-idf", "global", "l2", None)
    test = rng.random(len(party)) < HELD_OUT
    names = [name for name in np.unique(party) if (~test & (party == name)).sum() > RANK]
    judged = _take(rows, test)
    exact = _learnt([_take(rows, ~test & (party == name)) for name in names])
    alone = {name: _learnt([_take(rows, ~test & (party == name))]) for name in names}
    top, bottom = energy(exact, judged), np.mean([energy(one, judged) for one in alone.values()])
    draw = rng.random(len(party))
    learnt = {"alone": alone, "exact run": dict.fromkeys(names, exact)}
    for share in SHARES:
        for shrink in (None, SHRINK):
            drawn = _of_draw(counts, party, names, ~test & (draw < share), shrink)
            what = f"draw {share:g}{', columns shrunk' if shrink else ''}"
            kept.setdefault(what, []).append(float((energy(drawn, judged) - bottom) / (top - bottom)))
            learnt[what] = dict.fromkeys(names, drawn)
    for what, by_party in learnt.items():
        each = [energy(by_party[name], _take(rows, test & (party == name))) for name in names]
        own.setdefault(what, []).append(float(np.mean(each)))


def _of_draw(
    counts: sp.csr_array,
    party: NDArray[np.str_],
    names: Sequence[str],
    drawn: NDArray[np.bool_],
    shrink: float | None,
) -> Learnt:
    """What the second run opens, given the counts that the first one opened of the same draw."""
    some = _take(counts, drawn)
    frequency = np.bincount(some.indices, minlength=counts.shape[1])
    columns = np.flatnonzero(frequency)
    idf = np.array([math.log(some.shape[0] / held) for held in frequency[columns]])
    weights = None if shrink is None else shrinking(frequency[columns], shrink)
    levers = Levers(columns=columns, idf=idf, weights=weights)
    parties = []
    for name in names:
        mine = narrowed(_take(counts, drawn & (party == name)), levers)
        parties.append(finished(weighed(mine, None, "tf-idf", "public", "l2", idf), levers))
    return _learnt(parties, lift(levers, counts.shape[1]))


def _learnt(parties: Sequence[sp.csr_array], back: sp.csr_array | None = None) -> Learnt:
    return learn(MECHANISM, [part for part in parties if part.shape[0]], back, np.random.default_rng(SEED))


def _take(matrix: sp.csr_array, mask: NDArray[np.bool_]) -> sp.csr_array:
    return take_rows(matrix, np.flatnonzero(mask))
