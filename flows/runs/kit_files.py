"""What organisations hand each other before a run: the invitation, requests, and the kit; what each says.

===============  ==========  =====================  =====================================================
file             made by     signed by              says
===============  ==========  =====================  =====================================================
invitation       organiser   organiser              the protocol file but for its parties; the vocabulary
request          each party  its key; a renewal by  name, address, public key, for which invitation
                             the old key too
kit              organiser   organiser              edition, all requests that were approved, the protocol
                                                    hash; the draft, where it changed since
===============  ==========  =====================  =====================================================

No file has a secret in it, and each is the same for everybody: what is a party's own stays in its folder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ksdp.audit.errors import InputError
from ksdp.flows.runs.kit_draft import Draft, draft_changes
from ksdp.protocols.network.mesh import Address
from ksdp.protocols.runs.run_terms import PROTOCOL_VERSION
from ksdp.storage.keys import fingerprint
from ksdp.storage.runs.sealed import Sealed, open_sealed, read_sealed

INVITATION, REQUEST, KIT = "invitation", "request", "kit"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,54}")
_FORMAT = 1
_GROUPS = 8
_MOST_EDITIONS = 10**6


@dataclass(frozen=True, eq=False)
class Request:
    """Who wants to take part, in its own words."""

    name: str
    address: str
    server: bool
    key: Ed25519PublicKey
    renews: Ed25519PublicKey | None
    """The key that signed for the new one."""
    sealed: Sealed

    @property
    def fingerprint(self) -> str:
        """Of its key."""
        return fingerprint(self.key)

    @property
    def raw(self) -> bytes:
        """Its key."""
        return self.key.public_bytes_raw()


@dataclass(frozen=True, eq=False)
class Kit:
    """One edition of who takes part."""

    edition: int
    ksdp: str
    members: tuple[Request, ...]
    """By name."""
    agreement: str
    draft: Draft | None
    """In place of the invitation's; without a vocabulary where that is the invitation's still."""
    sealed: Sealed

    def draft_beside(self, invited: Draft) -> Draft:
        """The draft in force, where that of the invitation is this."""
        if self.draft is None:
            return invited
        return Draft(self.draft.text, self.draft.vocabulary or invited.vocabulary)

    def member(self, name: str) -> Request | None:
        """Who has this name."""
        return next((member for member in self.members if member.name == name), None)


def header() -> dict[str, Any]:
    """What every file says first."""
    return {"format": _FORMAT, "ksdp": version("ksdp"), "protocol": PROTOCOL_VERSION}


def grouped(digest: str) -> str:
    """The first 128 bits of a hash in groups of four, to be read over the telephone.

    Examples
    --------
    >>> grouped("00112233445566778899aabbccddeeff" + 32 * "0")
    '0011-2233-4455-6677-8899-aabb-ccdd-eeff'
    """
    return "-".join(digest[4 * at : 4 * at + 4] for at in range(_GROUPS))


def compared(heard: str, key: Ed25519PublicKey, whose: str) -> None:
    """Refuse a fingerprint that is not that of a key.

    Parameters
    ----------
    heard : str
        As a person typed it: letters of any size, with dashes, spaces or neither.
    """
    if re.sub(r"[\s-]", "", heard).lower() != fingerprint(key).replace("-", ""):
        raise InputError(
            f"{whose} has the fingerprint {fingerprint(key)} in the file, not the one given. Ask again by "
            "telephone; if they still differ, the file was changed in transit: do not go on."
        )


def read_invitation(path: Path) -> Sealed:
    """Read an invitation."""
    sealed = read_sealed(path, INVITATION)
    _check_header(sealed, path.name)
    said = sealed.said
    texts = [said.get("text"), said.get("organiser")]
    if not all(isinstance(text, str) for text in texts) or not NAME.fullmatch(str(said["organiser"])):
        raise InputError(f"{path.name} is no invitation that can be read.")
    if not isinstance(said.get("vocabulary", ""), str | None):
        raise InputError(f"{path.name} is no invitation that can be read.")
    return sealed


def open_request(whole: Any, where: str) -> Request:
    """What a request says, on its own or in a kit."""
    sealed = open_sealed(whole, REQUEST, where)
    _check_header(sealed, where)
    said = sealed.said
    try:
        name, address, key, renews = (said[what] for what in ("name", "address", "key", "renews"))
        wanted = [key] if renews is None else [key, renews]
        whole_form = [one.public_bytes_raw().hex() for one in sealed.signers] == wanted
        texts = isinstance(address, str) and isinstance(said["invitation"], str)
        if not (NAME.fullmatch(name) and isinstance(said["server"], bool) and texts):
            raise ValueError
        parsed = Address.parse(address)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{where} is no request that can be read.") from error
    if not whole_form:
        raise InputError(f"{where} is not signed by the key that it names.")
    old = None if renews is None else sealed.signers[1]
    return Request(name, str(parsed), said["server"], sealed.signers[0], old, sealed)


def open_kit(sealed: Sealed, where: str) -> Kit:
    """What a kit says; all its requests are checked."""
    _check_header(sealed, where)
    said = sealed.said
    try:
        edition, agreement, listed, ksdp = (said[what] for what in ("edition", "agreement", "members", "ksdp"))
        fits = type(edition) is int and 1 <= edition <= _MOST_EDITIONS and isinstance(listed, list)
        if not (fits and re.fullmatch(r"[0-9a-f]{64}", agreement) and isinstance(said["invitation"], str)):
            raise ValueError
        draft = Draft(**said["draft"]) if "draft" in said else None
        if draft and not (isinstance(draft.text, str) and isinstance(draft.vocabulary, str | None)):
            raise ValueError
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{where} is no kit that can be read.") from error
    members = tuple(open_request(whole, f"an entry of {where}") for whole in listed)
    if any(member.sealed.said["invitation"] != said["invitation"] for member in members):
        raise InputError(f"{where} has an entry that was made for another invitation.")
    names = [member.name for member in members]
    if names != sorted(set(names)):
        raise InputError(f"{where} does not list its parties by name, each once.")
    return Kit(edition, str(ksdp), members, agreement, draft, sealed)


def changes(before: Kit, after: Kit, invited: Draft) -> tuple[str, ...]:
    """What differs from one edition to another, one line each.

    Parameters
    ----------
    invited : Draft
        Of the invitation, which editions without one of their own have.
    """
    old, new = ({member.name: member for member in kit.members} for kit in (before, after))
    lines = [f"{name} left" for name in sorted(old.keys() - new.keys())]
    for name in sorted(new.keys() - old.keys()):
        lines.append(f"{name} joined, at {new[name].address}, key {new[name].fingerprint}")
    for name in sorted(old.keys() & new.keys()):
        a, b = old[name], new[name]
        if a.raw != b.raw:
            signed = b.renews is not None and b.renews.public_bytes_raw() == a.raw
            how = "which the old one signed" if signed else "NOT signed by the old one: ask by telephone"
            lines.append(f"{name} has a new key {b.fingerprint}, {how}")
        if a.address != b.address:
            lines.append(f"{name} moved from {a.address} to {b.address}")
        if a.server != b.server:
            lines.append(f"{name} is now {'the server' if b.server else 'a party'}")
    if before.ksdp != after.ksdp:
        lines.append(f"ksdp {after.ksdp} in place of {before.ksdp}")
    return (*lines, *draft_changes(before.draft_beside(invited), after.draft_beside(invited)))


def _check_header(sealed: Sealed, where: str) -> None:
    wanted, said = header()["format"], sealed.said.get("format")
    if said != wanted:
        raise InputError(f"{where} has format {str(said)[:20]}; this ksdp reads {wanted}.")


def check_version(sealed: Sealed, where: str) -> None:
    """Refuse a file whose maker speaks another version of the protocol."""
    wanted, said = header(), sealed.said
    if said.get("protocol") != wanted["protocol"]:
        raise InputError(
            f"{where} is for version {str(said.get('protocol'))[:20]} of the protocol, and ksdp {wanted['ksdp']} "
            f"here speaks version {wanted['protocol']}: all must have the same ksdp (it was made by "
            f"{str(said.get('ksdp'))[:20]})."
        )
