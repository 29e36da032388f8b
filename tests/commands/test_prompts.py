"""A prompt that nobody answers ends the command in a line that says so."""

import subprocess
import sys
from pathlib import Path


def test_the_end_of_input_at_a_prompt_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ksdp", "keys", "ada", "--passphrase"]
    done = subprocess.run(
        command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 130
    last = done.stderr.rstrip().splitlines()[-1]
    assert last.endswith("stopped: a question was left without an answer; the same command asks again.")
    assert list(tmp_path.iterdir()) == []
