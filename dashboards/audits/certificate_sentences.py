"""What is known of every attack, in words: the certificate, and somebody who knows all other documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ksdp.dashboards.words import count, decimal, percent, plural
from ksdp.storage.audits.history import Summary

if TYPE_CHECKING:
    from ksdp.storage.audits.queries import Row


def certified(summary: Summary) -> str | None:
    """What paired runs prove of all documents; None where none were made."""
    certificate, margin = summary.certificate, summary.spec.rule.margin
    if certificate is None:
        return None
    unit = summary.design.unit
    return (
        f"{plural(certificate.pairs, 'pair', 'pairs')} of runs that differ in one {unit} alone bound the "
        "advantage of every attack, including those that nobody has thought of, if the noise is what the "
        "mechanism says it is. "
        f"Half of the {unit}s have a bound of at most {decimal(certificate.median_bound)}, all of them of at most "
        f"{decimal(certificate.largest_bound)}; it is at most the margin of {decimal(margin)} for "
        f"{count(certificate.certified)} of {count(summary.documents)}. All bounds hold together with probability "
        f"{percent(1 - certificate.level)}, and at every number of pairs."
    )


def copied(summary: Summary) -> str | None:
    """What having many copies proves of some documents; None where it proves nothing of anybody."""
    copies = summary.copies
    if copies is None or not copies.certified:
        return None
    each = "has" if copies.certified == 1 else "have"
    sure = (
        f"{plural(copies.certified, 'document', 'documents')} {each} so many copies that no attack of any kind "
        f"tells more than {decimal(copies.largest_bound)} of one of them: at most, a run shows how many "
        f"of the copies were in, and not which. The fewest are {count(copies.fewest)} documents of one content. "
        "Nothing is estimated here. That one of them was in may be plain to see: where copies are one person's, "
        "audit groups."
    )
    if not copies.sensitive:
        return sure
    verb = "is" if copies.sensitive == 1 else "are"
    return f"{sure} {count(copies.sensitive)} of them {verb} called sensitive: false alarms."


def grounds(summary: Summary) -> str:
    """On what a certified verdict stands: behind "if"."""
    if summary.spec.proved_by_draw:
        return "nobody learns which documents the secret draw lets in"
    if summary.spec.certificate is None:
        return "copies of a document are as likely to take part as it is"
    return "the noise is what the mechanism says"


def doubtful(summary: Summary) -> str | None:
    """Where certificate and verdict do not agree."""
    certificate, unit = summary.certificate, summary.design.unit
    if certificate is None or not certificate.sensitive:
        return None
    verb = "has" if certificate.sensitive == 1 else "have"
    return (
        f"{plural(certificate.sensitive, unit, unit + 's')} called sensitive {verb} a bound of at most the "
        "margin: either is a false alarm, at the rate stated for it. A certificate overrules no proof of a leak."
    )


def stronger(summary: Summary) -> str | None:
    """What a stronger adversary has, who knows all other documents; None where it is not known."""
    certificate, unit = summary.certificate, summary.design.unit
    if summary.knows_all == 1:
        return (
            f"Somebody who knows all other {unit}s of the run has an advantage of 1: nothing is random for them, "
            "as the mechanism adds no noise. They run it with and without, and compare."
        )
    if certificate is None:
        return None
    return (
        f"Somebody who knows all other {unit}s of the run faces the noise alone. On average over databases their "
        f"advantage is {decimal(certificate.median_knows_all)} or less for half of the {unit}s, and "
        f"{decimal(certificate.largest_knows_all)} for the most exposed one."
    )


def certified_here(row: Row) -> str | None:
    """The bound of one document, beside what was measured."""
    if row.certified_bound is None:
        return None
    return f"no attack has more than {decimal(row.certified_bound)}; measured {decimal(row.distance)}"


def stronger_here(summary: Summary, row: Row) -> str | None:
    """The advantage on this document of an adversary who knows all others."""
    if row.knows_all is None:
        return None
    if summary.knows_all is not None:
        return stronger(summary)
    return (
        f"Somebody who knows all other {summary.design.unit}s of the run faces the noise alone: on average over "
        f"databases their advantage on this one is {decimal(row.knows_all)}."
    )
