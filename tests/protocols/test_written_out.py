"""Primitives give the numbers that their standards print: those written out here, and those that runs use."""

from __future__ import annotations

import pytest

from ksdp.protocols.channel.keys import AgreementKey

from .written_out import aes_ctr, aes_gcm, hkdf


@pytest.mark.parametrize(
    ("secret", "salt", "info", "published"),
    [
        (
            b"\x0b" * 22, bytes(range(13)), bytes(range(0xF0, 0xFA)),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
        ),
        (
            bytes(range(0x50)), bytes(range(0x60, 0xB0)), bytes(range(0xB0, 0x100)),
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09"
            "da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87",
        ),
        (
            b"\x0b" * 22, b"", b"",
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
        ),
    ],
    ids=["A.1", "A.2", "A.3"],
)  # fmt: skip
def test_hkdf_is_that_of_rfc_5869(secret: bytes, salt: bytes, info: bytes, published: str) -> None:
    assert hkdf(secret, salt, info, len(published) // 2).hex() == published


def test_counter_mode_is_that_of_sp_800_38a() -> None:
    """F.5.1: four blocks of text, and what they are encrypted to."""
    text = (
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
    )
    encrypted = (
        "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff"
        "5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee"
    )
    first = int("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff", 16)
    stream = aes_ctr(bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c"), first, 64)
    assert int(text, 16) ^ int.from_bytes(stream, "big") == int(encrypted, 16)


@pytest.mark.parametrize(
    ("key", "nonce", "text", "data", "published"),
    [
        ("00" * 16, "00" * 12, "", "", "58e2fccefa7e3061367f1d57a4e7455a"),
        (
            "00" * 16, "00" * 12, "00" * 16, "",
            "0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf",
        ),
        (
            "feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
            "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
            "feedfacedeadbeeffeedfacedeadbeefabaddad2",
            "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
            "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e0915bc94fbc3221a5db94fae95ae7121a47",
        ),
    ],
    ids=["1", "2", "4"],
)  # fmt: skip
def test_gcm_is_that_of_mcgrew_and_viega(key: str, nonce: str, text: str, data: str, published: str) -> None:
    assert aes_gcm(*map(bytes.fromhex, (key, nonce, text, data))).hex() == published


def test_agreement_keys_are_those_of_rfc_7748() -> None:
    """Section 6.1: both halves."""
    secrets = ("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
               "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")  # fmt: skip
    publics = ("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
               "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")  # fmt: skip
    assert tuple(AgreementKey(bytes.fromhex(secret)).public.hex() for secret in secrets) == publics
