"""Run a command and keep the figures that it prints: `python tools/measure.py -- python -m benchmarks kernels`.

`docs/measured.json` has an entry for each command: its figures, the date, the machine and its load. The pages take
their figures from there, and a test fails where one has none.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "measured.json"
NUMBER = re.compile(r"(?<![\w.-])[+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


def numbers(text: str) -> list[str]:
    """Every number of a text, without signs and separators, each once."""
    return list(dict.fromkeys(one.replace(",", "").lstrip("+-") for one in NUMBER.findall(text)))


def main(command: list[str]) -> int:
    """Run the command, show what it prints, and keep its figures."""
    load, printed = os.getloadavg()[0], ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            printed += line
    if process.returncode:
        return process.returncode
    entries = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    entries[shlex.join(command)] = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, Python {sys.version_info.major}.{sys.version_info.minor}",
        "load": round(load, 1),
        "figures": numbers(printed),
    }
    KEPT.write_text(json.dumps(entries, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[sys.argv.index("--") + 1 :]))
