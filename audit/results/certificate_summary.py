"""What a summary says of a certificate, and what a certificate says of the audit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ksdp.audit.certifying import Certificate
from ksdp.audit.interim_verdicts import Standing
from ksdp.audit.results.parts import CertificateSummary
from ksdp.audit.testing import Controls
from ksdp.audit.verdicts.decide import Verdict

__all__ = ["certificate_summary", "void_where_contradicted"]


def certificate_summary(found: Certificate | None, standing: Standing, margin: float) -> CertificateSummary | None:
    """In numbers; None where there is none."""
    if found is None:
        return None
    below = (found.bound <= margin) & (margin > 0)
    return CertificateSummary(
        pairs=found.pairs,
        level=found.level,
        runs=found.pairs * (1 + len(found.bound)),
        certified=int(below.sum()),
        sensitive=int((below & (standing.decisions.verdict == Verdict.SENSITIVE)).sum()),
        contradicted=int(found.contradicted.sum()),
        median_bound=float(np.median(found.bound)),
        largest_bound=float(found.bound.max()),
        median_knows_all=float(np.median(found.mean)),
        largest_knows_all=float(found.mean.max()),
    )


def void_where_contradicted(judged: Controls, found: Certificate | None) -> Controls:
    """The controls, failed where a document was measured to be above its bound: the noise is not what it says."""
    if found is None or not found.contradicted.any() or not judged.valid:
        return judged
    reason = (
        f"{int(found.contradicted.sum())} documents give more away than any attack could take if the noise were "
        "what the mechanism says"
    )
    return replace(judged, valid=False, reason=reason)
