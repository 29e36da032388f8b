"""What is said of the rows before an audit."""

from pathlib import Path

import pytest

from ksdp.audit.errors import CorpusError
from ksdp.audit.planning import corpus_notes
from ksdp.audit.specs.models import Spec, parse_spec
from ksdp.flows.prepare import open_spec


def notes(folder: Path, csv: str, mechanism: dict[str, object], **corpus: object) -> list[str]:
    (folder / "mail.csv").write_text(csv)
    spec: Spec = parse_spec({"corpus": {"path": "mail.csv", **corpus}, "mechanism": mechanism})
    return corpus_notes(open_spec(spec, folder))


SVD = {"name": "pd-svd", "rank": 1}
WORDS = "id,body\n" + "".join(
    f"m{n},{'common word ' + 'abcdefgh'[n % 8] * 3 if n % 4 else ''}\n" for n in range(16)
)


def test_empty_texts_and_copies_are_counted(tmp_path: Path) -> None:
    said = notes(tmp_path, WORDS, SVD, text="body", id="id")
    assert said[0].startswith("4 rows without any feature left out, without verdicts: m0, m4, m8, ...")
    assert said[1].startswith("12 documents are copies of another")


def test_without_text_a_csv_of_texts_is_refused_and_the_key_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"name the column that holds the text \(`corpus.text`\)"):
        notes(tmp_path, WORDS, SVD)


def test_columns_taken_are_named_and_a_label_among_them(tmp_path: Path) -> None:
    table = "age,pay,label\n" + "".join(f"{20 + n},{n * n},{n % 2}\n" for n in range(10))
    (said,) = notes(tmp_path, table, SVD)
    assert said.startswith("the table's 3 columns are taken: age, pay, label. `label` looks like a label")
    assert notes(tmp_path, table, SVD, columns=["age", "pay"]) == []


def test_a_column_of_large_numbers_is_named(tmp_path: Path) -> None:
    table = "age,weight\n" + "".join(f"{20 + n},{100_000 + n * n}\n" for n in range(10))
    said = notes(tmp_path, table, {"name": "hardt-roth", "rank": 1})
    assert any(line.startswith("`weight` holds 100 % of the rows' squared length") for line in said)
    alike = notes(tmp_path, table, SVD, weighting="standardised")
    assert not any("squared length" in line for line in alike)


def test_rows_above_a_clipping_norm_are_counted(tmp_path: Path) -> None:
    table = "a,b\n" + "3,4\n" * 5 + "0.3,0.4\n0.1,0.1\n"
    mechanism = {"name": "dpdispca", "rank": 1, "row_bound": 1.0}
    said = notes(tmp_path, table, mechanism, columns=["a", "b"])
    assert said[-1].startswith("5 of 7 rows are longer than the mechanism's `row_bound` of 1 and are clipped")
    assert "over 5 times as long. Scale the rows" in said[-1]
