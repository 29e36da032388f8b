"""The certificate: pairs of runs that differ in one document, and what they prove of every attack."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.certifying import certify
from ksdp.audit.interim_verdicts import after_certificate
from ksdp.audit.results.summarise import Tested
from ksdp.flows.audits.steps import Steps
from ksdp.flows.interruption import advance, current
from ksdp.tasks.audit_ref import AuditRef
from ksdp.tasks.pairs import pairs_parts


async def certified(first: AuditRef, steps: Steps, tested: Tested) -> Tested:
    """Bound every attack on every document, where the spec asks for it.

    Parameters
    ----------
    first : AuditRef
        Of the first look.
    steps : Steps
        Who does the work.
    tested : Tested
        What all looks gave.
    """
    spec, plan = tested.plan.spec, tested.plan
    if spec.proved_by_draw:
        nothing_known = np.ones(len(tested.interim.tests))
        tested = replace(tested, interim=after_certificate(tested.interim, nothing_known, spec.rule))
    if spec.certificate is None:
        return tested
    parts = pairs_parts(plan, spec.certificate.pairs)
    current().stage("certify", spec.certificate.pairs)

    def done(part: NDArray[np.float64]) -> None:
        advance(part.shape[1])

    advantages = np.concatenate(await steps.certify(first, parts, done), axis=1)
    interim, level = tested.interim, spec.certificate_level
    certificate = certify(advantages, interim.tests, plan.counted, level, len(plan.looks))
    decided = after_certificate(interim, certificate.bound, spec.rule)
    return replace(tested, interim=decided, certificate=certificate)
