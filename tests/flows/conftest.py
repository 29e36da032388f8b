"""A real Prefect server for the tests of this folder, a small corpus, and the command as a person runs it."""

from __future__ import annotations

import html
import io
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import prefect.main  # noqa: F401  (it sets logs up before a test takes stderr: absl's handler closes what it held)
import pytest
import scipy.sparse as sp
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
from starlette.testclient import TestClient

from ksdp.cli import main
from ksdp.dashboards.app import create_app
from ksdp.dashboards.reviews import Actions
from ksdp.dashboards.security import LocalReviewer
from ksdp.storage.findings import read_verdicts
from ksdp.storage.keys import make_identity
from ksdp.storage.store import Store
from ksdp.tasks.cluster import open_workers

from ..servers import own_server

SPEC = """
seed = {seed}
[corpus]
path = "counts.npz"
[mechanism]
name = "{mechanism}"
rank = 3
[design]
party_size = 0.2
with_runs = {with_runs}
[statistics]
families = {families}
[decision]
margin = 0
"""


@dataclass(frozen=True)
class Ran:
    code: int
    text: str
    err: str

    @property
    def out(self) -> dict[str, Any]:
        """What was written last, where it is JSON."""
        last = self.text.strip().splitlines()
        return json.loads(last[-1]) if last and last[-1].startswith("{") else {}


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment that names a running server, so that each command need not start its own."""
    with own_server(tmp_path_factory.mktemp("prefect")) as named:
        yield named


@pytest.fixture(scope="session")
def workers() -> Iterator[str]:
    """The address of two Dask workers, so that each command need not start its own."""
    with open_workers(2) as cluster:
        yield cluster.address


TAKES_WORKERS = frozenset({"audit", "test", "clear", "more"})
"""Commands with an option `--dask`."""


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 documents over 60 terms in three topics, as counts."""
    folder = tmp_path_factory.mktemp("corpus")
    sp.save_npz(folder / "counts.npz", topical_counts(120, 60))
    return folder


def topical_counts(documents: int, terms: int, concentration: float = 0.08) -> sp.csr_matrix:
    """Of three topics."""
    rng = np.random.default_rng(11)
    topics = rng.dirichlet(np.full(terms, concentration), size=3)
    mixture = rng.dirichlet(np.full(3, 0.4), size=documents) @ topics
    return sp.csr_matrix(np.array([rng.multinomial(40, row / row.sum()) for row in mixture]))


@pytest.fixture
def spec(corpus_folder: Path) -> Callable[..., Path]:
    """Write a spec beside the corpus."""

    def write(name: str = "spec", **changes: Any) -> Path:
        usual = {"seed": 3, "mechanism": "pd-svd", "with_runs": 40, "families": ["paper", "geometry", "rounds"]}
        values = usual | changes
        path = corpus_folder / f"{name}.toml"
        path.write_text(SPEC.format(**values | {"families": json.dumps(values["families"])}))
        return path

    return write


def as_typed(*arguments: str | Path) -> Ran:
    """The command in this process, as `ksdp` runs it: a process of its own imports for seconds."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["ksdp", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
    return Ran(int(left.value.code or 0), out.getvalue(), err.getvalue())


def _checked(ran: Ran, check: int | None) -> Ran:
    assert check is None or ran.code == check, ran.err
    return ran


@pytest.fixture(scope="session")
def run_ksdp(server: dict[str, str], workers: str) -> Callable[..., Ran]:
    """Run the command here, on the server of all tests, and on their workers unless it asks for its own."""
    told = {PREFECT_API_URL: server["PREFECT_API_URL"], PREFECT_API_AUTH_STRING: server["PREFECT_API_AUTH_STRING"]}

    def run(*arguments: str | Path, check: int | None = None) -> Ran:
        if arguments[0] in TAKES_WORKERS and not {"--workers", "--dask"} & {*arguments}:
            arguments = (*arguments, "--dask", workers)
        with temporary_settings(told):
            return _checked(as_typed(*arguments), check)

    return run


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Run the command here, where no server is named: small audits are this process's alone."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    return lambda *arguments, check=None: _checked(as_typed(*arguments), check)


@pytest.fixture
def ksdp(run_ksdp: Callable[..., Ran]) -> Callable[..., Ran]:
    """The same, for one test."""
    return run_ksdp


@pytest.fixture(scope="session")
def audited(tmp_path_factory: pytest.TempPathFactory, run_ksdp: Callable[..., Ran]) -> tuple[Path, str]:
    """An audit with verdicts of every kind, as the command makes it: (folder of its spec and store, its id)."""
    folder = tmp_path_factory.mktemp("decided")
    sp.save_npz(folder / "counts.npz", topical_counts(300, 30, 0.03))
    (folder / "spec.toml").write_text(
        'seed = 3\n[corpus]\npath = "counts.npz"\n[mechanism]\nname = "pd-svd"\nrank = 1\n'
        'solver = "power"\niterations = 1\n'  # with more announced, hardly any of so few documents is clear
        "[design]\nparty_size = 0.85\nwith_runs = 700\n[decision]\nmargin = 0.42\n"
    )
    out = run_ksdp("audit", folder / "spec.toml", "--store", folder / "store", "--json", check=3).out
    assert min(out["verdicts"][name] for name in ("sensitive", "clear", "undecided")) > 1, out["verdicts"]
    make_identity(folder, "ana")
    return folder, out["audit"]


@pytest.fixture
def decided(audited: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of its store to decide in."""
    return Path(shutil.copytree(audited[0] / "store", tmp_path / "store"))


@pytest.fixture
def kinds(audited: tuple[Path, str]) -> dict[str, list[str]]:
    """Ids of its documents by verdict; first those that the fewest runs would decide."""
    rows = read_verdicts(Store(audited[0] / "store").audit(audited[1])).sort_by("runs_to_decide")
    found: dict[str, list[str]] = {}
    for name, verdict in zip(rows["document"].to_pylist(), rows["verdict"].to_pylist(), strict=True):
        found.setdefault(verdict, []).append(name)
    return found


@dataclass(frozen=True)
class Pages:
    """The dashboard of a store, to look at."""

    client: TestClient

    def words(self, address: str, status: int = 200) -> str:
        """What a page says to a reader."""
        got = self.client.get(address)
        assert got.status_code == status, got.text
        shown = re.sub(r"<(style|script|head)[^>]*>.*?</\1>|<[^>]+>", " ", got.text, flags=re.DOTALL)
        return " ".join(html.unescape(shown).split())


@pytest.fixture
def pages() -> Callable[[Path], Pages]:
    """`pages(store)` opens the dashboard of a store for one person."""

    def opened(store: Path) -> Pages:
        origin = "http://127.0.0.1:8700"
        actions = Actions(clock=lambda: datetime.now(UTC))
        known = {"source": LocalReviewer("Ana"), "origins": frozenset({origin})}
        app = create_app(Store.open(store, create=False), actions=actions, **known)
        return Pages(TestClient(app, base_url=origin))

    return opened
