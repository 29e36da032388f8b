"""The tables of audits of several views: `views/<id>.parquet`, one row a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ksdp.audit.errors import NotFound
from ksdp.audit.verdicts.verdict import Proof, Verdict
from ksdp.audit.views import ViewVerdicts
from ksdp.storage.audits.history import views_table
from ksdp.storage.codec import check_checksum
from ksdp.storage.findings import VIEWS, ViewsRow
from ksdp.storage.store import Store

if TYPE_CHECKING:
    from ksdp.audit.views import Combined

_OF_THE_VIEW = ("statistic", "distance", "band_low", "band_high", "n_with", "n_without")


def view_verdicts(table: pa.Table) -> ViewVerdicts:
    """The verdicts of a view's audit, as `combine` takes them."""
    verdict = np.array(table["verdict"].to_pylist(), dtype=np.str_)
    adjusted, below = (table[name].to_numpy() for name in ("log10_adjusted_p", "log10_p_below"))
    every_attack = np.array([proof == Proof.EVERY_ATTACK for proof in table["proof"].to_pylist()], np.bool_)
    return ViewVerdicts(verdict, adjusted, below, every_attack)


def write_view_verdicts(
    store: Store, name: str, names: Sequence[str], verdicts: Sequence[pa.Table], combined: Combined
) -> None:
    """Write one row a document: what all views say together, and the strongest evidence.

    Parameters
    ----------
    names : names of the views
    verdicts : the verdicts of each view's audit, same documents in the same order
    combined : over all views
    """
    rows, best = np.arange(len(combined.verdict)), combined.view
    labels = np.array(names, dtype=object)

    def of_best(column: str) -> Any:
        values = [np.asarray(table[column].to_numpy(zero_copy_only=False)) for table in verdicts]
        return np.stack(values)[best, rows]

    def listed(chosen: np.ndarray) -> pa.Array:
        return pa.array([labels[column].tolist() for column in chosen.T], pa.list_(pa.string()))

    def largest(column: str) -> Any:
        return np.fmax.reduce([table[column].to_numpy() for table in verdicts])

    columns = {
        "document": verdicts[0]["document"].combine_chunks(),
        "verdict": combined.verdict.astype(object),
        "proof": [
            (Proof.EVERY_ATTACK if sure else Proof.STATISTICS).value if verdict == Verdict.CLEAR else None
            for verdict, sure in zip(combined.verdict.tolist(), combined.every_attack.tolist(), strict=True)
        ],
        "log10_adjusted_p": combined.log10_adjusted,
        "log10_adjusted_p_below": combined.log10_adjusted_below,
        "detected": np.any([table["detected"].to_numpy(zero_copy_only=False) for table in verdicts], axis=0),
        "view": labels[best],
        **{column: of_best(column) for column in _OF_THE_VIEW},
        "largest_band_high": largest("largest_band_high"),
        "runs_to_decide": np.where(combined.verdict == Verdict.UNDECIDED, largest("runs_to_decide"), np.nan),
        "sensitive_in": listed(combined.sensitive_in),
        "clear_in": listed(combined.clear_in),
    }
    VIEWS.write(views_table(store, name), columns)


def read_view_verdicts(store: Store, name: str) -> pa.Table:
    """One row per document, as `write_view_verdicts` wrote it."""
    return VIEWS.read(views_table(store, name), f"views {name!r}")


def read_strongest(store: Store, name: str, count: int) -> list[ViewsRow]:
    """The sensitive ones of the smallest adjusted p, `count` at most; the rest of the table is not read."""
    path = check_checksum(views_table(store, name), f"views {name!r}")
    from pyarrow import dataset  # half a second of imports

    table = dataset.dataset(path, format="parquet")
    few = table.to_table(columns=["verdict", "log10_adjusted_p"])
    sensitive = np.flatnonzero(pc.equal(few["verdict"], "sensitive").to_numpy())
    order = np.argsort(few["log10_adjusted_p"].to_numpy()[sensitive], kind="stable")[:count]
    return VIEWS.rows(table.take(sensitive[order]))


def read_view_document(store: Store, name: str, document: str) -> ViewsRow:
    """One row of `read_view_verdicts`."""
    rows = read_view_verdicts(store, name)
    mine = VIEWS.rows(rows.filter(pc.equal(rows["document"], document)))
    if not mine:
        raise NotFound(f"the views {name!r} have no document {document!r}.")
    return mine[0]
