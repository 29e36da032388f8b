"""Chance of somebody's own mechanism: what is declared, what is not, and that the law is the declared one."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import kstest

import ksdp
from ksdp.audit.contract import Database, Observables, Release
from ksdp.audit.corpus.matrix import canonical
from ksdp.audit.mechanisms.callables import code_key, function_mechanism
from ksdp.audit.mechanisms.chance import undeclared
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.mechanisms.recorded import is_own, own_parts

ROWS = np.random.default_rng(3).lognormal(size=(300, 4))
WHOLE = 2**32
Function = Callable[[np.ndarray, np.random.Generator], Any]


def whole(rows: np.ndarray) -> np.ndarray:
    return (1000 * rows.sum(axis=0)).astype(np.int64)


def masked(rows: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """What the server of a secure aggregation sees: uploads whose masks cancel modulo 2^32."""
    masks = rng.integers(0, WHOLE, (3, 4))
    uploads = [whole(rows[at::3]) + masks[at] - masks[at - 1] for at in range(3)]
    return {f"upload-{at}": one % WHOLE for at, one in enumerate(uploads)}


def blurred(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return ksdp.noise(rows.sum(axis=0), rng, scale=9.0)


def one_seed_twice(rows: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    seed = int(rng.integers(2**31))
    return [blurred(part, np.random.default_rng(seed)) for part in (rows, 0.0 * rows)]


class Narrow(np.random.Generator):
    """A generator whose normal numbers are not."""

    def standard_normal(self, *arguments: Any, **more: Any) -> Any:
        return 0.5 * super().standard_normal(*arguments, **more)


def found_in(function: Function) -> dict[str, str]:
    mechanism = function_mechanism("own", lambda rows, rng: function(rows.toarray(), rng), sp.csr_array(ROWS[:10]))
    rng = np.random.default_rng(0)
    held = [np.sort(rng.choice(len(ROWS), 150, replace=False)) for _ in range(20)]
    return undeclared(mechanism, [Database((canonical(sp.csr_array(ROWS[some])),)) for some in held])


BOTH = {"output_0", "output_1"}
DIFFERS, MOVES, REPEATS = "not what `ksdp.noise` returned", "another value under the noise", "repeats other noise"


@pytest.mark.parametrize(
    ("function", "names", "why"),
    [
        (masked, {"upload-0", "upload-1", "upload-2"}, DIFFERS),
        (lambda rows, rng: np.concatenate(list(masked(rows, rng).values())), {"output"}, DIFFERS),
        (
            lambda rows, rng: [key := rng.integers(0, WHOLE, 4), whole(rows) ^ key],
            {"output_0", "output_1"},
            DIFFERS,
        ),
        (lambda rows, rng: rng.permutation(rows.mean(axis=0)), {"output"}, DIFFERS),
        (lambda rows, rng: rows.sum(axis=0) + (rng.normal() if rng.random() < 0.3 else 0.0), {"output"}, DIFFERS),
        (
            lambda rows, rng: [s := rng.integers(10**9), blurred(rows, np.random.default_rng(s))],
            {"output_0"},
            DIFFERS,
        ),
        (lambda rows, rng: [n := blurred(0.0 * rows, rng), rows.sum(axis=0) + n], {"output_1"}, DIFFERS),
        (lambda rows, rng: rng.permutation(ksdp.noise(rows.sum(axis=0), rng, scale=0.1)), {"output"}, DIFFERS),
        (lambda rows, rng: [n := blurred(0.0 * rows, rng), blurred(rows + n, rng)], {"output_1"}, MOVES),
        (lambda rows, rng: ksdp.noise(rows.sum(axis=0), rng, scale=rng.uniform(1.0, 2.0)), {"output"}, MOVES),
        (one_seed_twice, BOTH, REPEATS),
        (lambda rows, rng: ksdp.noise(np.zeros(160), Narrow(rng.bit_generator), scale=1.0), {"output"}, REPEATS),
        (lambda rows, rng: ksdp.noise(rows.mean(axis=0), rng, scale=0.1).round(3), {"output"}, DIFFERS),
        (lambda rows, rng: np.random.default_rng().normal(size=3), {"output"}, DIFFERS),
        (lambda rows, rng: [rows.sum()][len(rows) > 20], {"own"}, "a trial run fails: KsdpError: the mechanism"),
    ],
)
def test_chance_that_nobody_declared_is_named(function: Function, names: set[str], why: str) -> None:
    found = found_in(function)
    assert found.keys() == names
    assert all(why in said for said in found.values())


@pytest.mark.parametrize(
    "function",
    [
        lambda rows, rng: np.histogram(rows, 8, (0.0, 4.0))[0],
        lambda rows, rng: ksdp.noise(rows.mean(axis=0), rng, "laplace", scale=rows.std(axis=0)),
        lambda rows, rng: {"n": len(rows), "sums": np.append(ksdp.noise(rows.sum(axis=0), rng, scale=1.0), 7.0)},
        lambda rows, rng: [ksdp.noise(rows.sum(), one, scale=9.0) for one in rng.spawn(2)],
        lambda rows, rng: ksdp.noise(rows.sum(axis=0), np.random.default_rng(5), scale=1.0),
        lambda rows, rng: np.array([ksdp.noise(rows.sum(axis=0), rng, scale=1.0)] * 2),
    ],
    ids=["counts", "laplace", "some", "parties", "fixed", "twice"],
)
def test_what_is_deterministic_or_has_declared_noise_is_not(function: Function) -> None:
    assert found_in(function) == {}


@dataclass(frozen=True)
class Uploads:
    """Masked uploads as an object."""

    name: str = "uploads"
    version: int = 1

    def releases(self, features: int) -> tuple[Release, ...]:
        return tuple(Release(f"upload-{at}", (features,), dtype="int64") for at in range(3))

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        return Observables(masked(database.parties[0].toarray(), rng))


OWN = {"name": f"{__name__}:Uploads"}


@pytest.mark.parametrize("mechanism", [masked, Uploads(), OWN])
def test_nobody_is_clear_of_it_and_the_forecast_says_how_to_declare(mechanism: Any) -> None:
    (said,) = ksdp.plan(ROWS[:60], mechanism, party_size=0.5, with_runs=40)["unread"]
    assert re.findall("`(.*?)`", said.partition(":")[0]) == ["upload-0", "upload-1", "upload-2"]
    assert "release `ksdp.noise(value, rng, scale=...)` as it is" in said


@pytest.mark.parametrize(("law", "known"), [("gaussian", "norm"), ("laplace", "laplace")])
def test_noise_is_of_its_law_and_each_number_has_its_own(law: Any, known: str) -> None:
    value, scale, rng = np.array([5.0, -7.0]), np.array([2.0, 30.0]), np.random.default_rng(4)
    drawn = (np.stack([ksdp.noise(value, rng, law, scale=scale) for _ in range(4000)]) - value) / scale
    assert min(kstest(column, known).pvalue for column in drawn.T) > 1e-3
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.1
    assert isinstance(ksdp.noise(1.0, rng, law, scale=1.0), float)


def test_noise_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="must be positive and finite; got 0"):
        ksdp.noise(np.zeros(2), np.random.default_rng(0), scale=0.0)
    with pytest.raises(ValueError, match=r"`scale` of shape \(5, 2\) does not fit `value` of shape \(2,\)"):
        ksdp.noise(np.zeros(2), np.random.default_rng(0), scale=np.ones((5, 2)))


def helper(rows: np.ndarray) -> np.ndarray:
    return rows.mean(axis=0)


def test_a_function_is_known_by_its_code_and_by_what_it_holds_and_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(times: float) -> Function:
        return lambda rows, rng: times * helper(rows)

    others = [
        made(3.0),
        lambda rows, rng: helper(rows),
        lambda rows, rng, times=2.0: times * helper(rows),
        lambda rows, rng, times=3.0: times * helper(rows),
        lambda rows, rng: rows.sum(axis=0),
        lambda rows, rng: [row + 1 for row in rows],
        lambda rows, rng: [row + 2 for row in rows],
    ]
    before = code_key(made(2.0))
    assert before == code_key(made(2.0))
    assert len({before, *map(code_key, others)}) == len(others) + 1
    monkeypatch.setitem(globals(), "helper", others[-1])
    assert before != code_key(made(2.0))


def test_noise_around_somebodys_own_code_leaves_it_own() -> None:
    class Own:
        """Code that is no part of ksdp."""

    around = Noisy("pd-svd", 1.0, {"rank": 2})
    assert not is_own(around)
    around.__dict__["inner"] = Own()
    assert is_own(around)
    assert len(own_parts(around)) == 1
