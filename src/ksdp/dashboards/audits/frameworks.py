"""Questions of regulators and standards, each with the chapter of a dossier that answers it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

Status = Literal["covered", "partial", "out of scope"]


@dataclass(frozen=True)
class Clause:
    """One thing that is asked for."""

    framework: str
    clause: str
    chapter: str
    """Anchor of the chapter that answers it; empty where none does."""
    status: Status
    """Whether what is asked for is in this dossier; not whether the answer is good enough."""
    why: str
    """Reason why something is missing or not looked at; empty if nothing is."""


_EDPB, _ISO = "EDPB Opinion 28/2024", "ISO/IEC 27559:2022"
_NIST, _ICO = "NIST SP 800-226", "ICO, steps of an assessment"
_SATRE, _OWASP = "SATRE 2.0", "OWASP AISVS 1.0"
_MEMBERSHIP = "membership alone is tested: no reconstruction, no inference of attributes"
_OTHERS = "not what an audit looks at"
_SIGNED = ("measures_approved_by", "residual_risk_accepted_by", "dpo_advice", "review_date")

_ASKED: tuple[tuple[str, str, str, tuple[str, ...], str], ...] = (
    (_EDPB, "Likelihood of extraction insignificant for each data subject", "measured", (), _MEMBERSHIP),
    (_EDPB, "Tests of resistance to the main attacks", "trust", ("main_attacks", "auditor"), _MEMBERSHIP),
    (_EDPB, "Theoretical resistance", "theory", (), ""),
    (_EDPB, "Measures at design time", "measures", ("measures",), ""),
    (_EDPB, "Impact assessment and the officer's advice", "signoff", ("dpia", "dpo_advice"), ""),
    (_EDPB, "Lawfulness of the processing", "", (), _OTHERS),
    (_ISO, "6.2 threat modelling", "release", ("main_attacks", "prior"), ""),
    (_ISO, "6.3.2 transparency", "plain", ("controller", "purpose"), ""),
    (_ISO, "6.3.3 harms", "processing", ("harm",), ""),
    (_ISO, "7.2.2 data principals", "processing", ("data_subjects", "people"), ""),
    (_ISO, "7.3.2 maximum or average risk", "measured", (), ""),
    (_ISO, "8.2.2, 8.2.3 quantifying, adversarial testing", "measured", (), ""),
    (_ISO, "8.3 mitigation", "measures", ("measures",), ""),
    (_ISO, "8.3.4 re-evaluation", "signoff", ("review_date", "review_triggers"), ""),
    (_ISO, "9.2.2, 9.2.4 roles, disclosure", "processing", ("controller", "parties", "recipients"), ""),
    (_ISO, "9.3.2, 9.4 monitoring, incidents", "", (), _OTHERS),
    (_NIST, "Privacy parameters, unit of privacy", "theory", (), ""),
    (_NIST, "Trust model", "release", ("parties", "recipients"), ""),
    (_NIST, "Algorithms and correctness", "trust", (), "runs are tested, the program is not proved"),
    (_NIST, "Side channels, security, data collection", "", (), _OTHERS),
    (_ICO, "1 need for an assessment", "processing", ("dpia",), ""),
    (_ICO, "2 describe the processing", "processing", ("purpose", "release", "data_subjects", "recipients"), ""),
    (_ICO, "3 consultation", "", (), _OTHERS),
    (
        _ICO,
        "4 necessity and proportionality",
        "processing",
        ("legal_basis",),
        "the gain is measured, not the need",
    ),
    (_ICO, "5 identify and assess risks", "measured", ("harm", "prior"), "the risk of membership alone"),
    (_ICO, "6 measures to reduce them", "measures", ("measures",), ""),
    (_ICO, "7 sign off and record", "signoff", _SIGNED, ""),
    (_SATRE, "3.3.06 statistical basis for output checkers", "measured", (), ""),
    (_SATRE, "3.3.07 policy for weights that nobody can check by hand", "signoff", (), "a record, not the policy"),
    (_SATRE, "3.3.09 machine-readable record of the criteria", "provenance", (), ""),
    (_OWASP, "C11.2.5 simulated membership attacks", "measured", (), ""),
)
"""Framework, clause, chapter that answers, what must be declared for it, what is not looked at."""


def crosswalk(missing: Collection[str], gaps: Mapping[str, str], void: bool) -> tuple[Clause, ...]:
    """Every clause; of a void audit nothing is covered."""
    clauses = []
    for framework, clause, chapter, needs, but in _ASKED:
        lacks = ", ".join(key for key in needs if key in missing)
        reasons = (but, lacks and f"not declared: {lacks}", gaps.get(chapter), "the audit is void" if void else "")
        why = "; ".join(filter(None, reasons)) if chapter else but
        status: Status = "out of scope" if not chapter else "partial" if why else "covered"
        clauses.append(Clause(framework, clause, chapter, status, why))
    return tuple(clauses)
