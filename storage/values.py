"""The values behind any document's tests, read from stored blocks without making the audit's plan again.

Everything needed stands in `audit.json`: the folder of the runs is named by the key of their blocks, the folder of
the values by the statistics and their versions, and the blocks by how many runs there are and how many each holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ksdp.audit.design import Block
from ksdp.audit.errors import DamagedBlock, StoreError
from ksdp.storage.blocks import ROW_GROUP, read_values
from ksdp.storage.findings import Curve
from ksdp.storage.store import Store, content_key

__all__ = ["read_arms", "values_bytes"]


def _lanes(summary: Mapping[str, Any]) -> int:
    """`literal` has a lane for each document; the other designs have one."""
    return int(summary["documents"]) if summary["design"]["kind"] == "literal" else 1


def _blocks(summary: Mapping[str, Any], lane: int) -> Iterator[Block]:
    runs, size = summary["runs"] // _lanes(summary), summary["provenance"]["runs_a_block"]
    for start in range(0, runs, size):
        yield Block(lane, start, min(start + size, runs))


def values_bytes(summary: Mapping[str, Any], statistics: int) -> int:
    """Bytes that `read_arms` reads, about: what a row group of every block holds of these statistics."""
    each = 4 if summary["spec"]["store"]["precision"] == "float32" else 8
    rows = 32 if _lanes(summary) > 1 else min(ROW_GROUP, summary["documents"] + 32)
    return int(rows * (summary["runs"] // _lanes(summary)) * each * statistics)


def read_arms(
    store: Store, summary: Mapping[str, Any], document: str, place: int, statistics: Sequence[str]
) -> list[Curve]:
    """The values of a document's statistics over the runs with it and without it.

    Parameters
    ----------
    store : Store
    summary : mapping
        Of the audit, as `audit.json` holds it.
    document : str
        Its id, for the result.
    place : int
        Its row in `verdicts.parquet`, from 0.
    statistics : sequence of str
        Names; all are of the audit.

    Returns
    -------
    list of Curve
        One a statistic, in the order asked for, values ascending.

    Raises
    ------
    StoreError
        If a block is not there: values are dropped by whoever wants the space, and made again by the same audit.
    """
    lanes = _lanes(summary)
    lane, row = (place, 0) if lanes > 1 else (0, place)
    source = summary["provenance"]["runs_folder"]
    chosen = content_key({name: about["version"] for name, about in summary["statistics"].items()})
    folder = store.root / "runs" / source / "values" / chosen
    precision = summary["spec"]["store"]["precision"]
    bits, values = [], []
    for block in _blocks(summary, lane):
        try:
            inclusion, columns = read_values(
                folder, block, f"{source}/{chosen}", row // ROW_GROUP, statistics, precision
            )
        except DamagedBlock as error:
            raise StoreError(
                f"the values of audit {summary['audit']!r} are not all in the store; run the audit again."
            ) from error
        bits.append(inclusion[row % ROW_GROUP])
        values.append(np.stack([column[row % ROW_GROUP] for column in columns]))
    held, found = np.concatenate(bits), np.concatenate(values, axis=1).astype(np.float64)
    return [
        Curve(document, name, np.sort(found[at, held]), np.sort(found[at, ~held]))
        for at, name in enumerate(statistics)
    ]
