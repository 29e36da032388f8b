"""A party's own folder: its key, what it has agreed to, and what it runs.

::

    FOLDER/                 mode 0700
      NAME.key NAME.pub     its identity; the key never leaves the folder (mode 0600)
      NAME.next.key ...     the next one, until a kit names it; those before stay (NAME.before-1.key)
      me.json               its name, the invitation and the organiser's key that it has compared
      invitation.ksdp       what it was invited to
      NAME.request          what it gave to the organiser
      approved/             the organiser's: requests that were compared
      accepted.kit          the edition in force
      protocol.toml         what `ksdp party` takes, with the vocabulary beside it
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ksdp.audit.errors import InputError
from ksdp.flows.runs.kit_files import KIT, NAME, REQUEST, Kit, Request, open_kit, open_request, read_invitation
from ksdp.storage.keys import load_public, make_identity
from ksdp.storage.runs.sealed import Sealed, read_sealed
from ksdp.storage.store import write_json

_ME, _INVITATION, _ACCEPTED, _APPROVED = "me.json", "invitation.ksdp", "accepted.kit", "approved"


@dataclass(frozen=True)
class KitFolder:
    """The folder of one organisation."""

    path: Path

    def prepare(self, name: str) -> Path:
        """Make the folder, and a key where there is none; where the key is.

        Raises
        ------
        InputError
            If the folder is another's, or the name is none.
        """
        if not NAME.fullmatch(name):
            raise InputError(f"`--me` must be letters, digits, dots, dashes or underscores; got {name!r}.")
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is not a folder.")
        if (self.path / _ME).is_file() and self.me != name:
            raise InputError(f"{self.path} is the folder of {self.me}; name another with `--folder`.")
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self.key(name).exists():
            make_identity(self.path, name)
        return self.key(name)

    def remember(self, name: str, invitation: Sealed) -> None:
        """Keep whose folder this is, and whose word counts: the key that was compared."""
        organiser = invitation.signer.public_bytes_raw().hex()
        write_json(self.path / _ME, {"me": name, "invitation": invitation.digest, "organiser": organiser})

    def key(self, name: str) -> Path:
        """The private key in force."""
        return self.path / f"{name}.key"

    def next_key(self, name: str) -> Path:
        """The one that takes its place once a kit names it."""
        return self.path / f"{name}.next.key"

    def public(self, name: str) -> Ed25519PublicKey:
        """Its own public key in force."""
        return load_public(self.path / f"{name}.pub")

    def next_public(self, name: str) -> Ed25519PublicKey | None:
        """The next one, where one was made."""
        path = self.path / f"{name}.next.pub"
        return load_public(path) if path.is_file() else None

    def turn_key(self, name: str) -> None:
        """Put the next key into force; those before stay beside it, for what they have signed."""
        number = 1
        while (self.path / f"{name}.before-{number}.key").exists():
            number += 1
        for suffix in ("pub", "key"):
            now = self.path / f"{name}.{suffix}"
            now.replace(self.path / f"{name}.before-{number}.{suffix}")
            (self.path / f"{name}.next.{suffix}").replace(now)

    def organiser_key(self) -> Path:
        """The private key that signed the invitation, and signs all kits; it may be one that was renewed since."""
        wanted = self.require_organiser().signer.public_bytes_raw()
        for path in sorted(self.path.glob(f"{self.me}*.pub")):
            if load_public(path).public_bytes_raw() == wanted and path.with_suffix(".key").is_file():
                return path.with_suffix(".key")
        raise InputError(f"{self.path} does not hold the key that signed the invitation.")

    @property
    def _known(self) -> dict[str, str]:
        try:
            stored = json.loads((self.path / _ME).read_text(encoding="utf-8"))
            return {name: str(stored[name]) for name in ("me", "invitation", "organiser")}
        except OSError as error:
            raise InputError(
                f"{self.path} is no party's folder: make one with `ksdp kit invite` or `ksdp kit request`."
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.path / _ME} cannot be read.") from error

    @property
    def me(self) -> str:
        """Whose folder it is."""
        return self._known["me"]

    @property
    def invitation_path(self) -> Path:
        """Where the invitation is."""
        return self.path / _INVITATION

    @property
    def invitation(self) -> Sealed:
        """What the party was invited to, as it was when the organiser's key was compared.

        Raises
        ------
        InputError
            If the file was changed or put in its place since.
        """
        sealed, known = read_invitation(self.invitation_path), self._known
        if [sealed.digest, sealed.signer.public_bytes_raw().hex()] != [known["invitation"], known["organiser"]]:
            raise InputError(f"{self.invitation_path} is not the invitation that {known['me']} took.")
        return sealed

    @property
    def is_organisers(self) -> bool:
        """Whether its owner invites."""
        return bool(self.me == self.invitation.said["organiser"])

    def require_organiser(self) -> Sealed:
        """The invitation, in the organiser's folder.

        Raises
        ------
        InputError
            In another's.
        """
        invitation = self.invitation
        if not self.is_organisers:
            raise InputError(
                f"{self.path} is the folder of {self.me}: {invitation.said['organiser']} approves and packages."
            )
        return invitation

    @property
    def accepted_path(self) -> Path:
        """Where the kit in force is."""
        return self.path / _ACCEPTED

    @property
    def accepted(self) -> Kit | None:
        """The kit in force."""
        if not self.accepted_path.is_file():
            return None
        return open_kit(read_sealed(self.accepted_path, KIT), self.accepted_path.name)

    @property
    def approved(self) -> tuple[Request, ...]:
        """Requests that the organiser has compared, by name."""
        members = []
        for path in sorted((self.path / _APPROVED).glob("*.request")):
            members.append(open_request(read_sealed(path, REQUEST).whole, path.name))
        return tuple(sorted(members, key=lambda request: request.name))

    def approved_path(self, name: str) -> Path:
        """Where an approved request is kept."""
        return self.path / _APPROVED / f"{name}.request"

    @property
    def protocol(self) -> Path:
        """The protocol file."""
        return self.path / "protocol.toml"
