"""Runs that open their final output alone: seconds, bytes, memory and the exact result, as real processes.

::

    python -m benchmarks hidden                                # 3 organisations, 500 and 1,000 terms, rank 7
    python -m benchmarks hidden --features 3000 --ranks 7 --parties 3
    python -m benchmarks hidden --today                        # beside runs by sums of twenty iterations

Corpus: enron-mail6, tf-idf, mailboxes dealt out to the organisations. A network adds its latency to every round.
"""

from __future__ import annotations

import json
import resource
import tempfile
from datetime import datetime
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks import data_folder
from benchmarks.protocol_run import entered_rows, write_parties, write_protocol
from ksdp.audit.mechanisms.contract import Database
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.mechanisms.factorisation.power_iteration import subspace_sine
from ksdp.flows.runs.local_run import run_local
from ksdp.flows.runs.terms import Run, read_run

__all__ = ["run"]

NAMES = ("ada", "bob", "cyd", "dan", "eve")
TODAY = {
    "pd-svd": 'solver = "power"\niterations = 20\ntolerance = 0.0',
    "sigma-svd": 'solver = "power"\niterations = 20\ntolerance = 0.0',
}


def run(parties: list[int], features: list[int], ranks: list[int], today: bool) -> None:
    """Print one line a run."""
    data = data_folder() / "enron-mail6"
    for m in parties:
        for d in features:
            with tempfile.TemporaryDirectory() as folder:
                names = NAMES[:m]
                write_parties(data, Path(folder), names, d)
                _specs(Path(folder), names)
                for rank in ranks:
                    computing = 'computing = ["ada", "bob", "cyd"]\n' if m > 3 else ""
                    final = f'rank = {rank}\nopens = "final"\n[final]\n{computing}'
                    _one("pd-svd", final, Path(folder), names)
                    for name in TODAY if today else ():
                        _one(name, f"rank = {rank}\n{TODAY[name]}", Path(folder), names)


def _specs(folder: Path, names: tuple[str, ...]) -> None:
    """A spec for each organisation: its own tf-idf, rows of length 1."""
    for name in names:
        corpus = f'path = "{folder / name}.npz"\nvocabulary = "{folder}/vocabulary.txt"\nweighting = "tf-idf"'
        (folder / f"{name}.toml").write_text(f'[corpus]\n{corpus}\n[mechanism]\nname = "pd-svd"\n')


def _rows(read: Run, folder: Path, names: tuple[str, ...]) -> Database:
    return Database(tuple(entered_rows(read, folder, party, "toml") for party in names))


def _one(name: str, parameters: str, folder: Path, names: tuple[str, ...]) -> None:
    protocol = write_protocol(folder, name, parameters, names)
    read = read_run(protocol)
    with tempfile.TemporaryDirectory() as out:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ends = run_local(read, protocol, folder, Path(out), uncleared=True)
        if any(end["code"] for end in ends.values()):
            raise SystemExit("\n".join(f"{party}: {end['said']}" for party, end in ends.items()))
        lines = [json.loads(line) for line in (Path(out) / "ada" / "transcript.jsonl").read_text().splitlines()]
        found = dict(np.load(Path(out) / "ada" / "result.npz"))
    moment = {line["what"]: datetime.fromisoformat(line["time"]) for line in lines}
    seconds = (moment["done"] - moment["all present"]).total_seconds()
    sent = sum(line["bytes"] for line in lines if line["what"] == "sent")
    rounds = len({line["round"] for line in lines if line["what"] == "sent"})
    mechanism = read.terms.mechanism
    assert isinstance(mechanism, PDSVD)
    whole = sp.csr_array(sp.vstack(_rows(read, folder, names).parties, format="csr"))
    exact = PDSVD(rank=mechanism.rank).run(Database((whole,)), np.random.default_rng(0))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    most = after.ru_maxrss / 1024
    print(
        f"{name:9} opens {mechanism.opens:11} {len(names)} parties, {read.terms.features} terms, rank "
        f"{mechanism.rank}: {seconds:7.1f} s ({busy:.0f} CPU s of all), {rounds} rounds, "
        f"{sent / 1e6:.1f} MB sent by one, "
        f"{most:.0f} MB the largest process so far, sine to the exact result "
        f"{subspace_sine(found['V'], exact['V']):.1e}",
        flush=True,
    )
