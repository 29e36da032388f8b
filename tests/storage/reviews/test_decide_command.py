"""Deciding on the command line: by two persons, and with nothing in the list of processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ksdp.audit.errors import InputError, StoreError
from ksdp.storage.reviews.decisions import read_log
from ksdp.storage.reviews.log import log_file
from ksdp.storage.store import Store

from ...typed import typed


def run(*arguments: str | Path, text: str | None = None, code: int = 0) -> str:
    return typed(*arguments, text=text, code=code).stdout


def test_reasons_and_ids_come_from_a_pipe_and_a_file(
    store: Store, audited: Callable[..., str], tmp_path: Path
) -> None:
    audited("one", 5)
    (tmp_path / "ids.txt").write_text("1\n3\n\n")
    said = run(
        "decide", "one", "--documents-from", tmp_path / "ids.txt", "--decision", "exclude", "--reason", "-",
        "--who", "Ana", "--store", store.root, text="it gives too much away\n",
    )  # fmt: skip
    assert said.count("exclude") == 2
    assert [(entry.document, entry.reason) for entry in read_log(store)] == [
        ("1", "it gives too much away"),
        ("3", "it gives too much away"),
    ]


def test_a_second_person_confirms_and_a_noted_hash_tells_of_a_cut(
    store: Store, audited: Callable[..., str]
) -> None:
    audited("one", 5)
    run("decide", "--policy", "four-eyes", "--store", store.root)
    about = ("decide", "one", "2", "--reason", "why", "--store", store.root)
    run(*about, "--decision", "exclude", "--who", "Ana")
    with pytest.raises(InputError, match="another must confirm"):
        run(*about, "--decision", "confirm", "--who", "Ana", "--saw", "1")
    run(*about, "--decision", "confirm", "--who", "Ben", "--saw", "1")
    newest = json.loads(run("log", "--json", "--store", store.root))["newest"]
    assert newest.startswith("2:")
    assert f"newest entry: {newest}" in typed("log", "--known", newest, "--store", store.root).stderr
    with pytest.raises(InputError, match="NUMBER:HASH"):
        run("log", "--known", "2", "--store", store.root)
    log = log_file(store.root)
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
    (log.parent / "head.json").unlink()
    with pytest.raises(StoreError, match="was taken away"):
        run("log", "--store", store.root)
    (log.parent / "head.json").write_text('{"number": 0, "hash": "' + "0" * 64 + '"}')
    run("log", "--store", store.root)  # everything here was made to fit
    with pytest.raises(StoreError, match="entries 2 to 2 are missing"):
        run("log", "--known", newest, "--store", store.root)  # but what was kept elsewhere does not
