"""Changes by a scheduled audit: documents, the verdicts as they stand, and their drift against earlier audits.

::

    schedules/<name>/standing/<run>.parquet         one row a document: its verdict and the audit it came from
                     drift/<audit>-verdicts.parquet one row a verdict that changed
                           <audit>-distances.parquet one row a (document, statistic) measured before and now
                           <audit>.json             their summary

A history line names the standing file that belongs to it: a file that none names was never finished with.

Whether a document has changed is a keyed hash of what its file says of it, not of its row of the corpus: with
tf-idf one more document changes every row. The key is a secret of the store, as short texts could be guessed.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as stored_dataclass

from ksdp.audit.corpus.matrix import canonical
from ksdp.audit.errors import StoreError
from ksdp.audit.results.parts import FORMAT
from ksdp.audit.results.summary import VERSION, StoredSummary
from ksdp.audit.specs.content_keys import content_key
from ksdp.audit.specs.models import CorpusSpec
from ksdp.audit.verdicts.verdict import VERDICTS
from ksdp.storage.codec import Table, write_json_with_checksum
from ksdp.storage.corpora import SourceFile, read_source
from ksdp.storage.files import contents, read_stored
from ksdp.storage.findings import read_statistics, read_verdicts
from ksdp.storage.readers.demo import docstrings
from ksdp.storage.readers.spec_files import LEVER_FILES
from ksdp.storage.readers.tables import Labels, read_labels, read_ratings
from ksdp.storage.schedules.schedule_files import schedule_folder
from ksdp.storage.store import Store, write_whole


def digest_key(store: Store) -> bytes:
    """The store's secret, made on first use and readable by its owner alone."""
    path = store.root / "schedules" / "key"
    if not path.is_file():
        made = secrets.token_bytes(32)

        def write(part: Path) -> None:
            part.write_bytes(made)

        write_whole(path, write)
    return read_stored(path)


def document_digests(file: SourceFile, key: bytes) -> dict[str, str]:
    """Id to hash of every document of a file, those without features included."""
    spec = file.spec
    if file.kind == "demo":
        documents = docstrings()
        labels = Labels(
            np.array([document.id for document in documents], dtype=np.str_),
            np.array([document.party for document in documents], dtype=np.str_),
        )
        return _digests(labels, (document.text.encode() for document in documents), key)
    if file.kind == "text" and spec.text is not None:
        columns = file.columns
        labels = read_labels(spec, columns, len(columns))
        texts = (text.encode("utf-8", "surrogatepass") for text in columns.text(spec.text))
        return _digests(labels, texts, key)
    if file.kind == "ratings":
        columns = file.columns
        matrix, labels = read_ratings(spec, columns, nonnegative=False)
        items = columns.coded(spec.triplet[1])[1]  # by name: an item more moves columns
        return _digests(labels, _rated(canonical(matrix, keep_zeros=True), items), key)
    source = read_source(file, nonnegative=False)
    return _digests(source.labels, _rows(source.matrix), key)


def _rows(matrix: sp.csr_array) -> Iterable[bytes]:
    width = str(matrix.shape[1]).encode()
    for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        indices = matrix.indices[start:stop].astype("<i8").tobytes()
        yield width + b"\0" + indices + matrix.data[start:stop].astype("<f8").tobytes()


def _rated(matrix: sp.csr_array, items: NDArray[np.str_]) -> Iterable[bytes]:
    for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        pairs = zip(items[matrix.indices[start:stop]].tolist(), matrix.data[start:stop].tolist(), strict=True)
        yield repr(sorted(pairs)).encode("utf-8", "surrogatepass")


def stamps_of(source: SourceFile) -> list[tuple[int, int, int]]:
    """Numbers that change once a file of a corpus is replaced or written."""
    spec = source.spec
    beside = filter(None, [spec.labels, *_column_files(spec).values()])
    paths = [path for path in (source.path, *map(Path, beside)) if path.exists()]
    return [(at.st_ino, at.st_size, at.st_mtime_ns) for at in map(Path.stat, paths)]


def columns_digest(spec: CorpusSpec) -> str | None:
    """A hash of the files that say which columns rows have: those of levers, and the vocabulary."""
    files = _column_files(spec).items()
    there = {name: hashlib.sha256(contents(Path(file))).hexdigest() for name, file in files if file}
    return content_key(there) if there else None


def _column_files(spec: CorpusSpec) -> dict[str, str | None]:
    return {name: getattr(spec.levers, name) for name in LEVER_FILES} | {"vocabulary": spec.vocabulary}


def _digests(labels: Labels, contents: Iterable[bytes], key: bytes) -> dict[str, str]:
    out = {}
    for at, (name, content) in enumerate(zip(labels.ids.tolist(), contents, strict=True)):
        digest = hashlib.blake2b(content, key=key, digest_size=16)
        for column in (labels.party, labels.group):
            digest.update(b"\0-" if column is None else b"\0+" + str(column[at]).encode("utf-8", "surrogatepass"))
        digest.update(str(len(content)).encode())
        out[str(name)] = digest.hexdigest()
    return out


VerdictTable: TypeAlias = pa.Table
"""The verdicts as they stand, one row a document: what `read_standing` gives and flows hand on unread."""


@dataclass(frozen=True)
class _StandingRow:
    document: str
    digest: str
    verdict: str
    audit: str
    statistic: str
    distance: float
    log10_adjusted_p: float


@dataclass(frozen=True)
class _VerdictDrift:
    document: str
    before: str
    after: str
    audit_before: str
    audit: str


@dataclass(frozen=True)
class _DistanceDrift:
    document: str
    statistic: str
    version: Annotated[int, pa.int32()]
    before: float
    after: float
    change: float
    audit_before: str
    audit: str


_STANDING, _VERDICTS, _DISTANCES = Table(_StandingRow), Table(_VerdictDrift), Table(_DistanceDrift)


@dataclass(frozen=True)
class Changes:
    """Ids of documents against those that stand."""

    new: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]

    def counts(self) -> dict[str, int]:
        """How many of each."""
        names = ("new", "changed", "removed", "unchanged")
        return {name: len(getattr(self, name)) for name in names}


@stored_dataclass(frozen=True, config=FORMAT)
class StatisticDrift:
    """How D under one statistic changed."""

    pairs: int
    """Documents that were measured before and now."""
    median: float
    largest_fall: float
    largest_rise: float


@stored_dataclass(frozen=True, config=FORMAT)
class DriftSummary(StoredSummary):
    """Content of `drift/<audit>.json`."""

    version: int
    verdicts: Mapping[str, int]
    """Documents by change, as "clear to sensitive"."""
    became_sensitive: int
    statistics: Mapping[str, StatisticDrift]


@dataclass(frozen=True, eq=False)
class Drift:
    """How verdicts and distances moved between a document's earlier audit and its latest."""

    verdicts: pa.Table
    """`document`, `before`, `after`, `audit_before`, `audit`: those that differ."""
    distances: pa.Table
    """`document`, `statistic`, `version`, `before`, `after`, `change`, `audit_before`, `audit`."""
    became_sensitive: int
    """Documents that are sensitive and were not, or were not there; none in a first audit."""

    @property
    def largest(self) -> float | None:
        """Largest |change of D|; None where nothing was measured twice."""
        changes = np.abs(self.distances["change"].to_numpy())
        changes = changes[np.isfinite(changes)]
        return float(changes.max()) if len(changes) else None

    def summary(self) -> DriftSummary:
        """Counts of verdict changes, and per statistic the median and the extremes of the change of D."""
        moves = zip(self.verdicts["before"].to_pylist(), self.verdicts["after"].to_pylist(), strict=True)
        names = np.asarray(self.distances["statistic"].to_pylist(), dtype=object)
        change = self.distances["change"].to_numpy()
        statistics: dict[str, StatisticDrift] = {}
        for name in sorted(set(names.tolist())):
            own = change[(names == name) & np.isfinite(change)]
            if len(own):
                statistics[name] = StatisticDrift(
                    pairs=len(own),
                    median=float(np.median(own)),
                    largest_fall=float(own.min()),
                    largest_rise=float(own.max()),
                )
        return DriftSummary(
            version=VERSION,
            verdicts=dict(Counter(f"{before} to {after}" for before, after in moves)),
            became_sensitive=self.became_sensitive,
            statistics=statistics,
        )


def compare(standing: pa.Table | None, digests: Mapping[str, str]) -> Changes:
    """Return documents that are new, changed, gone or unchanged, in the order of `digests`."""
    before: dict[str, str] = {}
    if standing is not None:
        columns = standing["document"].to_pylist(), standing["digest"].to_pylist()
        before = dict(zip(*columns, strict=True))
    return Changes(
        new=tuple(name for name in digests if name not in before),
        changed=tuple(name for name, digest in digests.items() if before.get(name, digest) != digest),
        removed=tuple(name for name in before if name not in digests),
        unchanged=tuple(name for name, digest in digests.items() if before.get(name) == digest),
    )


def standing_after(
    standing: pa.Table | None, digests: Mapping[str, str], store: Store, audit: str | None
) -> pa.Table:
    """The verdicts as they stand after an audit of some documents; None: after documents were removed."""
    old = _STANDING.schema.empty_table() if standing is None else standing
    parts = []
    if audit is not None:
        verdicts = read_verdicts(store.audit(audit))
        names = [str(name) for name in verdicts["document"].to_pylist()]
        columns = {
            "document": pa.array(names, pa.string()),
            "digest": pa.array([digests.get(name, "") for name in names], pa.string()),
            "verdict": verdicts["verdict"].cast(pa.string()),
            "audit": pa.array([audit] * len(names), pa.string()),
            "statistic": verdicts["statistic"].cast(pa.string()),
            "distance": verdicts["distance"].cast(pa.float64()),
            "log10_adjusted_p": verdicts["log10_adjusted_p"].cast(pa.float64()),
        }
        parts.append(_STANDING.of(columns))
        old = old.filter(pc.invert(pc.is_in(old["document"], parts[0]["document"].combine_chunks())))
    present = pa.array(list(digests), pa.string())
    return pa.concat_tables([old.filter(pc.is_in(old["document"], present)), *parts]).combine_chunks()


def verdict_counts(standing: pa.Table) -> dict[str, int]:
    """How many documents have each verdict."""
    counts = Counter(standing["verdict"].to_pylist())
    return {name: counts.get(name, 0) for name in VERDICTS}


def measure_drift(before: pa.Table | None, after: pa.Table, store: Store, audit: str) -> Drift:
    """Compare what an audit found with what stood before, document by document."""
    mine = after.filter(pc.equal(after["audit"], audit)).select(["document", "verdict"])
    old = (_STANDING.schema.empty_table() if before is None else before).select(["document", "verdict", "audit"])
    pairs = mine.join(old, "document", right_suffix="_before").rename_columns(
        ["document", "after", "before", "audit_before"]
    )
    was = pc.fill_null(pc.equal(pairs["before"], "sensitive"), before is None)
    became = pc.sum(pc.and_(pc.equal(pairs["after"], "sensitive"), pc.invert(was))).as_py() or 0
    comparable = pairs.filter(pc.is_valid(pairs["before"]))
    moved = comparable.filter(pc.not_equal(comparable["before"], comparable["after"]))
    moved = moved.select(["document", "before", "after", "audit_before"])
    moved = moved.append_column("audit", pa.array([audit] * len(moved), pa.string()))
    return Drift(moved, _distances(comparable, store, audit), int(became))


def _distances(comparable: pa.Table, store: Store, audit: str) -> pa.Table:
    now = _measured(store, audit)
    parts = [_DISTANCES.schema.empty_table()]
    for earlier in sorted(set(comparable["audit_before"].to_pylist())):
        mine = comparable.filter(pc.equal(comparable["audit_before"], earlier))["document"].combine_chunks()
        try:
            then = _measured(store, earlier)
        except StoreError:
            continue
        then = then.filter(pc.is_in(then["document"], mine)).rename_columns([*_KEYS, "before"])
        both = then.join(now.rename_columns([*_KEYS, "after"]), _KEYS, join_type="inner")
        both = both.append_column("change", pc.subtract(both["after"], both["before"]))
        both = both.append_column("audit_before", pa.array([earlier] * len(both), pa.string()))
        parts.append(
            both.append_column("audit", pa.array([audit] * len(both), pa.string())).select(
                list(_DISTANCES.columns)
            )
        )
    return pa.concat_tables(parts)


_KEYS = ["document", "statistic", "version"]


def _measured(store: Store, audit: str) -> pa.Table:
    fields = [_DISTANCES.schema.field(name) for name in _KEYS] + [pa.field("distance", pa.float64())]
    return read_statistics(store.audit(audit)).select([*_KEYS, "distance"]).cast(pa.schema(fields))


def write_standing(store: Store, name: str, run: str, standing: pa.Table) -> str:
    """Write the verdicts as they stand; the file's name, for the history."""
    file = f"{run}.parquet"
    columns = {name: standing[name] for name in _STANDING.columns}
    _STANDING.write(schedule_folder(store, name) / "standing" / file, columns)
    return file


def read_standing(store: Store, name: str, file: str | None) -> pa.Table | None:
    """The verdicts that a line of the history names (`ScheduledRun.standing`); None where it names none."""
    if file is None:
        return None
    path = schedule_folder(store, name) / "standing" / file
    return _STANDING.read(path, f"schedule {name!r}", "schedule it under another name")


def drift_audits(store: Store, name: str) -> list[str]:
    """The audits of a schedule whose drift is written."""
    return sorted(file.stem for file in (schedule_folder(store, name) / "drift").glob("*.json"))


def write_drift(store: Store, name: str, audit: str, drift: Drift) -> None:
    """Write both tables and, last, their summary."""
    folder = schedule_folder(store, name) / "drift"
    for kind, table, columns in (
        ("verdicts", _VERDICTS, drift.verdicts),
        ("distances", _DISTANCES, drift.distances),
    ):
        table.write(folder / f"{audit}-{kind}.parquet", {name: columns[name] for name in table.columns})
    write_json_with_checksum(folder / f"{audit}.json", drift.summary().to_json())
