"""The cost of auditing every document as the corpus grows: time by stage, memory, bytes.

::

    python -m benchmarks scale                                  # 20,000 and 200,000 documents; some minutes
    python -m benchmarks scale --scales 2000000 --runs 32       # two million; ten minutes on an idle machine
    python -m benchmarks store                                  # what takes the room in the store of enron-mail6

The corpora are drawn: 200,000 features, some 30 different ones a document, half of them of one of 50 subjects, by
Zipf's law. One process does everything, so that its largest resident size is the audit's; a corpus is mapped, and
what several workers map of it is there once.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks import ROOT
from ksdp.audit.opened import Opened
from ksdp.audit.plan import Plan, bytes_a_document
from ksdp.audit.planning import make_plan
from ksdp.audit.specs.models import Spec
from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_prepared
from ksdp.flows.prepare import open_spec, prepare_stored
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.storage.remote import Place
from ksdp.storage.store import Store
from ksdp.tasks.audit_ref import folders_of
from ksdp.tasks.blocks import compute_block

FEATURES = 200_000
SUBJECTS = 50
_CHUNK = 100_000
_STATISTICS = ("row-space-energy", "w-square-sum", "missing-weight")


def drawn_corpus(documents: int, rng: np.random.Generator, features: int = FEATURES) -> sp.csr_matrix:
    """Counts of features: half by Zipf's law, half by the same law over the features of the document's subject."""
    weights = np.cumsum(1 / (np.arange(features) + 2.7))
    parts = []
    for first in range(0, documents, _CHUNK):
        count = min(_CHUNK, documents - first)
        sizes = 8 + rng.poisson(24, count)
        rows = np.repeat(np.arange(count), sizes)
        ranks = np.searchsorted(weights, rng.random(len(rows)) * weights[-1]).astype(np.int64)
        subject = rng.integers(SUBJECTS, size=count)[rows]
        own = rng.random(len(rows)) < 0.5
        columns = np.where(own, (ranks * 7919 + subject * 3571) % features, ranks)
        ones = np.ones(len(rows), np.int32)
        parts.append(sp.csr_matrix((ones, (rows, columns)), shape=(count, features)))
    return sp.vstack(parts, format="csr")


def spec_tables(path: Path, runs: int) -> dict[str, Any]:
    """A spec of PD-SVD with V opened and three statistics."""
    with_runs = max(2, runs // 16)
    return {
        "seed": 1,
        "corpus": {"path": str(path)},
        "mechanism": {"name": "pd-svd", "rank": 4, "opens": "final"},
        "design": {"party_size": 0.0625, "with_runs": with_runs, "fresh_runs": 0},
        "statistics": {"families": [], "names": list(_STATISTICS)},
        "store": {"values": "none"},
    }


def run(sizes: Sequence[int], runs: int) -> None:
    """Print one line a size."""
    print(f"one process, {runs} runs at 1/16, {len(_STATISTICS)} statistics, {FEATURES} features; CPU seconds")
    heads = ("read", "sample", "test", "rest", "GB", "store GB", "parts", "us a document and run")
    print(f"{'documents':>10} {'entries':>11}" + "".join(f"{head:>10}" for head in heads))
    for size in sizes:
        command = [sys.executable, "-c", "from benchmarks import scale; scale.one()", str(size), str(runs)]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        measured = json.loads(done.stdout.strip().splitlines()[-1])
        took = measured["seconds"]
        cells = [f"{took[stage]:.1f}" for stage in ("read", "sample", "test", "rest")]
        cells += [f"{measured['memory']:.2f}", f"{measured['store']:.2f}", str(measured["parts"])]
        cells.append(f"{1e6 * (took['sample'] + took['test'] + took['rest']) / size / measured['runs']:.2f}")
        print(f"{size:>10} {measured['entries']:>11}" + "".join(f"{cell:>10}" for cell in cells), flush=True)


def one() -> None:
    """Audit one corpus in this process and say what it took, as JSON."""
    from ksdp.tasks.audit_ref import parts_of

    size, runs = int(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts.npz"
        draw = [sys.executable, "-c", "from benchmarks import scale; scale.write()", str(size), str(path)]
        subprocess.run(draw, cwd=ROOT, check=True)
        began = time.process_time()
        spec = Spec.model_validate(spec_tables(path, runs))
        corpus = open_spec(spec, Path(folder)).corpus
        ready = prepare_stored(make_plan(Opened.of(spec, corpus)), Path(folder) / "store", may_sample=True)
        entries, parts = int(corpus.matrix.nnz), len(parts_of(ready.ref))
        path.unlink()
        del corpus
        read = time.process_time() - began
        print(f"read: {_resident():.2f} GB at most, {read:.0f} CPU s", file=sys.stderr, flush=True)
        summary = run_prepared([ready], HERE)[0]
        whole = time.process_time() - began - read
        share = whole / summary.seconds  # other work on this machine counts in seconds, not in CPU seconds
        stages = {name: summary.seconds_by_stage[name] * share for name in ("sample", "test")}
        kept = _bytes(Path(ready.ref.store))
    seconds = {"read": read, **stages, "rest": whole - sum(stages.values())}
    measured = {"seconds": seconds, "memory": _resident(), "store": kept / 1e9, "entries": entries}
    print(json.dumps(measured | {"runs": summary.runs, "parts": parts, "valid": summary.valid}))


def write() -> None:
    """Write a corpus; in a process of its own, so that what drawing takes is not counted."""
    matrix = drawn_corpus(int(sys.argv[1]), np.random.default_rng(7))
    sp.save_npz(sys.argv[2], matrix, compressed=False)


def _resident() -> float:
    """GB that this process held at most, pages of mapped files among them."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def store_parts(path: Path, blocks: int = 2) -> None:
    """Print what the store of an audit of every document holds, from some blocks that are written for real."""
    read, base = read_spec_file(path)
    tables = read.model_dump(mode="json")
    tables["mechanism"] |= {"opens": "final"}
    tables["store"] |= {"values": "all"}
    spec = Spec.model_validate(tables)
    with tempfile.TemporaryDirectory() as folder:
        ready = prepare_stored(make_plan(open_spec(spec, base)), Path(folder) / "store", may_sample=True)
        plan, folders = ready.plan, folders_of(ready.ref)
        for block in plan.blocks[:blocks]:
            compute_block(ready.ref, block)
        runs = sum(map(len, plan.blocks[:blocks]))
        observables, values = (_bytes(some) / runs for some in (folders.observables, folders.values))
        corpus = _bytes(Store(Path(ready.ref.store)).corpus(ready.ref.corpus))
    _say(path.stem, plan, observables, values, corpus)


def _bytes(folder: Place) -> int:
    assert isinstance(folder, Path)  # the store has just been made, in a folder
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _say(name: str, plan: Plan, observables: float, values: float, corpus: int) -> None:
    fresh = plan.fresh_runs
    plain = len(plan.audited) * bytes_a_document(plan) / plan.design.runs
    print(f"{name}: {len(plan.audited)} documents, {plan.runs} runs and at most {fresh} fresh ones; GB")
    lines = {
        "observables": observables * (plan.runs + fresh),
        "values": values * (plan.runs + fresh * plan.reading.every / plan.fresh_every),
        "corpus": corpus,
    }
    for what, size in lines.items():
        print(f"  {what:12} {size / 1e9:6.2f}")
    kept = lines["observables"] + lines["corpus"]
    print(f"  with values  {(kept + lines['values']) / 1e9:6.2f}   without {kept / 1e9:6.2f}")
    print(f"  values a run {values / 1e6:6.2f} MB, reckoned {plain / 1e6:.2f}", flush=True)
