"""Audits of a mechanism's claim by runs on its worst case: one file each, in `claims/`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksdp.audit.results.summary import Summary
from ksdp.audit.specs.content_keys import content_key
from ksdp.storage.codec import read_object, write_json_with_checksum
from ksdp.storage.store import Store

if TYPE_CHECKING:
    from ksdp.audit.mechanisms.claims import ClaimFinding

VERSION = 1
"""Version of the format of a file."""


@dataclass(frozen=True)
class ClaimInputs:
    """Everything that the audit of a claim depends on, but for ksdp's code."""

    mechanism: str
    version: int
    parameters: Mapping[str, Any]
    """All of them, defaults included, as JSON knows values."""
    seed: int
    runs: int
    confidence: float
    own: Mapping[str, str] = field(default_factory=dict)
    """Hashes of somebody's own code by module."""

    def path(self, store: Store) -> Path:
        """Where the finding is, or would be."""
        return store.root / "claims" / f"{content_key(asdict(self))}.json"


@dataclass(frozen=True)
class StoredClaim:
    """A finding as its file holds it."""

    inputs: ClaimInputs
    finding: ClaimFinding
    finished: str
    versions: Mapping[str, str]
    """Versions of the libraries; `code` is the hash of the code that computed it."""

    def to_json(self) -> dict[str, Any]:
        """As the file holds it."""
        provenance = {"finished": self.finished, "versions": dict(self.versions)}
        return {
            "version": VERSION,
            "inputs": asdict(self.inputs),
            "finding": self.finding.as_json(),
            "provenance": provenance,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> StoredClaim:
        """Return the claim that `to_json` wrote."""
        from ksdp.audit.mechanisms.claims import ClaimFinding  # numerics, and most stores hold no claim

        if record.get("version") != VERSION:
            raise ValueError(f"it is not of version {VERSION}")
        try:
            finding, provenance = ClaimFinding.from_json(record["finding"]), record["provenance"]
            return cls(ClaimInputs(**record["inputs"]), finding, provenance["finished"], provenance["versions"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"a key is missing or not known: {error}") from error


def write_claim(store: Store, claim: StoredClaim) -> Path:
    """Write a finding, whole or not at all, in the place of that of other code."""
    path = claim.inputs.path(store)
    write_json_with_checksum(path, claim.to_json())
    return path


def read_claim(store: Store, inputs: ClaimInputs, code: str) -> StoredClaim | None:
    """The file of these inputs, if the same code wrote it."""
    path = inputs.path(store)
    claim = _read(path) if path.is_file() else None
    return claim if claim is not None and claim.versions.get("code") == code else None


def shown_claim(store: Store, summary: Summary) -> StoredClaim | None:
    """Return the claim to show beside an audit's mechanism: the same code with the same parameters."""
    own = store.identity(summary.provenance.runs_folder).get("code", {})
    wanted = (summary.mechanism, summary.mechanism_version, _unsampled(summary.parameters), own)
    mine = []
    for path in sorted((store.root / "claims").glob("*.json")):
        claim = _read(path)
        inputs = claim.inputs
        if (inputs.mechanism, inputs.version, _unsampled(inputs.parameters), inputs.own) == wanted:
            mine.append(claim)
    return max(mine, key=_standing, default=None)


def _unsampled(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if name != "sampler"}


def _standing(claim: StoredClaim) -> tuple[Any, ...]:
    vetted = claim.inputs.parameters.get("sampler") == "discrete"
    return claim.finding.refuted, vetted, claim.inputs.runs, claim.finished


def _read(path: Path) -> StoredClaim:
    return read_object(path, StoredClaim.from_json, "claims", "delete it and run `ksdp claim` again")
