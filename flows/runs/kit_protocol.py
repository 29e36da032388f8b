"""What both sides of a kit make: a request, and the protocol file of an invitation and its parties."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import InputError
from ksdp.flows.runs.kit_draft import VOCABULARY, Draft, invited_draft
from ksdp.flows.runs.kit_files import REQUEST, Request, header, open_request
from ksdp.flows.runs.terms import read_run
from ksdp.protocols.network.mesh import Address
from ksdp.protocols.runs.protocol_file import PartySpec
from ksdp.storage.readers.toml import read_toml
from ksdp.storage.runs.sealed import Sealed, seal
from ksdp.storage.store import write_text


def make_request(
    invitation: Sealed,
    me: str,
    identity: Ed25519PrivateKey,
    address: str,
    *,
    server: bool,
    old: Ed25519PrivateKey | None = None,
) -> Request:
    """Sign a request; with the old key too, where it is for a new one."""
    fields = header() | {
        "invitation": invitation.digest,
        "name": me,
        "address": str(Address.parse(address)),
        "server": server,
        "key": identity.public_key().public_bytes_raw().hex(),
        "renews": old.public_key().public_bytes_raw().hex() if old else None,
    }
    keys = (identity, old) if old else (identity,)
    return open_request(seal(REQUEST, fields, *keys).whole, "the request")


def write_protocol(
    to: Path, invitation: Sealed, members: tuple[Request, ...], edition: int, draft: Draft | None = None
) -> str:
    """Write a protocol file and its vocabulary, of the invitation's draft or another; its hash, in hex."""
    draft = draft or invited_draft(invitation)
    text, vocabulary = draft.text, draft.vocabulary
    whose = invitation.said["organiser"]
    lines = [f"# Edition {edition} of the kit of {whose}, written by `ksdp kit accept`.", text.rstrip()]
    for member in members:
        table = "[server]" if member.server else "[[parties]]"
        values = {"name": member.name, "address": member.address, "key": member.raw.hex()}
        lines += ["", table, *(f'{key} = "{value}"' for key, value in values.items()), f"# {member.fingerprint}"]
    path = to / "protocol.toml"
    write_text(path, "\n".join(lines) + "\n")
    tables = read_toml(path)
    named = tables.get("features", {}).get("vocabulary")
    if named is not None:
        if not VOCABULARY.fullmatch(str(named)) or not isinstance(vocabulary, str):
            raise InputError("the invitation names a vocabulary that does not come with it.")
        write_text(to / str(named), vocabulary)
    run = read_run(path)
    _only_members(run.spec.nodes, members)
    return run.terms.digest.hex()


def _only_members(nodes: Sequence[PartySpec], members: tuple[Request, ...]) -> None:
    named_there = [(node.name, node.address, node.key) for node in nodes]
    if sorted(named_there) != [(member.name, member.address, member.raw.hex()) for member in members]:
        raise InputError("the invitation names parties of its own.")
