"""Table 2 and Figure 6 of PD-ML-Lite, and every mechanism on one corpus: gain against leak."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from ksdp.audit.contract import Database, Mechanism, Observables
from ksdp.audit.corpus.matrix import Corpus, restrict
from ksdp.audit.learning.gain import GainRows, MeasureGain, gain_scores, summarise_gain
from ksdp.audit.mechanisms.schema import recorded
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.registry import make_mechanism
from ksdp.audit.sampling import Stored, run_observables
from ksdp.audit.specs.design import Block, as_rows
from ksdp.audit.specs.models import GainSpec, parse_spec
from ksdp.audit.verdicts.laws import KSTable, ks_table
from ksdp.extras.reproduce.outcomes import Line, Outcome

FAMILIES = ("paper", "geometry", "rounds")
"""Of columns, by default."""
_OF_ROWS = 12
"""A database holds half of the documents that share runs; these are at most a twelfth of it."""


def arm_tables(
    plan: Plan, look: Callable[[Stored], None] | None = None
) -> tuple[NDArray[np.bool_], dict[str, KSTable]]:
    """Who is in which run of a plan's first lane, and every document's test by column.

    Parameters
    ----------
    look : callable, optional
        Sees what each run announces.
    """
    looked = plan.documents(0)
    values: dict[str, list[NDArray[np.float64]]] = {s.name: [] for s in plan.statistics}
    for number in range(plan.design.runs):
        stored = run_observables(plan, 0, number)
        seen = Observables({name: stored[name].astype(float) for name in plan.seen})
        for statistic in plan.statistics:
            values[statistic.name].append(statistic.evaluate(seen, looked))
        if look is not None:
            look(stored)
    bits = plan.design.inclusion(Block(0, 0, plan.design.runs))
    return bits, {
        name: ks_table(np.ascontiguousarray(np.array(column, dtype=np.float32).T), bits)
        for name, column in values.items()
    }


def distances(
    plan: Plan, look: Callable[[Stored], None] | None = None
) -> tuple[NDArray[np.bool_], dict[str, NDArray[np.float64]]]:
    """The same, D alone."""
    bits, found = arm_tables(plan, look)
    return bits, {name: table.distance for name, table in found.items()}


def largest(distance: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """Every document's largest D, of D by column."""
    return np.asarray(np.max(list(distance.values()), axis=0))


def strongest(distance: Mapping[str, NDArray[np.float64]]) -> str:
    """The column whose D is the largest in the median."""
    return max(distance, key=lambda name: float(np.median(distance[name])))


@dataclass(frozen=True, eq=False)
class ArmTables:
    """Of every document, by column: D and log10 of its exact p, shape (n_documents,)."""

    distance: Mapping[str, NDArray[np.float64]]
    log10_p: Mapping[str, NDArray[np.float64]]

    def smallest(self, names: tuple[str, ...]) -> NDArray[np.float64]:
        """Every document's smallest p over some columns, as the paper takes it: not corrected."""
        return np.asarray(10.0 ** np.min([self.log10_p[name] for name in names], axis=0))

    @cached_property
    def corrected(self) -> NDArray[np.float64]:
        """The smallest p over all columns, times their number (Bonferroni)."""
        least = np.min(list(self.log10_p.values()), axis=0)
        return np.asarray(np.minimum(1.0, len(self.log10_p) * 10.0**least))


def documents_arms(
    corpus: Corpus,
    mechanism: Mapping[str, Any],
    share: float,
    *,
    documents: int,
    runs: int,
    families: tuple[str, ...] = FAMILIES,
) -> ArmTables:
    """Test documents drawn from the corpus under databases of a share of it.

    Parameters
    ----------
    mechanism : mapping
        As `[mechanism]` of a spec.
    runs : int
        With each document; as many without, in the mean.
    """
    ids = np.random.default_rng(0).choice(corpus.ids, documents, replace=False)
    rows = as_rows(share, corpus.matrix.shape[0])
    lots = max(1, -(-documents * _OF_ROWS // (2 * rows)))
    found: dict[str, list[KSTable]] = {}
    for lot, some in enumerate(np.array_split(ids, min(lots, documents))):
        spec = parse_spec(
            {
                "seed": lot,
                "corpus": {"path": "x"},
                "mechanism": dict(mechanism),
                "design": {
                    "kind": "balanced",
                    "party_size": share,
                    "with_runs": runs,
                    "documents": [str(name) for name in some],
                },
                "statistics": {"families": list(families)},
            }
        )
        for name, table in arm_tables(make_plan(spec, corpus))[1].items():
            found.setdefault(name, []).append(table)
    return ArmTables(
        {name: np.concatenate([t.distance for t in tables]) for name, tables in found.items()},
        {name: np.concatenate([t.log10_p for t in tables]) for name, tables in found.items()},
    )


TABLE_2 = {
    "ratings": {0.005: "0.45 +- 0.16", 0.03: "0.52 +- 0.20", 0.1: "0.48 +- 0.18"},
    "topics": {0.005: "0.029 +- 0.02", 0.03: "0.044 +- 0.02", 0.1: "0.113 +- 0.07"},
}
"""As printed, by party size."""
FIGURE_6 = (0.01, 0.03, 0.1, 0.333)
_FOUND = 0.05
_PAPERS = ("w-max", "w-square-sum", "d-square-sum")
"""The paper's statistics that are told fast; its sums are left out."""
_PRINTED_SIZES = tuple(TABLE_2["topics"])


def table_2(
    corpora: Mapping[str, tuple[Corpus, Mapping[str, Any]]],
    *,
    documents: int = 50,
    runs: int = 200,
    shares: tuple[float, ...] = _PRINTED_SIZES,
    families: tuple[str, ...] = FAMILIES,
    say: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """p of sigma, which the paper uses, and of the strongest default column, for the same documents and runs.

    Parameters
    ----------
    corpora : mapping
        `ratings` or `topics` to a corpus and the mechanism's keys.
    runs : int
        With each document, and as many without.
    families : of the columns; without "rounds", what is opened before the end is not looked at
    """
    rows, lines, notes = [], [], []
    for name, (corpus, mechanism) in corpora.items():
        seen, medians = [], []
        for share in shares:
            say(f"{name}, parties of {share:.1%}")
            tables = documents_arms(corpus, mechanism, share, documents=documents, runs=runs, families=families)
            seen.append(float((tables.corrected < _FOUND).mean()))
            medians.append(float(np.median(largest(tables.distance))))
            rows.append((name, f"{share:.1%}", TABLE_2[name].get(share), *_numbers(tables)))
        x = tuple(100 * share for share in shares)
        lines.append(Line(name, "documents found by the default columns", x, tuple(seen)))
        lines.append(Line(name, "D of the strongest column, median", x, tuple(medians)))
        notes.append(
            f"{name}: of the same documents and runs, columns that read what the run announces find "
            + ", ".join(f"{share:.0%} at {size:.1%}" for share, size in zip(seen, shares, strict=True))
            + " (p below 0.05 after Bonferroni)."
        )
    if "rounds" not in families:
        notes.append("Columns that read the rounds before the end are left out: they find more, and take longer.")
    printed = [size for size, text in TABLE_2["topics"].items() if float(text.split()[0]) < _FOUND]
    notes.append(
        "The paper's own topic rows at "
        + " and ".join(f"{size:.1%}" for size in printed)
        + " have p below 0.05: they reject that nothing leaks, where the paper reads them as private."
    )
    return Outcome(_COLUMNS_2, tuple(rows), tuple(notes), tuple(lines), "party size (%)", "share; D", ("x",))


_COLUMNS_2 = (
    "data",
    "party",
    "paper: p of sigma",
    "ours: p of sigma",
    "below 0.05",
    "D of sigma, median",
    "strongest column",
    "its D, median over documents",
    "its p, Bonferroni, median",
    "found",
)


def _numbers(tables: ArmTables) -> tuple[str | float, ...]:
    """A row of Table 2 from "ours: p of sigma" on."""
    p, corrected = tables.smallest(("sigma",)), tables.corrected
    return (
        f"{p.mean():.2f} +- {p.std():.2f}",
        f"{(p < _FOUND).mean():.0%}",
        round(float(np.median(tables.distance["sigma"])), 2),
        strongest(tables.distance),
        round(float(np.median(largest(tables.distance))), 2),
        f"{np.median(corrected):.1g}",
        f"{(corrected < _FOUND).mean():.0%}",
    )


def figure_6(
    corpora: Mapping[str, tuple[Corpus, int]],
    *,
    documents: int = 200,
    runs: int = 50,
    shares: tuple[float, ...] = FIGURE_6,
    say: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Smallest p over the paper's W and D statistics, Sigma hidden and revealed; and the strongest column.

    Parameters
    ----------
    corpora : mapping
        Name to corpus and rank.
    """
    rows, lines, notes = [], [], []
    for name, (corpus, rank) in corpora.items():
        means: dict[str, list[float]] = {"hidden": [], "revealed": []}
        caught = []
        for share in shares:
            row: list[str | float] = [name, f"{share:.1%}"]
            for way, mechanism in (("hidden", "pd-svd"), ("revealed", "sigma-svd")):
                say(f"{name}, parties of {share:.1%}, Sigma {way}")
                asked = {"name": mechanism, "rank": rank, "opens": "final"}
                tables = documents_arms(corpus, asked, share, documents=documents, runs=runs)
                suffix = "" if way == "hidden" else "-revealed"
                p = tables.smallest(tuple(column + suffix for column in _PAPERS))
                means[way].append(float(p.mean()))
                row.append(f"{p.mean():.3f} +- {p.std():.2f}")
            caught.append(float((tables.corrected < _FOUND).mean()))
            most = float(np.median(largest(tables.distance)))
            rows.append((*row, strongest(tables.distance), round(most, 2), f"{caught[-1]:.0%}"))
        x = tuple(100 * share for share in shares)
        lines += [Line(name, f"Sigma {way}", x, tuple(values)) for way, values in means.items()]
        more = [a > b for a, b in zip(means["hidden"], means["revealed"], strict=True)]
        notes.append(
            f"{name}: the paper's smallest p is larger with Sigma hidden at {sum(more)} of {len(more)} sizes; the "
            f"strongest of all columns finds "
            + ", ".join(
                f"{share:.0%} of the documents at {size:.1%}" for share, size in zip(caught, shares, strict=True)
            )
            + " (Bonferroni)."
        )
    columns = (
        "data",
        "party",
        "smallest p, Sigma hidden",
        "Sigma revealed",
        "strongest column",
        "its D, median",
        "found",
    )
    return Outcome(
        columns, tuple(rows), tuple(notes), tuple(lines), "party size (%)", "smallest p, mean", ("x", "y")
    )


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
        numbers = sum(math.prod(array.shape) for array in recorded(mechanism, features))
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
