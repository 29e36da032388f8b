"""The ledger of audits: nothing is counted twice, lost or taken back."""

import dataclasses
import os
import shutil
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ksdp.audit.errors import DamagedFile, StoreError
from ksdp.audit.screening.clearance import Attempt
from ksdp.storage.audits.history import find_audit, newest_first, read_history
from ksdp.storage.audits.ledger import check_none_lost, lost_audits, read_ledger, record_attempt, record_finished
from ksdp.storage.audits.queries import proved_sensitive
from ksdp.storage.codec import write_table_with_checksum
from ksdp.storage.findings import write_summary
from ksdp.storage.reviews.decisions import newer_audits
from ksdp.storage.store import Store

from ...flips import flipped
from ...summaries import example, verdict_table

ONE = Attempt("q", "f", "spec", "a", "2026-01-01T00:00:00+00:00", 1, 0.2, 0.05, "s", 400, 1, 100)


def numbered(number: int) -> Attempt:
    return dataclasses.replace(ONE, audit=f"a{number}", attempt=f"spec{number}", seed=number)


def three_lines(store: Store) -> Path:
    """A ledger of three attempts."""
    for number in range(3):
        record_attempt(store, numbered(number))
    return store.root / "audits" / "ledger.jsonl"


def test_what_was_recorded_is_read_by_question(store: Store) -> None:
    assert read_ledger(store).attempts_at("q") == ()
    assert record_attempt(store, ONE)
    other = dataclasses.replace(ONE, audit="b", question="another")
    assert record_attempt(store, other)
    assert read_ledger(store).attempts_at("q") == (ONE,)
    assert read_ledger(store).attempts_at("another") == (other,)


def test_the_same_audit_is_written_down_once(store: Store) -> None:
    assert record_attempt(store, ONE)
    assert not record_attempt(store, dataclasses.replace(ONE, at="2027-01-01T00:00:00+00:00"))
    assert read_ledger(store).attempts_at("q") == (ONE,)


def test_another_line_that_is_damaged_does_not_stop_an_audit_but_whoever_reads(store: Store) -> None:
    path = three_lines(store)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"{}\n", lines[2]]))
    assert record_attempt(store, numbered(3))
    with pytest.raises(StoreError, match="ledger"):
        read_ledger(store).attempts_at("q")
    path.write_bytes(path.read_bytes() + b"no line of a ledger\n")
    with pytest.raises(StoreError, match="ledger"):
        record_attempt(store, numbered(4))


@pytest.mark.parametrize("cut", [2, 7, 60])
def test_a_line_that_a_crash_cut_short_is_no_attempt(store: Store, cut: int) -> None:
    path = three_lines(store)
    path.write_bytes(path.read_bytes()[:-cut])
    assert len(read_ledger(store).attempts_at("q")) == 2
    record_attempt(store, numbered(9))
    assert [one.seed for one in read_ledger(store).attempts_at("q")] == [0, 1, 9]


@pytest.mark.parametrize("end", [b"", b"\x8a", b"\x0b"])
def test_a_line_that_has_lost_its_end_counts(store: Store, end: bytes) -> None:
    path = three_lines(store)
    path.write_bytes(path.read_bytes()[:-1] + end)
    assert len(read_ledger(store).attempts_at("q")) == 3
    assert not record_attempt(store, numbered(2))
    record_attempt(store, numbered(9))
    assert [one.seed for one in read_ledger(store).attempts_at("q")] == [0, 1, 2, 9]


def test_a_flipped_bit_in_any_line_is_noticed_the_last_too(store: Store) -> None:
    path = three_lines(store)
    before, silent = read_ledger(store).attempts_at("q"), 0
    for _ in flipped(path, range(0, 8 * path.stat().st_size, 19)):
        try:
            silent += read_ledger(store).attempts_at("q") != before
        except StoreError:
            continue
    assert silent == 0


@pytest.mark.parametrize("line", [0, 1])
def test_a_line_that_was_changed_or_taken_out_is_noticed(store: Store, line: int) -> None:
    path = three_lines(store)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:line] + lines[line + 1 :]))
    with pytest.raises(StoreError, match="ledger"):
        read_ledger(store).attempts_at("q")
    lines[line] = lines[line].replace(b'"margin": 0.2', b'"margin": 0.3')
    path.write_bytes(b"".join(lines))
    with pytest.raises(StoreError, match="ledger"):
        read_ledger(store).attempts_at("q")


def test_many_at_once_are_all_counted(store: Store) -> None:
    threads = [threading.Thread(target=record_attempt, args=(store, numbered(n))) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one.seed for one in read_ledger(store).attempts_at("q")} == set(range(12))


def finished(store: Store, audit: str, verdicts: dict[str, str], **changes: Any) -> Attempt:
    folder = store.audit(audit)
    folder.mkdir(parents=True)
    write_table_with_checksum(folder / "verdicts.parquet", verdict_table(verdicts))
    write_summary(folder, example(audit=audit, **changes))
    record_attempt(store, one := dataclasses.replace(ONE, audit=audit, attempt=audit))
    record_finished(store, audit)
    return one


def test_what_another_audit_proved_is_remembered(store: Store) -> None:
    seeds = [
        finished(store, "one", {"x": "sensitive", "y": "clear"}),
        finished(store, "two", {"x": "clear", "y": "undecided"}),
        finished(store, "void", {"z": "sensitive"}, valid=False),
    ]
    stopped = dataclasses.replace(ONE, audit="stopped")
    at = {"margin": 0.2, "unit": "document"}
    assert proved_sensitive(store, [*seeds, stopped], **at) == {"x": "one"}
    assert proved_sensitive(store, seeds[1:], **at) == {}
    assert proved_sensitive(store, seeds, margin=0.3, unit="document") == {}
    assert proved_sensitive(store, seeds, margin=0.1, unit="document") == {"x": "one"}
    assert proved_sensitive(store, seeds, margin=0.2, unit="group") == {}


def test_the_audit_that_was_finished_last_is_the_latest_whatever_the_clock_said(store: Store) -> None:
    days = {"ahead": 40, "today": 0, "behind": -40}
    for audit, day in days.items():
        finished(store, audit, {"x": "clear"})
        summary = store.audit(audit) / "audit.json"
        at = datetime(2026, 6, 1, tzinfo=UTC) + timedelta(days=day)
        provenance = dataclasses.replace(example().provenance, finished=at.isoformat())
        write_summary(store.audit(audit), example(audit=audit, provenance=provenance))
        os.utime(summary, (at.timestamp(), at.timestamp()))
    assert [entry.audit for entry in read_history(store).audits] == [*reversed(days)]
    assert newest_first(store) == [*reversed(days)]
    assert find_audit(store, "latest") == "behind"
    newer = {audit: newer_audits(store, audit) for audit in days}
    assert newer == {"ahead": ["behind", "today"], "today": ["behind"], "behind": []}


def test_an_audit_that_cannot_be_read_is_not_passed_over(store: Store) -> None:
    one = finished(store, "one", {"x": "sensitive"})
    (store.audit("one") / "audit.json").write_text("{}", encoding="utf-8")
    with pytest.raises(StoreError):
        proved_sensitive(store, [one], margin=0.2, unit="document")


@pytest.mark.parametrize("gone", [["audit.json"], ["audit.json", "SHA256SUMS"], ["."]])
def test_what_a_lost_audit_proved_is_not_forgotten(store: Store, gone: list[str]) -> None:
    finished(store, "one", {"x": "sensitive"})
    finished(store, "other", {"x": "clear"})
    for name in gone:
        path = store.audit("one") / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(DamagedFile, match=r"audit 'one' .* gone"):
        check_none_lost(store)
    with pytest.raises(DamagedFile, match="audit 'one'"):
        find_audit(store, "one")
    assert find_audit(store, "other") == "other"
    with pytest.raises(DamagedFile, match="audit 'one'"):  # it may have been the latest
        find_audit(store, "latest")
    assert list(lost_audits(store)) == ["one"]
    (sentence,) = read_history(store).damaged
    assert "backup" in sentence
    assert "ksdp audit" in sentence


def test_checksums_alone_say_that_a_summary_is_lost(store: Store) -> None:
    finished(store, "one", {"x": "sensitive"})
    (store.root / "audits" / "ledger.jsonl").unlink()
    (store.audit("one") / "audit.json").unlink()
    assert list(lost_audits(store)) == ["one"]
    with pytest.raises(DamagedFile, match="audit 'one'"):
        find_audit(store, "latest")
