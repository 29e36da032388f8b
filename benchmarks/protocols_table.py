"""The cost of every protocol with 2, 3, 5 and 10 parties: bytes per party, CPU seconds of all together.

::

    python -m benchmarks protocols --party-counts 2 3 5 10 [--protocols pd-nmf pem]

Small on purpose (40 documents a party, 60 features, rank 3, 5 rounds; 2 where norms are hidden): all parties in
this one process, without TLS and sockets: bytes are those of the messages alone, seconds those of computing.
Runs that open their final output alone (`benchmarks hidden`) and PEM between hosts (`benchmarks pem-hosts`) have
their own.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter

import numpy as np
import scipy.sparse as sp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.contract import Mechanism
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm
from ksdp.audit.mechanisms.pem.functions import PemKMeans
from ksdp.audit.mechanisms.pem.noise import Budget
from ksdp.audit.registry import make_mechanism
from ksdp.extras.pem.local import run_pem
from ksdp.extras.pem.spec import PemRunSpec
from ksdp.protocols.channel.keys import Participant
from ksdp.protocols.channel.rounds import run_together
from ksdp.protocols.programs.programs import Precision, party_program, program_of
from ksdp.protocols.programs.rounds import party_rounds, server_rounds
from ksdp.protocols.programs.run_terms import RunTerms, Statement
from ksdp.protocols.programs.share_terms import ShareTerms, needs_norms

FEATURES, DOCUMENTS, RANK, ROUNDS = 60, 40, 3, 5
_NOISE = {"sampler": "discrete"}
PROTOCOLS: dict[str, dict[str, object]] = {
    "pd-nmf": {"sweeps": ROUNDS, "tolerance": 0.0},
    "sigma-svd": {"solver": "power", "iterations": ROUNDS, "tolerance": 0.0},
    "pd-svd": {"solver": "power", "iterations": 2, "tolerance": 0.0},
    "pd-pca": {"solver": "power", "iterations": 2, "tolerance": 0.0},
    "hardt-roth": {"iterations": ROUNDS, "epsilon": 1.0, **_NOISE},
    "dp-nmf": {"sweeps": ROUNDS, "epsilon": 1.0, **_NOISE},
    "moments": {"advantage": 0.4, **_NOISE},
    "fedpower-private": {"iterations": ROUNDS, "period": 1, "noise": 0.1, **_NOISE},
    "fedpower": {"iterations": ROUNDS, "period": 1, "noise": 0.1, "central_noise": 0.1, **_NOISE},
    "dpdispca": {"intermediate": 5, "epsilon": 1.0, **_NOISE},
    "fedpower-utility": {"iterations": ROUNDS, "period": 1, "noise": 0.1, "row_bound": 1.0, **_NOISE},
}
"""What parties can run, with parameters of a small run."""


def run(sizes: list[int], names: list[str] | None = None) -> None:
    """Print the table: a row a protocol, or a row each of some, a column a number of parties."""
    print(f"kB that the busiest node sends / CPU s of all; {DOCUMENTS} documents a party, {FEATURES} features")
    print(f"{'':18}" + "".join(f"{f'{m} parties':>18}" for m in sizes))
    for name in names or [*PROTOCOLS, "pem"]:
        print(f"{name:18}", end="", flush=True)
        for m in sizes:
            print(f"{_cell(name, m):>18}", end="", flush=True)
        print()


def _cell(name: str, m: int) -> str:
    if name == "pem":
        return _pem(PemKMeans(RANK, FEATURES, bound=8.0, fraction_bits=0), m)
    return _shown(make_mechanism(name, {"rank": RANK, **PROTOCOLS[name]}, installed=True), m)


def _shown(mechanism: Mechanism, m: int) -> str:
    hidden = needs_norms(mechanism)
    if (program_of(mechanism).extra or hidden) and m < 3:
        return "at least 3"
    names = [f"party{number:02}" for number in range(m)]
    server = "server" if program_of(mechanism).server else None
    keys = {name: _key(name) for name in (*names, *filter(None, (server,)))}
    everybody = tuple(Participant(name, keys[name].public_key().public_bytes_raw()) for name in names)
    hub = Participant(server, keys[server].public_key().public_bytes_raw()) if server else None
    shares = ShareTerms(tuple(names[:3]), 0, 0) if hidden else None
    terms = RunTerms(mechanism, FEATURES, "sha256:0", Precision(31), everybody, hub, shares=shares)
    began = time.process_time()
    sides = {
        name: party_rounds(
            terms, name, keys[name], party_program(mechanism, _rows(number), m), Statement(cleared=False)
        )
        for number, name in enumerate(names)
    }
    if server:
        sides[server] = server_rounds(terms)
    _, said = run_together(sides)
    sent: Counter[str] = Counter()
    for sender, spoken in said:
        sent[sender] += sum(map(len, spoken.messages.values()))
    return f"{max(sent.values()) / 1e3:,.0f} / {time.process_time() - began:.2f}"


def _pem(algorithm: PemAlgorithm, servers: int) -> str:
    """A host with 40 clients of one record each, so many servers; what the host sends."""
    clients, parts = [f"client{number:02}" for number in range(DOCUMENTS)], _rows(0)
    began = time.process_time()
    held = {name: parts[[at]] for at, name in enumerate(clients)}
    result = run_pem(algorithm, held, Budget(1.0, ROUNDS), PemRunSpec(servers=servers))
    return f"{result.sent['clients'] / 1e3:,.0f} / {time.process_time() - began:.2f}"


def _rows(number: int) -> sp.csr_array:
    rng = np.random.default_rng(number)
    dense = np.where(rng.random((DOCUMENTS, FEATURES)) < 0.2, rng.random((DOCUMENTS, FEATURES)), 0.0)
    dense[np.arange(DOCUMENTS), np.arange(DOCUMENTS) % FEATURES] = 0.5  # no row is empty
    return sp.csr_array(dense / np.linalg.norm(dense, axis=1, keepdims=True))


def _key(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())
