"""How strong an audit was, in words: beside the paper's practice, and what its size can find and certify."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ksdp.dashboards.words import count, decimal, plural

if TYPE_CHECKING:  # `ksdp show` says one of these sentences, and a page's model imports numerics
    from ksdp.dashboards.audits.audit_model import AuditModel
    from ksdp.storage.audits.history import Summary


def _documents(number: float) -> str:
    return plural(number, "document", "documents")


def paper_alone(summary: Summary) -> str:
    """What the paper's own statistics would have decided, with the same correction."""
    alone, every = summary.paper_alone, summary.detected
    assert alone is not None
    names, detected = alone.statistics, alone.detected
    which = f"statistic alone ({names[0]})"
    if len(names) > 1:
        which = f"{len(names)} statistics alone ({', '.join(names)})"
    leaks = f"{'a leak' if detected == 1 else 'leaks'} of {_documents(detected)} would have been detected"
    sentence = (
        f"With the paper’s {which}, {leaks}; with all "
        f"{len(summary.statistics)} that this audit tried it is {count(every)}."
    )
    if detected < every:
        return f"{sentence} The other {count(every - detected)} would have gone unnoticed."
    if detected > every:
        return f"{sentence} Trying more statistics costs a stricter correction, and here it found fewer."
    return f"{sentence} The others add nothing here."


def naive_practice(summary: Summary) -> str:
    """What the paper's practice, the smallest p without any correction, would have decided."""
    alone, level, total = summary.paper_alone, summary.spec.decision.level, summary.documents
    assert alone is not None
    more = "" if len(alone.statistics) == 1 else " or more (each further statistic adds some)"
    return (
        f"The paper’s practice, the smallest p-value compared with {level:g} without any correction, would have "
        f"named {count(alone.uncorrected_below_level)}. That number proves little: of {_documents(total)} "
        f"that leak nothing, this rule names about {count(level * total)}{more}."
    )


def reach(view: AuditModel) -> list[str]:
    """What an audit of this size can find and certify."""
    power, margin = view.summary.power, decimal(view.summary.spec.rule.margin)
    detectable, certified = power.detectable_D, power.certifiable_margin
    sentences = ["With arms this small, no measured D alone makes a document surely sensitive."]
    if detectable < 1:
        sentences = [
            f"A document whose measured D is {decimal(detectable)} or more is surely called sensitive by an audit "
            "of this size. Smaller leaks are found where many documents leak, and missed otherwise."
        ]
    if certified < view.summary.spec.rule.margin:
        sentences.append(
            f"The smallest margin that it could certify is {decimal(certified)}, below the {margin} asked for: "
            "documents of a small enough D can be cleared."
        )
    else:
        size = f"is {decimal(certified)}" if certified < 1 else "is above 1"
        sentences.append(
            f"The smallest margin that it could certify {size}, above the {margin} asked for: with this many runs "
            "hardly any document could be cleared, however little it leaks. That is a limit of the audit and says "
            "nothing about the documents."
        )
    return sentences


def constant(view: AuditModel) -> str:
    """Which statistics cannot tell anything in this design, because they never vary; empty where all do."""
    names = [row.name for row in view.statistics if row.largest == 0]
    if not names:
        return ""
    verb = "was the same in every run and tells" if len(names) == 1 else "were the same in every run and tell"
    return f"{', '.join(names)} {verb} nothing in this design."


def _bounds(low: float, high: float, population: int) -> str:
    """Both bounds as numbers of documents, which they are, and as shares that nobody has to read twice."""
    fewest, most = (round(part * population) for part in (low, high))
    if not fewest:
        return f"at most {count(most)} ({_whole_percent(high)}) have"
    return f"at least {count(fewest)} and at most {count(most)} ({_whole_percent(high)}) have"


def _whole_percent(part: float) -> str:
    """A share in whole per cent, rounded up, so that it is still a bound."""
    return f"{math.ceil(100 * part - 1e-9)} %"


def drawn_share(summary: Summary) -> str | None:
    """What the documents that were drawn say of all of them; None where none were drawn."""
    share = summary.share
    if share is None:
        return None
    unit, margin = summary.design.unit, summary.spec.rule.margin
    leak = f"an advantage above {decimal(margin)}" if margin else "a leak"
    return (
        f"The {count(share.drawn)} {unit}s are drawn at random from {count(share.population)}. Of all of these, "
        f"{_bounds(share.low, share.high, share.population)} {leak}; wrong at most once in "
        f"{count(1 / share.level)} audits, verdicts and draw together."
    )
