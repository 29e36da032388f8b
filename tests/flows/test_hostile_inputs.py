"""Corpora and specs that were damaged or written to harm: each is taken or refused, soon, in little memory."""

import io
import json
import multiprocessing
import resource
import signal
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp

from ksdp.audit.errors import KsdpError
from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_audit
from ksdp.flows.prepare import open_spec
from ksdp.storage.files import toml_value
from ksdp.storage.readers.spec_files import read_spec_file

_CLEAN = multiprocessing.get_context("forkserver")
"""What earlier tests left in this process, threads and memory, is not the children's."""
_CLEAN.set_forkserver_preload([__name__])
SECONDS, BYTES = 10, 1536 * 2**20
COUNTS = np.random.default_rng(1).poisson(0.5, (12, 8))
FRAME = pd.DataFrame(COUNTS, columns=[f"c{at}" for at in range(8)]).assign(id=[f"d{row}" for row in range(12)])


def saved(save: Callable[[Any], Any], *rest: Any) -> bytes:
    buffer = io.BytesIO()
    save(buffer, *rest)
    return buffer.getvalue()


FILES = {
    "a.csv": FRAME.to_csv(index=False).encode(),
    "a.jsonl": FRAME.to_json(orient="records", lines=True).encode(),
    "a.parquet": saved(FRAME.to_parquet),
    "a.npz": saved(sp.save_npz, sp.csr_matrix(COUNTS)),
    "a.mtx": saved(scipy.io.mmwrite, sp.coo_matrix(COUNTS)),
}
SPEC: dict[str, Any] = {
    "seed": 1,
    "corpus": {"path": "", "weighting": "counts"},
    "mechanism": {"name": "pd-nmf", "rank": 2},
    "design": {"party_size": 4, "with_runs": 8},
    "decision": {"margin": 0.3, "level": 0.05},
    "statistics": {"families": ["paper"]},
}
VALUES = (
    0, -1, 1, 2**31, 2**63, 1e-300, 1e308, -0.0, float("nan"), float("inf"), "", "\0", "../../etc/passwd",
    "/dev/zero", "\u202ex", "x" * 100_000, [], [[]], {}, True, [1] * 10_000,
)  # fmt: skip
CELLS = ("1e308", "1e400", "-5", "NaN", "1_0", "=1+1", str(2**70), "\u0661", "", '"', "1e-320", "0x10", "x" * 5000)


def damaged(data: bytes, rng: np.random.Generator, text: bool) -> bytes:
    """Cut, flipped, repeated, or with a cell of another kind."""
    at, how = int(rng.integers(len(data))), int(rng.integers(5 if text else 4))
    if how == 0:
        return data[:at]
    if how == 1:
        return data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :]
    if how == 2:
        return data[:at] + rng.bytes(int(rng.integers(1, 40))) + data[at:]
    if how == 3:
        return data[:at] + data[at // 2 :]
    cells = data.decode().split(",")
    cells[int(rng.integers(len(cells)))] = str(rng.choice(CELLS))
    return ",".join(cells).encode()


def changed(spec: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """One value, or a key that nobody knows."""
    section = str(rng.choice(["corpus", "mechanism", "design", "decision", "statistics", "seed"]))
    value = VALUES[int(rng.integers(len(VALUES)))]
    if section == "seed":
        return spec | {"seed": value}
    key = str(rng.choice([*spec[section], "odd"]))
    return spec | {section: spec[section] | {key: value}}


def _answer(spec: Path, store: Path, said: Any) -> None:
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of this process, and not of a busy machine
    signal.alarm(60 * SECONDS)
    try:
        run_audit(open_spec(*read_spec_file(spec)), store, HERE)
    except KsdpError as error:
        said.send(str(error))
    except BaseException as error:
        said.send((type(error).__name__, str(error)[:300]))
    else:
        said.send("")
    said.send(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    said.close()


def answer(folder: Path, number: int) -> tuple[bool, str]:
    """Whether one hostile input was taken, and what is wrong with the answer; empty where it is right."""
    rng = np.random.default_rng([7, number])
    name = list(FILES)[number % len(FILES)]
    here = folder / str(number)
    here.mkdir()
    hostile = bool(number // len(FILES) % 2)
    (here / name).write_bytes(damaged(FILES[name], rng, name == "a.csv") if hostile else FILES[name])
    spec = SPEC | {"corpus": SPEC["corpus"] | {"path": name}}
    spec = spec if hostile else changed(spec, rng)
    lines = [f"{key} = {toml_value(value)}" for key, value in spec.items()]
    text = "\n".join(lines).replace("NaN", "nan").replace("Infinity", "inf")
    tomllib.loads(text)
    (here / "s.toml").write_text(text)
    ear, mouth = _CLEAN.Pipe(duplex=False)
    process = _CLEAN.Process(target=_answer, args=(here / "s.toml", here / "store", mouth))
    process.start()
    mouth.close()
    try:
        said, used = ear.recv(), ear.recv()
    except EOFError:
        said, used = ("no answer", ""), 0
    process.join()
    what = json.dumps([name, hostile, spec if not hostile else ""], default=str)[:200]
    wrong = isinstance(said, tuple) or process.exitcode or used > BYTES or {"\x1b", "\u202e", "\0"} & set(said)
    return said == "", f"{number} {what}: {said!r:.300} {process.exitcode}" if wrong else ""


@pytest.mark.parametrize(
    "several", [range(0, 20, 2), pytest.param(range(500), marks=pytest.mark.validity)], ids=len
)
def test_hostile_inputs_are_answered(several: range, tmp_path: Path) -> None:
    answers = [answer(tmp_path, number) for number in several]
    taken, faults = sum(took for took, _ in answers), [fault for _, fault in answers if fault]
    print(f"{len(several)} hostile inputs, {taken} taken, {len(faults)} lost")
    assert faults == []
    assert 0 < taken < len(several) / 2
