"""The mechanisms that parties can run: each one's program, what its run needs, and how precise a run is."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any, Protocol, TypeGuard

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.contract import OPENS, Mechanism, traits_of
from ksdp.audit.errors import InputError, SpecError
from ksdp.audit.mechanisms.factorisation.nmf_kernels import (
    Factors,
    Penalties,
    Silent,
    TopicShare,
    dot,
    gram_rows,
    next_topic,
    product,
    replace_topic,
    share_of,
)
from ksdp.audit.mechanisms.factorisation.nmf_starts import (
    SvdStart,
    local_models,
    part_squares,
    pseudo_documents,
    random_topics,
    topics_from_parts,
)
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDPCA, PDSVD, hidden_mean, rows_mean
from ksdp.audit.mechanisms.factorisation.power_iteration import (
    normalised,
    orthonormalise,
    start_block,
    subspace_sine,
    values_from,
)
from ksdp.audit.mechanisms.factorisation.power_iteration import share_of as svd_share
from ksdp.audit.mechanisms.factorisation.rri_nmf import Factorisation, check_start, stack
from ksdp.audit.mechanisms.factorisation.weighted_nmf import observed_residual, observed_share
from ksdp.audit.mechanisms.party_side import NormedSecSum, PartyProgram, PartyResult, SecSum
from ksdp.audit.mechanisms.privacy.counted_svd import CountedSVD
from ksdp.audit.mechanisms.privacy.noise import FRACTION_BITS
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.mechanisms.privacy.transcript import GaussianReleases
from ksdp.audit.mechanisms.schema import exact_throughout
from ksdp.audit.numeric.array_types import Floats, Matrix
from ksdp.protocols.channel.rounds import Rounds
from ksdp.protocols.programs.share_terms import check_final, needs_norms, opens_final, uses_shares
from ksdp.protocols.sums.fixed_point import FixedPoint

_STARTS = ("random", "random-2x", "nnsvd", "pd-nmf-init")


def check_nmf(mechanism: PDNMF) -> None:
    """Refuse what cannot be run with secure sums alone."""
    if mechanism.start not in _STARTS:
        raise SpecError(
            f"`start` must be one of {', '.join(_STARTS)} in a run among parties; got {mechanism.start!r}: every "
            "party would tell all others its own topics."
        )
    if mechanism.weighted and not (mechanism.beta > 0 and mechanism.delta > 0):
        raise SpecError(
            "`beta` and `delta` must be above 0 where ratings are factorised among parties (1.0 each, for stars "
            "from 1 to 5): without `beta` a column of few ratings is a ratio of two rounding errors, and which "
            "columns nobody rated would have to be told; without `delta` coefficients outgrow what sums hold."
        )


def nmf_program(mechanism: PDNMF, matrix: sp.csr_array) -> PartyProgram:
    """One party of `PDNMF`."""
    check_nmf(mechanism)
    penalties, tolerance = mechanism.penalties, mechanism.tolerance
    start = random_topics(matrix.shape[1], mechanism.rank, mechanism.start_seed)
    if mechanism.start == "pd-nmf-init":
        (model,) = local_models([matrix], mechanism.rank, mechanism.local_fit)
        merged = yield from _iterate(pseudo_documents(model), start, mechanism.sweeps, tolerance, penalties)
        start = merged.T
    elif mechanism.start == "nnsvd":
        ends = yield from svd_program(SvdStart(mechanism.rank, mechanism.start_seed).svd, matrix)
        V, sigma = ends.public["V"], ends.public["sigma"]
        squares = yield SecSum(part_squares(matrix, V))
        start = topics_from_parts(V, sigma, squares)
    iterate = _iterate_observed if mechanism.weighted else _iterate
    fitted = yield from iterate(matrix, start, mechanism.cap, tolerance, penalties)
    public = {
        "T": fitted.T,
        "numerators": fitted.numerators,
        "denominators": fitted.denominators,
        "sweeps": np.array([float(fitted.sweeps)]),
    }
    return PartyResult(public, {"W": fitted.W})


def _iterate(
    matrix: sp.csr_array, start: Matrix, sweeps: int, tolerance: float, penalties: Penalties
) -> Generator[SecSum, Matrix, Factorisation]:
    rows, features = stack([matrix])
    T = check_start(start, features).copy()
    topics = len(T)
    W = np.zeros((matrix.shape[0], topics))
    project = not any(penalties)
    nothing = np.zeros(topics)
    silent = Silent(0, np.zeros((topics, topics)), nothing.copy(), nothing.copy(), np.ones(topics, dtype=np.bool_))
    gram = gram_rows(T)
    thresholds, fits, interleaved = np.zeros(topics), np.empty_like(W), np.empty((features, 8))
    factors, share = Factors(T, W, gram), TopicShare(np.empty(features), np.empty(topics))
    numerators, denominators = np.empty_like(T), np.empty(topics)
    done, converged = 0, False
    while done < sweeps and not converged:
        before, changed = float(np.trace(gram)), 0.0
        product(rows, T, interleaved, fits)
        for t in range(topics):
            share_of(rows, 0, t, factors, fits, penalties, share)
            announced = yield SecSum(np.append(share.numerator, share.overlaps[t]))
            numerators[t], denominators[t] = announced[:-1], announced[-1]
            denominator = float(announced[-1]) + penalties.beta
            if denominator <= 0.0:
                continue  # an empty topic stays as it was
            topic = announced[:-1].copy()
            height = next_topic(t, topic, denominator, 0, penalties, project, thresholds)
            changed += replace_topic(t, topic, height, T, gram, silent)
        done += 1
        converged = math.sqrt(changed) <= tolerance * math.sqrt(before)
    return Factorisation(T, numerators, denominators, W, done, converged)


def _iterate_observed(
    matrix: sp.csr_array, start: Matrix, sweeps: int, tolerance: float, penalties: Penalties
) -> Generator[SecSum, Matrix, Factorisation]:
    rows, features = stack([matrix])
    T = check_start(start, features).copy()
    W, lengths = np.zeros((matrix.shape[0], len(T))), np.diff(rows.indptr)
    residual = observed_residual(rows, T, W)
    share = np.empty((2, features))
    numerators, denominators = np.empty_like(T), np.empty_like(T)
    done, converged = 0, False
    while done < sweeps and not converged:
        before, changed = 0.0, 0.0
        for t, topic in enumerate(T):
            observed_share(rows, 0, t, topic, W, residual, penalties, share)
            numerators[t], denominators[t] = yield SecSum(share.copy())
            new = np.maximum(numerators[t] - penalties.alpha, 0.0) / (denominators[t] + penalties.beta)
            before += dot(topic, topic)
            topic -= new
            changed += dot(topic, topic)
            topic[:] = new
            residual -= np.repeat(W[:, t], lengths) * new[rows.columns]
        done += 1
        converged = math.sqrt(changed) <= tolerance * math.sqrt(before)
    return Factorisation(T, numerators, denominators, W, done, converged)


def check_svd(mechanism: PDSVD) -> None:
    """Refuse what no parties can run."""
    if mechanism.solver != "power":
        raise SpecError(
            f"`solver` must be 'power' in a run among parties; got {mechanism.solver!r}: parties iterate, and "
            "show when they stop, which an audit of 'limit' has not looked at."
        )


def svd_program(mechanism: PDSVD, matrix: sp.csr_array) -> PartyProgram:
    """One party of `PDSVD`, `SigmaSVD` or `PDPCA`."""
    check_svd(mechanism)
    features = matrix.shape[1]
    mechanism.releases(features)  # refuses a rank that is too large
    public = {}
    mean = None
    if hidden_mean(mechanism):
        mean = rows_mean([matrix])
    elif isinstance(mechanism, PDPCA):
        sums = yield SecSum(np.append(np.asarray(matrix.sum(axis=0), dtype=np.float64), float(matrix.shape[0])))
        public["mean"] = mean = sums[:-1] / max(round(float(sums[-1])), 1)
    start = start_block(mechanism.start_seed, features, mechanism.rank)
    block = orthonormalise(start, start)
    done, movement = 0, np.inf
    norms = np.zeros(len(start))
    while done < mechanism.iterations and movement >= mechanism.tolerance:
        share = svd_share(matrix, block, mean)
        announced = yield SecSum(share) if mechanism.reveal_sigma else NormedSecSum(share)
        if mechanism.reveal_sigma:
            announced, norms = normalised(announced)
        moved = orthonormalise(announced, start)
        movement = subspace_sine(moved, block)
        block, done = moved, done + 1
    public |= {"V": block, "iterations": np.array([float(done)])}
    if mechanism.reveal_sigma:
        public["sigma"] = values_from(norms, features)
    return PartyResult(public)


LARGEST = 2.0**22
"""No share with its noise may be larger: in steps of 2^-31 it is then a float64 without rounding."""


def _own(mechanism: GaussianReleases | CountedSVD, matrix: sp.csr_array, parties: int) -> PartyProgram:
    return mechanism.party(matrix, parties)


@dataclass(frozen=True)
class Program:
    """How one party runs a mechanism, and what the run needs besides parties and secure sums."""

    kind: type = GaussianReleases
    """The mechanism's class or a base of it."""
    start: Callable[[Any, sp.csr_array, int], PartyProgram] = _own
    """Given the mechanism, the party's rows and the number of parties."""
    check: Callable[[Any], None] = lambda mechanism: None
    """Refuses parameters with which parties cannot run it."""
    server: str = ""
    """Why a server is needed; empty where none is."""
    least: int = 2
    extra: str = ""
    """Entry point in `ksdp.requests` that takes all noises but one away; empty without one."""

    @property
    def noisy(self) -> bool:
        """Whether parties add noise."""
        return self.kind is GaussianReleases


def _no_rounds(mechanism: Noisy) -> None:
    raise SpecError(
        '`parameters.opens` must be "final" in a run of noisy: parties add its noise on shares, and open no round.'
    )


_NMF = Program(PDNMF, lambda mechanism, matrix, parties: nmf_program(mechanism, matrix), check_nmf)
_SVD = Program(PDSVD, lambda mechanism, matrix, parties: svd_program(mechanism, matrix), check_svd)
PROGRAMS = MappingProxyType(
    {
        "pd-nmf": _NMF,
        "pd-svd": _SVD,
        "sigma-svd": _SVD,
        "pd-pca": _SVD,
        "counted-svd": Program(CountedSVD),
        "noisy": Program(Noisy, check=_no_rounds, least=3),
        "hardt-roth": Program(),
        "moments": Program(),
        "term-counts": Program(),
        "dp-nmf": Program(),
        "fedpower-private": Program(),
        "fedpower": Program(server="it collects the devices' uploads and adds noise of its own"),
        "dpdispca": Program(server="it collects what the sites send and decomposes it"),
        "fedpower-utility": Program(server="it takes the noises but one away", least=3, extra="one-noise"),
    }
)
"""By the mechanism's name. What only an audit simulates (a mechanism that is broken on purpose) is not in it."""


@dataclass(frozen=True)
class Precision:
    """How reals are written in the sums of a run.

    An entry of a SecSum differs from the sum of the parties' reals by at most `coding(M).error` = M 2^-(f + 1).
    """

    fraction_bits: int = 31
    bound: float = 2.0**20
    """No entry of a party's share may be larger, nor the norm of one that is to be normed."""

    @classmethod
    def widest(cls, mechanism: Mechanism, fraction_bits: int, parties: int) -> Precision:
        """With the largest power of two as bound of which no sum can wrap; less where sums are normed or noisy."""
        bits = 20 if uses_shares(mechanism) else 62 - fraction_bits - (parties - 1).bit_length()
        return cls(fraction_bits, min(2.0**bits, LARGEST) if is_noisy(mechanism) else 2.0**bits)

    def coding(self, parties: int) -> FixedPoint:
        """Coding of SecSum; refused if sums of so many values could wrap."""
        return FixedPoint(self.fraction_bits, self.bound, parties)


def program_of(mechanism: Mechanism) -> Program:
    """The program of a mechanism."""
    program = PROGRAMS.get(mechanism.name)
    if program is None or not isinstance(mechanism, program.kind):
        raise SpecError(
            f"`mechanism.name` must be {', '.join(PROGRAMS)} in a run among parties; got {mechanism.name!r}."
        )
    return program


class DeviceSums(Protocol):
    """A party's side of sums of which all noises but one are taken away (`OneNoiseSum`)."""

    def begin(self) -> Rounds[None]:
        """Once a run."""

    def total(self, values: Floats, noise: NDArray[np.int64], deviation: float) -> Rounds[Floats]:
        """The sum of shares, given this one with its noise, and that noise in steps of the grid."""


class ServerSums(Protocol):
    """The server's side of them."""

    def begin(self) -> Rounds[None]:
        """Once a run."""

    def total(self, shape: tuple[int, ...], deviation: float) -> Rounds[Floats]:
        """The sum of shares of a shape, with one noise."""


@dataclass(frozen=True)
class ExtraSums:
    """Both sides of sums that an entry point of `ksdp.requests` names."""

    device: Callable[..., DeviceSums]
    """Given the terms, the session, the node's engine, and a source of secrets."""
    server: Callable[..., ServerSums]
    """Given the terms, the session, and the node's engine."""


def extra_sums(mechanism: Mechanism) -> ExtraSums | None:
    """Both sides of the sums that a mechanism needs besides secure ones; None where it needs none."""
    wanted = program_of(mechanism).extra
    if not wanted:
        return None
    for entry in entry_points(group="ksdp.requests"):
        if entry.name == wanted:
            loaded: ExtraSums = entry.load()
            return loaded
    raise SpecError(
        f"`mechanism.name` {mechanism.name} needs {wanted!r} of `ksdp.requests`, which nothing installed has."
    )


def is_noisy(mechanism: Mechanism) -> TypeGuard[GaussianReleases]:
    """Whether parties can run it and add noise."""
    return mechanism.name in PROGRAMS and isinstance(mechanism, GaussianReleases)


def packages_of(mechanism: Mechanism) -> tuple[str, ...]:
    """Return the optional packages (extra `parties`) without which a party's side of a run ends midway."""
    needs = {"mpyc": uses_shares(mechanism), "gmpy2": bool(program_of(mechanism).extra)}
    needs |= dict.fromkeys(("dp_accounting", "opendp"), not exact_throughout(mechanism))
    return tuple(package for package, needed in needs.items() if needed)


def how_summed(mechanism: Mechanism) -> str:
    """Return the kind of sums of a run, in one word."""
    if opens_final(mechanism):
        return "shares"
    return "secsum+normedsecsum" if needs_norms(mechanism) else "secsum"


def check_program(mechanism: Mechanism) -> None:
    """Refuse a mechanism that parties cannot run as it was audited."""
    program = program_of(mechanism)
    if opens_final(mechanism):
        check_final(mechanism)
    else:
        program.check(mechanism)


def party_program(mechanism: Mechanism, matrix: sp.csr_array, parties: int = 0) -> PartyProgram:
    """One party's side of a mechanism, with its rows; of so many parties where it has noise."""
    check_program(mechanism)
    if traits_of(mechanism).opens != OPENS[0]:
        raise SpecError(
            f"`opens` must be {OPENS[0]!r} in a run by announced sums, which shows its parties every round; got "
            f"{traits_of(mechanism).opens!r}."
        )
    return program_of(mechanism).start(mechanism, matrix, parties)


def sum_entries(mechanism: Mechanism, features: int) -> int:
    """Entries of the largest matrix that is summed, announced or sent in a run, and of a row beside it."""
    sent = (array for array in mechanism.releases(features) if not array.derived_from)
    return max(math.prod(a.shape[-2:]) for a in sent) + features + 1


def check_noisy(mechanism: GaussianReleases, fraction_bits: int, bound: float, parties: int) -> None:
    """Refuse what would not be the audited mechanism, or would protect nobody."""
    if mechanism.sampler != "discrete":
        raise SpecError("`sampler` must be 'discrete' in a run among parties: the other does not protect anybody.")
    if fraction_bits != FRACTION_BITS:
        raise InputError(
            f"`precision.fraction_bits` must be {FRACTION_BITS} for {mechanism.name}, the grid of its noise; got "
            f"{fraction_bits}."
        )
    if bound > LARGEST:
        raise InputError(
            f"`precision.bound` must be at most {LARGEST:.0f} for {mechanism.name}: beyond, a share with noise "
            f"is not exact; got {bound:g}."
        )
    least = max(program_of(mechanism).least, (getattr(mechanism, "colluders", 0) or 0) + 1)
    if parties < least:
        raise InputError(f"{mechanism.name} with these parameters needs at least {least} parties; got {parties}.")
