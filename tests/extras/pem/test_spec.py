"""Whole numbers of a file of PEM, of the protocol file and of PEM's mechanisms: refused where they are none."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ksdp.audit.errors import SpecError
from ksdp.audit.specs.models import validated
from ksdp.extras.pem.local import read_pem_spec
from ksdp.extras.pem.spec import PemProtocol, PemSpec
from ksdp.protocols.programs.protocol_file import parse_draft

PEM = """
pem = 1
servers = ["sue", "tom"]
aggregator = "hub"
[records]
features = 9
[algorithm]
name = "{name}"
{algorithm}
[budget]
epsilon = 1.0
batch = 5
sparse = {{ threshold = 1.0, most = 4 }}
[run]
rows = 10
least_clients = 2
""" + "".join(
    f'[[parties]]\nname = "{name}"\naddress = "127.0.0.1:{port}"\nkey = "{name}.pub"\n'
    for port, name in enumerate(("sue", "tom", "hub", "ada"), 9001)
)
ALGORITHMS = {
    "k-means": "clusters = 2\niterations = 3\nbound = 1.0\nstart_seed = 4\nfraction_bits = 8",
    "logistic": "iterations = 3\nbound = 1.0\nlabel = 0\nfraction_bits = 8",
    "apriori": "longest = 4\nsupport = 0.1\nlength = 2\nkeep = 90",
    "own": "iterations = 3\nsays = 'x'\ncode = 'sha256:" + 64 * "0" + "'",
}
NONE = (2.5, True, "3", -(2**40))


def tables(name: str) -> dict[str, Any]:
    return tomllib.loads(PEM.format(name=name, algorithm=ALGORITHMS[name]))


def places(said: dict[str, Any], before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for key, value in said.items():
        if isinstance(value, dict):
            found += places(value, (*before, key))
        elif type(value) is int and key != "pem":
            found.append((*before, key))
    return found


def planted(said: dict[str, Any], place: tuple[str, ...], value: object) -> dict[str, Any]:
    key, *rest = place
    return said | {key: planted(said[key], tuple(rest), value) if rest else value}


def one_machine() -> dict[str, Any]:
    """A run without hosts."""
    said, run = tables("k-means"), {"servers": 2, "least_clients": 1}
    data = {"path": "x.csv", "columns": ["a"], "clients": 3}
    return {"data": data, "run": run, "algorithm": said["algorithm"], "budget": said["budget"]}


PROTOCOL = {
    "protocol": 1,
    "mechanism": {"name": "pd-nmf"},
    "features": {"hash": "sha256:" + 64 * "0", "count": 7},
    "precision": {"fraction_bits": 30},
    "shares": {"block": 3, "rounds": 9},
}
READ: dict[str, tuple[Callable[[dict[str, Any]], object], dict[str, Any]]] = {
    **{name: (lambda said: validated(PemProtocol, said, "protocol file"), tables(name)) for name in ALGORITHMS},
    "one machine": (lambda said: validated(PemSpec, said, "spec"), one_machine()),
    "protocol": (parse_draft, PROTOCOL),
}


@pytest.mark.parametrize("kind", READ)
def test_every_whole_number_of_a_file_is_one(kind: str) -> None:
    read, said = READ[kind]
    read(said)
    found = [place for place in places(said) if place != ("protocol",)]
    assert len(found) >= 4
    for place in found:
        for value in NONE:
            line = rf"`{'.'.join(place)}` must be a whole number .*; got {re.escape(repr(value))}\."
            with pytest.raises(SpecError, match=line):
                read(planted(said, place, value))


@pytest.mark.parametrize("key", ["epsilon", "sampling"])
@pytest.mark.parametrize("value", [True, "1"])
def test_what_is_no_number_buys_no_privacy(key: str, value: object) -> None:
    with pytest.raises(SpecError, match=rf"`budget.{key}`"):
        validated(PemProtocol, planted(tables("own"), ("budget", key), value), "protocol file")


@pytest.mark.parametrize("name", ["adult", "nursery"])
def test_the_examples_are_read(name: str) -> None:
    spec, _ = read_pem_spec(Path(__file__).parents[3] / "examples" / "specs" / f"pem-{name}.toml")
    assert spec.made(spec.data.width).init().blocks
