"""One comparison for a corpus: what each mechanism gains, what is measured and certified of it, what it costs.

The same parties, columns and documents for all. Gain is the share of held-out energy beyond working alone.
Measured D is that of a document's strongest default column, and what 95 % of the documents stay below, over
databases of half of the corpus that one party holds, everything looked at that is opened.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from ksdp.audit.corpus import Corpus, restrict
from ksdp.audit.gain_spec import GainSpec
from ksdp.audit.learning.gain import GainRows, gain_scores
from ksdp.audit.learning.gain_summary import MeasureGain, summarise_gain
from ksdp.audit.mechanisms.contract import Database, Mechanism
from ksdp.audit.mechanisms.shown import opened
from ksdp.audit.registry import make_mechanism
from ksdp.audit.reproducing.arm_tables import ArmTables, documents_arms, largest
from ksdp.audit.reproducing.outcome import Line, Outcome

_PUBLIC, _DIRECTIONS, _SHARE = 500, 30, 0.5
_SAFE = "moments"
MECHANISMS: dict[str, Mapping[str, Any]] = {
    "PD-SVD": {"name": "pd-svd"},
    "PD-SVD, V alone": {"name": "pd-svd", "opens": "final"},
    "PD-PCA, V alone": {"name": "pd-pca", "opens": "final"},
    "PD-NMF": {"name": "pd-nmf"},
    "PD-NMF, T alone": {"name": "pd-nmf", "opens": "final"},
    "noisy PD-SVD, V alone": {
        "name": "noisy",
        "mechanism": "pd-svd",
        "noise": 0.2,
        "scale": 1.0,
        "parameters": {"opens": "final"},
    },
    "Hardt-Roth, epsilon 1": {"name": "hardt-roth", "epsilon": 1.0},
    "DP-NMF, epsilon 1": {"name": "dp-nmf", "epsilon": 1.0, "delta": 1e-5},
    "FedPower, as printed": {"name": "fedpower", "epsilon": 1.0},
    "FedPower 2 (utility)": {"name": "fedpower-utility", "noise": 0.1},
    "FedPower 3 (privacy)": {"name": "fedpower-private", "epsilon": 1.0},
    "DPdisPCA, epsilon 1": {"name": "dpdispca", "epsilon": 1.0},
    "moments, advantage 0.2": {"name": _SAFE, "advantage": 0.2},
}
"""As `[mechanism]` of a spec, without the rank."""


@dataclass(frozen=True, eq=False)
class Compared:
    """One mechanism."""

    name: str
    gain: MeasureGain
    found: ArmTables
    certified: float | None
    numbers: int
    """That a run opens."""
    seconds: float
    """Of the processor, one run of all parties."""


def certified_advantage(mechanism: Mechanism, sizes: Sequence[int], features: int) -> float | None:
    """What noise proves of every attack where a document is replaced by another; None where nothing.

    From (epsilon, delta): (e^epsilon - 1 + 2 delta) / (e^epsilon + 1). A document that is replaced goes and
    another comes: where the promise is about one of these, it holds twice.
    """
    bound = getattr(mechanism, "bound", None)
    if bound is not None:
        return float(bound(features))
    claim, guarantee = getattr(mechanism, "claim", None), getattr(mechanism, "guarantee", None)
    if claim is None or guarantee is None or not guarantee.sound:
        return None
    try:
        epsilon, delta = claim(sizes, features)
    except ValueError:
        return None
    if getattr(mechanism, "adjacency", "replace-one") == "add-remove":
        epsilon, delta = 2 * epsilon, (1 + math.exp(epsilon)) * delta
    return float(min(1.0, (math.expm1(epsilon) + 2 * delta) / (math.exp(epsilon) + 1)))


def public_basis(rows: sp.csr_array) -> NDArray[np.float64]:
    """Leading right singular vectors of public rows, shape (features, directions)."""
    return np.ascontiguousarray(svds(rows, k=_DIRECTIONS, rng=np.random.default_rng(0))[2][::-1].T)


def compare(
    corpus: Corpus,
    title: str,
    *,
    documents: int = 150,
    runs: int = 200,
    rank: int = 7,
    splits: int = 2,
    wanted: Mapping[str, Mapping[str, Any]] = MECHANISMS,
    say: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Every mechanism on one corpus; 500 documents drawn from it belong to nobody and are public.

    Parameters
    ----------
    runs : int
        With each of the audited documents; as many without.
    """
    order = np.random.default_rng(0).permutation(corpus.matrix.shape[0])
    public, kept = order[:_PUBLIC], np.sort(order[_PUBLIC:])
    basis = public_basis(sp.csr_array(corpus.matrix[public]))
    private = restrict(corpus, kept)
    narrow = Corpus(sp.csr_array(private.matrix @ basis), private.ids, private.party)
    asked = GainSpec(splits=splits)
    found = []
    for name, keys in wanted.items():
        say(name)
        safe = keys["name"] == _SAFE
        held = narrow if safe else private
        parameters = {key: value for key, value in keys.items() if key != "name"}
        inner = parameters.setdefault("parameters", {}) if keys["name"] == "noisy" else parameters
        inner |= {"rank": rank}
        if keys["name"] == "noisy":
            parameters |= {"scale": 1 / math.sqrt(held.matrix.shape[1])}
        mechanism = make_mechanism(keys["name"], parameters)
        rows = GainRows(
            held.matrix, private.matrix, sp.csr_array(basis) if safe else None, private.party, basis=basis
        )
        scores = tuple(gain_scores(mechanism, rows, asked, 0))
        gain = summarise_gain(scores, name, asked, private.party is not None).measures[0]
        parts, features = _parties(held), held.matrix.shape[1]
        begin = time.process_time()
        mechanism.run(Database(parts), np.random.default_rng(0))
        seconds = time.process_time() - begin
        tests = documents_arms(held, {"name": keys["name"], **parameters}, _SHARE, documents=documents, runs=runs)
        sizes = [part.shape[0] for part in parts]
        shapes = {array.name: array.shape for array in mechanism.observables(features)}
        numbers = sum(math.prod(shapes[one]) for one in opened(mechanism, features))
        certified = certified_advantage(mechanism, sizes, features)
        found.append(Compared(name, gain, tests, certified, numbers, seconds))
    return _outcome(title, found)


def _parties(corpus: Corpus) -> tuple[sp.csr_array, ...]:
    """As the corpus names them, or three alike."""
    labels = np.arange(len(corpus.ids)) % 3 if corpus.party is None else corpus.party
    return tuple(sp.csr_array(corpus.matrix[labels == name]) for name in np.unique(labels))


def _outcome(title: str, found: Sequence[Compared]) -> Outcome:
    rows, lines = [], []
    for one in found:
        D, kept = largest(one.found.distance), one.gain.kept
        high = float(np.quantile(D, 0.95))
        rows.append(
            (
                one.name,
                round(one.gain.run.mean, 4),
                f"{one.gain.gain.mean:+.4f}",
                None if kept is None else f"{kept.mean:.0%}",
                round(float(np.median(D)), 2),
                round(high, 2),
                None if one.certified is None else round(one.certified, 2),
                f"{one.numbers:,}",
                f"{8 * one.numbers / 1e6:.2f}",
                round(one.seconds, 2),
            )
        )
        lines.append(Line(f"{title}: measured", one.name, (high,), (one.gain.gain.mean,)))
        if one.certified is not None:
            lines.append(Line(f"{title}: certified", one.name, (one.certified,), (one.gain.gain.mean,)))
    first = found[0].gain
    exact = first.exact.mean - first.alone.mean
    public = "" if first.public is None else f", public data alone {first.public.mean:.4f}"
    better = [
        one.name for one in found if one.certified is not None and one.certified <= 0.25 and one.gain.gain.mean > 0
    ]
    notes = (
        f"{title}: a party alone reaches {first.alone.mean:.4f} of the held-out energy, the exact run "
        f"{first.exact.mean:.4f} ({exact:+.4f}){public}.",
        f"Certified at 0.25 or less and better than alone: {', '.join(better) if better else 'none'}.",
    )
    columns = (
        "run",
        "energy",
        "gain",
        "of the exact gain",
        "D, median",
        "D, 95 %",
        "certified advantage",
        "numbers opened",
        "MB opened",
        "CPU s a run",
    )
    return Outcome(
        columns, tuple(rows), notes, tuple(lines), "advantage (D below which 95 % lie)", "gain over alone"
    )
