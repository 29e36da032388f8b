"""Flows on somebody's own Prefect server: deployed to a work pool, run by a process worker, or called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect.workers.process import ProcessWorker

import ksdp.flows
from ksdp.audit.errors import CorpusAway, InputError, InvalidAudit
from ksdp.flows.deployable import _worth_another

DEPLOY = """
from prefect.types.entrypoint import EntrypointType
from ksdp.flows import audit_flow
audit_flow.deploy(
    "nightly", work_pool_name="lab", entrypoint_type=EntrypointType.MODULE_PATH, tags=["mail"],
    parameters={"spec": "SPEC", "store": "STORE", "workers": 1}, ignore_warnings=True, print_next_steps=False,
)
"""


class _Ended:
    def __init__(self, error: BaseException | None) -> None:
        self._error = error

    def result(self) -> None:
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (InputError("no"), False),
        (CorpusAway("its server is silent"), True),
        (InvalidAudit("void"), False),
        (OSError(), True),
        (TimeoutError(), True),
        (None, False),
    ],
)
def test_what_was_refused_is_not_tried_again(error: BaseException | None, again: bool) -> None:
    assert _worth_another(None, None, _Ended(error)) is again


def test_they_are_found_by_name() -> None:
    names = {name: getattr(ksdp.flows, name).name for name in ksdp.flows.__all__}
    assert names == {
        "audit_flow": "ksdp-audit",
        "screen_flow": "ksdp-screen",
        "approval_flow": "ksdp-approval",
        "party_flow": "ksdp-party",
    }
    with pytest.raises(AttributeError, match="audit_flow"):
        ksdp.flows.audits_flow  # noqa: B018


def test_a_worker_of_a_pool_runs_what_was_deployed(
    server: dict[str, str], spec: Callable[..., Path], tmp_path: Path
) -> None:
    """The spec that is refused fails at once, without a second attempt; the other one's result can be read."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")} | server
    environment |= {"PREFECT_LOCAL_STORAGE_PATH": str(tmp_path / "results"), "PREFECT_LOGGING_LEVEL": "WARNING"}

    def run(*command: str) -> None:
        done = subprocess.run(
            [sys.executable, *command], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr + done.stdout

    user, password = server["PREFECT_API_AUTH_STRING"].split(":")
    with httpx.Client(base_url=server["PREFECT_API_URL"], auth=(user, password), timeout=60) as api:

        def post(where: str, body: dict[str, Any]) -> Any:
            return api.post(where, json=body).raise_for_status().json()

        post(
            "/work_pools/",
            {"name": "lab", "type": "process", "base_job_template": ProcessWorker.get_default_base_job_template()},
        )
        path = spec("deployed", with_runs=20, families=["geometry"])
        run("-c", DEPLOY.replace("SPEC", str(path)).replace("STORE", str(tmp_path / "store")))
        deployment = api.get("/deployments/name/ksdp-audit/nightly").raise_for_status().json()
        good = post(f"/deployments/{deployment['id']}/create_flow_run", {})
        tables = {"corpus": {"path": str(path.parent / "counts.npz")}, "mechanism": {"name": "pd-svd", "rank": 0}}
        wrong = {"parameters": {**deployment["parameters"], "spec": tables}}
        bad = post(f"/deployments/{deployment['id']}/create_flow_run", wrong)
        run("-m", "prefect", "worker", "start", "--pool", "lab", "--type", "process", "--run-once")

        runs = {
            name: api.get(f"/flow_runs/{one['id']}").json() for name, one in {"good": good, "bad": bad}.items()
        }
        assert (runs["good"]["state"]["type"], runs["bad"]["state"]["type"]) == ("COMPLETED", "FAILED"), runs
        assert {"ksdp", "audit", "mechanism:pd-svd", "mail"} <= set(runs["good"]["tags"])
        assert "rank" in runs["bad"]["state"]["message"]
        tasks = post("/task_runs/filter", {"flow_runs": {"id": {"any_": [bad["id"]]}}})
        assert [task["run_count"] for task in tasks] == [1]
        key = runs["good"]["state"]["data"]["storage_key"]
    result = json.loads((tmp_path / "results" / key).read_text(encoding="utf-8"))
    assert result["documents"] == 120
    assert Path(result["report"]).is_file()
