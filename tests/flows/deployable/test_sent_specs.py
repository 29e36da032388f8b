"""A spec that is sent to a deployed flow starts no cluster where that runs, and sends nothing in the clear."""

from typing import Any

import pytest

from ksdp.audit.errors import SpecError
from ksdp.flows import deployable

TABLES: dict[str, Any] = {"corpus": {"path": "demo"}, "mechanism": {"name": "pd-svd"}}


@pytest.mark.parametrize(
    "cluster",
    [
        {"class": "distributed.SSHCluster", "arguments": {"hosts": ["somewhere"]}},
        {"address": "tcp://scheduler:8786", "insecure": True},
    ],
)
def test_what_runs_something_or_is_read_by_others_is_refused(cluster: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="are taken from a spec's file, not from tables"):
        deployable._spec(TABLES | {"cluster": cluster}, "audit")


def test_where_workers_are_may_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployable, "tagged", lambda *_: None)  # outside of a flow there is nothing to tag
    told = {"address": "tls://scheduler:8786", "blocks": "s3://bucket/folder"}
    cluster = deployable._spec(TABLES | {"cluster": told}, "audit")[0].cluster
    assert (cluster.address, cluster.blocks) == (told["address"], told["blocks"])
