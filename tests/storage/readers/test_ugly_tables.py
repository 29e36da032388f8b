"""A table as offices export them: commas, thousands, words for what is missing, dates, categories."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.specs.models import CorpusSpec
from ksdp.storage.corpora import column_names, load_corpus, rows_hash

ROWS = """Kundennr;Ort;Datum;Umsatz;Menge
1;Wien;2024-01-02;1.234,50;3
2;Graz;2024-02-01;484,09;
3;Linz;2024-03-01;k. A.;5
4;Wien;2024-01-31;-7,25;8
5;Graz;2024-05-05;2.000.000,00;1
"""
KEYS: dict[str, Any] = {
    "path": "k.csv",
    "columns": ("Umsatz", "Menge", "Datum"),
    "na_values": ("k. A.",),
    "thousands": ".",
    "missing": "median",
    "categories": {"Ort": ("Graz", "Linz", "Wien")},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "k.csv").write_text(ROWS, encoding="utf-8")
    return tmp_path


def wanted() -> pd.DataFrame:
    """By pandas, whose names the keys have."""
    table = pd.read_csv(
        io.StringIO(ROWS), sep=";", decimal=",", thousands=".", na_values=["k. A."], parse_dates=["Datum"]
    )
    days = (table["Datum"] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    numbers = table[["Umsatz", "Menge"]].assign(Datum=days)
    return pd.concat([numbers, pd.get_dummies(table[["Ort"]], dtype=float)], axis=1)


def loaded(folder: Path, **changes: Any) -> Any:
    return load_corpus(CorpusSpec.model_validate(KEYS | changes), folder, nonnegative=False)


def test_a_column_is_read_as_pandas_reads_it(folder: Path) -> None:
    table = wanted()
    np.testing.assert_allclose(loaded(folder).matrix.toarray(), table.fillna(table.median()).to_numpy())
    assert column_names(CorpusSpec.model_validate(KEYS)) == tuple(table.columns)


def test_rows_with_gaps_are_left_out_and_named(folder: Path) -> None:
    corpus = loaded(folder, missing="drop", id="Kundennr")
    np.testing.assert_allclose(corpus.matrix.toarray(), wanted().dropna().to_numpy())
    assert corpus.ids.tolist() == ["1", "4", "5"]
    assert corpus.left_out == ("2", "3")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"na_values": ()}, "row 3, column `Umsatz`: is not a number"),
        ({"thousands": None}, "row 1, column `Umsatz`: is not a number"),
        ({"missing": "refuse"}, "row 3, column `Umsatz`: the number is missing"),
        ({"categories": {"Ort": ("Graz", "Wien")}}, "row 3, column `Ort`: is no such category"),
    ],
)
def test_the_row_of_a_message_is_the_row_of_the_file(folder: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        loaded(folder, **changes)


def test_a_run_among_parties_takes_no_median_of_one_file(folder: Path) -> None:
    with pytest.raises(SpecError, match="is of one file"):
        rows_hash(CorpusSpec.model_validate(KEYS), folder)
