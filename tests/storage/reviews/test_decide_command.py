"""Deciding on the command line: by two persons, and with nothing in the list of processes."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ksdp.audit.errors import InputError, SpecError, StoreError
from ksdp.storage.keys import make_identity
from ksdp.storage.reviews.decisions import Policy, read_log, read_policy
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


def test_a_finding_is_given_to_somebody_and_a_file_lists_who_decides(
    store: Store, audited: Callable[..., str], tmp_path: Path
) -> None:
    audited("one", 5)
    about = ("decide", "one", "2", "--who", "Ana", "--store", store.root)
    due = (datetime.now(UTC).date() + timedelta(days=14)).isoformat()
    assert f"  2  assign Ben {due}  Ana:" in run(*about, "--decision", "assign", "--to", "Ben", "--days", "14")
    run(*about, "--decision", "comment", "--reason", "consent is asked for")
    roles = tmp_path / "roles.toml"
    roles.write_text('decide = ["Ben"]\nsign = ["0000-1111"]\n')
    assert "may decide: Ben; may sign: 0000-1111" in run("decide", "--policy", roles, "--store", store.root)
    run("decide", "--policy", "four-eyes", "--store", store.root)
    assert read_policy(store) == Policy(four_eyes=True, decide=("Ben",), sign=("0000-1111",))
    with pytest.raises(InputError, match="ask one of Ben"):
        run(*about, "--decision", "exclude", "--reason", "why")
    roles.write_text('decides = ["Ben"]\n')
    with pytest.raises(SpecError, match="decides"):
        run("decide", "--policy", roles, "--store", store.root)
    key = make_identity(tmp_path, "ana").private
    with pytest.raises(InputError, match=r"may not sign in this store: take one of 0000-1111"):
        run("dossier", "one", "--key", key, "--who", "Ana", "--store", store.root)


def test_a_second_person_confirms_and_a_noted_hash_tells_of_a_cut(
    store: Store, audited: Callable[..., str]
) -> None:
    audited("one", 5)
    run("decide", "--policy", "four-eyes", "--store", store.root)
    about = ("decide", "one", "2", "--reason", "why", "--store", store.root)
    run(*about, "--decision", "exclude", "--who", "Ana")
    with pytest.raises(InputError, match="another must confirm"):
        run(*about, "--decision", "confirm", "--who", "Ana", "--saw", "2")
    run(*about, "--decision", "confirm", "--who", "Ben", "--saw", "2")
    newest = json.loads(run("log", "--json", "--store", store.root))["newest"]
    assert newest.startswith("3:")
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
    with pytest.raises(StoreError, match="entries 2 to 3 are missing"):
        run("log", "--known", newest, "--store", store.root)  # but what was kept elsewhere does not
