"""A real Prefect server for the tests of this folder, a small corpus, and the command as a person runs it."""

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
from starlette.testclient import TestClient

from ksdp.cli import main
from ksdp.dashboards.app import create_app
from ksdp.dashboards.reviews import Actions
from ksdp.dashboards.security import LocalReviewer
from ksdp.storage.findings import read_verdicts
from ksdp.storage.keys import make_identity
from ksdp.storage.store import Store

from ..finished import made_once
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


COMPUTE = frozenset({"audit", "more-runs", "test", "clear"})
"""Commands with an option `--here`."""


@pytest.fixture(scope="session")
def ksdp() -> Iterator[Callable[..., Ran]]:
    """Run the command in this process, without a server and workers of its own unless it asks for some."""

    def run(*arguments: str | Path, check: int | None = None) -> Ran:
        computes = arguments[0] in COMPUTE
        if computes and not {"--dask", "--here"} & {*arguments}:
            arguments = (*arguments, "--here", "1")
        ran = as_typed(*arguments)
        assert check is None or ran.code == check, ran.err
        return ran

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PREFECT_API_URL", raising=False)
        yield run


@pytest.fixture
def typed(ksdp: Callable[..., Ran]) -> Callable[..., Ran]:
    """The same."""
    return ksdp


@pytest.fixture(scope="session")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """An audit with verdicts of every kind, as the command makes it: (folder of its spec and store, its id)."""
    folder = made_once(tmp_path_factory, "reviewed", every_verdict)
    return folder, (folder / "audit").read_text()


def every_verdict(folder: Path) -> None:
    sp.save_npz(folder / "counts.npz", topical_counts(300, 30, 0.03))
    (folder / "spec.toml").write_text(
        'seed = 3\n[corpus]\npath = "counts.npz"\n'
        '[mechanism]\nname = "noisy"\nmechanism = "pd-svd"\nnoise = 0.02\n'
        '[mechanism.parameters]\nrank = 1\nopens = "final"\n'
        "[design]\nparty_size = 0.5\nwith_runs = 400\n[decision]\nmargin = 0.3\n"
    )
    out = as_typed("audit", folder / "spec.toml", "--store", folder / "store", "--here", "1", "--json").out
    assert min(out["verdicts"][name] for name in ("sensitive", "clear", "undecided")) > 1, out["verdicts"]
    make_identity(folder, "ana")
    (folder / "audit").write_text(out["audit"])


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
