"""Any function of a matrix as a mechanism: what it returns in a trial is what every run must announce."""

from __future__ import annotations

import functools
import hashlib
import pickle
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np
import scipy.sparse as sp

from ksdp.audit.contract import Database, Observables, Release
from ksdp.audit.errors import InputError, KsdpError
from ksdp.audit.mechanisms.factorisation.power_iteration import stack

if TYPE_CHECKING:
    from ksdp.audit.statistic import TableStatistic

_SEED = 1234567
"""Seed of the trial run, whose numbers are thrown away."""


def _named_arrays(returned: Any) -> dict[str, np.ndarray]:
    if isinstance(returned, Mapping):
        named = {str(name): array for name, array in returned.items()}
    elif isinstance(returned, tuple | list):
        named = {f"output_{at}": array for at, array in enumerate(returned)}
    else:
        named = {"output": returned}
    if returned is None or not named:
        raise InputError("the mechanism must return what it announces: an array, several, or a mapping of names.")
    arrays = {name: np.asarray(array.toarray() if sp.issparse(array) else array) for name, array in named.items()}
    if not any(array.size for array in arrays.values()):
        raise InputError(f"what the mechanism announces is empty: {', '.join(arrays)} of no numbers.")
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise InputError(f"what the mechanism announces as {name!r} must be numbers; it holds {array.dtype}.")
        if not in_double(array):
            raise InputError(
                f"what the mechanism announces as {name!r} has more digits than double precision holds: announce "
                "parts of these numbers, each below 2^53."
            )
    return arrays


def in_double(array: np.ndarray) -> bool:
    """Whether double precision holds every number of an array."""
    if array.dtype.kind in "iu":
        return not array.size or max(abs(int(array.min())), abs(int(array.max()))) <= 2**53
    return array.dtype.itemsize <= 8 or np.array_equal(array.astype(np.float64), array, equal_nan=True)


_MESSAGE = 300


def failure_of(error: BaseException) -> str:
    """Describe the failure of a function: type, message, and the last line of its own code."""
    message = " ".join(str(error).split())[:_MESSAGE].rstrip(".")
    installed = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
    frames = [(frame.f_code, line, frame.f_globals) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [
        (code, line)
        for code, line, names in frames
        if not code.co_filename.startswith(installed) and not str(names.get("__name__")).startswith("ksdp.")
    ]
    words = f"{type(error).__name__}: {message}" if message else type(error).__name__
    if not own:
        return words
    code, line = own[-1]
    return f"{words} ({Path(code.co_filename).name}, line {line}, in {code.co_name})"


def pickled(value: object) -> bytes | None:
    """An object for another process, with the code of what is not in a module; None where it cannot be pickled."""
    try:
        return bytes(cloudpickle.dumps(value))
    except Exception:  # whatever somebody's object holds
        return None


def code_key(thing: object) -> str:
    """A digest of a function's code, of functions beside it that it calls, and of what it holds."""
    digest = hashlib.sha256()
    for part in _parts(thing, set()):
        digest.update(b"%d:" % len(part) + part)
    return digest.hexdigest()[:16]


def _parts(thing: object, seen: set[int]) -> Iterator[bytes]:
    if id(thing) in seen:
        return
    if isinstance(thing, CodeType):
        yield thing.co_code + " ".join((*thing.co_names, *thing.co_varnames)).encode()
        for constant in thing.co_consts:
            yield from _parts(constant, seen)
    elif isinstance(thing, FunctionType):
        seen.add(id(thing))
        yield from _parts(thing.__code__, seen)
        contents = [cell.cell_contents for cell in thing.__closure__ or ()]
        called = (thing.__globals__.get(name) for name in thing.__code__.co_names)
        beside = [
            part for part in called if isinstance(part, FunctionType) and part.__module__ == thing.__module__
        ]
        for part in (*contents, *(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values(), *beside):
            yield from _parts(part, seen)
    else:
        yield pickled(thing) or type(thing).__qualname__.encode()


class FunctionMechanism:
    """A function `(X, rng) -> arrays`, run on all parties' rows together; `function_mechanism` makes it."""

    version = 1

    def __init__(
        self,
        name: str,
        call: Callable[[sp.csr_array, np.random.Generator], Any],
        shapes: tuple[Release, ...],
        features: int,
        unused: bytes | None = None,
        code: str = "",
    ) -> None:
        """`unused`: the function, pickled before its first call; `code`: its `code_key`, also of that time."""
        self.name, self.code = name, code
        self._call, self._shapes, self._features, self._unused = call, shapes, features, unused

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled, it is as before its first call: what the function keeps between calls stays behind."""
        if self._unused is None:
            raise pickle.PicklingError(f"the function of {self.name!r} cannot be pickled.")
        return _unpickled, (self.name, self._unused, self._shapes, self._features, self.code)

    @functools.cached_property
    def statistics(self) -> tuple[TableStatistic, ...]:
        """Norms and sums of each array, which anybody would look at."""
        # Here, so that the process that makes runs again starts in half the time.
        from ksdp.audit.statistics.plain import statistics_of_arrays

        return statistics_of_arrays(self._shapes, self._features)

    def releases(self, features: int) -> tuple[Release, ...]:
        """The arrays that the trial run announced."""
        return self._shapes

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Call the function."""
        try:
            return Observables(_named_arrays(self._call(stack(database.parties), rng)))
        except Exception as error:
            raise KsdpError(f"the mechanism {self.name!r} failed in a run: {failure_of(error)}.") from error


def _unpickled(
    name: str, unused: bytes, shapes: tuple[Release, ...], features: int, code: str
) -> FunctionMechanism:
    return FunctionMechanism(name, pickle.loads(unused), shapes, features, unused, code)


def function_mechanism(
    name: str,
    call: Callable[[sp.csr_array, np.random.Generator], Any],
    trial: sp.csr_array,
    features: int | None = None,
) -> FunctionMechanism:
    """Try a function on some rows once, and make it a mechanism that announces arrays of the shapes it gave."""
    unused, code = pickled(call), code_key(call)
    try:
        announced = _named_arrays(call(trial, np.random.default_rng(_SEED)))
    except InputError:
        raise
    except Exception as error:  # somebody else's code: whatever it raises, nothing was spent yet
        raise InputError(f"the mechanism {name!r} failed in a trial run: {failure_of(error)}.") from error
    wrong = [key for key, array in announced.items() if not np.isfinite(array.astype(np.float64)).all()]
    if wrong:
        raise InputError(f"the mechanism {name!r} announced NaN or infinity in {wrong[0]!r} in a trial run.")
    shapes = tuple(Release(key, array.shape, dtype=array.dtype.name) for key, array in sorted(announced.items()))
    return FunctionMechanism(name, call, shapes, trial.shape[1] if features is None else features, unused, code)
