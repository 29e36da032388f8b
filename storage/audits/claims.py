"""What runs on a mechanism's worst case proved about its claim: one file an audit of a claim, in `claims/`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ksdp.audit.errors import StoreError
from ksdp.audit.results.summary import Summary
from ksdp.storage.checksums import check_sealed, write_sealed_json
from ksdp.storage.store import Store, content_key

__all__ = ["ClaimInputs", "read_claim", "shown_claim", "write_claim"]


@dataclass(frozen=True)
class ClaimInputs:
    """Everything that the audit of a claim depends on, but for the code."""

    mechanism: str
    version: int
    parameters: Mapping[str, Any]
    """All of them, defaults included, as JSON knows values."""
    seed: int
    runs: int
    confidence: float

    def path(self, store: Store) -> Path:
        """Where the finding is, or would be."""
        return store.root / "claims" / f"{content_key(asdict(self))}.json"


def write_claim(
    store: Store,
    inputs: ClaimInputs,
    finding: Mapping[str, Any],
    *,
    versions: Mapping[str, str],
    finished: datetime,
) -> Path:
    """Write a finding, whole or not at all, in the place of that of other code.

    Parameters
    ----------
    finding : mapping
        As JSON.
    versions : mapping
        Of the libraries; `code` is the hash of the code that computed it.
    finished : datetime
        With a time zone.
    """
    path = inputs.path(store)
    provenance = {"finished": finished.isoformat(timespec="seconds"), "versions": dict(versions)}
    write_sealed_json(path, {"inputs": asdict(inputs), "finding": dict(finding), "provenance": provenance})
    return path


def read_claim(store: Store, inputs: ClaimInputs, code: str) -> dict[str, Any] | None:
    """The file of these inputs, if the same code wrote it."""
    path = inputs.path(store)
    found = _read(path) if path.is_file() else None
    return found if found and found["provenance"]["versions"]["code"] == code else None


def shown_claim(store: Store, summary: Summary) -> dict[str, Any] | None:
    """What to show beside an audit's mechanism: of the files about the same one with the same parameters, one that
    refutes the claim if there is any; of these one by the sampler that really runs; of these that of most runs; of
    these the newest. Which sampler the audit itself simulated with does not matter.
    """
    wanted = [summary.mechanism, summary.mechanism_version, _unsampled(summary.parameters)]
    mine = []
    for path in sorted((store.root / "claims").glob("*.json")):
        found = _read(path)
        asked = found["inputs"]
        if [asked["mechanism"], asked["version"], _unsampled(asked["parameters"])] == wanted:
            mine.append(found)
    return max(mine, key=_standing, default=None)


def _unsampled(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if name != "sampler"}


def _standing(found: Mapping[str, Any]) -> tuple[Any, ...]:
    asked = found["inputs"]
    vetted = asked["parameters"].get("sampler") == "discrete"
    return found["finding"]["refuted"], vetted, asked["runs"], found["provenance"]["finished"]


def _read(path: Path) -> dict[str, Any]:
    try:
        found = dict(json.loads(path.read_text(encoding="utf-8")))
        if {"inputs", "finding", "provenance"} <= set(found):
            check_sealed(path, "claims", "delete it and run `ksdp claim` again")
            return found
    except (OSError, ValueError) as error:
        raise StoreError(f"claims/{path.name} cannot be read; delete it and run `ksdp claim` again.") from error
    raise StoreError(f"claims/{path.name} is damaged; delete it and run `ksdp claim` again.")
