"""Audit a mechanism's claim on its worst case, once: a finding that the store has is read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ksdp.audit.content_keys import content_key
from ksdp.audit.mechanisms.claims import ClaimFinding, audit_claim, check_runs, claiming
from ksdp.audit.mechanisms.contract import as_it_runs
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.registry import mechanism_of, own_code
from ksdp.audit.spec.models import Spec
from ksdp.flows.interruption import Clock, advance, current
from ksdp.storage.audits.claims import ClaimInputs, StoredClaim, read_claim, write_claim
from ksdp.storage.store import Store
from ksdp.tasks.provenance import code_hash, versions


@dataclass(frozen=True)
class AuditedClaim:
    """A finding and where it is."""

    finding: ClaimFinding
    finished: str
    """When it was made."""
    read: bool
    """It was in the store already."""
    path: Path


def run_claim(
    spec: Spec, store: Path, *, runs: int, confidence: float, clock: Clock, simulated: bool = False
) -> AuditedClaim:
    """Run the mechanism of a spec on its worst case and store what that proves.

    The noise is that of the vetted sampler, which every real run draws from, whatever sampler the spec names.

    Parameters
    ----------
    spec : Spec
        Its corpus is not read.
    runs : int
        Of each arm.
    confidence : float in (0, 1)
    clock : callable
        The time, with a time zone.
    simulated : bool
        Draw from the sampler that the spec names, from its seed: much faster, and no audit of what really runs.

    Raises
    ------
    InputError
        If the mechanism claims nothing, has no worst case, or a number is out of range; nothing was written.
    """
    made = mechanism_of(spec.mechanism)
    made = made if simulated else as_it_runs(made)
    mechanism = claiming(made)
    check_runs(runs, confidence)
    mechanism.neighbours()  # refused before a store is made for it
    opened = Store.open(store)
    inputs = ClaimInputs(made.name, made.version, parameters_of(made), spec.seed, runs, confidence)
    own = own_code(spec.mechanism.model_dump(mode="json"), [made])
    code = content_key({"ours": code_hash(), "own": own}) if own else code_hash()
    held = read_claim(opened, inputs, code)
    if held is not None:
        return AuditedClaim(held.finding, held.finished, True, inputs.path(opened))
    current().stage("claim", 2 * runs)
    rng = np.random.default_rng(spec.seed)  # which no audit of documents uses
    finding = audit_claim(mechanism, runs=runs, rng=rng, confidence=confidence, progress=lambda done: advance(2))
    finished = clock().isoformat(timespec="seconds")
    path = write_claim(opened, StoredClaim(inputs, finding, finished, versions() | {"code": code}))
    return AuditedClaim(finding, finished, False, path)
