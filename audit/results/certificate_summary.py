"""What a summary says of a certificate, and what a certificate says of the audit."""

from __future__ import annotations

import numpy as np

from ksdp.audit.certifying import Certificate
from ksdp.audit.interim_verdicts import InterimVerdicts
from ksdp.audit.results.bound_parts import CertificateSummary
from ksdp.audit.verdicts.controls import Controls
from ksdp.audit.verdicts.decide import Verdict


def certificate_summary(
    certificate: Certificate | None, interim: InterimVerdicts, margin: float
) -> CertificateSummary | None:
    """In numbers; None where there is none."""
    if certificate is None:
        return None
    below = (certificate.bound <= margin) & (margin > 0)
    return CertificateSummary(
        pairs=certificate.pairs,
        level=certificate.level,
        runs=certificate.pairs * (1 + len(certificate.bound)),
        certified=int(below.sum()),
        sensitive=int((below & (interim.decisions.verdict == Verdict.SENSITIVE)).sum()),
        contradicted=int(certificate.contradicted.sum()),
        median_bound=float(np.median(certificate.bound)),
        largest_bound=float(certificate.bound.max()),
        median_knows_all=float(np.median(certificate.mean)),
        largest_knows_all=float(certificate.mean.max()),
    )


def void_where_contradicted(judged: Controls, certificate: Certificate | None) -> Controls:
    """The controls, failed where a document was measured to be above its bound: the noise is not what it says."""
    above = 0 if certificate is None else int(certificate.contradicted.sum())
    return judged.contradicted(above, "the noise were what the mechanism says")
