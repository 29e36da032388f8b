"""The page of a screen: what was left out, what that proves and costs, and what would help where it does not."""

from __future__ import annotations

from markupsafe import Markup

from ksdp.dashboards.audits.sentences import title
from ksdp.dashboards.audits.standalone import standalone
from ksdp.dashboards.charts.charts import shares_svg
from ksdp.dashboards.words import count, plural
from ksdp.storage.audits.screens import RoundSummary, ScreenSummary, read_excluded, read_screen
from ksdp.storage.store import Store

_VERDICTS = ("sensitive", "clear", "certified clear", "undecided")
_LISTED = 200
"""Excluded documents that the page names; the store holds all."""


def screen_headline(screen: ScreenSummary) -> str:
    """The outcome in one sentence."""
    name, out = title(screen.mechanism), plural(screen.excluded, "document", "documents")
    rounds = plural(len(screen.rounds), "audit", "audits")
    may = plural(screen.allowed, "document", "documents")
    if screen.outcome == "cleared":
        without = f"Without {out}, " if screen.excluded else ""
        return f"{without}{may} of {count(screen.documents)} may enter {name}: {rounds}, nothing left to flag."
    return {
        "nothing-proved": f"No document was found to be given away by {name}, and none was proved safe: nothing "
        "is cleared.",
        "hopeless": f"Leaving documents out does not make {name} safe for the others: most are sensitive.",
        "limit": f"Leaving {out} out was not enough for {name}: each of {rounds} uncovered others.",
        "too-few": f"Leaving {out} out leaves too few documents to hide among in {name}.",
        "void": "An audit of this screen is void: nothing is cleared.",
    }[screen.outcome]


def render_screen(store: Store, screen: str) -> str:
    """The page of a finished screen, from what the store holds: complete HTML that loads and runs nothing."""
    stored = read_screen(store, screen)
    excluded = read_excluded(store, screen).to_pylist() if stored.excluded else []
    excluded.sort(key=lambda row: (row["round"], row["log10_adjusted_p"], -row["distance"]))
    return standalone(
        "screen.html.j2",
        screen=stored,
        headline=screen_headline(stored),
        excluded=excluded[:_LISTED],
        before=_bar(stored.rounds[0]),
        after=_bar(stored.rounds[-1]),
    )


def _bar(round_: RoundSummary) -> Markup:
    counts = round_.verdicts.as_dict()
    return shares_svg([(verdict, counts[verdict]) for verdict in _VERDICTS])
