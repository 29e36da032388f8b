"""Prometheus metrics of a store's schedules, read from the store at every scrape: they outlive any process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ksdp.audit.errors import StoreError
from ksdp.flows.clock import Clock, utc_now
from ksdp.storage.schedules.outbox import waiting_notices
from ksdp.storage.schedules.schedule_files import Schedule, ScheduledRun, due, read_runs, read_schedules
from ksdp.storage.store import Store


class ScheduleMetrics(Collector):
    """One family a figure, labelled by schedule.

    Parameters
    ----------
    clock : callable
        The time now, with a time zone.
    """

    def __init__(self, store: Store, clock: Clock = utc_now) -> None:
        self._store, self._clock = store, clock

    def collect(self) -> Iterable[Metric]:
        """Read every schedule's history."""
        label = ["schedule"]
        runs = CounterMetricFamily(
            "ksdp_scheduled_runs", "Runs of a schedule by outcome", labels=["schedule", "outcome"]
        )
        missed = CounterMetricFamily("ksdp_missed_runs", "Planned times that passed without a run", labels=label)
        documents = GaugeMetricFamily(
            "ksdp_documents", "Documents by verdict as they stand", labels=["schedule", "verdict"]
        )
        gauges = {
            name: GaugeMetricFamily(f"ksdp_{name}", text, labels=label)
            for name, text in (
                ("largest_d", "Largest D of the newest audit"),
                ("became_sensitive", "Documents that the newest audit made sensitive"),
                ("largest_drift", "Largest change of D against earlier audits, in the newest"),
                ("audit_seconds", "Seconds that the newest audit took"),
                ("level_left", "What the audits to come may spend of the level"),
                ("last_success_timestamp_seconds", "When a run last came to its end, since 1970"),
                ("seconds_since_success", "Seconds since a run last came to its end, or since it was scheduled"),
                ("overdue", "1 if a run is due"),
                ("paused", "1 if paused"),
                ("notices_waiting", "Notices not yet delivered"),
            )
        }
        for schedule in read_schedules(self._store):
            try:
                past = read_runs(self._store, schedule.name)
            except StoreError:
                continue
            for outcome, count in sorted(Counter(run.outcome for run in past).items()):
                runs.add_metric([schedule.name, outcome], count)
            missed.add_metric([schedule.name], sum(run.missed for run in past))
            verdicts = next((run.verdicts for run in reversed(past) if run.verdicts), {})
            for verdict, count in verdicts.items():
                documents.add_metric([schedule.name, verdict], count)
            for name, value in self._figures(schedule, past).items():
                if value is not None:
                    gauges[name].add_metric([schedule.name], value)
        return [runs, missed, documents, *gauges.values()]

    def _figures(self, schedule: Schedule, past: list[ScheduledRun]) -> dict[str, float | None]:
        now = self._clock()
        newest = next((run for run in reversed(past) if run.outcome == "audited"), None)
        success = next((run.finished for run in reversed(past) if run.succeeded), None)
        left = next((run.level_left for run in reversed(past) if run.level_left is not None), schedule.level)
        return {
            "largest_d": newest.largest_d if newest else None,
            "became_sensitive": newest.became_sensitive if newest else None,
            "largest_drift": newest.largest_drift if newest else None,
            "audit_seconds": newest.seconds if newest else None,
            "level_left": left,
            "last_success_timestamp_seconds": success.timestamp() if success else None,
            "seconds_since_success": (now - (success or schedule.created)).total_seconds(),
            "overdue": float(not schedule.paused and due(schedule, past, now) is not None),
            "paused": float(schedule.paused),
            "notices_waiting": len(waiting_notices(self._store, schedule.name)),
        }
