"""A Flower app: audited by what its README says, and replayed as Flower's own processes run it."""

from __future__ import annotations

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

pytestmark = pytest.mark.e2e


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


def test_a_replay_is_what_flower_itself_hands_the_server(desk: Path, clinics: dict[str, object]) -> None:
    """A SuperLink and three SuperNodes, each with its own rows, against one run with all rows."""
    files = [f"clinic{n}.csv" for n in range(3)]
    whole = ["flower/bin/python", "record.py", "app", *files, "--runs=1", "--share=1", "--to=whole.npz"]
    subprocess.run(whole, cwd=desk, check=True, timeout=300)
    with np.load(desk / "whole.npz") as seen:
        sizes = seen["server/size"][0, -1]
        replayed = {
            name: np.average(seen[f"server/{name}"][0, -1], axis=0, weights=sizes)
            for name in ("coef", "intercept")
        }
        # What SecAgg+ opens, read as its server reads it: 2^22 levels between -8 and 8 for each client.
        for name, average in replayed.items():
            levels = seen[f"sum/{name}"][0, -1] * 16 / 2**22 - 3 * 8
            np.testing.assert_allclose(levels / (seen["sum/weight"][0, -1] / 2**22), average, atol=1e-4)
    link, *nodes = (str(port) for port in free_ports(4))
    home = desk / "home"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{link}"\ninsecure = true\n'
    )
    environment = os.environ | {
        "PATH": f"{desk / 'flower' / 'bin'}:{os.environ['PATH']}",
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
    }
    with ExitStack() as running:
        server = ("flower-superlink", "--insecure", "--port", link, "--disable-runtime-dependency-installation")
        running.enter_context(process(*server, environment=environment, cwd=desk))
        for file, port in zip(files, nodes, strict=True):
            node = ("flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{link}", "--port", port)
            named = ("--node-config", f'data="{desk / file}"')
            running.enter_context(process(*node, *named, environment=environment, cwd=desk))
        for _ in range(60):  # until the SuperLink answers
            asked = ("flwr", "run", "app", "here", "--stream")
            done = subprocess.run(asked, cwd=desk, env=environment, capture_output=True, text=True, timeout=300)
            if done.returncode == 0:
                break
            time.sleep(1)
    assert (desk / "model.npz").is_file(), done.stdout + done.stderr + (desk / "log").read_text()
    with np.load(desk / "model.npz") as model:
        for name, array in replayed.items():
            np.testing.assert_allclose(array, model[name], rtol=1e-12, atol=1e-15)
