"""No entry can be changed, left out or moved unnoticed, and a crash is told from a forgery."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.errors import StoreError
from ksdp.audit.reviewing import Decision, Entry
from ksdp.storage.reviews.log import (
    GENESIS,
    LogHead,
    ReviewLog,
    add_lines,
    chained,
    check_chain,
    locked,
    parse_line,
    read_review_log,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
COUNT = 6


def chain(count: int, reason: str = "why") -> list[Entry]:
    entries: list[Entry] = []
    newest = LogHead(0, GENESIS)
    for number in range(count):
        about = ("one", "sha256:c", "mail.csv", "document", f"d{number}\udc80ü")
        entry = chained(Entry(number + 1, *about, Decision.ACCEPT, reason, "Ana", NOW, 0, newest.hash, ""))
        entries.append(entry)
        newest = LogHead(entry.number, entry.hash)
    return entries


def write(root: Path, entries: list[Entry]) -> Path:
    with locked(root) as path:
        add_lines(path, ReviewLog(), entries)
    return path


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("store"), chain(COUNT))


@pytest.fixture(scope="module")
def copy(good: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log to spoil, without the `head.json` beside it: the chain alone must tell."""
    path = tmp_path_factory.mktemp("copy") / "log.jsonl"
    shutil.copy(good, path)
    return path


def test_a_good_chain_is_whole_and_comes_back(good: Path) -> None:
    report = check_chain(good.parent.parent)
    assert report.whole
    assert report == check_chain(good)
    assert (report.entries, report.head.number, report.reason) == (COUNT, COUNT, "")
    assert read_review_log(good) == ReviewLog(good.read_bytes(), tuple(chain(COUNT)))
    assert (good.stat().st_mode & 0o077) == 0
    assert check_chain(good.parent.parent / "none.jsonl").whole  # nothing was decided yet


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_any_changed_byte_is_noticed_at_its_entry(good: Path, copy: Path, data: st.DataObject) -> None:
    content = bytearray(good.read_bytes())
    at = data.draw(st.integers(0, len(content) - 2))
    content[at] ^= data.draw(st.integers(1, 255))
    copy.write_bytes(content)
    report = check_chain(copy)
    assert not report.whole
    assert report.broken == 1 + good.read_bytes()[:at].count(b"\n")
    assert report.entries == report.broken - 1


@settings(deadline=None, max_examples=200)
@given(order=st.lists(st.integers(0, COUNT - 1), min_size=1, max_size=COUNT + 2))
def test_any_removal_repetition_or_other_order_is_noticed(good: Path, copy: Path, order: list[int]) -> None:
    lines = good.read_bytes().splitlines(keepends=True)
    copy.write_bytes(b"".join(lines[at] for at in order))
    kept = next((n for n, at in enumerate(order) if at != n), len(order))
    report = check_chain(copy)
    assert report.entries == kept
    if kept < len(order):
        assert report.broken == kept + 1
    elif kept < COUNT:  # cut off at the end: an anchor is needed, and any one behind the cut is enough
        assert report.broken is None
        for entry in chain(COUNT)[kept:]:
            assert check_chain(copy, [LogHead(entry.number, entry.hash)]).broken == kept + 1


def test_the_head_notices_what_was_cut_off_and_an_anchor_a_log_made_up_anew(tmp_path: Path) -> None:
    path = write(tmp_path, chain(COUNT))
    content = path.read_bytes()
    path.write_bytes(b"".join(content.splitlines(keepends=True)[:-2]))
    report = check_chain(tmp_path)
    assert (report.broken, report.entries) == (COUNT - 1, COUNT - 2)
    assert "entries 5 to 6 are missing" in report.reason
    path.unlink()
    assert check_chain(tmp_path).broken == 1
    write(tmp_path, chain(COUNT, "another reason"))
    assert check_chain(tmp_path).whole
    known = chain(COUNT)[3]
    assert "written anew" in check_chain(tmp_path, [LogHead(known.number, known.hash)]).reason
    (path.parent / "head.json").write_text("{")
    with pytest.raises(StoreError, match=r"head\.json"):
        check_chain(tmp_path)


@pytest.mark.parametrize(
    "change", [{"number": 1.0}, {"number": True}, {"decision": "burn"}, {"at": "2026-03-01"}, {"more": 1}]
)
def test_what_is_no_entry_is_refused_even_with_a_fitting_hash(change: dict) -> None:
    import hashlib

    said = json.loads(_line(chain(1)[0])) | change
    said.pop("hash")
    bare = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
    said["hash"] = hashlib.sha256(b"ksdp-review-1\n" + bare).hexdigest()
    with pytest.raises(ValueError, match="no entry"):
        parse_line(json.dumps(said, sort_keys=True, separators=(",", ":")).encode())


def _line(entry: Entry) -> bytes:
    said = {name: getattr(entry, name) for name in Entry.__slots__}
    return json.dumps(
        said | {"at": entry.at.isoformat(), "decision": str(entry.decision)}, sort_keys=True, separators=(",", ":")
    ).encode()


def test_the_canonical_form_is_what_the_documentation_says() -> None:
    assert parse_line(_line(chain(1)[0])) == chain(1)[0]


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_line_cut_short_is_no_entry_and_the_next_takes_its_place(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("torn")
    path = write(root, chain(2))
    more = _line(chain(3)[2])
    cut = more[: data.draw(st.integers(1, len(more)))]
    with path.open("ab") as file:
        file.write(cut)
    report = check_chain(root)
    assert (report.entries, report.broken, report.torn, report.whole) == (2, None, len(cut), True)
    log = read_review_log(path)
    assert log.entries == tuple(chain(2))
    add_lines(path, log, chain(3)[2:])
    assert read_review_log(path).entries == tuple(chain(3))
    assert (check_chain(root).entries, check_chain(root).torn) == (3, 0)


def test_a_log_is_read_on_where_it_has_grown_and_anew_where_it_is_another(tmp_path: Path) -> None:
    path = write(tmp_path, chain(2))
    first = read_review_log(path)
    assert read_review_log(path) is first
    add_lines(path, first, chain(4)[2:])
    grown = read_review_log(path)
    assert grown.entries == tuple(chain(4))
    assert grown.entries[0] is first.entries[0], "what was read is not read again"
    path.unlink()
    (path.parent / "head.json").unlink()
    write(tmp_path, chain(5, "another reason"))
    assert read_review_log(path).entries == tuple(chain(5, "another reason"))
    path.write_bytes(path.read_bytes().replace(b'"number":2', b'"number":3'))
    with pytest.raises(StoreError, match="broken: entry 2 is not what was written"):
        read_review_log(path)


def test_a_log_cut_off_with_its_head_taken_away_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path, chain(COUNT))
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    (path.parent / "head.json").unlink()
    report = check_chain(tmp_path)
    assert not report.whole
    assert "was taken away" in report.reason
