"""`[cluster]` is checked before any work, holds no secret, and no number and no store depends on it."""

from __future__ import annotations

from typing import Any

import pytest

from ksdp.audit.errors import SpecError
from ksdp.audit.level_part import tables_at_part
from ksdp.audit.spec.models import Spec, parse_spec

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
    assert Spec.model_validate(tables_at_part(spec, lambda level: level / 2)).cluster == spec.cluster


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
