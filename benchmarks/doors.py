"""Files and hands that mean harm, one command each: what it answers, and whether it ends in one line.

    python -m benchmarks.doors

Each attack starts the real command in a process of its own. It fails if the command prints a traceback, runs
longer than a minute, or does what the attack wanted.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import openpyxl
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

SPEC = """corpus = {{ path = "{file}", id = "id"{more} }}
mechanism = {{ name = "pd-svd", rank = 2 }}
design = {{ party_size = 0.3, with_runs = {runs} }}
statistics = {{ families = ["paper"] }}
seed = 22
"""
FORMULAS = (
    "=1+1",
    "+1+1",
    "@SUM(1)",
    "-2+3",
    "=cmd|'/C calc'!A0",
    "a\x1b]0;title\x07b",
    "a\u202eb",
    "c\nm-1 clear",
)
MINUTE = 60.0
_MEMORY = 9_000_000 * 1024
"""Bytes of address space that a batch system may allow."""

Bend = Callable[[Path], object]
BENT: dict[str, Bend] = {
    "a pipe": os.mkfifo,
    "/dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a folder": os.mkdir,
}


class Doors:
    """Attacks in one folder; `rows` is the table."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rows = folder, list[tuple[str, str, str]]()
        table = np.random.default_rng(0).normal(size=(40, 6)).round(3)
        self._write("plain.csv", [f"m-{row}" for row in range(40)], table)
        ids = [*FORMULAS, *(f"m-{row}" for row in range(len(FORMULAS), 40))]
        columns = {f"x{at}": table[:, at] for at in range(6)}
        pq.write_table(pa.table({"id": ids} | columns), folder / "formulas.parquet")
        self.spec("plain.toml", "plain.csv")
        self.spec("formulas.toml", "formulas.parquet")
        self.spec("clip.toml", "plain.csv", more=", levers = { clip = 1e-320 }")
        self.spec("long.toml", "plain.csv", runs=200_000)
        self.run("audit", "plain.toml", "--store", "plain")
        self.run("audit", "formulas.toml", "--store", "formulas")

    def _write(self, name: str, ids: list[str], table: np.ndarray) -> None:
        lines = [f"{one},{','.join(map(str, row))}" for one, row in zip(ids, table, strict=True)]
        (self.folder / name).write_text("\n".join(["id,a,b,c,d,e,f", *lines]) + "\n")

    def spec(self, name: str, file: str, more: str = "", runs: int = 100) -> None:
        (self.folder / name).write_text(SPEC.format(file=file, more=more, runs=runs))

    def start(self, *words: str, before: Callable[[], None] | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "ksdp", *words],
            cwd=self.folder,
            preexec_fn=before,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str, before: Callable[[], None] | None = None) -> tuple[int, str]:
        return ended(self.start(*words, before=before))

    def note(self, attack: str, answer: tuple[int, str], bad: str = "") -> None:
        """Add a row: the last line of the answer, and what is wrong of it."""
        code, said = answer
        if "Traceback" in said or "panicked" in said or code < 0:
            bad = bad or f"exit {code}, {said.count(chr(10))} lines"
        last = next((line for line in reversed(said.splitlines()) if line.strip()), "")
        self.rows.append((attack, bad or "held", f"exit {code}: {last.strip()[:150]}"))
        print(" | ".join(self.rows[-1]), flush=True)

    def far_cell(self) -> None:
        book = openpyxl.Workbook()
        book.active.cell(1048576, 16384).value = 1
        book.save(self.folder / "far.xlsx")
        limited = partial(resource.setrlimit, resource.RLIMIT_AS, (4 * _MEMORY, 4 * _MEMORY))
        self.note("a sheet with one cell at XFD1048576", self.run("init", "far.xlsx", before=limited))

    def little_memory(self) -> None:
        limited = partial(resource.setrlimit, resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        self.note("9 GB of address space", self.run("plan", "plain.toml", before=limited))

    def formulas(self) -> None:
        self.note("a CSV with formulas", self.run("sql", "latest", "--store", "formulas", "--to", "x.csv"))
        file = self.folder / "x.csv"
        cells = file.read_text().replace('"', "").splitlines() if file.exists() else []
        unguarded = [cell for cell in cells if cell[:1] in "=+@\t" or (cell[:1] == "-" and cell != "-")]
        control = [cell for cell in cells if any(not c.isprintable() for c in cell)]
        said = f"unguarded: {unguarded + control}" if unguarded or control else ""
        self.note("its cells", (0, f"{len(cells)} lines"), said)
        _, said = self.run("show", "latest", "--store", "formulas", "--worst", "40")
        lines = [line for line in said.splitlines() if line.strip().startswith("m-1 clear")]
        control = [line for line in said.splitlines() if any(not c.isprintable() for c in line)]
        self.note(
            "ids with line breaks and control characters",
            (0, said),
            f"{lines + control}"[:99] * bool(lines + control),
        )

    def no_files(self) -> None:
        store = self.folder / "plain"
        (store / "reviews").mkdir(exist_ok=True)
        sums = next(store.glob("audits/*/SHA256SUMS"))
        for path, commands in (
            (sums, (("show", "latest"), ("sql", "latest", "select 1"), ("check",))),
            (store / "reviews/log.jsonl", (("show", "latest"), ("log",), ("check",))),
        ):
            content = path.read_bytes() if path.exists() else None
            for what, bend in BENT.items():
                path.unlink(missing_ok=True)
                bend(path)
                for words in commands:
                    self.note(f"{what} as {path.name}, {words[0]}", self.run(*words, "--store", "plain"))
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
            if content is not None:
                path.write_bytes(content)

    def numbers(self) -> None:
        self.note("clip = 1e-320", self.run("audit", "clip.toml", "--store", "clip"))

    def _begun(self, store: str) -> subprocess.Popen[str]:
        process = self.start("audit", "long.toml", "--store", store, "--here", "2")
        until = time.monotonic() + MINUTE
        while not list((self.folder / store).glob("runs/**/*.parquet")) and time.monotonic() < until:
            time.sleep(0.05)
        return process

    def renamed(self) -> None:
        process = self._begun("moved")
        (self.folder / "moved").rename(self.folder / "elsewhere")
        self.note("a store renamed under an audit", ended(process))

    def killed_worker(self) -> None:
        process = self._begun("killed")
        workers = [
            one for one in psutil.Process(process.pid).children(recursive=True) if one.cpu_times().user > 0.05
        ]
        workers[-1].send_signal(signal.SIGKILL)
        time.sleep(3.0)
        process.send_signal(signal.SIGINT)
        answer = ended(process)
        self.note("a worker killed", answer, "" if "worker" in answer[1].lower() else "it is not said")


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code and what was printed; -9 for a process that runs for more than a minute."""
    try:
        said = process.communicate(timeout=MINUTE)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        said = process.communicate()[0] + "\nit ran for a minute"
    return process.returncode, said


def main() -> None:
    """Run all of them."""
    with tempfile.TemporaryDirectory() as folder:
        doors = Doors(Path(folder))
        for attack in ("far_cell", "little_memory", "formulas", "no_files", "numbers", "renamed", "killed_worker"):
            getattr(doors, attack)()
    sys.exit(any(row[1] != "held" for row in doors.rows))


if __name__ == "__main__":
    main()
