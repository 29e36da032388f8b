"""Somebody's own mechanism and statistics are tried once, before any work and before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ksdp.audit.errors import KsdpError, SpecError
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.own_code import own_modules
from ksdp.audit.plan import Plan
from ksdp.audit.sampling import run_observables
from ksdp.audit.spec.models import Spec


def names_own_code(spec: Spec) -> bool:
    """Whether a spec names an object of a module (`module:object`) in place of something installed."""
    return bool(own_modules([spec.mechanism.model_dump(mode="json"), spec.statistics.names]))


def try_own_code(plan: Plan) -> None:
    """If the spec names a user's own code, run the mechanism once and evaluate every statistic on that run.

    Raises
    ------
    SpecError
        Naming what is wrong, if anything fails or gives other arrays than it should.
    """
    if not names_own_code(plan.spec):
        return
    with _trial(f"mechanism {plan.mechanism.name!r}", "run"):
        stored = run_observables(plan, 0, 0)
    seen = Observables({array: stored[array].astype(np.float64) for array in plan.seen})
    documents = plan.documents(0)
    for one in plan.statistics:
        whose = f"statistic {one.name!r}"
        with _trial(whose, "evaluate"):
            values = np.asarray(one.evaluate(seen, documents))
        if values.shape != (len(documents),):
            raise SpecError(
                f"`evaluate` of {whose} must give one number a document, shape ({len(documents)},); "
                f"got shape {values.shape}."
            )
        if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
            raise SpecError(f"`evaluate` of {whose} must give finite numbers.")


@contextmanager
def _trial(whose: str, what: str) -> Iterator[None]:
    """What fails inside, as a refusal of the spec that says whose fault it is."""
    try:
        yield
    except KsdpError as error:
        raise SpecError(f"`{what}` of {whose} fails in a trial run: {error}") from error
    except Exception as error:  # somebody else's code; what it says may hold a document
        failure = f"{type(error).__name__} {_where(error)}"
        raise SpecError(f"`{what}` of {whose} fails in a trial run: {failure}.") from error


def _where(error: BaseException) -> str:
    """The line that failed, as the last frame has it."""
    trace = error.__traceback__
    if trace is None:
        return "somewhere"
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"in {trace.tb_frame.f_code.co_name}, line {trace.tb_lineno}"
