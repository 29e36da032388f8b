"""What a party enters with, from the files beside it: all its documents, or those on a clearance signed here."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.mechanisms.contract import opened
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.screening.clearance import Clearance, Covered, MechanismIdentity
from ksdp.audit.spec.models import Spec
from ksdp.flows.runs.party import Entered, enter_documents
from ksdp.flows.runs.protocol_files import Run
from ksdp.protocols.channel.rounds import run_together
from ksdp.protocols.programs.programs import party_program
from ksdp.protocols.programs.rounds import party_rounds
from ksdp.storage.clearances import write_clearance
from ksdp.storage.keys import load_private

from ...clearances import clearance

__all__ = ["NOW", "clearance_of", "enter", "run_of", "signed_clearance"]

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def enter(run: Run, base: Path, name: str, **other: Any) -> Entered:
    """All documents of a party's spec, without a clearance unless `other` says so."""
    key = load_private(base / f"{name}.key")
    said = {"clearance": None, "uncleared": True, "signer": key.public_key(), "now": NOW, "identity": key}
    return enter_documents(run, base / f"{name}.toml", **(said | other))


def run_of(run: Run, base: Path, entered: Mapping[str, Entered]) -> dict[str, Any]:
    """What every party has at the end of a run in this process, by name."""
    parties = {
        name: party_rounds(
            run.terms,
            name,
            load_private(base / f"{name}.key"),
            party_program(run.terms.mechanism, each.corpus.matrix, len(entered)),
            each.statement,
        )
        for name, each in entered.items()
    }
    return dict(run_together(parties)[0])


def signed_clearance(
    path: Path,
    spec: Spec,
    shown: Corpus,
    mechanism: Any,
    ids: Any,
    *,
    now: datetime = NOW,
    signer: str = "ada",
    **other: Any,
) -> Path:
    """Of an audit of this mechanism with every round opened, signed with a key beside `path`, for a day."""
    signed = clearance_of(shown, mechanism, ids, now, **({"spec": spec.hash} | other))
    path.unlink(missing_ok=True)
    write_clearance(path, signed, load_private(path.parent / f"{signer}.key"))
    return path


def clearance_of(shown: Corpus, mechanism: Any, ids: Any, now: datetime = NOW, /, **changes: Any) -> Clearance:
    """Of an audit of this mechanism with every round opened, for a day; or what else `changes` say."""
    values: dict[str, Any] = {
        "corpus": shown.hash,
        "mechanism": MechanismIdentity(mechanism.name, mechanism.version, parameters_of(mechanism)),
        "spec": "sha256:00",
        "created": now - timedelta(days=1),
        "expires": now + timedelta(days=1),
        "coverage": Covered("every round", tuple(sorted(opened(mechanism, shown.features)))),
    }
    return clearance(ids, **values | changes)
