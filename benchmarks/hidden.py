"""Runs that open their final output alone: seconds, bytes, memory and the exact result, as real processes.

::

    python -m benchmarks hidden                                # 3 organisations, 500 and 1,000 terms, rank 7
    python -m benchmarks hidden --features 3000 --ranks 7 --parties 3
    python -m benchmarks hidden --today                        # beside runs by sums of twenty iterations
    python -m benchmarks hidden --delay 0.01                   # 10 ms on the way to everybody and 10 ms back
    python -m benchmarks hidden --noise 0.0032                 # V with noise, added on shares
    python -m benchmarks hidden --topics                       # PD-NMF, beside its run by sums
    python -m benchmarks hidden --topics --only-final          # without that
    python -m benchmarks hidden --topics --ratings             # weighted PD-NMF of MovieLens-1M

Corpus: enron-mail6, tf-idf, mailboxes dealt out to the organisations, a share of their mails where asked for; or
the ratings of the films rated most, users dealt out. A network adds its latency to every round: a relay in this
process holds back what it carries.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.stats import kstest

from benchmarks import data_folder
from benchmarks.protocol_run import entered_rows, write_parties, write_protocol
from benchmarks.relay import Relay
from ksdp.audit.contract import Database, traits_of
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.mechanisms.factorisation.power_iteration import subspace_sine
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.flows.runs.protocol_files import Run, read_run
from ksdp.storage.keys import make_identity

NAMES = ("ada", "bob", "cyd", "dan", "eve")
TODAY = {
    "pd-svd": 'solver = "power"\niterations = 20\ntolerance = 0.0',
    "sigma-svd": 'solver = "power"\niterations = 20\ntolerance = 0.0',
}


NMF = "rank = {rank}\nsweeps = {sweeps}\ntolerance = 0.0\nbeta = 0.1\ndelta = 0.1\n"
BOUND = "[precision]\nbound = 8192.0\n"
RATINGS = 2.0**24
"""The squares of all ratings add up to 14 million; with regularisers of 1 to no more than this."""
SWEEPS = 20


@dataclass(frozen=True)
class Asked:
    """What is varied."""

    parties: list[int]
    features: list[int]
    ranks: list[int]
    today: bool = False
    topics: bool = False
    delay: float = 0.0
    """Seconds, each way."""
    sweeps: int = SWEEPS
    mails: int | None = None
    """Of a party, the first ones; all of them by default. Or users."""
    ratings: bool = False
    only_final: bool = False
    noise: float = 0.0
    """On every entry of V."""


def run(asked: Asked) -> None:
    """Print one line a run."""
    for m in asked.parties:
        for d in asked.features:
            with tempfile.TemporaryDirectory() as folder:
                names = NAMES[:m]
                if asked.ratings:
                    _write_ratings(Path(folder), names, d)
                else:
                    write_parties(data_folder() / "enron-mail6", Path(folder), names, d)
                _specs(Path(folder), names, asked)
                for rank in asked.ranks:
                    for name, parameters in _runs(asked, rank, m):
                        _one(name, parameters, Path(folder), names, asked.delay)


def _runs(asked: Asked, rank: int, parties: int) -> Iterator[tuple[str, str]]:
    final = "[shares]\n" + ('computing = ["ada", "bob", "cyd"]\n' if parties > 3 else "")
    if asked.topics:
        parameters, bound = NMF.format(rank=rank, sweeps=asked.sweeps), BOUND
        if asked.ratings:
            parameters, bound = (
                parameters.replace("0.1", "1.0") + "weighted = true\n",
                f"[precision]\nbound = {RATINGS / parties:.0f}.0\n",
            )
        yield "pd-nmf", f'{parameters}opens = "final"\n{final}{bound}'
        if not (asked.only_final or asked.ratings):
            yield "pd-nmf", parameters
        return
    exact = f'rank = {rank}\nopens = "final"\n{final}'
    if asked.noise:
        size = f'mechanism = "pd-svd"\nnoise = 1.0\nscale = {asked.noise}\n'
        yield "noisy", f"{size}[mechanism.parameters]\n{exact}"
    yield "pd-svd", exact
    for name in TODAY if asked.today else ():
        yield name, f"rank = {rank}\n{TODAY[name]}"


def _write_ratings(folder: Path, names: tuple[str, ...], most: int) -> None:
    """Users dealt out to parties; the films rated most."""
    table = pd.read_parquet(
        data_folder() / "movielens-1m" / "ratings.parquet", columns=["user_id", "item_id", "rating"]
    )
    items = np.sort(table["item_id"].value_counts(sort=True).index[:most])
    table = table[table["item_id"].isin(items)]
    users, rows = np.unique(table["user_id"], return_inverse=True)
    columns = np.searchsorted(items, table["item_id"])
    ratings = sp.csr_array((table["rating"].astype(float), (rows, columns)), shape=(len(users), len(items)))
    for at, name in enumerate(names):
        make_identity(folder, name)
        sp.save_npz(folder / f"{name}.npz", sp.csr_array(ratings[at :: len(names)]))
    (folder / "vocabulary.txt").write_text("".join(f"{item}\n" for item in items), encoding="utf-8")


def _specs(folder: Path, names: tuple[str, ...], asked: Asked) -> None:
    """A spec for each organisation: its own tf-idf, rows of length 1; or ratings as they are."""
    weighting = "counts" if asked.ratings else "tf-idf"
    for name in names:
        if asked.mails is not None:
            sp.save_npz(folder / f"{name}.npz", sp.csr_array(sp.load_npz(folder / f"{name}.npz"))[: asked.mails])
        corpus = f'path = "{folder / name}.npz"\nvocabulary = "{folder}/vocabulary.txt"\nweighting = "{weighting}"'
        (folder / f"{name}.toml").write_text(f'[corpus]\n{corpus}\n[mechanism]\nname = "pd-svd"\n')


def _rows(read: Run, folder: Path, names: tuple[str, ...]) -> Database:
    return Database(tuple(entered_rows(read, folder, party, "toml") for party in names))


def _processes(read: Run, protocol: Path, folder: Path, out: Path, relay: Relay | None) -> None:
    """Run every party as a process, and wait for all."""
    with contextlib.ExitStack() as stack:
        started = {}
        for party in read.spec.parties:
            files = {"--key": folder / f"{party.name}.key", "--corpus": folder / f"{party.name}.toml"}
            command = [sys.executable, "-m", "ksdp", "party", str(protocol), "--me", party.name, "--uncleared"]
            for option, path in (files | {"--out": out / party.name}).items():
                command += [option, str(path)]
            if relay is not None:
                command += ["--listen", relay.behind(party.address)]
            started[party.name] = stack.enter_context(
                subprocess.Popen(
                    command,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
                )
            )
        errors = {name: process.communicate()[1] for name, process in started.items()}
        if any(process.returncode for process in started.values()):
            raise SystemExit("\n".join(f"{name}: {text}" for name, text in errors.items()))


def _one(name: str, parameters: str, folder: Path, names: tuple[str, ...], delay: float) -> None:
    protocol = write_protocol(folder, name, parameters, names)
    read = read_run(protocol)
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(tempfile.TemporaryDirectory())
        addresses = [party.address for party in read.spec.parties]
        relay = stack.enter_context(Relay(addresses, delay)) if delay else None
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        _processes(read, protocol, folder, Path(out), relay)
        lines = [json.loads(line) for line in (Path(out) / "ada" / "transcript.jsonl").read_text().splitlines()]
        result = dict(np.load(Path(out) / "ada" / "result.npz"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    moment = {line["what"]: datetime.fromisoformat(line["time"]) for line in lines}
    seconds = (moment["done"] - moment["all present"]).total_seconds()
    sent = sum(line["bytes"] for line in lines if line["what"] == "sent")
    rounds = len({line["round"] for line in lines if line["what"] == "sent"})
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    mechanism = read.terms.mechanism
    lag = f", {delay * 1000:g} ms each way" if delay else ""
    print(
        f"{name:9} opens {traits_of(mechanism).opens:11} {len(names)} parties, {read.terms.features} terms, rank "
        f"{traits_of(mechanism).rank}{lag}: {seconds:7.1f} s ({busy:.0f} CPU s of all), {rounds} rounds, "
        f"{sent / 1e6:.1f} MB sent by one, "
        f"{after.ru_maxrss / 1024:.0f} MB the largest process so far, {_off(read, folder, names, result)}",
        flush=True,
    )


def _off(read: Run, folder: Path, names: tuple[str, ...], result: dict[str, np.ndarray]) -> str:
    """How far from the result of the ideal functionality."""
    mechanism, rows = read.terms.mechanism, _rows(read, folder, names)
    if isinstance(mechanism, PDNMF):
        exact = mechanism.run(rows, np.random.default_rng(0))["T"]
        off = np.abs(result["T"] - exact).max() / exact.max()
        what = "users" if mechanism.weighted else "mails"
        return f"{rows.rows} {what}, T off by {off:.1e} of its largest entry"
    if isinstance(mechanism, Noisy):
        left = result["V"] - mechanism.without_noise(rows, np.random.default_rng(0))["V"]
        expected = mechanism.noise * np.sqrt(len(names) / (len(names) - 1)) * float(str(mechanism.scale))
        size, p = np.sqrt(np.mean(left**2)) / expected, kstest(left.ravel() / expected, "norm").pvalue
        return f"noise {size:.3f} times the sum of what parties add, normal with p {p:.2g}"
    assert isinstance(mechanism, PDSVD)
    whole = sp.csr_array(sp.vstack(rows.parties, format="csr"))
    exact = PDSVD(rank=mechanism.rank).run(Database((whole,)), np.random.default_rng(0))["V"]
    return f"sine to the exact result {subspace_sine(result['V'], exact):.1e}"
