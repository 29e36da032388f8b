"""A commented spec for somebody's file: which column is what, and runs enough to certify the margin."""

from __future__ import annotations

import json
import math
import os
import re
import tomllib
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from ksdp.audit.errors import CorpusError
from ksdp.audit.opened import Opened
from ksdp.audit.planning import make_plan
from ksdp.audit.reviewing import visible
from ksdp.audit.specs.models import CorpusSpec, DecisionSpec, parse_spec
from ksdp.audit.specs.urls import is_url
from ksdp.audit.verdicts.power import runs_for_margin
from ksdp.flows.audits.forecast import before_words, known_before
from ksdp.storage.corpora import find_source, load_corpus
from ksdp.storage.files import extension, shown
from ksdp.storage.readers.columns import Columns, open_columns
from ksdp.storage.readers.counts import is_sparse
from ksdp.storage.readers.spec_files import fetched, name_at

_IDS = ("id", "message_id", "document", "doc_id", "key", "uuid")
_TEXTS = ("text", "body", "content", "message", "document", "review", "comment")
_ENDS = {
    "labels": re.compile(r"(^|[\W_])(label|target|class|outcome|response)$|^(y|(log_)?shares)$", re.IGNORECASE),
    "ids": re.compile(r"(nr|nummer|number)$|(^|[\W_])(id|no|code)$", re.IGNORECASE),
}
"""How the names of labels end, and of ids where no two rows have the same."""
_PARTIES = re.compile(
    "party|site|hospital|clinic|centre|center|organisation|organization|company|bank|branch|institution|provider|"
    "school|mailbox|channel"
)
_SPLITS, _MOST_PARTIES, _OF_A_PARTY = ("split", "fold", "set", "subset", "sample"), 20, 10
"""Names of no party; values of a column that may name parties, and the fewest rows that each has."""
_GROUPS = ("user", "author", "owner", "patient", "person", "user_id", "patient_id")
_SENTENCE = 3
"""Words a row, on average, from which a column of no usual name is taken for text."""
COLUMNS = 12
"""Approximate number of columns of a default audit, for the number of runs."""
_SHARE = 0.4
_RANK = 2
_MORE = 2
"""Times the runs that certify the margin for a document that leaks nothing: most leak a little."""
_MECHANISM = "pd-svd"
_OFFICE = "cp1252"


def spec_beside(data: str) -> Path:
    """The spec of a file where nobody names one: beside it, or in this folder where the file is at a URL."""
    return Path(name_at(data) if is_url(data) else data).with_suffix(".toml")


def profile(spec: str, folder: Path) -> list[str]:
    """A table of the columns of the file of a first spec: what each is taken for, or why it is left out."""
    corpus = parse_spec(tomllib.loads(spec)).corpus
    source = find_source(corpus, folder)
    if source.kind not in ("table", "text", "ratings"):
        return []
    columns, taken = source.columns, {corpus.id: "id", corpus.party: "party", corpus.text: "text"}
    for why, names in re.findall(r"^# (left out[^:]*): (.*)$", spec, re.MULTILINE):
        taken |= dict.fromkeys(names.split(", "), why)
    numbers = {name: np.nansum(columns.numbers(name, missing=True) ** 2) for name in corpus.columns or ()}
    total, lines = sum(numbers.values()), [f"{'column':24}  missing   values    length  taken as"]
    for name in columns.names:
        array, length = columns.read(name), numbers.get(name)
        missing = pc.sum(pc.is_null(array) if columns.typed else columns.absent(array)).as_py() or 0
        share = "" if length is None else f"{100 * length / (total or 1.0):.1f} %"
        what = taken.get(name, "left out" if length is None else "number")
        values = pc.count_distinct(array, mode="all").as_py()
        lines.append(f"{visible(name)[:24]:24} {missing:8,} {values:8,} {share:>9}  {what}")
    return lines


def first_spec(data: str, folder: Path, margin: float) -> str:
    """The text of a spec."""
    path = data if is_url(data) else os.path.relpath(Path(data).resolve(), folder)
    named = parse_spec({"corpus": {"path": path}, "mechanism": {"name": _MECHANISM}}).corpus
    here, _copies = fetched(named, folder)
    keys, notes = _corpus(Path(here.path))
    corpus = load_corpus(CorpusSpec.model_validate({"path": here.path, **keys}), folder, nonnegative=False)
    negative = bool((corpus.matrix.data < 0).any())
    rank = max(1, min(_RANK, corpus.features - 1, int(_SHARE * len(corpus)) - 1))
    enough = runs_for_margin(_SHARE, margin, len(corpus), COLUMNS, DecisionSpec(margin=margin))
    runs = 200 if enough is None else max(50, 10 * math.ceil(_MORE * enough * _SHARE / 10))
    others = "entries are negative, which pd-nmf does not take" if negative else "or pd-nmf, ..."
    size = int(_SHARE * len(corpus))
    if size < 2:
        raise CorpusError(
            f"{shown(Path(here.path))}: only {len(corpus)} of its rows hold a feature; an audit needs 5 or more."
        )
    empty = f"; {len(corpus.left_out)} rows without any are left out" if corpus.left_out else ""
    settings = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
    text = f"""# An audit of {len(corpus)} documents by {corpus.features} features{empty}.
#   ksdp plan this-file.toml       what it costs, detects and can call clear
#   ksdp audit this-file.toml      the audit
# Every key: docs/spec.md
seed = 7

[corpus]
path = {json.dumps(path)}
{settings}{notes}
[mechanism]
name = {json.dumps(_MECHANISM)}               # {others}: `ksdp mechanisms`
rank = {rank}                      # more topics or directions leak more
opens = "final"               # parties see the result alone, computed on shares; "every round" leaks more

[design]
party_size = {_SHARE}              # what one party enters: {size} documents. Fewer leak more
with_runs = {runs}               # runs with a document: twice as many as make it clear where nothing leaks

[decision]
level = 0.05                  # false discoveries among those called sensitive
margin = {margin}                  # the largest advantage that you are willing to accept
"""
    spec = parse_spec(tomllib.loads(text))
    lines = before_words(known_before(make_plan(Opened.of(spec, corpus)))) if corpus.features > rank else []
    return "".join((text, *(f"# {line}\n" for line in ("", *lines) if lines)))


def _corpus(data: Path) -> tuple[dict[str, object], str]:
    if extension(data) in (".mtx", ".txt") or is_sparse(data):
        return _beside(data), '# weighting = "counts"        # tf-idf by default\n'
    columns, keys = _opened(data)
    names = {name.lower(): name for name in columns.names}
    if {"user_id", "item_id", "rating"} <= set(columns.names):
        return keys, "# ratings: one document a user_id\n"
    numeric = {name for name in columns.names if columns.numeric(name)}
    texts = [name for name in columns.names if name not in numeric]
    text = _text(columns, names, texts)
    group = next((names[n] for n in _GROUPS if n in names and names[n] != text), None)
    counters = [name for name in columns.names if name in numeric and _counts_rows(columns, name)]
    counters += [n for n in columns.names if n not in counters and _ends(n, "ids") and _unique(columns, n)]
    identity = next((names[n] for n in _IDS if n in names and names[n] != text), None)
    if identity is None and group is not None and _unique(columns, group):
        identity, group = group, None  # one row a person
    if identity is None and text is None:
        codes = [name for name in texts if _words(columns, name) == 1]
        counters += [name for name in codes if name not in counters and _unique(columns, name)]
    if identity is None and counters:
        identity = counters[0]
    nearly = "" if identity is not None else next((n for n in columns.names if _repeats(columns, n)), "")
    party = _party(
        columns, [name for name in columns.names if name not in (text, group, identity, nearly, *counters)]
    )
    if text is not None:
        keys["text"] = text
    else:
        ids = [name for name in columns.names if name.lower() in _IDS or name.lower().endswith("_id")]
        ids += [name for name in (identity, nearly, *counters) if name and name not in ids]
        plain = numeric - {*ids, party}
        numbers = [n for n in columns.names if n in plain and not _ends(n, "labels")]
        wanted = [name for name in numbers if _whole(columns, name)]
        if not wanted:
            raise CorpusError(
                f"{shown(data)}: no column holds texts of several words, or numbers without gaps; there are "
                f"{columns.listed()}. Make categories columns of 0 and 1: `pandas.get_dummies(table, dtype=int)`."
            )
        keys["columns"] = wanted
    if identity is not None and _unique(columns, identity):
        keys["id"] = identity
    if party is not None:
        keys["party"] = party
    unnamed = "" if "id" in keys else "# no id: documents go by the numbers of their rows\n"
    one_person = 'audit what one person has as one: design.unit = "group"'
    notes = unnamed + ("" if columns.separator == "," else f"# separated by {columns.separator!r}\n")
    if nearly:
        notes += f"# {nearly} would be the id but for {_repeats(columns, nearly)} rows that repeat one\n"
    again = nearly or (identity if "id" not in keys else None)
    if again and group is None:
        group = again
        notes += f"# left out, as it repeats: {again}\n"
    notes += "" if group is None else f"# group = {json.dumps(group)}              # {one_person}\n"
    if text is not None:
        said = (text, identity if "id" in keys else None, group, party)
        others = [name for name in columns.names if name not in said]
        notes += f"# left out beside the text: {', '.join(others)}\n" if others else ""
        notes += "# take `text` away, and the numbers are audited in its place\n" if numeric & {*others} else ""
        notes += '# stop_words = "none"         # for texts that are not in English\n'
    if "columns" in keys:
        labels = [name for name in columns.names if _ends(name, "labels") and name != party]
        gaps = [name for name in numbers if name not in wanted]
        words = [name for name in texts if name not in (*ids, group, party, *labels)]
        for why, others in (
            ("as ids", [n for n in ids if n not in (identity, nearly)]),
            ("as labels", [name for name in labels if name not in numeric]),
            ("as labels, which `gain.target` may foretell", [name for name in labels if name in numeric]),
            ("as numbers are missing", gaps),
            ("as no numbers", words),
        ):
            notes += f"# left out {why}: {', '.join(others)}\n" if others else ""
        notes += "" if not gaps else '# missing = "median"          # or "drop": name them in `columns` then\n'
        if dates := [name for name in words if _whole(columns, name)]:
            notes += f"# dates, read as days where `columns` names them: {', '.join(dates)}\n"
        for name in words:
            if _parties(columns, name):
                values = json.dumps(np.unique(columns.labels(name)).tolist(), ensure_ascii=False)
                notes += f"# categories.{json.dumps(name)} = {values}\n"
        notes += 'weighting = "standardised"    # each column to mean 0 and deviation 1; "counts": as they are\n'
    return keys, notes


def _beside(data: Path) -> dict[str, object]:
    """The vocabulary and labels of a matrix of counts, where files of these names stand beside it."""
    keys: dict[str, object] = {}
    if (data.parent / "vocabulary.txt").is_file():
        keys["vocabulary"] = "vocabulary.txt"
    labels = next((p for n in ("labels.parquet", "labels.csv") if (p := data.parent / n).is_file()), None)
    if labels is None:
        return keys
    columns = open_columns(labels, "utf-8")
    identity = next((n for n in columns.names if n.lower() in _IDS and _unique(columns, n)), None)
    party = _party(columns, [name for name in columns.names if name != identity])
    named = {key: name for key, name in (("id", identity), ("party", party)) if name is not None}
    return keys | ({"labels": labels.name, **named} if named else {})


def _party(columns: Columns, names: list[str]) -> str | None:
    """The column that names whose a document is: one with a usual name, or else the only one of few words."""
    usual = [n for n in names if _PARTIES.fullmatch(n.lower()) and _parties(columns, n)]
    words = [n for n in names if not (columns.numeric(n) or _ends(n, "labels") or n.lower() in _SPLITS)]
    few = [*usual, *(name for name in words if not usual and _parties(columns, name))]
    return few[0] if usual or len(few) == 1 else None


def _parties(columns: Columns, name: str, least: int = _OF_A_PARTY, most: int = _MOST_PARTIES) -> bool:
    """Whether a column has so few values that they may be parties, with some rows each."""
    try:
        counts = np.unique(columns.labels(name), return_counts=True)[1]
    except CorpusError:
        return False
    return 2 <= len(counts) <= most and bool(counts.min() >= least)


def _ends(name: str, kind: str) -> bool:
    """Whether a column's name is that of a label, or of an id."""
    return _ENDS[kind].search(name) is not None


def _opened(data: Path) -> tuple[Columns, dict[str, object]]:
    """The file, and the key of its encoding: that of most offices in the West, where it is not UTF-8."""
    try:
        return open_columns(data, "utf-8"), {}
    except CorpusError as refused:
        try:
            return open_columns(data, _OFFICE), {"encoding": _OFFICE}
        except CorpusError:
            raise refused from None


def _text(columns: Columns, names: dict[str, str], texts: list[str]) -> str | None:
    """The column to read as text: one with a usual name, or else the one with the most words a row."""
    words = {name: _words(columns, name) for name in texts}
    named = (names[n] for n in _TEXTS if words.get(names.get(n, ""), 0) >= 2)
    longest = max(words, key=words.__getitem__, default="")
    return next(named, longest if words.get(longest, 0) >= _SENTENCE else None)


def _words(columns: Columns, name: str) -> float:
    """Words in a row, on average: addresses and codes are long, and have none."""
    try:
        texts = columns.text(name)
    except CorpusError:
        return 0.0
    return sum(len(text.split()) for text in texts) / max(len(texts), 1)


def _whole(columns: Columns, name: str) -> bool:
    """Whether a column of numbers can be read: none is missing or infinite."""
    try:
        columns.numbers(name)
    except CorpusError:
        return False
    return True


def _counts_rows(columns: Columns, name: str) -> bool:
    """Whether a column of numbers is 0, 1, 2, ... or 1, 2, 3, ...: it says which row it is, and no more."""
    try:
        numbers = columns.numbers(name)
    except CorpusError:
        return False
    first = numbers[:1].sum()
    return first in (0, 1) and len(numbers) > 2 and bool((numbers == np.arange(len(numbers)) + first).all())


def _repeats(columns: Columns, name: str) -> int:
    """In how many rows a column repeats, whose name ends as that of an id and whose values nearly are; else 0."""
    if not _ends(name, "ids") or not _parties(columns, name, least=1, most=len(columns)):
        return 0
    repeats = len(columns) - len(np.unique(columns.labels(name)))
    return repeats if repeats <= len(columns) // 10 else 0


def _unique(columns: Columns, name: str) -> bool:
    try:
        columns.labels(name, unique=True)
    except CorpusError:
        return False
    return True
