"""What nobody sees in a name never reaches a terminal as it is: it is written as its number."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from ksdp.storage.store import Store

from ..flows.conftest import as_typed

NAME = "a\u202eb\x07\x1b[5nc"


def on_a_terminal(*command: str, folder: Path) -> str:
    """All that a command writes to a terminal."""
    controller, terminal = pty.openpty()
    ksdp = [sys.executable, "-m", "ksdp", *command]
    process = subprocess.Popen(ksdp, cwd=folder, stdout=terminal, stderr=terminal, stdin=subprocess.DEVNULL)
    os.close(terminal)
    parts = []
    try:
        while part := os.read(controller, 1 << 16):
            parts.append(part)
    except OSError:  # the other end is closed
        pass
    os.close(controller)
    process.wait(60)
    return b"".join(parts).decode()


@pytest.mark.parametrize("command", [["audit", f"{NAME}/none.toml"], ["show", NAME, "--store", "."]])
def test_a_name_reaches_a_terminal_in_letters_that_are_seen(command: list[str], tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME / "file").touch()
    said = on_a_terminal(*command, folder=tmp_path)
    assert said
    assert not {"\u202e", "\x07"} & {*said}
    assert "\x1b[5n" not in said


@pytest.mark.parametrize("command", [["list", NAME], ["check", "."], ["prune", "."]])
def test_what_is_piped_is_seen_too(command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store.open(tmp_path)
    (tmp_path / f"{NAME}\nfine.json").write_text("{")
    (tmp_path / "runs" / f"{NAME}\nfine").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    done = as_typed(command[0], "--store", command[1])
    assert "a<U+202E>b<U+0007><U+001B>[5nc" in done.text + done.err
    assert not any(line.startswith("fine") for line in done.text.splitlines())
