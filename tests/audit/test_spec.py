"""Specs: unknown keys, wrong values, defaults, and the hash."""

from __future__ import annotations

import pytest

from ksdp.audit.errors import SpecError
from ksdp.audit.spec import Spec, parse_spec

MINIMAL = {"corpus": {"path": "x.npz"}, "mechanism": {"name": "pd-svd"}}


def test_a_minimal_spec_is_complete() -> None:
    spec = parse_spec(MINIMAL)
    assert spec.design.party_size == 0.03
    assert spec.decision.correction == "by"
    assert Spec.model_validate(spec.model_dump(mode="json")) == spec


def test_every_other_key_of_the_mechanism_is_a_parameter() -> None:
    spec = parse_spec(MINIMAL | {"mechanism": {"name": "pd-nmf", "rank": 5, "announce": ["T"]}})
    assert spec.mechanism.parameters == {"rank": 5, "announce": ["T"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"corpora": {}}, "`corpora`: there is no such key; did you mean `corpus`"),
        ({"design": {"party_sizes": 3}}, "`design.party_sizes`"),
        ({"design": {"party_size": 1.5}}, "`design.party_size`"),
        ({"decision": {"level": 0}}, "`decision.level`"),
        ({"decision": {"error": "fwer", "procedure": "bh"}}, "does not control"),
        ({"design": {"kind": "literal"}}, "`design.documents` must be given"),
        ({"seed": -1}, "`seed`"),
    ],
)
def test_refuses(change: dict, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse_spec(MINIMAL | change)


def test_names_every_wrong_key_at_once() -> None:
    with pytest.raises(SpecError) as refused:
        parse_spec({"corpus": {"path": "x", "txt": "b"}, "mechanism": {}, "seed": "many"})
    for part in ("`corpus.txt`", "`mechanism.name`", "`seed`"):
        assert part in str(refused.value)


def test_the_hash_sees_values_not_their_order_or_presence() -> None:
    spec = parse_spec(MINIMAL)
    assert spec.hash == parse_spec({"seed": 0, "mechanism": {"name": "pd-svd"}, "corpus": {"path": "x.npz"}}).hash
    assert spec.hash != parse_spec(MINIMAL | {"seed": 1}).hash
