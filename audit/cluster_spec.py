"""Who computes an audit: a section of the spec that no number depends on, and that no store keeps."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from ksdp.audit.spec_tables import Section
from ksdp.audit.urls import check_url

_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+\Z")

Count = Annotated[int, Field(ge=1, le=100_000)]


class ClusterSpec(Section, frozen=True):
    """A Dask cluster: a class that starts one, or the address of one that runs."""

    cluster_class: str | None = Field(default=None, alias="class")
    """Dask's name of a class of an installed package: `distributed.LocalCluster`, `distributed.SSHCluster`,
    `dask_jobqueue.SLURMCluster`, `dask_kubernetes.operator.KubeCluster` and others."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """What the class is called with."""
    workers: Count | tuple[Annotated[int, Field(ge=0)], Count] | None = None
    """How many to ask the class for; two numbers: as many as there is work for, between them. Default: what the
    class starts with."""
    address: str | None = None
    """Instead of a class: of a scheduler that runs, as `--dask`."""
    blocks: str | None = None
    """URL where workers find the corpus and leave blocks (`s3://bucket/folder`): nothing else need be shared. The
    store keeps its blocks there from then on. Default: every worker sees the store's folder under the same
    path."""
    insecure: bool = False
    """Allow a scheduler without TLS and a URL without encryption: only where nobody else can reach either."""
    patience: Annotated[float, Field(gt=0)] = 600.0
    """Seconds to wait for the first worker."""

    @field_validator("cluster_class")
    @classmethod
    def _class(cls, value: str | None) -> str | None:
        if value is not None and not _CLASS.match(value):
            raise ValueError(f"must be a package and a class, such as `distributed.LocalCluster`; got {value!r}.")
        return value

    @model_validator(mode="after")
    def _fits(self) -> ClusterSpec:
        if self.cluster_class is not None and self.address is not None:
            raise ValueError("`class` starts a cluster, `address` names one that runs: give one of them.")
        if self.cluster_class is None and (self.arguments or self.workers is not None):
            raise ValueError("`arguments` and `workers` go with a `class`.")
        if self.cluster_class is None and self.address is None and self.blocks is None:
            raise ValueError("must name a `class`, an `address`, or where `blocks` are.")
        if isinstance(self.workers, tuple) and self.workers[0] > self.workers[1]:
            raise ValueError(f"`workers` must ascend; got {list(self.workers)}.")
        if self.blocks is not None:
            remedy = "; `insecure = true` says that nobody else can listen"
            check_url(self.blocks, "`blocks`", insecure=self.insecure, remedy=remedy)
        return self
