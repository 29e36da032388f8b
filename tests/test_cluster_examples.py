"""The examples of clusters: specs that are taken, manifests whose parts fit together and start what Dask has."""

import inspect
from pathlib import Path
from typing import Any

import dask
import dask.cli
import pytest
import yaml

from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.tasks.cluster import cluster_class

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "cluster"
MANIFESTS = [one for one in yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()) if one]


def named(kind: str) -> dict[str, Any]:
    return {one["metadata"]["name"]: one for one in MANIFESTS if one["kind"] == kind}


def containers() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    pods = [(name, one["spec"]["template"]["spec"]) for name, one in named("Deployment").items()]
    return [(name, pod, container) for name, pod in pods for container in pod["containers"]]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_specs_are_taken(path: Path) -> None:
    assert read_spec_file(path)[0].cluster is not None


def test_ssh_arguments_are_those_of_its_class() -> None:
    cluster = read_spec_file(FOLDER / "ssh.toml")[0].cluster
    assert cluster.cluster_class is not None
    signature = inspect.signature(cluster_class(cluster.cluster_class))
    bound = signature.bind(**cluster.arguments)
    assert "kwargs" not in bound.arguments  # what the class does not know would land there
    from distributed import Scheduler, Worker

    for options, takes in (("scheduler_options", Scheduler), ("worker_options", Worker)):
        known = {*inspect.signature(takes).parameters, "n_workers"}
        assert set(cluster.arguments[options]) <= known


def test_what_is_named_is_there() -> None:
    deployments = named("Deployment")
    for one in deployments.values():
        assert (
            one["spec"]["selector"]["matchLabels"].items() <= one["spec"]["template"]["metadata"]["labels"].items()
        )
    labels = [one["spec"]["template"]["metadata"]["labels"] for one in deployments.values()]
    assert named("Service")["dask-scheduler"]["spec"]["selector"] in labels
    policy = named("NetworkPolicy")["dask-scheduler"]["spec"]
    assert policy["podSelector"]["matchLabels"] in labels
    assert policy["ingress"][0]["from"][0]["podSelector"]["matchLabels"] in labels
    told = "\n".join(
        line for line in (FOLDER / "kubernetes.yaml").read_text().splitlines() if line.startswith("#")
    )
    for _, pod, container in containers():
        maps = [entry["configMapRef"]["name"] for entry in container["envFrom"] if "configMapRef" in entry]
        assert set(maps) <= set(named("ConfigMap"))
        secrets = [entry["secretRef"]["name"] for entry in container["envFrom"] if "secretRef" in entry]
        secrets += [volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume]
        assert all(f"secret generic {secret}" in told for secret in secrets)
        mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert set(mounted) == {volume["name"] for volume in pod["volumes"]}


def test_commands_are_those_that_dask_has() -> None:
    for name, _, container in containers():
        python, module, package, verb, *options = container["command"]
        assert (python, module, package) == ("python", "-m", "dask")
        assert name == f"dask-{verb}"
        dask.cli._register_command_ep(dask.cli.cli, next(ep for ep in entry_points() if ep.name == verb))
        command = dask.cli.cli.commands[verb]
        with command.make_context(verb, [str(option) for option in options], resilient_parsing=False) as context:
            assert context.args == []
        if verb == "worker":
            service, port = options[0].removeprefix("tls://").split(":")
            assert named("Service")[service]["spec"]["ports"][0]["port"] == int(port)


def entry_points() -> Any:
    from importlib.metadata import entry_points as found

    return found(group="dask_cli")


def test_the_key_is_asked_for_on_both_sides() -> None:
    settings = named("ConfigMap")["dask"]["data"]
    assert settings["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "true"
    ends = {name.rpartition("TLS__")[2] for name in settings if "TLS__" in name}
    assert ends == {"CA_FILE", "SCHEDULER__CERT", "SCHEDULER__KEY", "WORKER__CERT", "WORKER__KEY"}
