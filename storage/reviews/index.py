"""An index of the review log (SQLite), made from the log and thrown away whenever it does not fit.

It is never the truth: an entry is found by it, and comes from a line of the log that was checked when it was read
in. It must be used under the log's lock.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from ksdp.audit.errors import StoreError
from ksdp.audit.reviewing import Decision, Entry
from ksdp.storage.reviews.log import GENESIS, LogHead, follow, read_head, read_lines

_TABLES = """
CREATE TABLE entry (number INTEGER PRIMARY KEY, audit TEXT, document TEXT, line BLOB);
CREATE INDEX entry_document ON entry (document, audit);
CREATE INDEX entry_audit ON entry (audit);
CREATE TABLE read (size INTEGER, modified INTEGER, whole INTEGER, number INTEGER, hash TEXT);
"""
_FORMAT = 1
_AT_ONCE = 500
"""Names in one query."""


def _key(text: str) -> str:
    """Any id as text that SQLite takes, lone surrogates included."""
    return json.dumps(text)


def _entry(line: bytes) -> Entry:
    """A line that was checked when it was read in."""
    fields = json.loads(line)
    fields["decision"] = Decision(fields["decision"])
    fields["at"] = datetime.fromisoformat(fields["at"])
    return Entry(**fields)


class ReviewIndex:
    """The entries of a log that were read so far; `sync` reads on."""

    def __init__(self, connection: sqlite3.Connection, log: Path) -> None:
        self._db = connection
        self._log = log
        self.head = LogHead(0, GENESIS)
        """The newest entry."""
        self.torn = 0
        """Bytes of a torn last line."""

    def sync(self) -> None:
        """Read what was added to the log; all of it where it is not what it was."""
        try:
            log = self._log.stat()
            size, modified = log.st_size, log.st_mtime_ns
        except FileNotFoundError:
            size, modified = 0, 0
        row = self._db.execute("SELECT size, modified, whole, number, hash FROM read").fetchone()
        known, then, whole, number, digest = row or (-1, 0, 0, 0, GENESIS)
        if (known, then) == (size, modified):
            self.head, self.torn = LogHead(number, digest), size - whole
        else:
            if not row or size <= known or not self._continues(whole, number):
                whole, number, digest = 0, 0, GENESIS
            self._read(size, modified, whole, LogHead(number, digest))
        self._vouch()

    def _continues(self, whole: int, number: int) -> bool:
        """Whether the log's bytes before `whole` still end with the newest line that was read in."""
        last = self._db.execute("SELECT line FROM entry WHERE number = ?", (number,)).fetchone()
        if last is None:
            return number == 0
        wanted = last[0] + b"\n"
        with self._log.open("rb") as file:
            file.seek(whole - len(wanted))
            return bool(file.read(len(wanted)) == wanted)

    def _read(self, size: int, modified: int, whole: int, head: LogHead) -> None:
        lines, self.torn = read_lines(self._log, whole)
        rows = []
        self.head = head
        try:
            for line, entry in zip(lines, follow(head, lines), strict=True):
                rows.append((entry.number, _key(entry.audit), _key(entry.document), line))
                self.head = LogHead(entry.number, entry.hash)
        except ValueError as error:
            number = self.head.number + 1
            raise StoreError(
                f"the review log is broken: entry {number} is not what was written ({error})."
            ) from error
        with self._db:
            if not whole:
                self._db.execute("DELETE FROM entry")
            self._db.executemany("INSERT INTO entry VALUES (?, ?, ?, ?)", rows)
            self._db.execute("DELETE FROM read")
            values = (size, modified, size - self.torn, self.head.number, self.head.hash)
            self._db.execute("INSERT INTO read VALUES (?, ?, ?, ?, ?)", values)

    def _vouch(self) -> None:
        """Compare with `head.json`, which may lag by what a crash kept from being written."""
        head = read_head(self._log)
        if head.number == self.head.number:
            same = head.hash == self.head.hash
        else:
            row = self._db.execute("SELECT line FROM entry WHERE number = ?", (head.number,)).fetchone()
            same = head.number == 0 or (row is not None and _entry(row[0]).hash == head.hash)
        if not same:
            raise StoreError(
                f"the review log is broken: it holds {self.head.number} entries, and entry {head.number}, which "
                "was the newest once, is not among them."
            )

    def about(self, audits: Sequence[str], documents: Sequence[str] | None = None) -> list[Entry]:
        """Entries about documents (all where None) of audits, in the order of the log."""
        rows: list[tuple[int, bytes]] = []
        named = (
            [[]]
            if documents is None
            else [documents[i : i + _AT_ONCE] for i in range(0, len(documents), _AT_ONCE)]
        )
        for some in named:
            for first in range(0, len(audits), _AT_ONCE):
                part = audits[first : first + _AT_ONCE]
                query = f"SELECT number, line FROM entry WHERE audit IN ({_marks(part)})"
                if documents is not None:
                    query += f" AND document IN ({_marks(some)})"
                rows += self._db.execute(query, [_key(name) for name in (*part, *some)]).fetchall()
        return [_entry(line) for _, line in sorted(rows)]

    def page(
        self, audit: str | None, document: str | None, *, newest_first: bool, limit: int | None, offset: int
    ) -> list[Entry]:
        """Entries in the order of the log or backwards, a part of them."""
        where, values = ["1"], []
        for column, name in (("audit", audit), ("document", document)):
            if name is not None:
                where.append(f"{column} = ?")
                values.append(_key(name))
        order = "DESC" if newest_first else "ASC"
        query = f"SELECT line FROM entry WHERE {' AND '.join(where)} ORDER BY number {order} LIMIT ? OFFSET ?"
        rows = self._db.execute(query, [*values, -1 if limit is None else limit, offset])
        return [_entry(line) for (line,) in rows]


def _marks(names: Sequence[str]) -> str:
    return ",".join("?" * len(names))


@contextlib.contextmanager
def open_index(log: Path) -> Iterator[ReviewIndex]:
    """Open the index of a log, up to date. The log's lock must be held."""
    file = log.parent / "index.sqlite"
    try:
        index = _opened(file, log)
    except sqlite3.DatabaseError:
        for spoilt in (file, file.with_name("index.sqlite-journal")):
            spoilt.unlink(missing_ok=True)  # whatever it was, it can be made again
        index = _opened(file, log)
    with contextlib.closing(index._db):
        yield index


def _opened(file: Path, log: Path) -> ReviewIndex:
    file.touch(mode=0o600)  # SQLite makes files as the umask has it, and its journal with the modes of the file
    connection = sqlite3.connect(file)
    try:
        if connection.execute("PRAGMA user_version").fetchone()[0] != _FORMAT:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            with connection:
                for (name,) in tables:
                    connection.execute(f"DROP TABLE {name}")
                connection.executescript(f"{_TABLES} PRAGMA user_version = {_FORMAT};")
        index = ReviewIndex(connection, log)
        index.sync()
    except BaseException:
        connection.close()
        raise
    return index
