"""What these flows share: what is tried again, tags, results as JSON, progress in the run's log."""

from __future__ import annotations

from typing import Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext

from ksdp.audit.errors import CorpusAway, InputError, InvalidAudit

_RETRIES = 2
_WAIT_SECONDS: Any = [30, 300]
RESULTS: dict[str, Any] = {"persist_result": True, "result_serializer": "json", "validate_parameters": True}


class Logged:
    """Stages and messages as lines of the run's log."""

    def __init__(self) -> None:
        self._log = get_run_logger()

    def stage(self, name: str, total: int) -> None:
        """One line when it begins."""
        self._log.info("%s (%d)", name, total)

    def advance(self, units: int) -> None:
        """How far it is stands in the progress artifacts."""

    def say(self, text: str) -> None:
        """One line."""
        self._log.info("%s", text)


def _worth_another(_task: Any, _run: Any, state: Any) -> bool:
    """What was refused is refused again, and a void audit stays void; anything else may have been the machine."""
    try:
        state.result()
    except CorpusAway:
        return True
    except (InputError, InvalidAudit):
        return False
    except BaseException:
        return True
    return False


def tried_again(name: str) -> Any:
    """A task that is tried again."""
    return task(
        name=name,
        retries=_RETRIES,
        retry_delay_seconds=_WAIT_SECONDS,
        retry_condition_fn=_worth_another,
        cache_policy=NO_CACHE,
        persist_result=False,
    )


def tagged(*tags: str) -> None:
    """Tag the run under way, so that it is found on Prefect's pages."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return
    with get_client(sync_client=True) as client:
        client.update_flow_run(context.flow_run.id, tags={*context.flow_run.tags, "ksdp", *tags})
