"""Who computes an audit: a section of the spec that no number depends on, and that no store keeps."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

__all__ = ["ClusterSpec"]

_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+\Z")
_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<host>[^/?#]*)(?P<path>[^?#]*)(\?(?P<query>[^#]*))?\Z")
_BARE = ("http", "ftp", "webhdfs")
_LOOPBACK = re.compile(r"(localhost|127(\.\d+){3}|\[::1\])(:|%3A|\Z)", re.IGNORECASE)

Count = Annotated[int, Field(ge=1, le=100_000)]


class ClusterSpec(BaseModel):
    """A Dask cluster: a class that starts one, or the address of one that runs."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

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
            _check_url(self.blocks, self.insecure)
        return self


def _check_url(url: str, insecure: bool) -> None:
    parts = _URL.match(url)
    if parts is None:
        raise ValueError("`blocks` must be a URL, such as `s3://bucket/folder`.")
    host, query = parts["host"], parts["query"] or ""
    asked = dict(pair.partition("=")[::2] for pair in query.split("&") if pair)
    secret = ":" in host.rpartition("@")[0] or ("@" in host and parts["scheme"] == "s3")
    if secret or any(word in key.lower() for key in asked for word in ("key", "secret", "token", "password")):
        raise ValueError("`blocks` must hold no key or password: they belong in the environment (`AWS_*` for S3).")
    bare = parts["scheme"] in _BARE or asked.get("scheme") == "http"
    server = asked.get("endpoint_override") or ("" if parts["scheme"] == "s3" else host or "")
    if bare and not insecure and not _LOOPBACK.match(server):
        raise ValueError(
            "`blocks` has no encryption, and the corpus and all runs would travel in the clear; `insecure = true` "
            "says that nobody else can listen."
        )
