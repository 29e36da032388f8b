"""Who takes part in a run: `kit invite`, `request`, `approve`, `package`, `accept`, `renew`, `remove`, `show`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ksdp.commands.options import JsonOption, signing_key

if TYPE_CHECKING:
    from ksdp.flows.runs.kit_files import Kit
    from ksdp.flows.runs.kit_folder import KitFolder

kit = typer.Typer(
    name="kit",
    help="Agree on who takes part in a run: invitation, requests, one kit for all; no private key moves.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

FolderOption = Annotated[Path, typer.Option("--folder", help="The party's own, for nobody else.")]
AddressOption = Annotated[str, typer.Option("--address", help="HOST:PORT where it listens ([::1]:7001).")]
ToldOption = Annotated[
    str | None, typer.Option("--fingerprint", help="As it was read to you by telephone; asked for otherwise.")
]


@kit.command("invite")
def invite(
    draft: Annotated[Path, typer.Argument(help="The protocol file without [[parties]].")],
    me: Annotated[str, typer.Option("--me", help="Who invites.")],
    folder: FolderOption,
    address: Annotated[
        str | None, typer.Option("--address", help="HOST:PORT, where the organiser is a party itself.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Organiser: make the invitation, which is the same for all and holds no secret."""
    from ksdp.flows.runs import kits
    from ksdp.storage.keys import fingerprint

    mine = _folder(folder)
    key = signing_key(mine.prepare(me))
    sealed = kits.invite(draft, mine, me, key, address)
    if as_json:
        typer.echo(json.dumps({"invitation": str(mine.invitation_path), "fingerprint": fingerprint(key)}))
        return
    typer.echo(
        f"invitation   {mine.invitation_path}  (send it to all)\n"
        f"its hash     {_grouped(sealed.digest)}\n"
        f"fingerprint  {fingerprint(key)}  of {me}: read it to everybody by telephone\n"
        f"next         each party: ksdp kit request {mine.invitation_path.name} --me NAME --address HOST:PORT "
        "--folder NAME"
    )


@kit.command("request")
def request(
    invitation: Annotated[Path, typer.Argument(help="The invitation.")],
    me: Annotated[str, typer.Option("--me", help="The party's name in the run.")],
    address: AddressOption,
    folder: FolderOption,
    fingerprint: ToldOption = None,
    server: Annotated[bool, typer.Option("--server", help="As the server, which has no documents.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Party: make a key, which stays, and ask to take part."""
    from ksdp.flows.runs import kit_party
    from ksdp.flows.runs.kit_files import check_version, read_invitation

    sealed, mine = read_invitation(invitation), _folder(folder)
    check_version(sealed, invitation.name)
    told = _told(fingerprint, str(sealed.said["organiser"]))
    made = kit_party.ask(invitation, mine, me, signing_key(mine.prepare(me)), address, server=server, told=told)
    path = folder / f"{me}.request"
    _tell_request(
        made.fingerprint,
        path,
        f"request      {path}  (send it to {sealed.said['organiser']})\n"
        f"fingerprint  {made.fingerprint}  of {me}: read it to {sealed.said['organiser']} by telephone\n"
        f"private key  {mine.key(me)}  (stays here, readable by you alone)\n"
        f"next         when the kit comes: ksdp kit accept KIT --folder {folder}",
        as_json=as_json,
    )


def _tell_request(fingerprint: str, path: Path, words: str, *, as_json: bool) -> None:
    typer.echo(json.dumps({"request": str(path), "fingerprint": fingerprint}) if as_json else words)


@kit.command("renew")
def renew(
    folder: FolderOption,
    address: Annotated[str | None, typer.Option("--address", help="A new HOST:PORT.")] = None,
    same_key: Annotated[bool, typer.Option("--same-key", help="Change the address only.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Party: ask for a new key, which the old one signs for, or a new address."""
    from ksdp.flows.runs import kit_party

    mine = _folder(folder)
    old = signing_key(mine.key(mine.me))
    new = old if same_key else signing_key(kit_party.next_identity(mine))
    made = kit_party.renew(mine, old, new, address)
    path = folder / f"{made.name}.request"
    _tell_request(
        made.fingerprint,
        path,
        f"request      {path}  (send it to {mine.invitation.said['organiser']})\n"
        f"fingerprint  {made.fingerprint}\n"
        f"next         ksdp kit accept KIT --folder {folder}; until then the old key is in force",
        as_json=as_json,
    )


@kit.command("approve")
def approve(
    requests: Annotated[list[Path], typer.Argument(help="Requests of parties.")],
    folder: FolderOption,
    fingerprint: ToldOption = None,
) -> None:
    """Organiser: take a request into the next edition, once its fingerprint was compared by another way."""
    from ksdp.audit.errors import InputError
    from ksdp.flows.runs import kits
    from ksdp.flows.runs.kit_files import REQUEST, open_request
    from ksdp.storage.runs.sealed import read_sealed

    mine = _folder(folder)
    if fingerprint is not None and len(requests) != 1:
        raise InputError("`--fingerprint` is that of one party: approve one request at a time.")
    for path in requests:
        asked = open_request(read_sealed(path, REQUEST).whole, path.name)
        known = {request.name: request.raw for request in mine.approved}.get(asked.name)
        vouched = known is not None and known in (asked.raw, asked.renews and asked.renews.public_bytes_raw())
        told = fingerprint if vouched or fingerprint is not None else _told(None, asked.name)
        found, how = kits.approve(mine, path, told)
        typer.echo(f"approved     {found.name} at {found.address}, key {found.fingerprint}: {how}")
    typer.echo(f"next         ksdp kit package --folder {folder}")


@kit.command("remove")
def remove(name: Annotated[str, typer.Argument(help="The party that leaves.")], folder: FolderOption) -> None:
    """Organiser: leave a party out of the next edition."""
    from ksdp.flows.runs import kits

    kits.remove(_folder(folder), name)
    typer.echo(f"removed      {name}\nnext         ksdp kit package --folder {folder}")


@kit.command("package")
def package(
    folder: FolderOption,
    draft: Annotated[
        Path | None, typer.Option("--draft", help="A changed draft, in place of the one before; nobody asks anew.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Organiser: write the next edition of the kit, one file for all."""
    from ksdp.flows.runs import kit_party, kits

    mine = _folder(folder)
    path, made = kits.package(mine, signing_key(mine.organiser_key()), draft)
    accepted = kit_party.accept(mine, path)
    if as_json:
        typer.echo(json.dumps({"kit": str(path)} | _said(made, mine, accepted.changes)))
        return
    typer.echo(f"kit          {path}  (send it to all)")
    _tell(made, mine, accepted.changes)


@kit.command("accept")
def accept(
    path: Annotated[Path, typer.Argument(metavar="KIT", help="The kit.")],
    folder: FolderOption,
    as_json: JsonOption = False,
) -> None:
    """Party: check a kit and put it into force: it writes the protocol file, and says what changed."""
    from ksdp.flows.runs import kit_party

    mine = _folder(folder)
    accepted = kit_party.accept(mine, path)
    if as_json:
        typer.echo(json.dumps(_said(accepted.kit, mine, accepted.changes)))
        return
    _tell(accepted.kit, mine, accepted.changes)


@kit.command("show")
def show(folder: FolderOption) -> None:
    """What is in force in a party's folder."""
    from ksdp.audit.errors import InputError

    mine = _folder(folder)
    if mine.accepted is None:
        raise InputError(f"{mine.me} has accepted no kit yet.")
    _tell(mine.accepted, mine, ())


def _folder(path: Path) -> KitFolder:
    from ksdp.flows.runs.kit_folder import KitFolder

    return KitFolder(path)


def _told(fingerprint: str | None, who: str) -> str:
    if fingerprint is not None:
        return fingerprint
    return str(typer.prompt(f"Fingerprint of {who}, as read to you by telephone", err=True))


def _grouped(digest: str) -> str:
    from ksdp.flows.runs.kit_files import grouped

    return grouped(digest)


def _said(kit: Kit, folder: KitFolder, changes: tuple[str, ...]) -> dict[str, Any]:
    members = {m.name: {"address": m.address, "fingerprint": m.fingerprint} for m in kit.members}
    return {
        "edition": kit.edition,
        "agreement": kit.agreement,
        "members": members,
        "changes": list(changes),
        "protocol": str(folder.protocol),
    }


def _tell(kit: Kit, folder: KitFolder, changes: tuple[str, ...]) -> None:
    typer.echo("\n".join([f"edition      {kit.edition}", *(f"changed      {change}" for change in changes)]))
    for member in kit.members:
        role = "server" if member.server else "party"
        typer.echo(f"{role:12} {member.name}  {member.address}  {member.fingerprint}")
    typer.echo(
        f"protocol     {folder.protocol}\n"
        f"hash         {_grouped(kit.agreement)}  the same at all: compare it by telephone"
    )
    if kit.member(folder.me):
        server = bool((mine := kit.member(folder.me)) and mine.server)
        corpus = "" if server else " --corpus SPEC --clearance FILE"
        key = folder.key(folder.me)
        typer.echo(f"next         ksdp party check {folder.protocol} --me {folder.me} --key {key}{corpus}")
