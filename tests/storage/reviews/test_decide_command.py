"""Deciding on the command line: with a key, and with nothing in the list of processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ksdp.audit.errors import InputError
from ksdp.storage.keys import make_identity
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


def test_two_keys_decide_and_the_head_tells_of_a_cut(
    store: Store, audited: Callable[..., str], tmp_path: Path
) -> None:
    audited("one", 5)
    ana, ben = (make_identity(tmp_path, name) for name in ("ana", "ben"))
    run("decide", "--policy", "two-keys", "--store", store.root)
    about = ("decide", "one", "2", "--reason", "why", "--store", store.root)
    with pytest.raises(InputError, match="signed decisions only"):
        run(*about, "--decision", "exclude", "--who", "Ana")
    run(*about, "--decision", "exclude", "--who", "Ana", "--key", ana.private)
    with pytest.raises(InputError, match="another must confirm"):
        run(*about, "--decision", "confirm", "--who", "Ben", "--saw", "1", "--key", ana.private)
    run(*about, "--decision", "confirm", "--who", "Ben", "--saw", "1", "--key", ben.private)
    head = run("log", "--head", "--store", store.root).strip()
    assert head.startswith("2:")
    assert len(json.loads(run("log", "--head", "--json", "--store", store.root))["signed_by"]) == 1
    run("log", "--known", head, "--store", store.root)
    log = log_file(store.root)
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
    for name in ("head.json", "signatures.jsonl"):
        (log.parent / name).unlink()
    run("log", "--head", "--store", store.root, code=1)  # its head was taken away
    (log.parent / "head.json").write_text('{"number": 0, "hash": "' + "0" * 64 + '"}')
    run("log", "--head", "--store", store.root)  # everything here was made to fit
    run("log", "--known", head, "--store", store.root, code=1)  # but what was kept elsewhere does not
