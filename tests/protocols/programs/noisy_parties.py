"""Runs of mechanisms with noise in one process, with noise that a seed decides; plain functions."""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.contract import Database
from ksdp.audit.mechanisms.privacy.dp_nmf import DPNMF
from ksdp.audit.mechanisms.privacy.fedpower import FedPower, UtilityFedPower
from ksdp.audit.mechanisms.privacy.fedpower_private import PrivateFedPower
from ksdp.audit.mechanisms.privacy.hardt_roth import HardtRoth
from ksdp.audit.mechanisms.privacy.moments import DPdisPCA, Moments, TermCounts
from ksdp.audit.mechanisms.privacy.noise import on_grid
from ksdp.audit.mechanisms.privacy.transcript import Announcer, GaussianReleases
from ksdp.protocols.channel.rounds import Rounds
from ksdp.protocols.programs.programs import Precision, party_program
from ksdp.protocols.programs.rounds import NoiseSource, RunOutcome, party_rounds, server_rounds
from ksdp.protocols.programs.run_terms import RunTerms, Statement

from ..conftest import identity, participant, seeded
from .test_party_rounds import NAMES, parts

SERVER = "hub"
DISCRETE: dict[str, Any] = {"sampler": "discrete"}
BY_SUMS: tuple[GaussianReleases, ...] = (
    HardtRoth(rank=2, iterations=3, epsilon=2.0, **DISCRETE),
    DPNMF(rank=2, sweeps=2, epsilon=20.0, **DISCRETE),
    PrivateFedPower(rank=2, iterations=4, period=2, noise=0.02, **DISCRETE),
    Moments(rank=2, advantage=0.4, **DISCRETE),
    Moments(rank=2, advantage=0.4, colluders=1, **DISCRETE),
    TermCounts(advantage=0.4, colluders=1, **DISCRETE),
)
BY_UPLOADS: tuple[GaussianReleases, ...] = (
    FedPower(rank=2, iterations=4, period=2, noise=0.01, central_noise=0.02, **DISCRETE),
    FedPower(rank=2, iterations=4, period=2, noise=0.01, central_noise=0.02, reference="first", **DISCRETE),
    DPdisPCA(rank=2, intermediate=4, epsilon=8.0, **DISCRETE),
)
ONE_NOISE = UtilityFedPower(rank=2, iterations=2, period=1, noise=0.3, row_bound=2.0, **DISCRETE)


def scripted(name: str, seed: int = 0) -> NoiseSource:
    """The n-th noise of somebody is the same in every run, times the deviation."""
    calls = count()
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")

    def source(shape: tuple[int, ...], deviation: float) -> NDArray[np.float64]:
        normal = np.random.default_rng([number, seed, next(calls)]).standard_normal(shape)
        return np.asarray(np.rint(deviation * normal * 2.0**31) * 2.0**-31, dtype=np.float64)

    return source


class ScriptedAnnouncer(Announcer):
    """The audit's announcer, with the noise of the same script; `kept` says whose is left, time by time."""

    def __init__(self, parties: int, kept: Sequence[int] = ()) -> None:
        super().__init__(range(parties), "discrete", np.random.default_rng(0), made_by=parties)
        self._sources = {name: scripted(name) for name in (*NAMES[:parties], SERVER)}
        self._turn, self._parties = count(), parties
        self._publishing = False
        self._kept = iter(kept)

    def publish(self, array: NDArray[np.float64], deviation: float) -> NDArray[np.float64]:
        return self._with(SERVER, array, deviation)

    def choose(self, among: int) -> int:
        return next(self._kept)

    def _noisy(self, share: NDArray[np.float64], deviation: float) -> NDArray[np.float64]:
        return self._with(NAMES[next(self._turn) % self._parties], share, deviation)

    def _with(self, who: str, share: NDArray[np.float64], deviation: float) -> NDArray[np.float64]:
        return np.asarray(on_grid(share) * 2.0**-31 + self._sources[who](share.shape, deviation))


def terms_of(m: int, mechanism: GaussianReleases, **other: Any) -> RunTerms:
    collects = mechanism.name in ("fedpower", "dpdispca", "fedpower-utility")
    said: dict[str, Any] = {
        "features": 12,
        "vocabulary": "sha256:0",
        "precision": Precision(31, 2.0**16),
        "participants": tuple(map(participant, NAMES[:m])),
        "server": participant(SERVER) if collects else None,
    }
    return RunTerms(mechanism, **(said | other))


def sides(
    m: int,
    mechanism: GaussianReleases,
    matrices: Sequence[sp.csr_array] = (),
    sources: Callable[[str], NoiseSource] = scripted,
    **other: Any,
) -> dict[str, Rounds[RunOutcome]]:
    """Everybody's side of a run, the server's last."""
    terms = terms_of(m, mechanism, **other)
    found: dict[str, Rounds[RunOutcome]] = {}
    for name, matrix in zip(NAMES[:m], matrices or parts(m), strict=True):
        own: dict[str, Any] = {"random_bytes": seeded(name), "noise": sources(name)}
        asks = party_program(mechanism, matrix, m)
        found[name] = party_rounds(terms, name, identity(name), asks, Statement(cleared=False), **own)
    if terms.server is not None:
        found[SERVER] = server_rounds(terms, noise=sources(SERVER))
    return found


def ideal(m: int, mechanism: GaussianReleases, kept: Sequence[int] = ()) -> dict[str, NDArray[np.float64]]:
    """What the audit's simulation announces with the same noise."""
    database = Database(tuple(parts(m)))
    return {name: np.asarray(a) for name, a in mechanism.transcribe(database, ScriptedAnnouncer(m, kept)).items()}


def kinds_said(said: Sequence[tuple[str, Any]], sender: str) -> Counter[str]:
    return Counter(spoken.kind for name, spoken in said if name == sender)
