"""A flipped bit in any kind of stored file is refused in one line, or what is read is what was written."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import InputError, KsdpError
from ksdp.audit.specs.models import parse_spec
from ksdp.dashboards.audits.pages import read_compare_page
from ksdp.flows.runs.protocol_files import read_protocol_file
from ksdp.flows.upkeep import damage
from ksdp.storage.audits.continuation import Origin, read_origin, write_origin
from ksdp.storage.codec import SUMS, check_checksum, write_checksum
from ksdp.storage.learning import learning_of, read_advice, write_advice, write_gain
from ksdp.storage.reviews.decisions import Policy, read_policy, write_policy
from ksdp.storage.reviews.log import log_file, read_review_log
from ksdp.storage.runs.ledger import Ledger
from ksdp.storage.runs.results import keep_party_run, party_run_ids, read_party_run
from ksdp.storage.schedules.schedule_files import ScheduledRun, append_run, read_runs, read_schedule
from ksdp.storage.store import Store

from ..flips import flipped

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
AT = datetime(2026, 3, 2, tzinfo=UTC)
Reads = Callable[[], object]
SPEC = parse_spec({"corpus": {"path": "x.npz"}, "mechanism": {"name": "pd-svd"}})
GAIN = {"measures": [{"name": "RMSE", "gain": {"value": 0.02, "low": 0.01}}], "sentences": ["Joining helps."]}


def run(at: datetime) -> ScheduledRun:
    times = {"started": at, "finished": at}
    return ScheduledRun(**times, outcome="audited", level=0.004, verdicts={"clear": 7})


def kept(store: Store) -> None:
    session = "1" * 64
    about = {
        "session": session,
        "me": "ada",
        "finished": AT.isoformat(),
        "seconds": 75.0,
        "mechanism": {"name": "pd-nmf"},
        "agreement": "a" * 64,
        "result": "b" * 64,
        "parties": {"ada": {"cleared": True}, "bob": {"cleared": False}},
        "server": None,
        "clearance": {"signer": "139e-3940"},
        "opens": "every round",
        "rounds": 143,
        "bytes": {"sent": 2, "received": 3},
        "claimed": {"epsilon": 1.5, "delta": 1e-5},
        "guarantee": {"sound": True},
    }
    keep_party_run(store, about, "1 run with noise")


def ledger(path: Path) -> Ledger:
    made = Ledger(path)
    with made.locked():
        made.add({"run": "a", "what": "begun", "mu": 0.5})
        made.add({"run": "a", "what": "finished", "mu": 0.5})
    return made


def kinds(store: Store, tmp_path: Path, scheduled: Callable[..., Any]) -> dict[str, tuple[Path, Reads]]:
    """One file of each kind that is not among an audit's (`flows/audits/test_damage.py`), and who reads it."""
    scheduled()
    append_run(store, "nightly", run(AT))
    append_run(store, "nightly", run(AT.replace(day=3)))
    write_policy(store, Policy(four_eyes=True))
    write_advice(store, "some", {"asked": "x", "advised": "y", "sentences": ["Do this."]})
    gain = write_gain(store, SPEC, "corpus", GAIN)
    kept(store)
    write_origin(store, "two", Origin("spec", ("one",)))
    made = ledger(tmp_path / "ada.ledger")
    protocol = tmp_path / "protocol.toml"
    protocol.write_text(
        'protocol = 1\n[mechanism]\nname = "pd-nmf"\n[features]\nhash = "sha256:%s"\ncount = 4\n' % (64 * "0")
    )
    read_protocol_file(protocol).join("ada", "ada.example:7001", KEY.public_key(), server=False)
    read_protocol_file(protocol).sign("ada", KEY)
    return {
        "schedule": (store.root / "schedules/nightly/schedule.json", lambda: read_schedule(store, "nightly")),
        "history": (store.root / "schedules/nightly/history.jsonl", lambda: read_runs(store, "nightly")),
        "policy": (store.root / "reviews/policy.json", lambda: read_policy(store)),
        "advice": (store.root / "advice/some.json", lambda: _without_more(read_advice(store, "some"))),
        "gain": (gain, lambda: _without_more(dict(learning_of(store, SPEC, "corpus").gain or {}))),
        "party run": (
            store.root / "party-runs" / f"{'1' * 64}.json",
            lambda: [read_party_run(store, session) for session in party_run_ids(store)],
        ),
        "origin": (store.audit("two") / "origin.json", lambda: read_origin(store, "two")),
        "ledger": (tmp_path / "ada.ledger", made.read),
        "protocol file": (protocol, lambda: _lines_if_signed(protocol)),
    }


def _lines_if_signed(path: Path) -> dict[str, str]:
    file = read_protocol_file(path)
    if faults := file.faults():
        raise InputError("; ".join(faults))
    return file.lines


def _without_more(said: dict[str, Any]) -> dict[str, Any]:
    """Without a checksum whose own name was flipped: what it stood for is whole."""
    return {name: value for name, value in said.items() if name in {*GAIN, "asked", "advised"}}


@pytest.mark.parametrize("bend", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), os.mkdir])
@pytest.mark.parametrize("kind", ["history", "policy", "advice", "party run", "origin", "ledger", "sums", "log"])
def test_what_is_no_file_is_named(kind: str, bend: Any, store: Store, tmp_path: Path, scheduled: Any) -> None:
    found, log, sums = kinds(store, tmp_path, scheduled), log_file(store.root), store.audit("two") / SUMS
    log.touch()
    write_checksum(store.audit("two") / "origin.json")
    more = {
        "sums": (sums, lambda: check_checksum(sums.with_name("origin.json"), "")),
        "log": (log, lambda: read_review_log(log)),
    }
    path, read = (found | more)[kind]
    path.unlink()
    bend(path)
    with pytest.raises(KsdpError, match="it is no regular file|[iI]s a directory"):
        read()


@pytest.mark.parametrize("bend", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), os.mkdir])
def test_a_block_or_a_summary_that_is_no_file_is_named_and_not_waited_for(bend: Any, store: Store) -> None:
    block, summary = store.root / "runs/a/values/b/0.parquet", store.audit("two") / "audit.json"
    for path in (block, summary):
        path.parent.mkdir(parents=True, exist_ok=True)
        bend(path)
    assert str(block.relative_to(store.root)) in [one.where for one in damage(store)]
    with pytest.raises(KsdpError, match="'two'"):
        read_compare_page(store, {"a": "two", "b": "two"})


KINDS = ("schedule", "history", "policy", "advice", "gain", "party run", "origin", "ledger", "protocol file")


@pytest.mark.parametrize("kind", KINDS)
def test_no_flip_is_silent(kind: str, store: Store, tmp_path: Path, scheduled: Callable[..., Any]) -> None:
    found = kinds(store, tmp_path, scheduled)
    assert tuple(found) == KINDS
    path, read = found[kind]
    before, size = read(), path.stat().st_size
    rng = np.random.default_rng(size)
    refused = 0
    for bit in flipped(path, rng.choice(8 * size, min(8 * size, 80), replace=False).tolist()):
        try:
            assert read() == before, (kind, bit)
        except KsdpError as error:
            assert "\n" not in str(error)  # noqa: PT017 - a line for a person
            refused += 1
    assert refused > 60
    assert read() == before
