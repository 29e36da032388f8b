"""A schedule as a deployment of Prefect, and the worker of `ksdp serve` that runs it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import StateType
from prefect.client.schemas.schedules import CronSchedule
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.states import AwaitingRetry, Cancelled
from prefect.types.entrypoint import EntrypointType
from prefect.workers.process import ProcessWorker
from pydantic import ValidationError

from ksdp.audit.errors import InputError
from ksdp.flows.schedules.scheduled_run import FLOW, scheduled_audit
from ksdp.storage.schedules.schedule_files import Schedule, hold, pool_of
from ksdp.storage.store import Store


def calendar_of(cron: str, timezone: str) -> CronSchedule:
    """Prefect's calendar; `InputError` where it refuses one."""
    try:
        return CronSchedule(cron=cron, timezone=timezone)
    except ValidationError as error:
        wrong = "; ".join(f"`{problem['loc'][0]}`: {problem['msg']}" for problem in error.errors())
        raise InputError(f"the schedule is refused: {wrong}.") from None


async def write_deployment(
    store: Store, schedule: Schedule, calendar: CronSchedule, attempts: Mapping[str, object]
) -> str:
    """Write the deployment of a schedule, in place of that of the same name; its full name."""
    full, root = f"{FLOW}/{schedule.name}", str(store.root)
    async with get_client() as client:
        with contextlib.suppress(ObjectNotFound):
            there = await client.read_deployment_by_name(full)
            if (other := there.parameters.get("store")) != root:
                raise InputError(f"`name`: {full} on this Prefect server is a schedule of the store {other}.")
        await _make_pool(client, pool_of(store))
    deployment = await scheduled_audit.ato_deployment(
        name=schedule.name,
        schedules=[calendar],
        parameters={"store": root, "schedule": schedule.name, **attempts},
        tags=["ksdp"],
        description=f"Audits what has changed in the corpus of {schedule.spec}.",
        work_pool_name=pool_of(store),
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    await deployment.aapply()
    return full


async def _make_pool(client: PrefectClient, name: str) -> None:
    template = ProcessWorker.get_default_base_job_template()
    with contextlib.suppress(ObjectAlreadyExists):
        await client.create_work_pool(WorkPoolCreate(name=name, type="process", base_job_template=template))


async def run_worker(store: Store) -> None:
    """Run what Prefect schedules in the pool of a store, one run at a time, until cancelled."""
    pool = pool_of(store)
    async with get_client() as client:
        await _make_pool(client, pool)
        await _take_up(client, store, pool)
        try:
            await ProcessWorker(work_pool_name=pool, name="ksdp-serve", limit=1).start(printer=lambda *_: None)
        finally:
            with contextlib.suppress(Exception):
                await asyncio.shield(_take_up(client, store, pool))


async def _take_up(client: PrefectClient, store: Store, pool: str) -> None:
    """Plan once more the runs whose processes are gone: nothing else looks after them."""
    with hold(store) as free:
        for run in await _runs(client, pool) if free else ():
            cancelled = run.state_type == StateType.CANCELLING
            await client.set_flow_run_state(run.id, Cancelled() if cancelled else AwaitingRetry(), force=True)


async def _runs(client: PrefectClient, pool: str) -> list[Any]:
    under_way = [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING]
    return await client.read_flow_runs(
        work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[pool])),
        flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=under_way))),
    )
