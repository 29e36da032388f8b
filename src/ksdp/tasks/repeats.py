"""Some runs of somebody's own mechanism again, equal to the last bit; recorded ones as they belong together."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ksdp.audit.errors import InvalidAudit
from ksdp.audit.mechanisms.recorded import RecordedRuns, is_own
from ksdp.audit.plan import Plan
from ksdp.audit.registry import unused_mechanism
from ksdp.audit.runs import as_stored, database_of, run_digest
from ksdp.audit.specs.design import Block, mechanism_rng
from ksdp.audit.verdicts.mix_ups import MOST_RUNS, fits_documents
from ksdp.storage.blocks import read_digests
from ksdp.tasks.audit_ref import AuditRef, folders_of, open_plan
from ksdp.tasks.rerun import Answer, answer_file, rerun

REPEATED = 12
"""Runs of an audit that are made again."""
_PROGRAM = (
    f"import sys; from {answer_file.__module__} import {answer_file.__name__} as answer; answer(*sys.argv[1:])"
)
_CURE = "Take all randomness from `rng`, and keep nothing between runs."


def repeat_runs(ref: AuditRef) -> str:
    """Return a warning about a mechanism some of whose repeated runs are the same."""
    plan = open_plan(ref)
    if isinstance(plan.mechanism, RecordedRuns):
        return _as_recorded(plan.mechanism, plan)
    if not is_own(plan.mechanism):
        return ""
    runs = [(block, run) for block in plan.blocks for run in range(block.start, block.stop)]
    picked = np.unique(np.linspace(0, len(runs) - 1, REPEATED).round().astype(int))[::-1]
    chosen = [runs[at] for at in picked]
    before = _digests_before(ref, chosen)
    answer, elsewhere = _again(plan, chosen)
    whose = f"mechanism {plan.mechanism.name!r}"
    after = [
        run_digest(plan, as_stored(plan, arrays, block.lane, run, ", made again"))
        for (block, run), arrays in zip(chosen, answer.announced, strict=True)
    ]
    differ = [place for place, first, second in zip(chosen, before, after, strict=True) if first != second]
    if differ:
        block, run = differ[-1]
        where = "in a new process" if elsewhere else "in this process"
        raise InvalidAudit(
            f"{whose} announced other numbers in {len(differ)} of {len(chosen)} runs repeated {where}, in another "
            f"order (lane {block.lane}, run {run}, and others). {_why(plan, chosen, answer)} {_CURE}"
        )
    if len(set(after)) == 1 and len(after) > 1:
        same = f"{whose} announced the same numbers in {len(after)} runs of different data"
        if not elsewhere:
            raise InvalidAudit(
                f"{same}, and cannot be run in a new process to see whether it remembers them. {_CURE}"
            )
        return f"{same}: it does not depend on them, or hardly ever"
    return ""


def _as_recorded(mechanism: RecordedRuns, plan: Plan) -> str:
    for start, part in mechanism.parts(MOST_RUNS):
        if not fits_documents(*part, plan.corpus.matrix):
            raise InvalidAudit(
                f"what was announced from recorded run {start} on fits the documents that were in no better than "
                "it fits documents in a random order: nothing says that the two tables belong together. Number "
                "runs and documents alike in both. Where they are, these runs tell too little: record more."
            )
    notes = (
        (mechanism.repeated, "repeat earlier ones to the last bit, and are counted once"),
        (mechanism.learnt, "are learnt from, and tests read the others"),
    )
    return "; ".join(f"{count} recorded runs {what}" for count, what in notes if count)


def _digests_before(ref: AuditRef, chosen: list[tuple[Block, int]]) -> list[str]:
    folders = folders_of(ref)
    read = {
        block: read_digests(folders.values, block, folders.values_key) for block in {block for block, _ in chosen}
    }
    return [read[block][run - block.start] for block, run in chosen]


def _again(plan: Plan, chosen: list[tuple[Block, int]]) -> tuple[Answer, bool]:
    jobs = [
        (database_of(plan, block.lane, run), mechanism_rng(plan.design, block.lane, run)) for block, run in chosen
    ]
    unused = unused_mechanism(plan.spec.mechanism)
    answer = None if unused is None else _elsewhere(unused, jobs)
    here = answer is None
    if answer is None:
        answer = rerun(plan.mechanism, jobs)
    if answer.failure:
        raise InvalidAudit(
            f"mechanism {plan.mechanism.name!r} failed in a run that was made again: {answer.failure}."
        )
    return answer, not here


def _elsewhere(unused: bytes, jobs: list[Any]) -> Answer | None:
    """The answer of a new process; None where it cannot import or unpickle what it is to run."""
    with tempfile.TemporaryDirectory(prefix="ksdp-again-") as folder:
        questions, answered = Path(folder) / "asked", Path(folder) / "answered"
        questions.write_bytes(pickle.dumps((sys.path, unused, jobs)))
        command = [sys.executable, "-c", _PROGRAM, str(questions), str(answered)]
        subprocess.run(
            command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        if not answered.is_file():
            return None
        answer: Answer = pickle.loads(answered.read_bytes())
        return answer


def _why(plan: Plan, chosen: list[tuple[Block, int]], answer: Answer) -> str:
    if answer.generators:
        return f"It draws from the global generator of {' and '.join(answer.generators)}."
    once_more, _ = _again(plan, chosen)
    same = all(
        np.array_equal(first[name], second[name])
        for first, second in zip(answer.announced, once_more.announced, strict=True)
        for name in first
    )
    if same:
        return "It carries something from run to run: a cache, a counter, or an earlier result."
    return "It differs each time that it is run: it reads a clock, or the operating system's randomness."
