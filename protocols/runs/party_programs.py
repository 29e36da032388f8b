"""Which mechanisms parties can run, and how precise a run is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import scipy.sparse as sp

from ksdp.audit.errors import InputError, SpecError
from ksdp.audit.mechanisms.contract import OPENS, Mechanism, opens_of
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.mechanisms.party_side import Asks
from ksdp.audit.mechanisms.privacy.released import GaussianReleases
from ksdp.protocols.runs.noisy_programs import LARGEST, NOISY, is_noisy, noisy_entries
from ksdp.protocols.runs.party_steps import Steps
from ksdp.protocols.runs.pd_nmf_party import check_nmf, nmf_steps
from ksdp.protocols.runs.pd_svd_party import check_svd, svd_steps
from ksdp.protocols.sums.fixed_point import FixedPoint

__all__ = ["Precision", "check_program", "needs_norms", "party_steps", "sum_entries"]


@dataclass(frozen=True)
class Precision:
    """How reals are written in the sums of a run.

    An entry of a SecSum differs from the sum of the parties' reals by at most `coding(M).error` = M 2^-(f + 1).
    """

    fraction_bits: int = 31
    """f."""
    bound: float = 2.0**20
    """No entry of a party's share may be larger, nor the norm of one that is to be normed."""

    @classmethod
    def widest(cls, mechanism: Mechanism, fraction_bits: int, parties: int) -> Precision:
        """With the largest power of two as bound of which no sum can wrap; less where sums are normed or noisy.

        Examples
        --------
        >>> from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
        >>> Precision.widest(PDNMF(), 31, parties=3).bound == 2.0**29
        True
        """
        bits = 20 if needs_norms(mechanism) else 62 - fraction_bits - (parties - 1).bit_length()
        return cls(fraction_bits, min(2.0**bits, LARGEST) if is_noisy(mechanism) else 2.0**bits)

    def coding(self, parties: int) -> FixedPoint:
        """Of SecSum.

        Raises
        ------
        InputError
            If sums of so many values could wrap.
        """
        return FixedPoint(self.fraction_bits, self.bound, parties)

    def integer_bits(self, parties: int) -> int:
        """Of NormedSecSum: 2^this / M is at least the bound.

        Raises
        ------
        InputError
            If the bound is not positive and finite.
        """
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise InputError(f"`bound` must be positive and finite; got {self.bound}.")
        return math.ceil(math.log2(self.bound * parties))


def needs_norms(mechanism: Mechanism) -> bool:
    """Whether a run takes normed sums."""
    return isinstance(mechanism, PDSVD) and not mechanism.reveal_sigma


def check_program(mechanism: Mechanism) -> None:
    """Refuse a mechanism that parties cannot run as it was audited.

    Raises
    ------
    SpecError
        Naming the mechanism or the parameter.
    """
    if opens_of(mechanism) != OPENS[0]:
        raise SpecError(
            f"`opens` must be {OPENS[0]!r} in a run by announced sums, which shows its parties every round; got "
            f"{opens_of(mechanism)!r}."
        )
    if isinstance(mechanism, PDNMF):
        check_nmf(mechanism)
    elif isinstance(mechanism, PDSVD):
        check_svd(mechanism)
    elif not is_noisy(mechanism):
        raise SpecError(
            f"`mechanism.name` must be pd-nmf, pd-svd, sigma-svd, pd-pca, {', '.join(NOISY)} in a run among "
            f"parties; got {mechanism.name!r}."
        )


def party_steps(mechanism: Mechanism, matrix: sp.csr_array, parties: int = 0) -> Steps | Asks:
    """One party's side of a mechanism, of so many parties where it has noise.

    Raises
    ------
    SpecError
        If parties cannot run it.
    """
    check_program(mechanism)
    if isinstance(mechanism, PDNMF):
        return nmf_steps(mechanism, matrix)
    if isinstance(mechanism, PDSVD):
        return svd_steps(mechanism, matrix)
    assert isinstance(mechanism, GaussianReleases)
    return mechanism.party(matrix, parties)


def sum_entries(mechanism: Mechanism, features: int) -> int:
    """Entries of the largest sum of a run."""
    if isinstance(mechanism, GaussianReleases):
        return noisy_entries(mechanism, features)
    return (mechanism.rank * features if isinstance(mechanism, PDSVD) else 0) + features + 1
