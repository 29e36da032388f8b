"""A party's side of kits: ask to take part, accept what the organiser packaged, renew a key."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import InputError
from ksdp.flows.runs.kit_draft import draft_changes, invited_draft
from ksdp.flows.runs.kit_files import (
    KIT,
    Kit,
    Request,
    changes,
    check_version,
    compared,
    header,
    open_kit,
    read_invitation,
)
from ksdp.flows.runs.kit_folder import KitFolder
from ksdp.flows.runs.kit_protocol import make_request, write_protocol
from ksdp.storage.keys import fingerprint, make_identity
from ksdp.storage.runs.sealed import Sealed, read_sealed, write_sealed


@dataclass(frozen=True, eq=False)
class Accepted:
    """A kit that is in force in a party's folder."""

    kit: Kit
    protocol: Path
    changes: tuple[str, ...]
    """Since the edition before; for the first, since the invitation."""


def ask(
    invitation: Path,
    folder: KitFolder,
    me: str,
    identity: Ed25519PrivateKey,
    address: str,
    *,
    server: bool = False,
    told: str,
) -> Request:
    """Write a party's request into its folder.

    Parameters
    ----------
    told : str
        The organiser's fingerprint, as it came by another way.
    """
    sealed = read_invitation(invitation)
    check_version(sealed, invitation.name)
    compared(told, sealed.signer, str(sealed.said["organiser"]))
    if folder.invitation_path.exists() and folder.invitation.digest != sealed.digest:
        raise InputError(f"{folder.path} has taken another invitation; name another folder.")
    request = make_request(sealed, me, identity, address, server=server)
    write_sealed(folder.invitation_path, sealed)
    folder.remember(me, sealed)
    write_sealed(folder.path / f"{me}.request", request.sealed)
    return request


def renew(
    folder: KitFolder, old: Ed25519PrivateKey, new: Ed25519PrivateKey, address: str | None = None
) -> Request:
    """Ask for a new key in place of one that a kit names; the old one signs for it. Also for a new address.

    Raises
    ------
    InputError
        If no kit in force names this party with its old key.
    """
    me, kit = folder.me, folder.accepted
    mine = kit.member(me) if kit else None
    if mine is None or mine.raw != old.public_key().public_bytes_raw():
        raise InputError(f"no kit names {me} with this key yet: `ksdp kit request` again.")
    request = make_request(folder.invitation, me, new, address or mine.address, server=mine.server, old=old)
    write_sealed(folder.path / f"{me}.request", request.sealed)
    return request


def next_identity(folder: KitFolder) -> Path:
    """Make the next key of a party, where there is none yet; where it is."""
    if not folder.next_key(folder.me).exists():
        make_identity(folder.path, f"{folder.me}.next")
    return folder.next_key(folder.me)


def check_kit(folder: KitFolder, sealed: Sealed, where: str) -> Kit:
    """Refuse a kit that is not the organiser's, or not of what this party took; whatever it says of the party."""
    invitation = folder.invitation
    kit = open_kit(sealed, where)
    if sealed.signer.public_bytes_raw() != invitation.signer.public_bytes_raw():
        raise InputError(
            f"{where} is signed by {fingerprint(sealed.signer)}, not by {invitation.said['organiser']}, who "
            f"invited you ({fingerprint(invitation.signer)})."
        )
    if sealed.said["invitation"] != invitation.digest:
        raise InputError(f"{where} is of another invitation than the one in {folder.path}.")
    return kit


def accept(folder: KitFolder, path: Path) -> Accepted:
    """Put an edition of the kit into force. All checks come before anything is written.

    Raises
    ------
    InputError
        If the kit was changed, is somebody else's, leaves this party out, is of another version of ksdp, or is
        older than the one in force: then it says what changed since.
    """
    kit, before, me = check_kit(folder, read_sealed(path, KIT), path.name), folder.accepted, folder.me
    invitation = folder.invitation
    invited = invited_draft(invitation)
    draft = kit.draft_beside(invited)
    check_version(kit.sealed, path.name)
    if kit.ksdp != (ours := header()["ksdp"]):
        raise InputError(
            f"{path.name} is of ksdp {kit.ksdp}, and this is {ours}: all parties must have the same. Install "
            f"{kit.ksdp}, or ask for an edition that was packaged by {ours}."
        )
    if before and kit.edition < before.edition:
        since = "; ".join(changes(kit, before, invited)) or "nothing that is seen"
        raise InputError(
            f"{path.name} is edition {kit.edition}, and {before.edition} is in force. What changed since: {since}."
        )
    if before and kit.edition == before.edition and kit.sealed.digest != before.sealed.digest:
        raise InputError(f"{path.name} says other things than edition {kit.edition} that is in force: ask why.")
    turn = _check_mine(folder, kit, me, path.name)
    with tempfile.TemporaryDirectory(dir=folder.path, prefix=".accepting.") as made:
        if write_protocol(Path(made), invitation, kit.members, kit.edition, draft) != kit.agreement:
            raise InputError(
                f"{path.name}: the protocol hash here is not the organiser's, from the same file: compare what is "
                "installed."
            )
        if turn:
            folder.turn_key(me)
        for file in sorted(Path(made).iterdir()):
            shutil.move(file, folder.path / file.name)
    write_sealed(folder.accepted_path, kit.sealed)
    said = changes(before, kit, invited) if before else draft_changes(invited, draft)
    return Accepted(kit, folder.protocol, said)


def _check_mine(folder: KitFolder, kit: Kit, me: str, where: str) -> bool:
    """Whether the next key comes into force."""
    mine = kit.member(me)
    if mine is None:
        if folder.is_organisers:
            return False
        names = ", ".join(member.name for member in kit.members)
        raise InputError(f"{where} is not for {me}: edition {kit.edition} names {names}.")
    if mine.raw == folder.public(me).public_bytes_raw():
        return False
    following = folder.next_public(me)
    if following is not None and mine.raw == following.public_bytes_raw():
        return True
    raise InputError(
        f"{where} names the key {mine.fingerprint} for {me}, which is not in {folder.path}: someone else asked "
        f"in your name, or the kit is of an earlier request. Ask {folder.invitation.said['organiser']}."
    )
