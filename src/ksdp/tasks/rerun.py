"""The process that makes runs again; it knows nothing of the audit."""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ksdp.audit.mechanisms.callables import failure_of


@dataclass(frozen=True)
class Answer:
    """Releases of the runs."""

    announced: list[dict[str, Any]]
    generators: tuple[str, ...]
    """Names of the global generators that the runs drew from."""
    failure: str = ""


def rerun(mechanism: Any, jobs: Sequence[tuple[Any, np.random.Generator]]) -> Answer:
    """Run a mechanism on each database, in this order."""
    states = {"NumPy": lambda: np.random.get_state(), "Python's `random`": random.getstate}  # noqa: NPY002 - the global one is what is watched
    before = {name: pickle.dumps(state()) for name, state in states.items()}
    announced: list[dict[str, Any]] = []
    failure = ""
    for database, rng in jobs:
        try:
            seen: Mapping[str, Any] = mechanism.run(database, rng)
        except Exception as error:  # somebody else's code
            failure = failure_of(error)
            break
        announced.append({name: np.array(array) for name, array in seen.items()})
    drawn = tuple(name for name, state in states.items() if pickle.dumps(state()) != before[name])
    return Answer(announced, drawn, failure)


def answer_file(request: str, answered: str) -> None:
    """Read what is asked, run it with one thread as an audit does, and write the answer whole."""
    path, unused, jobs = pickle.loads(Path(request).read_bytes())
    sys.path[:] = path
    given = pickle.loads(unused)
    mechanism = given() if isinstance(given, partial) else given
    with threadpool_limits(1):
        answer = rerun(mechanism, jobs)
    part = Path(f"{answered}.part")
    part.write_bytes(pickle.dumps(answer))
    part.replace(answered)
