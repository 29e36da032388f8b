"""SecSum against a plain NumPy sum of the same vectors: what hiding them costs one party, without a network."""

from __future__ import annotations

import time
from functools import partial

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from benchmarks.fastest import best
from ksdp.protocols.channel.keys import Participant
from ksdp.protocols.sums.fixed_point import FixedPoint
from ksdp.protocols.sums.masks import Keystream
from ksdp.protocols.sums.secure_sum import SumParty, SumTerms


def started(m: int) -> list[SumParty]:
    keys = {f"party {i}": Ed25519PrivateKey.generate() for i in range(m)}
    people = tuple(Participant(name, key.public_key().public_bytes_raw()) for name, key in keys.items())
    terms = SumTerms(people, b"benchmark")
    parties = [SumParty(terms, name, key) for name, key in keys.items()]
    hellos = [party.hello() for party in parties]
    for party in parties:
        party.begin(h for h in hellos if h.sender != party.name)
    return parties


def plain_sum(vectors: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    total = vectors[0].copy()
    for vector in vectors[1:]:
        total += vector
    return total


def run(entries: int = 1_000_000, repeats: int = 15) -> None:
    """Print one party's time for one sum, as bytes of its vector a second and as a ratio."""
    rng = np.random.default_rng(0)
    masks, total, number = Keystream(bytes(16)), np.zeros(entries, dtype="<u8"), iter(range(10**6))
    seconds = best(lambda: masks.add_to(total, next(number)), repeats, time.perf_counter)
    print(f"SecSum, {entries:,} entries, 8 bytes each; one mask: {entries * 8e-9 / seconds:.1f} GB/s")
    for m in (2, 3, 5):
        coding = FixedPoint(31, 100.0, m)
        vectors = [rng.normal(size=entries) for _ in range(m)]
        begin = time.perf_counter()
        parties = started(m)
        setup = (time.perf_counter() - begin) / m
        plain = best(partial(plain_sum, vectors), repeats, time.perf_counter)
        encode = best(partial(coding.encode, vectors[0]), repeats, time.perf_counter)
        contribute, combine = [], []
        for _ in range(repeats):
            begin = time.perf_counter()
            sent = [party.contribute(v, coding) for party, v in zip(parties, vectors, strict=True)]
            middle = time.perf_counter()
            results = [party.combine(s for s in sent if s.sender != party.name) for party in parties]
            contribute.append((middle - begin) / m)
            combine.append((time.perf_counter() - middle) / m)
        whole = min(contribute) + min(combine)
        error = float(np.abs(results[0] - plain_sum(vectors)).max())
        print(
            f"  M = {m}: {whole * 1e3:.1f} ms a party (of it: coding {encode * 1e3:.1f}, masks and tags "
            f"{(min(contribute) - encode) * 1e3:.1f}, checking and adding {min(combine) * 1e3:.1f}), "
            f"{entries * 8e-9 / whole:.2f} GB/s, {whole / plain:.1f} x the plain sum ({plain * 1e3:.1f} ms); "
            f"set-up {setup * 1e3:.1f} ms once; largest error {error:.1e}"
        )
