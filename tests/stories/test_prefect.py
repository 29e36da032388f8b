"""Flows on somebody's own Prefect server: deployed to a work pool, and run by a process worker."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
import scipy.sparse as sp
from prefect.blocks.system import Secret
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
from prefect.workers.process import ProcessWorker

from ksdp.audit.errors import InputError
from ksdp.flows.deployable import _enter, _key, party_flow
from ksdp.storage.clearances import verify_clearance
from ksdp.storage.keys import load_public, make_identity

from ..fences import fences
from ..servers import own_server
from ..specs import spec_text

pytestmark = pytest.mark.e2e

KEEP = """
from prefect.blocks.system import Secret
Secret(value=open("{key}").read()).save("ada-key", overwrite=True)
"""
SIGNED = {
    "corpus": {"path": "counts.npz"},
    "mechanism": {"name": "moments", "rank": 2, "advantage": 0.3},
    "design": {"party_size": 0.5, "with_runs": 30},
    "decision": {"margin": 0.3},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment that names it. Nobody else can take the port that was announced."""
    with own_server(tmp_path_factory.mktemp("prefect")) as named:
        port = urlsplit(named["PREFECT_API_URL"]).port
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            with pytest.raises(OSError, match="in use"):
                probe.bind(("127.0.0.1", port))
        yield named


SPEC = {
    "seed": 3,
    "corpus": {"path": "counts.npz"},
    "mechanism": {"name": "pd-svd", "rank": 3},
    "design": {"party_size": 0.2, "with_runs": 20},
    "statistics": {"families": ["geometry"]},
    "decision": {"margin": 0},
}


def test_a_secret_is_refused_where_it_is_none(server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    user_set = {
        PREFECT_API_URL: server["PREFECT_API_URL"],
        PREFECT_API_AUTH_STRING: server["PREFECT_API_AUTH_STRING"],
    }
    with temporary_settings(user_set):
        with pytest.raises(InputError, match="no Secret block 'nobody': `prefect block create secret`"):
            _key("secret:nobody")
        Secret(value="no PEM").save("words", overwrite=True)
        with pytest.raises(InputError, match="the Secret block 'words' is not a private key") as refused:
            _key("secret:words")
        assert "no PEM" not in str(refused.value)
        with pytest.raises(InputError, match=r"may set AWS_\*, .*; got 'LD_PRELOAD'"):
            _enter({"LD_PRELOAD": "secret:words"})
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "")
        _enter({"AWS_SECRET_ACCESS_KEY": "secret:words"})
        assert os.environ["AWS_SECRET_ACCESS_KEY"] == "no PEM"
    with pytest.raises(InputError, match="`ledger` must be given"):
        party_flow.fn("protocol.toml", "ada", "secret:ada-key", "out")


def test_a_worker_of_a_pool_runs_what_was_deployed(server: dict[str, str], tmp_path: Path) -> None:
    """What is refused fails at once, without a second attempt; a run that signs by a Secret block shows no key."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")} | server
    environment |= {"PREFECT_LOCAL_STORAGE_PATH": str(tmp_path / "results"), "PREFECT_LOGGING_LEVEL": "WARNING"}

    def run(*command: str) -> None:
        done = subprocess.run(
            [sys.executable, *command], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr + done.stdout

    project = fences("prefect.md", "yaml")[0]
    sp.save_npz(tmp_path / "counts.npz", sp.csr_matrix(np.random.default_rng(11).poisson(0.6, (120, 60)) + 0.0))
    path, signed = tmp_path / "deployed.toml", tmp_path / "signed.toml"
    path.write_text(spec_text(SPEC))
    signed.write_text(spec_text(SIGNED))
    key = make_identity(tmp_path, "ada").private
    for said, here in {
        "spec: /data/mail.toml, ": f"spec: {path}, workers: 1, ",
        "spec: /data/mail.toml": f"spec: {signed}",
        "/data/": f"{tmp_path}/",
    }.items():
        assert said in project
        project = project.replace(said, here)
    (tmp_path / "prefect.yaml").write_text(project)
    user, password = server["PREFECT_API_AUTH_STRING"].split(":")
    with httpx.Client(base_url=server["PREFECT_API_URL"], auth=(user, password), timeout=60) as api:

        def post(where: str, body: dict[str, Any]) -> Any:
            return api.post(where, json=body).raise_for_status().json()

        post(
            "/work_pools/",
            {"name": "lab", "type": "process", "base_job_template": ProcessWorker.get_default_base_job_template()},
        )
        run("-c", KEEP.format(key=str(key)))
        run("-m", "prefect", "--no-prompt", "deploy", "--all")
        deployment = api.get("/deployments/name/ksdp-audit/nightly").raise_for_status().json()
        good = post(f"/deployments/{deployment['id']}/create_flow_run", {})
        tables = {"corpus": {"path": str(path.parent / "counts.npz")}, "mechanism": {"name": "pd-svd", "rank": 0}}
        wrong = {"parameters": {**deployment["parameters"], "spec": tables}}
        bad = post(f"/deployments/{deployment['id']}/create_flow_run", wrong)
        sign = api.get("/deployments/name/ksdp-clear/sign").raise_for_status().json()
        keys = {"AWS_SECRET_ACCESS_KEY": "secret:ada-key"}  # any block will do
        by = {"parameters": {**sign["parameters"], "environment": keys}}
        signs = post(f"/deployments/{sign['id']}/create_flow_run", by)
        run("-m", "prefect", "worker", "start", "--pool", "lab", "--type", "process", "--run-once")

        runs = {
            name: api.get(f"/flow_runs/{one['id']}").json()
            for name, one in {"good": good, "bad": bad, "signs": signs}.items()
        }
        states = {name: one["state"]["type"] for name, one in runs.items()}
        assert states == {"good": "COMPLETED", "bad": "FAILED", "signs": "COMPLETED"}, runs
        only = {"flow_runs": {"id": {"any_": [signs["id"]]}}}
        logs = post("/logs/filter", {"logs": {"flow_run_id": {"any_": [signs["id"]]}}, "limit": 200})
        shown = json.dumps([sign, runs["signs"], post("/task_runs/filter", only), logs])
        assert "secret:ada-key" in shown
        assert key.read_text().splitlines()[1] not in shown
        assert {"ksdp", "audit", "mechanism:pd-svd", "mail"} <= set(runs["good"]["tags"])
        assert "rank" in runs["bad"]["state"]["message"]
        tasks = post("/task_runs/filter", {"flow_runs": {"id": {"any_": [bad["id"]]}}})
        assert [task["run_count"] for task in tasks] == [1]
        kept = runs["good"]["state"]["data"]["storage_key"]
        result = json.loads((tmp_path / "results" / kept).read_text(encoding="utf-8"))
        told = f"audit-{result['audit']}"
        named = {"artifacts": {"key": {"like_": told}}}  # they belong to the run `audit` within the deployed one
        shown = {one["key"]: one["data"] for one in post("/artifacts/filter", named)}
    verified = verify_clearance(
        tmp_path / "mail.clearance", now=datetime.now(UTC), public_key=load_public(key.with_suffix(".pub"))
    )
    assert verified.clearance.reviewer == "Ada, privacy officer"
    assert result["documents"] == 120
    assert Path(result["report"]).is_file()
    assert f"**{result['verdicts']['sensitive']} sensitive, " in shown[told]
    assert shown[f"{told}-runs"] == 100.0
    assert Path(result["report"]).as_uri() in shown[f"{told}-report"]
    table = json.loads(shown[f"{told}-statistics"])
    assert {line["statistic"]: line["sensitive by it alone"] for line in table} == {
        name: about["sensitive"] for name, about in result["statistics"].items()
    }
