"""Table 2 and Figure 6 of PD-ML-Lite: what p-values of documents say, by the paper's statistics and by others.

The paper takes a large p-value for privacy. Two things are wrong with that, and both are shown: a p-value of 0.03
*rejects* that nothing leaks, and a large one says that this statistic, with so few runs, saw nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ksdp.audit.corpus import Corpus
from ksdp.audit.reproducing.arm_tables import FAMILIES, ArmTables, documents_arms, largest, strongest
from ksdp.audit.reproducing.outcome import Line, Outcome

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
