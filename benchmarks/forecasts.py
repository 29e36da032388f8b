"""CPU seconds that `ksdp plan` forecasts, beside those that `ksdp audit` takes, all processes together.

Both are commands of their own, timed by the system, each as a person would type it: small audits in their own
process, larger ones with a server and workers.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_V = 'name = "pd-svd"\nrank = 7\nopens = "final"'
_ROUNDS = 'name = "pd-svd"\nrank = 7'
_NMF = 'name = "pd-nmf"\nrank = 7'
_LEARNED = '[statistics]\nfamilies = ["paper", "geometry", "rounds", "learned"]'

KINDS = {
    "V, few runs": ("kos", "", _V, "party_size = 0.03\nwith_runs = 12\ndocuments = 300"),
    "V, early looks": ("kos", "", _V, "party_size = 0.03\nwith_runs = 200\ndocuments = 300"),
    "V, everybody": ("kos", "", _V, "party_size = 0.1\nwith_runs = 40"),
    "V, 500 terms, hardly a leak": (
        "enron-mail6",
        "[corpus.levers]\nmost_frequent = 500",
        _V,
        "party_size = 0.3\nwith_runs = 100\ndocuments = 300",
    ),
    "V, looks of its own": ("kos", "", _V, "party_size = 0.1\nwith_runs = 100\nlooks = 3\ndocuments = 1000"),
    "V, no fresh runs": ("kos", "", _V, "party_size = 0.1\nwith_runs = 100\nfresh_runs = 0\ndocuments = 300"),
    "V, learners": ("kos", "", _V, "party_size = 0.2\nwith_runs = 60\ndocuments = 100", _LEARNED),
    "PD-SVD, every round": ("kos", "", _ROUNDS, "party_size = 0.1\nwith_runs = 12\ndocuments = 300"),
    "PD-NMF, every sweep": ("kos", "", _NMF, "party_size = 0.1\nwith_runs = 8\ndocuments = 300"),
}
"""Corpus, its levers, mechanism, design and more of a spec."""


def _spec(corpus: str, levers: str, mechanism: str, design: str, more: str = "") -> str:
    return (
        f'seed = 7\n[corpus]\npath = "$KSDP_DATA/{corpus}/counts.npz"\nweighting = "tf-idf"\n{levers}\n'
        f"[mechanism]\n{mechanism}\n[design]\n{design}\n{more}\n"
    )


def _timed(*command: str) -> tuple[float, dict[str, Any]]:
    """CPU seconds of a command and of all that it started, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "ksdp", *command], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 3, 4):
        raise SystemExit(done.stderr)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, dict(json.loads(done.stdout.splitlines()[-1]))


def run(kinds: Sequence[str] = ()) -> None:
    """Print both for each kind of audit, and their ratio."""
    print(f"{'audit':28} {'documents':>9} {'runs':>6} {'of':>6} {'plan':>6} {'forecast':>8} {'took':>6}  ratio")
    for kind in kinds or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            spec = Path(folder) / "spec.toml"
            spec.write_text(_spec(*KINDS[kind]))
            planning, said = _timed("plan", str(spec), "--json")
            took, done = _timed("audit", str(spec), "--store", f"{folder}/store", "--json")
        planned = sum(said["cpu_seconds"].values())
        stages = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in said["cpu_seconds"].items())
        print(
            f"{kind:28} {said['documents']:9} {done['runs']:6} {said['runs']:6} {planning:6.1f} {planned:8.1f} "
            f"{took:6.1f}  {planned / took:.2f}  ({stages}; processes here: {said['processes_here']})",
            flush=True,
        )
