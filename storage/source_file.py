"""The file that a spec names, and what format it is read as."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.spec import CorpusSpec
from ksdp.storage.fetched import Copy, fetched
from ksdp.storage.readers.columns import Columns, open_columns
from ksdp.storage.readers.counts import read_vocabulary
from ksdp.storage.readers.files import extension, shown
from ksdp.storage.readers.labels import named_columns

DEMO = "demo"
WEIGHTING = {
    "counts": "tf-idf",
    "demo": "tf-idf",
    "docword": "tf-idf",
    "ratings": "counts",
    "table": "counts",
    "text": "tf-idf",
}
"""By format, where the spec does not say."""


@dataclass(frozen=True, eq=False)
class SourceFile:
    """The file of a corpus, found and opened once."""

    spec: CorpusSpec
    """How it is read; its files are paths of this machine."""
    path: Path
    kind: str
    """The format, never `auto`."""
    opened: Columns | None = None
    """Its columns, where they are open already: they decided the format, or no file holds them."""
    copies: tuple[Copy, ...] = ()
    """Of what is at URLs: removed with this object."""

    @cached_property
    def columns(self) -> Columns:
        """Its named columns."""
        return self.opened or open_columns(self.path, self.spec.encoding)

    @cached_property
    def labels(self) -> Columns | None:
        """The columns that label the rows of a matrix; None if the spec names no file of labels."""
        name = self.spec.labels
        return None if name is None else open_columns(Path(name), self.spec.encoding)

    @property
    def weighting(self) -> str:
        """How its entries are weighed: `corpus.weighting`, or the default of the format."""
        return self.spec.weighting or WEIGHTING[self.kind]


def find_source(spec: CorpusSpec, base: Path) -> SourceFile:
    """The file, and its format; what is at URLs is copied here first.

    Raises
    ------
    InputError
        If keys of the spec do not go with the format, or a URL cannot be read.
    """
    here, copies = fetched(spec, base)
    path = Path(here.path)
    kind, columns = _kind(spec, path)
    _check_keys(spec, kind, path)
    return SourceFile(here, path, kind, columns, copies)


def _kind(spec: CorpusSpec, path: Path) -> tuple[str, Columns | None]:
    """The format, and the file's columns where they had to be looked at to know it."""
    if spec.format != "auto":
        return spec.format, None
    if spec.path == DEMO:
        return DEMO, None
    if extension(path) in (".npz", ".mtx"):
        return "counts", None
    if path.name.startswith("docword") and extension(path) == ".txt":
        return "docword", None
    if spec.text is not None:
        return "text", None
    if spec.columns is not None:
        return "table", None
    columns = open_columns(path, spec.encoding)
    triplet = {spec.user, spec.item, spec.rating}
    return ("ratings" if triplet <= set(columns.names) else "table"), columns


def _check_keys(spec: CorpusSpec, kind: str, path: Path) -> None:
    """Refuse keys that would be passed over in silence."""
    named = named_columns(spec)
    if kind == DEMO and spec.path != DEMO:
        raise SpecError(f"`corpus.path` must be {DEMO!r} for the demo corpus; got {shown(path)!r}.")
    if kind == DEMO and named:
        raise SpecError("`corpus.id`, `party` and `group` must be left out: the demo corpus has its own.")
    matrix = kind in ("counts", "docword")
    if matrix and named and spec.labels is None:
        columns = ", ".join(f"`{name}`" for name in named)
        raise CorpusError(f"{shown(path)}: a count matrix has no columns {columns}; set `corpus.labels`.")
    for key, applies in (
        ("labels", matrix),
        ("vocabulary", matrix or kind in ("text", "ratings")),
        ("text", kind == "text"),
        ("columns", kind == "table"),
    ):
        if not applies and getattr(spec, key) is not None:
            raise SpecError(f"`corpus.{key}` does not apply to the format {kind!r} of {shown(path)}.")
    weighting = spec.weighting or WEIGHTING[kind]
    if weighting == "standardised" and kind != "table":
        raise SpecError(f"`corpus.weighting` standardised is for tables; {shown(path)} is read as {kind}.")
    if weighting == "tf-idf" and spec.idf == "party" and spec.party is None and kind != DEMO:
        raise CorpusError(f"{shown(path)}: `idf` is 'party' and no party column is named; set `corpus.party`.")


def column_names(spec: CorpusSpec, features: int | None = None) -> tuple[str, ...] | None:
    """Names of the columns before any lever, if the spec gives them; `features` of them, if that is known."""
    if spec.vocabulary is not None:
        return read_vocabulary(Path(spec.vocabulary), spec.encoding, features)
    return spec.columns
