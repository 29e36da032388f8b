"""`ksdp check` names all damage and makes again what it can; `ksdp prune` deletes what nothing rests on."""

import json
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import ksdp
from ksdp.audit.errors import StoreError
from ksdp.cli import main
from ksdp.flows.audits.place import HERE
from ksdp.flows.reviews import decide
from ksdp.flows.screening.clear import Signing
from ksdp.flows.screening.clear import clear as sign
from ksdp.flows.upkeep import damage, prunable, prune
from ksdp.storage.audits.ledger import read_ledger
from ksdp.storage.codec import write_json_with_checksum
from ksdp.storage.findings import read_verdicts
from ksdp.storage.schedules.schedule_files import check_schedule, write_schedule
from ksdp.storage.store import Store

from ..finished import made_once
from ..flips import flip

NOW = datetime(2100, 3, 1, tzinfo=UTC)
MONTH = timedelta(days=30)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A store of two audits, of two seeds; of one, every document was accepted."""
    folder = made_once(tmp_path_factory, "kept", two_audits)
    return folder / "store", (folder / "audits").read_text().split()


def two_audits(folder: Path) -> None:
    store = folder / "store"
    made = audits(store)
    decide(store, made[1], [str(row) for row in range(1, 21)], "accept", "small", "Ana", NOW)
    (folder / "audits").write_text(" ".join(made))


def audits(store: Path) -> list[str]:
    """The ids of the two, which are made where they are not whole."""
    rows = np.random.default_rng(0).poisson(1.0, (20, 5)) + 0.5
    how = {"rank": 2, "party_size": 0.3, "with_runs": 12, "fresh_runs": 8, "store": store}
    return [ksdp.audit(rows, "pd-svd", seed=seed, **how).id for seed in (1, 2)]


@pytest.fixture
def store(kept: tuple[Path, list[str]], tmp_path: Path) -> Store:
    return Store(Path(shutil.copytree(kept[0], tmp_path / "store")))


def clear(store: Store, audit: str) -> str:
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    signing = Signing(store.root.parent / "c.json", key, "Ana", NOW, NOW + timedelta(days=9))
    assert sign(store.root, audit, signing, place=HERE).clearance
    return next(iter(read_ledger(store).signed))


def verdicts(store: Store, audit: str) -> str:
    return repr(read_verdicts(store.audit(audit)).to_pylist())


def command(name: str, store: Store, *options: str) -> int:
    sys.argv = ["ksdp", name, "--store", str(store.root), *options]
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


AGAIN = tuple(f"audits/*/{name}" for name in ("verdicts.parquet", "audit.json", "report.html"))
AGAIN += ("corpora/*/data.npy",)
DELETED = ("runs/*/values/*/*.parquet", "runs/*/observables/*.parquet", "runs/*/identity.json")
BACKUP = ("audits/ledger.jsonl", "reviews/log.jsonl", "clearances/*.json")


@pytest.mark.parametrize("pattern", [*AGAIN, *DELETED, *BACKUP])
def test_a_flip_is_named_and_its_remedy_holds(store: Store, kept: tuple[Path, list[str]], pattern: str) -> None:
    clear(store, kept[1][1])
    before = [verdicts(store, audit) for audit in kept[1]]
    path = sorted(store.root.glob(pattern))[0]
    whole = path.read_bytes()
    flip(path, 8 * (path.stat().st_size // 2))
    said = {one.where: one.sentence for one in damage(store)}[str(path.relative_to(store.root))]
    if pattern in AGAIN:
        assert "`ksdp audit`" in said
        audits(store.root)
    elif pattern in DELETED:
        assert "delete it" in said
        path.unlink()
    else:
        path.write_bytes(whole)
    assert damage(store) == []
    assert [verdicts(store, audit) for audit in kept[1]] == before


@pytest.mark.parametrize("gone", ["audits/{}/audit.json", "audits/{}/spec.json", "audits/{}"])
def test_what_is_lost_is_named_and_the_same_audit_makes_it_again(
    store: Store, kept: tuple[Path, list[str]], gone: str
) -> None:
    path = store.root / gone.format(kept[1][0])
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert str(path.relative_to(store.root)) in {one.where for one in damage(store)}
    audits(store.root)
    assert damage(store) == []


@pytest.mark.parametrize(("gone", "what"), [(1, "signed"), (2, "finished"), (3, "started")])
def test_last_lines_that_were_cut_are_named_by_what_they_were_written_for(
    store: Store, kept: tuple[Path, list[str]], gone: int, what: str
) -> None:
    clear(store, kept[1][1])
    path = store.root / "audits" / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-gone]) + lines[-gone][:40])
    (found,) = [one for one in damage(store) if one.where == "audits/ledger.jsonl"]
    assert f"was {what}" in found.sentence


def test_decisions_and_scheduled_audits_that_were_cut_are_named(
    store: Store, kept: tuple[Path, list[str]]
) -> None:
    clear(store, kept[1][1])
    shutil.rmtree(store.root / "reviews")
    write_schedule(store, check_schedule({"name": "n", "spec": "/s", "created": NOW}))
    drift = store.root / "schedules" / "n" / "drift"
    drift.mkdir()
    write_json_with_checksum(drift / f"{kept[1][0]}.json", {})
    said = {one.where: one.sentence for one in damage(store)}
    assert "missing at the end" in said["reviews/log.jsonl"]
    assert kept[1][0] in said["schedules/n/history.jsonl"]


def test_an_unsigned_old_audit_goes_and_what_is_signed_stays(store: Store, kept: tuple[Path, list[str]]) -> None:
    old, cleared = kept[1]
    digest = clear(store, cleared)
    runs = {audit: {one.folder for one in prunable(store, NOW, MONTH) if audit in one.why} for audit in kept[1]}
    assert [len(folders) for folders in runs.values()] == [2, 2], "its looks, and its fresh runs"
    assert all(one.kept for one in prunable(store, datetime.now(UTC), MONTH)), "they are young"
    before = verdicts(store, old)
    assert {one.folder for one in prune(store, NOW, MONTH) if not one.kept} == runs[old]
    assert not any((store.root / folder).exists() for folder in runs[old])
    assert all((store.root / folder).is_dir() for folder in runs[cleared])
    assert digest[:12] in next(one.why for one in prunable(store, NOW, MONTH))
    assert verdicts(store, old) == before
    assert damage(store) == []


def test_what_cannot_be_deleted_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "rmtree", lambda folder, ignore_errors: None)
    with pytest.raises(StoreError, match="runs/.* cannot be deleted whole"):
        prune(store, NOW, MONTH)


def test_nothing_is_deleted_while_an_audit_cannot_be_read(store: Store, kept: tuple[Path, list[str]]) -> None:
    flip(store.audit(kept[1][0]) / "audit.json", 800)
    with pytest.raises(StoreError, match="damaged"):
        prune(store, NOW, MONTH)
    assert len(list(store.root.glob("runs/*/"))) == 4


def test_the_commands_say_what_they_do(
    store: Store, kept: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("check", store) == 0
    assert "nothing is damaged" in capsys.readouterr().err
    flip(store.audit(kept[1][0]) / "report.html", 800)
    assert command("check", store) == 1
    said = capsys.readouterr()
    assert "report.html" in said.out
    assert "makes it again" in said.out
    assert command("check", store, "--json") == 1
    assert len(json.loads(capsys.readouterr().out)) == 1
    assert command("prune", store, "--days", "0") == 0
    assert capsys.readouterr().out.count("goes") == 4
    assert len(list(store.root.glob("runs/*/"))) == 4, "nothing was deleted"
    assert command("prune", store, "--days", "0", "--yes") == 0
    assert not list(store.root.glob("runs/*/"))


def test_the_log_names_what_was_signed_and_check_what_was_cut(
    store: Store, kept: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    digest = clear(store, kept[1][1])
    assert command("log", store) == 0
    assert f"signed: clearance {digest[:12]}, of audit {kept[1][1]}" in capsys.readouterr().err
    path = store.root / "audits" / "ledger.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert command("check", store) == 1
    assert f"{digest!r} was signed" in capsys.readouterr().out
