"""Table 2 and Figure 6 of PD-ML-Lite, and every mechanism on one corpus: gain against leak."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from joblib import Memory
from numpy.typing import NDArray

import ksdp
from papers.data import Floats
from papers.gains import leading, rating_starts
from papers.outcome import Cell, Line, Outcome, run, say

FAMILIES = ("paper", "geometry", "rounds")
_FOUND = 0.05


def tested(
    rows: sp.csr_array, mechanism: Any, share: float, documents: int, runs: int, **settings: Any
) -> tuple[Tests, ksdp.Audit]:
    """D and p of documents drawn from the rows, in databases of a share of them, decided once and at the end.

    Every run serves all documents where that takes fewer runs than runs of their own.
    """
    kind = "shared" if 2 * documents * share >= 1 else "literal"
    how: dict[str, Any] = {"kind": kind, "looks": "end", "fresh_runs": 0, "verbose": 0, **settings}
    done = ksdp.audit(rows, mechanism, party_size=share, documents=documents, with_runs=runs, **how)
    return Tests(done.statistics), done


class Tests:
    """Tables of documents by columns: D, and log10 of its exact p."""

    def __init__(self, statistics: pd.DataFrame) -> None:
        self.distance = statistics["distance"].unstack()
        self.log10_p = statistics["log10_p"].unstack()

    def smallest(self, names: Sequence[str]) -> Floats:
        """Every document's smallest p over some columns, as the paper takes it: not corrected."""
        return np.asarray(10.0 ** self.log10_p[[*names]].min(axis=1).to_numpy())

    @property
    def corrected(self) -> Floats:
        """The smallest p over all columns, times their number (Bonferroni)."""
        return np.minimum(1.0, self.log10_p.shape[1] * self.smallest([*self.log10_p.columns]))

    @property
    def largest(self) -> Floats:
        """Every document's largest D."""
        return self.distance.max(axis=1).to_numpy()

    @property
    def strongest(self) -> str:
        """The column whose D is the largest in the median."""
        return str(self.distance.median().idxmax())


TABLE_2 = {
    "ratings": {0.005: "0.45 +- 0.16", 0.03: "0.52 +- 0.20", 0.1: "0.48 +- 0.18"},
    "topics": {0.005: "0.029 +- 0.02", 0.03: "0.044 +- 0.02", 0.1: "0.113 +- 0.07"},
}
"""As printed, by party size."""
FIGURE_6 = (0.01, 0.03, 0.1, 0.333)
_PAPERS = tuple(f"{matrix}-{what}" for matrix in "wd" for what in ("max", "sum", "square-sum"))
"""The paper's six statistics."""
TOPICS: Mapping[str, Any] = {"opens": "every round"}
RATINGS: Mapping[str, Any] = {**TOPICS, "weighted": True, "beta": 1.0, "delta": 1.0}


def table_2(
    corpora: Mapping[str, tuple[sp.csr_array, Mapping[str, Any]]],
    *,
    documents: int,
    runs: int,
    ranks: Sequence[int] = (7, 14),
    shares: Sequence[float] = tuple(TABLE_2["topics"]),
    few: tuple[int, int] = (6, 40),
    parts: Memory,
) -> Outcome:
    """p of sigma, which the paper uses; and, for fewer documents and runs, what the strongest column finds.

    `corpora` has rows and parameters of PD-NMF by `ratings` or `topics`; `few` has the documents and runs of the
    second.
    """
    audited = parts.cache(_literal)
    rows, lines, notes = [], [], []
    for (name, (matrix, parameters)), rank in itertools.product(corpora.items(), ranks):
        seen, medians = [], []
        for share in shares:
            say(f"{name}, k = {rank}, parties of {share:.1%}")
            how = {**parameters, "rank": rank}
            sigma = audited(matrix, share, documents, runs, ["paper"], how)
            tests = audited(matrix, share, *few, [*FAMILIES[:2]], how)
            p, corrected = sigma.smallest(("sigma",)), tests.corrected
            seen.append(float((corrected < _FOUND).mean()))
            medians.append(float(np.median(tests.largest)))
            numbers = (
                f"{p.mean():.2f} +- {p.std():.2f}",
                f"{(p < _FOUND).mean():.0%}",
                round(float(sigma.distance["sigma"].median()), 2),
                tests.strongest,
                round(medians[-1], 2),
                f"{np.median(corrected):.1g}",
                f"{seen[-1]:.0%}",
            )
            rows.append((name, rank, f"{share:.1%}", TABLE_2[name].get(share), *numbers))
        x = tuple(100 * share for share in shares)
        lines.append(Line(f"{name}, k = {rank}", "documents found by the default columns", x, tuple(seen)))
        lines.append(Line(f"{name}, k = {rank}", "D of the strongest column, median", x, tuple(medians)))
        notes.append(
            f"{name}, k = {rank}: columns that read what the run announces find "
            + ", ".join(f"{share:.0%} at {size:.1%}" for share, size in zip(seen, shares, strict=True))
            + " (p below 0.05 after Bonferroni)."
        )
    notes.append(
        f"p of sigma is of {documents} documents and {runs} + {runs} runs each; the other columns are of {few[0]} "
        f"documents and {few[1]} + {few[1]} runs, since for ratings they take a second a run. Columns that read "
        "rounds before the end are left out: they find more, and take longer."
    )
    printed = [size for size, text in TABLE_2["topics"].items() if float(text.split()[0]) < _FOUND]
    notes.append(
        "The paper's own topic rows at "
        + " and ".join(f"{size:.1%}" for size in printed)
        + " have p below 0.05: they reject that nothing leaks, where the paper reads them as private."
    )
    columns = (
        "data | k | party | paper: p of sigma | ours: p of sigma | below 0.05 | "
        "D of sigma, median | strongest column | its D, median over documents | its p, Bonferroni, median | found"
    )
    return Outcome(columns, rows, notes, lines, "party size (%)", "share; D", ("x",))


def _literal(
    matrix: sp.csr_array, share: float, documents: int, runs: int, families: list[str], how: Mapping[str, Any]
) -> Tests:
    """An audit of PD-NMF whose runs serve one document each."""
    return tested(matrix, "pd-nmf", share, documents, runs, kind="literal", families=families, **how)[0]


def figure_6(
    corpora: Mapping[str, sp.csr_array],
    *,
    documents: int,
    runs: int,
    rank: int = 7,
    shares: Sequence[float] = FIGURE_6,
) -> Outcome:
    """Smallest p over the paper's W and D statistics, Sigma hidden and revealed; and the strongest column."""
    rows, lines, notes = [], [], []
    families = [*FAMILIES, "paper-blocks"]
    for name, matrix in corpora.items():
        means: dict[str, list[float]] = {"hidden": [], "revealed": []}
        caught = []
        for share in shares:
            row: list[str | float] = [name, f"{share:.1%}"]
            for way, mechanism in (("hidden", "pd-svd"), ("revealed", "sigma-svd")):
                say(f"{name}, parties of {share:.1%}, Sigma {way}")
                tests, _ = tested(
                    matrix, mechanism, share, documents, runs, rank=rank, opens="final", families=families
                )
                suffix = "" if way == "hidden" else "-revealed"
                p = tests.smallest([column + suffix for column in _PAPERS])
                means[way].append(float(p.mean()))
                row.append(f"{p.mean():.3f} +- {p.std():.2f}")
            caught.append(float((tests.corrected < _FOUND).mean()))
            rows.append((*row, tests.strongest, round(float(np.median(tests.largest)), 2), f"{caught[-1]:.0%}"))
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
    columns = "data | party | smallest p, Sigma hidden | Sigma revealed | strongest column | its D, median | found"
    axes = ("party size (%)", "smallest p, mean", ("x", "y"))
    return Outcome(columns, rows, notes, lines, *axes)


STARTS = ("random", "random-2x", "nnsvd", "best-of-m", "pd-nmf-init")


def starts(
    rows: sp.csr_array,
    ratings: sp.csr_array,
    *,
    documents: int,
    runs: int,
    rank: int = 7,
    sweeps: int = 20,
    wanted: Sequence[str] = STARTS,
) -> Outcome:
    """What each start of PD-NMF leaks, on text and on ratings, and the RMSE that three parties end with."""
    table: list[tuple[Cell, ...]] = []
    found: dict[tuple[str, str], float] = {}
    errors = rating_starts(ratings, wanted, rank, sweeps)
    tasks: dict[str, tuple[sp.csr_array, dict[str, Any]]] = {"text": (rows, {}), "ratings": (ratings, {**RATINGS})}
    for (task, (matrix, parameters)), start in itertools.product(tasks.items(), wanted):
        row: list[Cell] = [task, start, errors[start] if task == "ratings" else None]
        for opens in ("final", "every round"):
            say(f"{task}, {start}, {opens}")
            how = {**parameters, "rank": rank, "sweeps": sweeps, "start": start, "opens": opens}
            tests, _ = tested(matrix, "pd-nmf", 0.5, documents, runs, families=[*FAMILIES], **how)
            found[start, f"{task}, {opens}"] = float((tests.corrected < _FOUND).mean())
            row += [round(float(np.median(tests.largest)), 2), f"{found[start, f'{task}, {opens}']:.0%}"]
        table.append(tuple(row))
    notes = [
        f"{case}: "
        + ", ".join(f"{start} {found[start, case]:.0%}" for start in wanted)
        + " of the documents are found (p below 0.05 after Bonferroni)."
        for case in dict.fromkeys(case for _, case in found)
    ]
    ours = ", ".join(f"{start} {errors[start]:.4f}" for start in wanted)
    notes.append(f"RMSE of hidden ratings by start: {ours}.")
    columns = "data | start | RMSE | D, final output alone | found | D, every round | found"
    return Outcome(columns, table, notes)


_PUBLIC, _DIRECTIONS, _SHARE, _HELD_OUT, _CERTIFIED = 500, 30, 0.5, 0.1, 0.25
_SAFE = "moments"
MECHANISMS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "PD-SVD": ("pd-svd", TOPICS),
    "PD-SVD, V alone": ("pd-svd", {"opens": "final"}),
    "PD-PCA, V alone": ("pd-pca", {"opens": "final"}),
    "PD-PCA, own means, V alone": ("pd-pca", {"opens": "final", "centre": "own"}),
    "PD-NMF": ("pd-nmf", TOPICS),
    "PD-NMF, T alone": ("pd-nmf", {"opens": "final"}),
    "noisy PD-SVD, V alone": ("noisy", {"mechanism": "pd-svd", "noise": 0.2}),
    "Hardt-Roth, epsilon 1": ("hardt-roth", {**TOPICS, "epsilon": 1.0}),
    "DP-NMF, epsilon 1": ("dp-nmf", {**TOPICS, "epsilon": 1.0, "delta": 1e-5}),
    "FedPower, as printed": ("fedpower", {**TOPICS, "epsilon": 1.0}),
    "FedPower 2 (utility)": ("fedpower-utility", {**TOPICS, "noise": 0.1}),
    "FedPower 3 (privacy)": ("fedpower-private", {**TOPICS, "epsilon": 1.0}),
    "DPdisPCA, epsilon 1": ("dpdispca", {**TOPICS, "epsilon": 1.0}),
    "moments, advantage 0.2": (_SAFE, {"advantage": 0.2}),
}


def energy(basis: Floats, rows: sp.csr_array, mean: Floats | None = None) -> float:
    """Share of the rows' energy in the row space of a basis, about a mean where there is one."""
    _, singular, right = np.linalg.svd(basis, full_matrices=False)
    directions = right[singular > 1e-12 * singular[0]].T
    inside, total = np.asarray(rows @ directions), float((rows.data**2).sum())
    if mean is not None:
        inside = inside - mean @ directions
        total += rows.shape[0] * float(mean @ mean) - 2 * float(np.asarray(rows.sum(axis=0)).ravel() @ mean)
    return float((inside**2).sum()) / total


def _parts(rows: sp.csr_array, labels: NDArray[np.str_]) -> list[sp.csr_array]:
    return [sp.csr_array(rows[labels == name]) for name in np.unique(labels)]


def compare(
    rows: sp.csr_array,
    party: NDArray[np.str_],
    title: str,
    *,
    documents: int,
    runs: int,
    rank: int = 7,
    splits: int = 2,
    wanted: Mapping[str, tuple[str, Mapping[str, Any]]] = MECHANISMS,
) -> Outcome:
    """Every mechanism on one corpus; 500 documents drawn from it belong to nobody and are public."""
    order = np.random.default_rng(0).permutation(rows.shape[0])
    public, kept = order[:_PUBLIC], np.sort(order[_PUBLIC:])
    basis = leading(sp.csr_array(rows[public]), _DIRECTIONS)
    rows, party = sp.csr_array(rows[kept]), party[kept]
    drawn = [rng.random(len(party)) < _HELD_OUT for rng in np.random.default_rng(0).spawn(splits)]
    learnt = [(sp.csr_array(rows[~out]), party[~out], sp.csr_array(rows[out])) for out in drawn]
    alone = np.mean([energy(leading(part, rank), test) for some, of, test in learnt for part in _parts(some, of)])
    exact = np.mean([energy(leading(some, rank), test) for some, _, test in learnt])
    known = np.mean([energy(basis[:rank], test) for _, _, test in learnt])
    table, lines, better = [], [], []
    for name, (mechanism, given) in wanted.items():
        say(name)
        lift = basis if mechanism == _SAFE else None
        narrow = rows if lift is None else sp.csr_array(rows @ lift.T)
        parameters = {"rank": rank, **given}
        if mechanism == "noisy":
            inner = {"rank": rank, "opens": "final"}
            parameters = {**given, "scale": 1 / math.sqrt(narrow.shape[1]), "parameters": inner}
        made, energies = ksdp.mechanism(mechanism, **parameters), []
        for number, (some, of, test) in enumerate(learnt):
            seen = run(made, _parts(some if lift is None else sp.csr_array(some @ lift.T), of), number)
            found = seen["V"] if "V" in seen else seen["T"]
            energies.append(energy(found if lift is None else found @ lift, test, seen.get("mean")))
        begin = time.process_time()
        run(made, _parts(narrow, party))
        seconds = time.process_time() - begin
        tests, audit = tested(narrow, made, _SHARE, documents, runs, families=[*FAMILIES])
        promise = next((bound for bound in audit.summary.bounds if bound.by == "noise"), None)
        certified, gain = None if promise is None else promise.largest, float(np.mean(energies) - alone)
        numbers = sum(math.prod(release.shape) for release in made.releases(narrow.shape[1]) if release.recorded)
        high = float(np.quantile(tests.largest, 0.95))
        lines.append(Line(f"{title}: measured", name, (high,), (gain,)))
        if certified is not None:
            lines.append(Line(f"{title}: certified", name, (certified,), (gain,)))
            better += [name] if certified <= _CERTIFIED and gain > 0 else []
        table.append(
            (
                name,
                round(float(np.mean(energies)), 4),
                f"{gain:+.4f}",
                f"{gain / (exact - alone):.0%}",
                round(float(np.median(tests.largest)), 2),
                round(high, 2),
                None if certified is None else round(certified, 2),
                f"{numbers:,}",
                round(seconds, 2),
            )
        )
    notes = (
        f"{title}: a party alone reaches {alone:.4f} of the held-out energy, the exact run {exact:.4f} "
        f"({exact - alone:+.4f}), public data alone {known:.4f}.",
        f"Certified at {_CERTIFIED} or less and better than alone: {', '.join(better) if better else 'none'}.",
    )
    columns = (
        "run | energy | gain | of the exact gain | D, median | "
        "D, 95 % | certified advantage | numbers recorded | CPU s a run"
    )
    axes = ("advantage (D below which 95 % lie)", "gain over alone")
    return Outcome(columns, table, notes, lines, *axes)
