"""Key files: private to their owner, never overwritten, refused where they are something else."""

import hashlib
import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from ksdp.audit.errors import InputError
from ksdp.storage.keys import fingerprint, load_private, load_public, make_identity, needs_passphrase


@pytest.mark.parametrize("passphrase", [None, b"correct horse"])
def test_what_is_made_is_read_back_and_fits(tmp_path: Path, passphrase: bytes | None) -> None:
    made = make_identity(tmp_path / "keys", "ana", passphrase=passphrase)
    assert made.private.stat().st_mode & 0o777 == 0o600
    private, public = load_private(made.private, passphrase=passphrase), load_public(made.public)
    public.verify(private.sign(b"hello"), b"hello")
    assert made.fingerprint == fingerprint(private) == fingerprint(public)
    assert made.fingerprint.replace("-", "") == hashlib.sha256(public.public_bytes_raw()).hexdigest()[:32]
    assert (b"ENCRYPTED" in made.private.read_bytes()) == (passphrase is not None)


@pytest.mark.parametrize("there", ["ana.key", "ana.pub"])
def test_a_key_is_never_overwritten(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("mine")
    with pytest.raises(InputError, match="a key is never overwritten"):
        make_identity(tmp_path, "ana")
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {there: "mine"}


def test_not_even_through_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "ana.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="never overwritten"):
        make_identity(tmp_path, "ana")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("name", ["", "../ana", "a/b", ".ana", "a b", "ä", "a" * 65, "ana\n"])
def test_names_that_could_be_paths_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="`name` must be"):
        make_identity(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


def test_a_mask_of_the_process_does_not_open_the_key(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        made = make_identity(tmp_path, "ana")
    finally:
        os.umask(old)
    assert made.private.stat().st_mode & 0o777 == 0o600


def test_a_private_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    made = make_identity(tmp_path, "ana")
    made.private.chmod(0o640)
    with pytest.raises(InputError, match="chmod 600"):
        load_private(made.private)


def test_passphrases(tmp_path: Path) -> None:
    locked = make_identity(tmp_path, "locked", passphrase=b"one").private
    open_ = make_identity(tmp_path, "open").private
    assert (needs_passphrase(locked), needs_passphrase(open_)) == (True, False)
    with pytest.raises(InputError, match="needs a passphrase"):
        load_private(locked)
    with pytest.raises(InputError, match="the passphrase is wrong"):
        load_private(locked, passphrase=b"two")
    with pytest.raises(InputError, match="has no passphrase"):
        load_private(open_, passphrase=b"one")
    with pytest.raises(InputError, match="must not be empty"):
        make_identity(tmp_path, "none", passphrase=b"")


def test_other_files_and_other_kinds_of_key(tmp_path: Path) -> None:
    made = make_identity(tmp_path, "ana")
    other = generate_private_key(SECP256R1())
    file = tmp_path / "ec"
    file.touch(mode=0o600)
    file.write_bytes(other.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption()))
    with pytest.raises(InputError, match="must be an Ed25519 key"):
        load_private(file)
    file.write_bytes(other.public_key().public_bytes(pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(InputError, match="must be an Ed25519 key"):
        load_public(file)
    with pytest.raises(InputError, match="is not a public key: it is a private one, which goes to nobody"):
        load_public(made.private)
    with pytest.raises(InputError, match="is a public key; the private one"):
        load_private(made.public)
    with pytest.raises(InputError, match="cannot be read"):
        load_public(tmp_path / "none")


@pytest.mark.parametrize("passphrase", [None, b"secret"])
def test_half_a_pair_is_made_whole(tmp_path: Path, passphrase: bytes | None) -> None:
    """Killed between the two files: the private key is there, the public one is not."""
    made = make_identity(tmp_path, "ana", passphrase=passphrase)
    shown = made.public.read_bytes()
    made.public.unlink()
    again = make_identity(tmp_path, "ana", passphrase=passphrase)
    assert (again.public.read_bytes(), again.fingerprint) == (shown, made.fingerprint)
    with pytest.raises(InputError, match="never overwritten"):
        make_identity(tmp_path, "ana", passphrase=passphrase)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ana.key", "ana.pub"]
