"""A cluster by the name of its class: of installed packages alone, with TLS, or not at all."""

import sys
from pathlib import Path

import pytest

from ksdp.audit.errors import InputError
from ksdp.audit.specs.models import ClusterSpec
from ksdp.tasks.cluster import cluster_class, open_workers


def test_classes_of_installed_packages_are_found() -> None:
    from distributed import LocalCluster, SSHCluster

    assert cluster_class("distributed.LocalCluster") is LocalCluster
    assert cluster_class("dask.distributed.SSHCluster") is SSHCluster


@pytest.mark.parametrize("name", ["beside_the_spec.MyCluster", "numpy.MyCluster"])
def test_a_module_beside_the_spec_is_never_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither under a name of its own nor under that of a package; the folder of a spec may be on the path."""
    (tmp_path / f"{name.partition('.')[0]}.py").write_text("raise SystemExit('it was run')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "numpy")  # so that it would be looked for anew
    with pytest.raises(InputError, match="no installed package is called"):
        cluster_class(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("dask_nowhere.SLURMCluster", "pip install dask-nowhere"),
        ("distributed.Client", "has no such class of clusters"),
        ("distributed.nowhere.LocalCluster", "cannot be imported"),
    ],
)
def test_other_names_are_refused(name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        cluster_class(name)


def test_what_does_not_start_is_said() -> None:
    nowhere = ClusterSpec.model_validate({"class": "distributed.SSHCluster", "arguments": {"hosts": []}})
    with pytest.raises(InputError, match="does not start .ValueError"), open_workers(spec=nowhere):
        pass
