"""The organiser's side of kits: invite, approve what was compared, package one kit for all.

1. The organiser invites: everything but who takes part (`invite`).
2. Each party makes its key and asks to take part, having compared the organiser's fingerprint (`kit_party.ask`).
3. The organiser compares each party's fingerprint (`approve`) and packages one kit for all (`package`).
4. Each party accepts it (`kit_party.accept`): checks first, then writes its protocol file.

Whoever joins, leaves or renews a key is a new edition of the kit, some lines long, and so is another draft; nobody
else does anything but accept it, and nobody's key is touched.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import InputError
from ksdp.audit.randomness import os_random
from ksdp.flows.runs.kit_draft import changed_draft, invited_draft, read_draft
from ksdp.flows.runs.kit_files import (
    INVITATION,
    KIT,
    REQUEST,
    Kit,
    Request,
    check_version,
    compared,
    header,
    open_kit,
    open_request,
)
from ksdp.flows.runs.kit_folder import KitFolder
from ksdp.flows.runs.kit_protocol import make_request, write_protocol
from ksdp.storage.runs.sealed import Sealed, read_sealed, seal, write_sealed


def invite(draft: Path, folder: KitFolder, me: str, identity: Ed25519PrivateKey, address: str | None) -> Sealed:
    """Write the invitation into the organiser's folder; with an address the organiser takes part."""
    read = read_draft(draft)
    if folder.invitation_path.exists():
        raise InputError(
            f"{folder.invitation_path} exists; one folder is for one invitation. If its draft has changed: `ksdp "
            f"kit package --draft {draft} --folder {folder.path}`, and the requests stay valid."
        )
    fields = {
        "organiser": me,
        "nonce": os_random(16).hex(),
        "text": read.text,
        "vocabulary": read.vocabulary,
    }
    sealed = seal(INVITATION, header() | fields, identity)
    write_sealed(folder.invitation_path, sealed)
    folder.remember(me, sealed)
    if address is not None:
        request = make_request(sealed, me, identity, address, server=False)
        write_sealed(folder.approved_path(me), request.sealed)
    return sealed


def approve(folder: KitFolder, request: Path, heard: str | None) -> tuple[Request, str]:
    """Take a party's request into the next edition of the kit: the request, and how it was known.

    Parameters
    ----------
    heard : str, optional
        The party's fingerprint, as it came by another way; not needed where the key that was approved before has
        signed for this one.

    Raises
    ------
    InputError
        If the request is for another invitation, its fingerprint was not compared or is another, or its name,
        address or key is another party's.
    """
    invitation = folder.require_organiser()
    asked = open_request(read_sealed(request, REQUEST).whole, request.name)
    check_version(asked.sealed, request.name)
    if asked.sealed.said["invitation"] != invitation.digest:
        raise InputError(f"{request.name} was made for another invitation.")
    before = {known.name: known for known in folder.approved}
    for name, known in before.items():
        if name != asked.name and known.address == asked.address:
            raise InputError(f"{asked.name} gives the address {asked.address}, which is {name}'s.")
        if name != asked.name and known.raw == asked.raw:
            raise InputError(f"{asked.name} gives the key of {name}: each must have its own.")
        if name != asked.name and known.server and asked.server:
            raise InputError(f"{asked.name} asks to be the server, which {name} is.")
    old = before.get(asked.name)
    how = "its fingerprint was compared"
    if heard is not None:
        compared(heard, asked.key, asked.name)
    elif old and old.raw == asked.raw:
        how = "its key is the one that was approved"
    elif old and asked.renews and asked.renews.public_bytes_raw() == old.raw:
        how = "the key that was approved before signed for the new one"
    else:
        raise InputError(
            f"{asked.name} is not known by this key yet. Ask {asked.name} by telephone to read its fingerprint, "
            f"and give what you hear: `--fingerprint ...` (the file says {asked.fingerprint})."
        )
    write_sealed(folder.approved_path(asked.name), asked.sealed)
    return asked, how


def remove(folder: KitFolder, name: str) -> None:
    """Leave a party out of the next edition."""
    folder.require_organiser()
    try:
        folder.approved_path(name).unlink()
    except OSError:
        names = ", ".join(request.name for request in folder.approved)
        raise InputError(f"{name!r} is not approved; approved so far: {names or 'none'}.") from None


def package(folder: KitFolder, identity: Ed25519PrivateKey, draft: Path | None = None) -> tuple[Path, Kit]:
    """Write the next edition of the kit, one file for all; where it is. The same edition where nothing changed.

    Parameters
    ----------
    draft : Path, optional
        In place of the draft of the edition before, or of the invitation. Requests hold: they do not depend on it.
    """
    invitation = folder.require_organiser()
    if invitation.signer.public_bytes_raw() != identity.public_key().public_bytes_raw():
        raise InputError("the key is not the one that signed the invitation.")
    members, before = folder.approved, latest(folder)
    invited = invited_draft(invitation)
    now = read_draft(draft) if draft else before.draft_beside(invited) if before else invited
    fields = header() | {"invitation": invitation.digest, "members": [member.sealed.whole for member in members]}
    fields |= changed_draft(invited, now)
    if before and {**before.sealed.said, **fields} == before.sealed.said and now == before.draft_beside(invited):
        return _kit_path(folder, before.edition), before
    with tempfile.TemporaryDirectory() as tried:
        edition = before.edition + 1 if before else 1
        agreement = write_protocol(Path(tried), invitation, members, edition, now)
    sealed = seal(KIT, fields | {"edition": edition, "agreement": agreement}, identity)
    path = _kit_path(folder, edition)
    write_sealed(path, sealed)
    return path, open_kit(sealed, path.name)


def latest(folder: KitFolder) -> Kit | None:
    """The newest edition that the organiser has packaged."""
    stems = (path.stem.removeprefix("edition-") for path in folder.path.glob("edition-*.kit"))
    editions = [int(stem) for stem in stems if stem.isdigit()]
    if not editions:
        return None
    path = _kit_path(folder, max(editions))
    return open_kit(read_sealed(path, KIT), path.name)


def _kit_path(folder: KitFolder, edition: int) -> Path:
    return folder.path / f"edition-{edition}.kit"
