"""The secret draw: its share, that it is a party's own, and that it stays."""

import hmac

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy.stats import binom

from ksdp.protocols.programs.secret_draw import secret_draw

from ..written_out import hkdf

ADA, BOB = (Ed25519PrivateKey.from_private_bytes(bytes([byte]) * 32) for byte in (1, 2))
UNITS = [f"mail {number}" for number in range(20_000)]


@pytest.mark.parametrize("share", [0.05, 0.25, 0.9])
def test_so_many_enter_as_the_share_says(share: float) -> None:
    low, high = binom.interval(1 - 1e-9, len(UNITS), share)
    assert low <= secret_draw(ADA, UNITS, share).sum() <= high


def test_a_document_is_in_or_out_for_good() -> None:
    whole = secret_draw(ADA, UNITS, 0.3)
    np.testing.assert_array_equal(secret_draw(ADA, UNITS[::-1], 0.3)[::-1], whole)
    np.testing.assert_array_equal(secret_draw(ADA, UNITS[5000:6000], 0.3), whole[5000:6000])
    # Who enters a smaller draw enters a larger one.
    assert not (secret_draw(ADA, UNITS, 0.1) & ~whole).any()


def test_another_party_draws_by_itself() -> None:
    both = (secret_draw(ADA, UNITS, 0.5) & secret_draw(BOB, UNITS, 0.5)).sum()
    low, high = binom.interval(1 - 1e-9, len(UNITS), 0.25)
    assert low <= both <= high


def test_it_is_a_keyed_hash_as_rfc_5869_and_2104_have_it() -> None:
    key = hkdf(ADA.private_bytes_raw(), b"", b"ksdp-secret-draw-1", 32)
    slow = [int(hmac.new(key, u.encode(), "sha256").hexdigest()[:16], 16) / 2**64 < 0.3 for u in UNITS[:500]]
    np.testing.assert_array_equal(secret_draw(ADA, UNITS[:500], 0.3), slow)
