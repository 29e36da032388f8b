"""The harness of attacks counts what a product that is broken on purpose loses, and what it does not say."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks import attacks
from benchmarks.attacks import Attacks, Process

from ksdp.storage.store import Store, write_text

from ..finished import small

FILE, TEXT = Path("store/numbers.txt"), "1 2 3 4\n" * 1000


@dataclass
class Chosen:
    """No chance at all: a kill comes when a file is there, and a flip is of this bit."""

    file: Path = Path()
    bit: int = 0

    def uniform(self, low: float, _: float) -> float:
        while not self.file.exists():
            time.sleep(0.01)
        return low

    def integers(self, _: int) -> int:
        return self.bit

    def random(self) -> float:
        return 1.0


def torn(part: Path, path: Path) -> Any:
    """A rename that is none: whoever looks in between sees a half."""
    if path.name != FILE.name:
        return part.rename(path)
    path.write_text(part.read_text()[:4000])
    return time.sleep(60)


def write() -> None:
    """As audits go on: what is there is not made again."""
    Store.open(Path("store"))
    if not FILE.exists():
        write_text(FILE, TEXT)
        time.sleep(60)


def ended_before(process: Process, _: float) -> bool:
    process.wait()
    return kill(process, 0.0)


kill = Process.killed


@pytest.mark.parametrize("broken", [False, True])
def test_what_is_not_written_at_once_is_shown_in_silence_and_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    if broken:
        monkeypatch.setattr(Path, "replace", torn)
    attack = Attacks(tmp_path, 1, tmp_path / "counts.json")
    monkeypatch.setattr(attacks, "IN_A_ROW", 1)
    monkeypatch.setattr(attack, "rng", Chosen(attack.new("a") / FILE))
    attack.kills("a write", write, tmp_path / "a", [TEXT], lambda: [FILE.read_text()], 1.0)
    assert attacks.table([attack.counts]).endswith(f"| a write | 1 | {broken:d} | {broken:d} | 0 |")  # type: ignore[list-item]
    monkeypatch.setattr(attack, "rng", Chosen(tmp_path))
    monkeypatch.setattr(Process, "killed", ended_before)
    attack.kills("nothing", lambda: None, tmp_path / "a", [TEXT], lambda: [TEXT], 1.0)
    assert attack.tried["nothing"] == 0  # what had ended before is not killed


@pytest.mark.parametrize("broken", [False, True])
def test_a_check_that_is_switched_off_is_a_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    attack = Attacks(tmp_path, 1)
    Process(lambda: small(tmp_path), tmp_path).answer()  # what computes here has threads, and is not forked
    if broken:
        monkeypatch.setattr("ksdp.storage.codec._fails", lambda _: None)
    store = Store.open(tmp_path / "store", create=False)
    vars(attack)["whole"] = store
    path = store.audit(store.audits()[0]) / "audit.json"
    bit = 8 * (path.read_bytes().index(b'"documents": 30') + len('"documents": 30') - 1)
    monkeypatch.setattr(attack, "rng", Chosen(bit=bit))
    attack.flip_in(path, "30 is 31")
    assert (attack.tried["30 is 31"], attack.silent["30 is 31"]) == (1, broken)


def test_nothing_is_equal_to_nothing_and_to_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Store, "audits", lambda _: ["a"])
    folder, texts = Store.open(Path("store")).audit("a"), []
    folder.mkdir(parents=True)
    for number in (float("nan"), float("nan"), 0.5):
        pq.write_table(pa.table({"D": [number]}), folder / "verdicts.parquet")
        texts.append(attacks.verdicts())
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(
    ("codes", "did", "result", "count"),
    [
        ({"ada": 0, "bob": 1, "cyd": 0}, "", {"right"}, (0, 0)),
        ({"ada": 1, "bob": 1, "cyd": 0}, "sent twice", {"right"}, (1, 0)),
        ({"ada": 0, "bob": 1, "cyd": 0}, "sent twice", {"right"}, (1, 1)),
        ({"ada": 1, "bob": 1, "cyd": 0}, "sent twice", {"wrong"}, (1, 1)),
    ],
)
def test_a_lie_counts_once_it_was_told_and_is_silent_where_nobody_ends_or_somebody_believes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codes: Any, did: str, result: set[str], count: tuple[int, int]
) -> None:
    attack = Attacks(tmp_path, 1)
    vars(attack).update(result=({"right"}, 1.0), protocol=tmp_path / "a.toml", parties=lambda *_: (codes, did))
    monkeypatch.setattr(attack, "results", lambda *_, but="": result)
    monkeypatch.setattr(attacks, "NAMES", ("bob",))
    attack.lie()
    assert (attack.tried.total(), attack.silent.total()) == count
