"""A Flower app: audited by what its README says, and replayed as Flower's own processes run it."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from ..fences import fences
from ..ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "flower"
PAGE = "../examples/flower/README.md"

pytestmark = pytest.mark.validity


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example, its environment and the clinics' files."""
    made = subprocess.run(["make", "--silent", "flower"], cwd=ROOT)
    if made.returncode:
        pytest.skip("Flower and what it needs could not be installed (`make flower`)")
    folder = tmp_path_factory.mktemp("flower")
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True)
    (folder / "flower").symlink_to(ROOT / ".flower")
    return folder


@pytest.fixture(scope="module")
def clinics(desk: Path) -> dict[str, object]:
    """What the README's first block leaves behind, its files among it."""
    names: dict[str, object] = {}
    with inside(desk):
        exec(fences(PAGE, "python")[0], names)
    return names


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def test_the_readme_finds_what_it_says(
    desk: Path, clinics: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    command = fences(PAGE, "sh")[0].splitlines()[-1]
    subprocess.run(command, shell=True, cwd=desk, check=True, timeout=600)
    with inside(desk):
        exec(fences(PAGE, "python")[1], clinics)
    found = re.findall(r"^(\w+) .*?(\d+) sensitive, (\d+) clear, (\d+) undecided", capsys.readouterr().out, re.M)
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| (\d+) \| (\d+) \|$", (EXAMPLE / "README.md").read_text(), re.M)
    assert [view for view, *_ in found] == [view for view, *_ in rows] == ["server", "sum"]
    counts = np.array([line[1:] for line in found], int)
    np.testing.assert_allclose(counts, np.array([row[1:] for row in rows], int), atol=10)  # processors round


@contextmanager
def process(*command: str, environment: dict[str, str], cwd: Path) -> Iterator[None]:
    with (cwd / "log").open("a") as log:
        started = subprocess.Popen(command, cwd=cwd, env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            started.terminate()
            started.wait(60)


FILES = [f"clinic{n}.csv" for n in range(3)]


@pytest.fixture(scope="module")
def whole(desk: Path, clinics: dict[str, object]) -> dict[str, np.ndarray]:
    """What is seen of one run with all rows, replayed."""
    command = ["flower/bin/python", "record.py", "app", *FILES, "--runs=1", "--share=1", "--to=whole.npz"]
    subprocess.run(command, cwd=desk, check=True, timeout=300)
    with np.load(desk / "whole.npz") as seen:
        return {name: seen[name][0] for name in seen if name != "inclusion"}


def run_flower(desk: Path, app: str) -> dict[str, np.ndarray]:
    """What the server keeps of a run of an app: a SuperLink and three SuperNodes, each with its own rows."""
    link, *nodes = (str(port) for port in free_ports(4))
    home = desk / f"home-{app}"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{link}"\ninsecure = true\n'
    )
    environment = os.environ | {
        "PATH": f"{desk / 'flower' / 'bin'}:{os.environ['PATH']}",
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
    }
    model = desk / "model.npz"
    model.unlink(missing_ok=True)
    with ExitStack() as running:
        server = ("flower-superlink", "--insecure", "--port", link, "--disable-runtime-dependency-installation")
        running.enter_context(process(*server, environment=environment, cwd=desk))
        for file, port in zip(FILES, nodes, strict=True):
            node = ("flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{link}", "--port", port)
            named = ("--node-config", f'data="{desk / file}"')
            running.enter_context(process(*node, *named, environment=environment, cwd=desk))
        for _ in range(60):  # until the SuperLink answers
            asked = ("flwr", "run", app, "here", "--stream")
            done = subprocess.run(asked, cwd=desk, env=environment, capture_output=True, text=True, timeout=300)
            if done.returncode == 0:
                break
            time.sleep(1)
    assert model.is_file(), done.stdout + done.stderr + (desk / "log").read_text()
    with np.load(model) as kept:
        return dict(kept)


def test_a_replay_is_what_flower_itself_hands_the_server(desk: Path, whole: dict[str, np.ndarray]) -> None:
    model = run_flower(desk, "app")
    for name in ("coef", "intercept"):
        average = np.average(whole[f"server/{name}"][-1], axis=0, weights=whole["server/size"][-1])
        np.testing.assert_allclose(average, model[name], rtol=1e-12, atol=1e-15)


def test_a_replay_is_what_secagg_opens(desk: Path, whole: dict[str, np.ndarray]) -> None:
    """One round of Flower's own SecAgg+: whole numbers; each client rounds up or down by a coin."""
    shutil.copytree(desk / "app", desk / "secagg")
    about = desk / "secagg" / "pyproject.toml"
    text = about.read_text().replace("rounds = 3", "rounds = 1")
    about.write_text(re.sub(r"clinics\.(client|server)_app:app", r"clinics.secagg:\1", text))
    model = run_flower(desk, "secagg")
    sizes = whole["sum/size"][0]
    assert sorted(model["sizes"]) == sorted(sizes)  # each client's, in the open
    weight = np.round(sizes / 1000 * 2**22).sum()
    for name in ("coef", "intercept"):  # 2^22 levels between -8 and 8 for each of three clients
        opened = (model[name] * weight / 2**22 + 3 * 8) * 2**22 / 16
        np.testing.assert_allclose(opened, np.round(opened), atol=1e-6)
        np.testing.assert_allclose(opened, whole[f"sum/{name}"][0], atol=3 + 1e-6)
