"""One excluded document, tried through every command that could let it into a run."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ksdp.flows.runs.protocol_files import features_hash, protocol_text
from ksdp.flows.schedules.scheduled_run import due_audit
from ksdp.storage.clearances import read_clearance
from ksdp.storage.corpora import corpus_features, rows_hash
from ksdp.storage.keys import make_identity
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.storage.schedules.schedule_files import ScheduledRun, check_schedule
from ksdp.storage.store import Store

from ...ports import free_ports
from ...specs import spec_text

OUT = "K3"
SPEC = {
    "corpus": {"id": "id", "columns": ["a", "b", "c", "d"]},
    "mechanism": {"name": "moments", "rank": 2, "advantage": 0.3, "sampler": "fast"},
    "design": {"party_size": 0.5, "with_runs": 20},
    "decision": {"margin": 0.3},
}
WHY = "objection under Art. 21 GDPR"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two parties' tables and keys; every document is clear by the mechanism's proof."""
    for place, name in enumerate(("ada", "bob")):
        rows = np.random.default_rng(place).normal(size=(40, 4)) * [0.6, 0.3, 0.2, 0.1]
        lines = [
            f"{name[0].upper() if place else 'K'}{n}," + ",".join(map(str, row)) for n, row in enumerate(rows)
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,a,b,c,d", *lines]))
        write(tmp_path, name)
        make_identity(tmp_path, name)
    return tmp_path


def write(folder: Path, name: str = "ada", to: str | None = None, **changes: Any) -> Path:
    path = folder / f"{to or name}.toml"
    path.write_text(spec_text({"seed": 3} | SPEC, corpus={"path": f"{name}.csv"}, **changes))
    return path


def test_an_excluded_document_enters_nothing_by_any_command(folder: Path, ksdp: Callable[..., Any]) -> None:
    store = ("--store", folder / "store")
    opened = Store.open(folder / "store")

    def signed(*command: str | Path, name: str, who: str = "ada") -> set[str]:
        """What a command lists, and what it says is excluded."""
        to = folder / f"{name}.clearance"
        grounds = ("--clearance", to, "--key", folder / f"{who}.key", "--who", who, *store, "--json")
        said = ksdp(*command, *grounds, check=0).out
        exclusions = {row["document"]: row["reason"] for row in said["exclusions"]}
        assert exclusions == ({} if name in ("early", "bob") else {OUT: WHY})
        return {name for name in (f"K{n}" for n in range(40)) if read_clearance(to).allows(np.array([name]))[0]}

    ksdp("audit", write(folder), *store, check=0)
    assert OUT in signed("clear", "latest", name="early"), "clear, and nobody has excluded it yet"
    ksdp("decide", folder / "ada.toml", OUT, "--decision", "exclude", "--reason", WHY, "--who", "Ana", *store)

    # Another margin, seed, statistic or parameter is no way back.
    for changes in ({"decision": {"margin": 0.32}}, {"seed": 9}):
        ksdp("audit", write(folder, to="other", **changes), *store, check=0)
        listed = signed("clear", "latest", name=f"other-{next(iter(changes))}")
        assert len(listed) == 39
        assert OUT not in listed
    ksdp("test", "latest", "--statistics", "raw-mean", *store)
    screened = signed("clear", write(folder, to="screened", seed=11), name="screened")
    assert len(screened) == 39
    assert OUT not in screened

    # A schedule says so with every run.
    schedule = check_schedule({"name": "nightly", "spec": str(folder / "ada.toml"), "created": datetime.now(UTC)})
    due = due_audit(opened, schedule, full=True)
    assert due.excluded == 1
    at = datetime.now(UTC)
    run = ScheduledRun(started=at, finished=at, outcome="audited", documents={"audited": 40, "excluded": 1})
    assert "1 excluded by decision" in run.words

    # A clearance that was signed before the exclusion lists it; no run takes it.
    ksdp("audit", write(folder, "bob"), *store, check=0)
    signed("clear", "latest", name="bob", who="bob")
    early = folder / "ada.clearance"
    (folder / "early.clearance").rename(early)
    write(folder)
    protocol = folder / "protocol.toml"
    protocol.write_text(agreed(write(folder, to="vetted", mechanism={"sampler": "discrete"})))
    grounds = ("--me", "ada", "--key", folder / "ada.key", "--corpus", folder / "ada.toml", "--clearance", early)
    checked = ksdp("party", protocol, *grounds, "--check", "0", *store, "--json", check=1).err
    assert any(OUT in line and WHY in line for line in checked.splitlines())
    ran = ksdp("run", protocol, "--local", folder, "--out", folder / "out", *store, "--json", check=0).out
    result = json.loads(ran["parties"]["ada"]["said"])
    assert (result["documents"], result["of"]) == (39, 40)
    assert OUT not in np.load(folder / "out" / "ada" / "own.npz")["ids"].tolist()
    assert "as of now" in result["exclusions"]


def agreed(spec: Path) -> str:
    """The protocol file of both parties."""
    read, base = read_spec_file(spec)
    names = corpus_features(read.corpus, base)
    features: dict[str, str | int] = {"hash": features_hash(names), "count": len(names)}
    parties = [f"{who}@127.0.0.1:{port}" for who, port in zip(("ada", "bob"), free_ports(2), strict=True)]
    return protocol_text(read, features | {"rows": rows_hash(read.corpus, base)}, parties)
