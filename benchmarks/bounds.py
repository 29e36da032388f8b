"""All bounds of whole commands in one table, beside commit 9962f76: how many times fewer, and what is asked.

::

    python -m benchmarks bounds                 # an hour on two idle cores
    python -m benchmarks bounds --quick         # small audits of today's code alone; two minutes
    python -m benchmarks bounds --spec examples/specs/kos-svd.toml --whole 20

Whole audits are those of `benchmarks.speed`. Small audits are of mails and terms of enron-mail6 that are taken out
here, as 9962f76 has no levers; half of the mails are in each run. Their command names no workers; 9962f76 starts
some in any case, and a server. It knew no rounds of PD-SVD, so that its one audit of V stands beside both of
today's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks import ROOT, data_folder
from benchmarks.speed import REFERENCE, SPECS, Spent, audit, both, reference

TIMES = {"enron-mail6-svd": 4.6, "enron-mail6-nmf": 2.0, "20newsgroups-svd": 3.8, "20newsgroups-nmf": 2.0}
"""How many times fewer CPU seconds are asked of whole audits."""
STORE = {"enron-mail6-svd": 2.0, "enron-mail6-nmf": 2.0}
"""GB of store, at most."""
SMALL, COLD = 15.0, 40.0
"""Seconds of a small audit, with kernels that are compiled and with none, at most."""
DOCUMENTS = TERMS = 300
KINDS = {
    "PD-SVD, final output": ("pd-svd", 'opens = "final"\n'),
    "PD-SVD, every round": ("pd-svd", ""),
    "PD-NMF, every sweep": ("pd-nmf", ""),
}
"""Mechanism, and what 9962f76 cannot be told."""
_SPEC = """seed = 7
[corpus]
path = "{path}"
weighting = "tf-idf"
[mechanism]
name = "{name}"
rank = 5
{more}[design]
party_size = 0.5
with_runs = 200
"""


@dataclass(frozen=True)
class Bound:
    """One measured number, and what is asked of it."""

    what: str
    now: float
    then: float | None = None
    most: float | None = None
    """That `now` may be."""
    fewer: float | None = None
    """That `then` must be as large as, in units of `now`."""

    @property
    def kept(self) -> bool | None:
        """Whether it is as asked; None where nothing is, or nothing stands beside it."""
        if self.most is not None:
            return self.now <= self.most
        return None if self.fewer is None or self.then is None else self.then >= self.fewer * self.now


HEAD = ("bound", REFERENCE, "now", "times fewer", "asked", "kept")


def row(bound: Bound) -> str:
    """A row of the table, as documents hold it."""
    then = "" if bound.then is None else _number(bound.then)
    ratio = "" if bound.then is None else f"{bound.then / bound.now:.2f}"
    asked = "" if bound.most is None else f"at most {bound.most:g}"
    asked = asked if bound.fewer is None else f"{bound.fewer:g} times fewer"
    kept = {None: "", True: "yes", False: "**no**"}[bound.kept]
    return f"| {' | '.join((bound.what, then, _number(bound.now), ratio, asked, kept))} |"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100.0 else f"{value:.3g}"


def small_corpus(counts: sp.csr_array, documents: int, terms: int, seed: int = 7) -> sp.csr_array:
    """The terms that most documents hold, and documents drawn from those that hold one of them."""
    held = np.bincount(counts.indices, minlength=counts.shape[1])
    columns = np.sort(np.argsort(-held, kind="stable")[:terms])
    narrow = counts[:, columns]
    pool = np.flatnonzero(np.diff(narrow.indptr))
    return narrow[np.sort(np.random.default_rng(seed).choice(pool, documents, replace=False))]


def _whole(specs: Sequence[str], workers: int, with_runs: int) -> Iterator[Bound]:
    """Whole audits under both."""
    for spec in specs:
        spent = dict(both(spec, workers, with_runs))
        then, now = spent["then"], spent["now"]
        yield Bound(f"{spec}, CPU s", now.cpu, then.cpu, fewer=TIMES.get(spec))
        yield Bound(f"{spec}, clock s", now.clock, then.clock)
        yield Bound(f"{spec}, GB of store", now.store, then.store, STORE.get(spec))


def _small(workers: int, quick: bool) -> Iterator[Bound]:
    """Small audits with compiled kernels, then with none."""
    counts = sp.csr_array(sp.load_npz(data_folder() / "enron-mail6" / "counts.npz"))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        sp.save_npz(home / "counts.npz", small_corpus(counts, DOCUMENTS, TERMS))
        then: dict[str, Spent] = {}
        for kind, (name, more) in KINDS.items():
            if not quick and name not in then:
                then[name] = _twice(reference(), _spec(home, name, ""), workers)
            now, before = _twice(ROOT, _spec(home, name, more)), then.get(name)
            yield Bound(f"small, {kind}, CPU s", now.cpu, before.cpu if before else None, SMALL)
            yield Bound(f"small, {kind}, clock s", now.clock, before.clock if before else None, SMALL)
        for kind, (name, more) in KINDS.items():
            with tempfile.TemporaryDirectory() as empty:
                cold = audit(
                    ROOT, _spec(home, name, more), Path(empty) / "store", NUMBA_CACHE_DIR=f"{empty}/kernels"
                )
            yield Bound(f"small, kernels not compiled, {kind}, CPU s", cold.cpu, most=COLD)
            yield Bound(f"small, kernels not compiled, {kind}, clock s", cold.clock, most=COLD)


def _spec(home: Path, name: str, more: str) -> Path:
    path = home / "small.toml"
    path.write_text(_SPEC.format(path=home / "counts.npz", name=name, more=more))
    return path


def _twice(tree: Path, spec: Path, workers: int | None = None) -> Spent:
    """The second of two audits: the first compiles what is not compiled yet."""
    with tempfile.TemporaryDirectory() as stores:
        return [audit(tree, spec, Path(stores) / name, workers) for name in ("first", "second")][1]


def run(specs: Sequence[str] = (), workers: int = 2, with_runs: int = 200, *, quick: bool = False) -> None:
    """Print the table, a row when it is measured."""
    print(f"| {' | '.join(HEAD)} |\n{'|---' * len(HEAD)}|", flush=True)
    for bounds in (() if quick else _whole(specs or SPECS, workers, with_runs), _small(workers, quick)):
        for bound in bounds:
            print(row(bound), flush=True)
