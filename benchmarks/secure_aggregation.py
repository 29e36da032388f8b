"""Secure aggregation, all clients and the server in one process, without a network: seconds by round."""

from __future__ import annotations

import time

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.protocols.channel.keys import Participant
from ksdp.protocols.sums.aggregation_client import AggregationClient
from ksdp.protocols.sums.aggregation_server import AggregationServer
from ksdp.protocols.sums.fixed_point import FixedPoint
from ksdp.protocols.sums.secure_aggregation import AggregationTerms

__all__ = ["run"]


def one(n: int, entries: int, threshold: int, gone: int) -> tuple[dict[str, float], float]:
    """Seconds by round, and the largest error; the last `gone` clients leave after they shared their keys."""
    names = [f"client {i:03}" for i in range(n)]
    keys = {name: Ed25519PrivateKey.generate() for name in [*names, "server"]}
    people = {name: Participant(name, key.public_key().public_bytes_raw()) for name, key in keys.items()}
    server_of_all = people.pop("server")
    coding = FixedPoint(24, 100.0, n)
    terms = AggregationTerms(tuple(people.values()), server_of_all, threshold, coding, (entries,), b"benchmark")
    values = dict(zip(names, np.random.default_rng(0).normal(size=(n, entries)), strict=True))
    clients = {name: AggregationClient(terms, name, keys[name]) for name in names}
    server = AggregationServer(terms, keys["server"])
    stay = names[: n - gone]
    times = [time.perf_counter()]
    listed = server.keys([c.advertise() for c in clients.values()])
    times.append(time.perf_counter())
    each = server.shares([c.share_keys(listed) for c in clients.values()])
    times.append(time.perf_counter())
    survivors = server.masked([clients[name].mask(each[name], values[name]) for name in stay])
    times.append(time.perf_counter())
    agreements = server.agreed([clients[name].agree(survivors) for name in stay])
    times.append(time.perf_counter())
    result = server.unmask([clients[name].unmask(agreements) for name in stay])
    times.append(time.perf_counter())
    rounds = ("keys", "shares", "masks", "lists", "unmasking")
    error = np.abs(result.values - np.sum([values[name] for name in stay], axis=0)).max()
    return dict(zip(rounds, np.diff(times), strict=True)), float(error)


def run() -> None:
    """Print the sizes for which other implementations were timed."""
    print("Secure aggregation, all parties in one process, seconds:")
    for n, entries, threshold, gone in [(10, 100_000, 7, 0), (10, 100_000, 7, 2), (100, 10_000, 67, 10)]:
        seconds, error = min(
            (one(n, entries, threshold, gone) for _ in range(3)), key=lambda r: sum(r[0].values())
        )
        parts = ", ".join(f"{name} {value:.3f}" for name, value in seconds.items())
        print(
            f"  {n} clients, {entries:,} entries, threshold {threshold}, {gone} left: "
            f"{sum(seconds.values()):.3f} ({parts}); largest error {error:.1e}"
        )
