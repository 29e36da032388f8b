"""A run while it goes on, at one party: its state, rounds, bytes and connections; as metrics and as lines."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_STATES = ("waiting", "running", "done", "ended")
_EVENTS = {
    "waiting": "waiting",
    "all present": "running",
    "done": "done",
    "ended without a result": "ended",
}
_EVERY = 5.0


class Watch(Collector):
    """Told of every event of the transcript; kinds, names and sizes, never a value.

    Parameters
    ----------
    tell : callable, optional
        Told of progress in a line, every some seconds at most.
    clock : callable
        Seconds that only grow.
    """

    def __init__(
        self, tell: Callable[[str], None] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tell, self._clock = tell, clock
        self._began, self._told = clock(), clock()
        self.state = "waiting"
        self.sent: Counter[str] = Counter()
        """Bytes by peer."""
        self.received: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        """Connections."""
        self.connected: dict[str, bool] = {}
        self.rounds = 0

    def note(self, what: str, peer: str = "", **more: Any) -> None:
        """Take in one event."""
        self.state = _EVENTS.get(what, self.state)
        if what == "waiting":
            self.connected = {**dict.fromkeys(more.get("peers", ()), False), **self.connected}
        elif what in ("connected", "reconnected", "lost"):
            self.connected[peer] = what != "lost"
            self.lost[peer] += what == "lost"
            if self._tell and (what == "lost" or self.state == "waiting"):
                absent = sorted(name for name, here in self.connected.items() if not here)
                self._tell(f"{peer} {what}; not connected: {', '.join(absent) or 'nobody'}")
        elif what == "sent":
            self.sent[peer] += more["bytes"]
        elif what == "received":
            self.received[peer] += more["bytes"]
            if more["round"] >= self.rounds:
                self.rounds = more["round"] + 1
                self._progress(more["kind"])

    def _progress(self, kind: str) -> None:
        now = self._clock()
        if self._tell and now - self._told >= _EVERY:
            self._told = now
            megabytes = (self.sent.total() + self.received.total()) / 1e6
            self._tell(f"{now - self._began:.0f} s: round {self.rounds} ({kind}), {megabytes:.1f} MB")

    def collect(self) -> Iterable[Metric]:
        """For Prometheus."""
        state = GaugeMetricFamily("ksdp_party_state", "1 for the state that the run is in", labels=["state"])
        for name in _STATES:
            state.add_metric([name], float(name == self.state))
        rounds = CounterMetricFamily("ksdp_party_rounds", "Rounds that are over", value=self.rounds)
        moved = CounterMetricFamily(
            "ksdp_party_bytes", "Bytes of messages, without TLS", labels=["peer", "direction"]
        )
        for direction, counted in (("sent", self.sent), ("received", self.received)):
            for peer, count in sorted(counted.items()):
                moved.add_metric([peer, direction], count)
        here = GaugeMetricFamily("ksdp_party_connected", "1 if a peer is connected", labels=["peer"])
        lost = CounterMetricFamily("ksdp_party_lost_connections", "Connections that were lost", labels=["peer"])
        for peer, connected in sorted(self.connected.items()):
            here.add_metric([peer], float(connected))
            lost.add_metric([peer], self.lost[peer])
        seconds = GaugeMetricFamily(
            "ksdp_party_seconds", "Since the party was started", value=self._clock() - self._began
        )
        return [state, rounds, moved, here, lost, seconds]
