"""Numeric tables: one document a row, one feature a column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from ksdp.audit.errors import SpecError
from ksdp.audit.spec import CorpusSpec
from ksdp.storage.readers.columns import Columns
from ksdp.storage.readers.files import Refused
from ksdp.storage.readers.labels import named_columns


def read_table(columns: Columns, chosen: Sequence[str], *, nonnegative: bool) -> sp.csr_array:
    """Read these columns in that order; true and false count as 1 and 0.

    Raises
    ------
    CorpusError
        A column is missing or not numeric, or a number is missing, not finite or, if `nonnegative`, negative.
    """
    columns.require(chosen)
    values = [columns.numbers(name, nonnegative=nonnegative) for name in chosen]
    return sp.csr_array(np.column_stack(values))


def chosen_columns(spec: CorpusSpec, columns: Columns) -> tuple[str, ...]:
    """The columns of a table: `spec.columns`, or every numeric column except id, party and group.

    Integers, floats and decimals are numeric.

    Raises
    ------
    SpecError
        `corpus.columns` is empty or repeats a name.
    CorpusError
        There is no numeric column; or only one, beside others that may hold text.
    """
    if spec.columns is not None and (not spec.columns or len(set(spec.columns)) != len(spec.columns)):
        raise SpecError("`corpus.columns` must name at least one column, and each one once.")
    chosen = spec.columns
    if chosen is None:
        taken = named_columns(spec)
        chosen = tuple(name for name in columns.names if name not in taken and columns.numeric(name))
        others = [name for name in columns.names if name not in taken and name not in chosen]
        if spec.format == "auto" and len(chosen) == 1 and others:
            raise Refused(
                columns.path,
                f"only `{chosen[0]}` holds numbers among {columns.listed()}; name the column that holds the text "
                "(`corpus.text`), or the numeric ones (`corpus.columns`).",
            )
    if not chosen:
        raise Refused(
            columns.path,
            f"there is no numeric column among {columns.listed()}; name the column that holds the text "
            "(`corpus.text`), or encode categories as numbers first.",
        )
    return chosen
