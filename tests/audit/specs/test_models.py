"""Specs: unknown keys, wrong values, defaults, and the hash."""

from typing import Any

import pytest

from ksdp.audit.errors import SpecError
from ksdp.audit.specs.models import Spec, parse_spec

MINIMAL = {"corpus": {"path": "x.npz"}, "mechanism": {"name": "pd-svd"}}


def test_a_minimal_spec_is_complete() -> None:
    spec = parse_spec(MINIMAL)
    assert spec.design.party_size == 0.03
    assert spec.decision.error == "fdr"
    assert Spec.model_validate(spec.model_dump(mode="json")) == spec


def test_every_other_key_of_the_mechanism_is_a_parameter() -> None:
    spec = parse_spec(MINIMAL | {"mechanism": {"name": "pd-nmf", "rank": 5, "announce": ["T"]}})
    assert spec.mechanism.parameters == {"rank": 5, "announce": ["T"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"corpora": {}}, "`corpora`: there is no such key; did you mean `corpus`"),
        ({"decision": {"margin": 2}}, "`decision.margin`: must be at most 1; got 2."),
        ({"decision": {"error": "p"}}, "`decision.error`: must be 'fdr' or 'fwer'."),
        ({"design": {"party_size": 0}}, "`design.party_size`: must be above 0, or at least 1; got 0."),
        ({"design": {"party_sizes": 3}}, "`design.party_sizes`"),
        ({"design": {"party_size": 1.5}}, "`design.party_size`"),
        ({"decision": {"level": 0}}, "`decision.level`"),
        ({"decision": {"procedure": "bh"}}, "`decision.procedure`"),
        ({"design": {"looks": 3}}, "`design.looks`"),
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
    assert len({spec.corpus, parse_spec(MINIMAL | {"seed": 1}).corpus}) == 1, "a corpus is a key of dictionaries"


def test_a_margin_of_what_is_held_is_larger_within_a_run_of_a_secret_draw() -> None:
    for drawn, within in ((None, 0.2), (0.5, 0.4), (0.25, 0.8), (0.2, 1.0), (0.1, 1.0)):
        corpus = {"path": "x.npz", "levers": {} if drawn is None else {"drawn": drawn}}
        spec = parse_spec(MINIMAL | {"corpus": corpus, "decision": {"margin": 0.2, "level": 0.01}})
        assert spec.decision_in_run.margin == pytest.approx(within)
        assert spec.decision_in_run == spec.decision.model_copy(update={"margin": spec.decision_in_run.margin})
        assert (spec.draw_sentence is None) == (drawn is None)


def test_no_margin_is_none_within_a_run() -> None:
    spec = parse_spec(MINIMAL | {"corpus": {"path": "x", "levers": {"drawn": 0.5}}, "decision": {"margin": 0}})
    assert spec.decision_in_run.margin == 0


def test_a_secret_draw_is_a_part_of_the_spec() -> None:
    drawn = parse_spec(MINIMAL | {"corpus": {"path": "x.npz", "levers": {"drawn": 0.5}}})
    assert drawn.hash != parse_spec(MINIMAL).hash
    assert Spec.model_validate(drawn.model_dump(mode="json")) == drawn


def test_a_draw_no_larger_than_the_margin_proves_every_document_clear() -> None:
    for drawn, margin, proved in ((0.2, 0.2, True), (0.1, 0.2, True), (0.21, 0.2, False), (0.5, 0.0, False)):
        tables = {"corpus": {"path": "x", "levers": {"drawn": drawn}}, "decision": {"margin": margin}}
        spec = parse_spec(MINIMAL | tables)
        assert spec.proved_by_draw == proved
        assert ("No attack of any kind" in str(spec.draw_sentence)) == proved
    assert not parse_spec(MINIMAL).proved_by_draw


TABLES: dict[str, Any] = {"corpus": {"path": "demo"}, "mechanism": {"name": "pd-svd"}}


def parsed(**cluster: Any) -> Spec:
    return parse_spec(TABLES | {"cluster": cluster})


def test_it_is_no_part_of_an_audit() -> None:
    spec = parsed(**{"class": "distributed.LocalCluster", "arguments": {"password": "secret"}})
    assert spec.hash == parse_spec(TABLES).hash
    assert "cluster" not in spec.model_dump(mode="json")
    assert "secret" not in spec.model_dump_json()


def test_parts_of_an_audit_are_computed_by_the_same() -> None:
    spec = parsed(address="tls://scheduler:8786")
    assert Spec.model_validate(spec.tables_at_level(lambda level: level / 2)).cluster == spec.cluster


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "must name a `class`, an `address`, or where `blocks` are"),
        ({"class": "LocalCluster"}, "must be a package and a class"),
        ({"class": "os;x.LocalCluster"}, "must be a package and a class"),
        ({"class": "a.BCluster", "address": "tls://x:1"}, "give one of them"),
        ({"address": "tls://x:1", "workers": 3}, "go with a `class`"),
        ({"class": "a.BCluster", "workers": [5, 2]}, "must ascend"),
        ({"class": "a.BCluster", "workers": 0}, "cluster.workers"),
        ({"class": "a.BCluster", "clas": 1}, "there is no such key"),
        ({"blocks": "/mnt/shared"}, "must be a URL"),
        ({"blocks": "s3://key:secret@bucket/x"}, "must hold no key or password"),
        ({"blocks": "s3://key@bucket/x"}, "must hold no key or password"),
        ({"blocks": "s3://bucket/x?secret_key=a"}, "must hold no key or password"),
        ({"blocks": "sftp://me:pass@host/x"}, "must hold no key or password"),
        ({"blocks": "s3://bucket/x?endpoint_override=store:9000&scheme=http"}, "has no encryption"),
        ({"blocks": "s3://bucket/x?scheme=http"}, "has no encryption"),
        ({"blocks": "http://host/x"}, "has no encryption"),
        ({"blocks": "s3://bucket/x?endpoint_override=localhost.evil:9&scheme=http"}, "has no encryption"),
    ],
)
def test_what_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said) as refused:
        parsed(**wrong)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "given",
    [
        {"blocks": "s3://bucket/folder?region=eu-west-1"},
        {"blocks": "gs://bucket/folder"},
        {"blocks": "sftp://me@host/folder"},
        {"blocks": "file:///mnt/everywhere"},
        {"blocks": "s3://b/x?endpoint_override=127.0.0.1:9000&scheme=http"},
        {"blocks": "s3://b/x?endpoint_override=minio:9000&scheme=http", "insecure": True},
        {"class": "dask_kubernetes.operator.KubeCluster", "workers": [0, 40], "arguments": {"name": "ksdp"}},
        {"class": "dask_jobqueue.SLURMCluster", "workers": 20, "blocks": "s3://bucket/folder"},
        {"address": "tls://scheduler:8786"},
    ],
)
def test_what_is_taken(given: dict[str, Any]) -> None:
    assert parsed(**given).cluster is not None


def test_a_series_leaves_out_how_hard_one_looks_and_nothing_else() -> None:
    asked = parse_spec(TABLES).series
    for same in ({"seed": 9}, {"design": {"with_runs": 9}}, {"decision": {"level": 0.01}}):
        assert parse_spec(TABLES | same).series == asked
    for other in (
        {"decision": {"margin": 0.3}},
        {"design": {"party_size": 0.1}},
        {"statistics": {"names": ["d-sum"]}},
        {"mechanism": {"name": "pd-svd", "rank": 4}},
        {"corpus": {"path": "post.parquet"}},
    ):
        assert parse_spec(TABLES | other).series != asked
