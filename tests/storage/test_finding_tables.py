"""Rows and their Arrow schemas."""

from __future__ import annotations

from dataclasses import fields

import pyarrow as pa
import pytest

from ksdp.audit.verdicts.effect_measures import Effect
from ksdp.storage.findings import (
    EFFECTS,
    STATISTICS,
    VERDICTS,
    VIEWS,
    StatisticTestRow,
    Table,
    ViewsRow,
    row_json,
)


@pytest.mark.parametrize("table", [VERDICTS, STATISTICS, EFFECTS, VIEWS])
def test_a_schema_has_the_fields_of_its_row_in_order(table: Table) -> None:
    assert table.schema.names == [f.name for f in fields(table.row)] == list(table.columns)


def test_rows_come_back_from_arrow() -> None:
    row = StatisticTestRow("d", "sigma", 1, 20, 30, 0.5, 0.25, 0.75, -3.0, -1.0, -2.0, 0.0)
    columns = {name: [value] for name, value in row_json(row).items()}
    columns["document"] = columns["statistic"] = pa.array(["d"]).dictionary_encode()
    columns["statistic"] = pa.array(["sigma"]).dictionary_encode()
    assert STATISTICS.rows(STATISTICS.of(columns)) == [row]
    assert "document" not in row_json(row, "document")


def test_what_an_effect_has_its_row_has() -> None:
    kept = {f.name for f in fields(Effect)} - {"row", "column"}
    assert set(EFFECTS.columns) == kept | {"document", "statistic"}


def test_types_are_held_to() -> None:
    assert STATISTICS.schema.field("version").type == pa.int32()
    assert VIEWS.schema.field("sensitive_in").type == pa.list_(pa.string())
    columns = {f.name: [["one"]] if f.name.endswith("_in") else [0.0] for f in fields(ViewsRow)}
    with pytest.raises(pa.ArrowException):
        VIEWS.of(columns)
    with pytest.raises(KeyError, match="clear_in"):
        VIEWS.of({name: [] for name in VIEWS.columns if name != "clear_in"})
    with pytest.raises(KeyError, match="ViewsRow has no column 'surplus'"):
        VIEWS.of({name: [] for name in (*VIEWS.columns, "surplus")})
