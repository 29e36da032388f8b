"""Words and numbers as people read them; what each stage of a command is called."""

from __future__ import annotations

import math
import unicodedata
from datetime import UTC, date, datetime

from markupsafe import Markup, escape

_KEEP = 34
_TITLE = 200


def count(value: float) -> str:
    """A whole number with commas."""
    return f"{value:,.0f}"


def decimal(value: float | None, digits: int = 2) -> str:
    """A number of fixed digits; a dash where there is none."""
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def at_most(bound: float) -> str:
    """A bound of two digits, rounded up."""
    return decimal(math.ceil(100 * bound - 1e-9) / 100)


def percent(share: float) -> str:
    """A share as a percentage with up to three digits."""
    return f"{100 * share:.3g} %"


def plural(number: float, singular: str, many: str) -> str:
    """The number with the word that fits it."""
    return f"{count(number)} {singular if number == 1 else many}"


def timestamp(at: datetime | str) -> str:
    """A time for people, in UTC."""
    when = datetime.fromisoformat(at) if isinstance(at, str) else at
    return f"{when.astimezone(UTC):%-d %b %Y, %H:%M} UTC"


def day(text: str) -> str:
    """A day as people write it.

    >>> day("2026-12-05")
    '5 Dec 2026'
    """
    return f"{date.fromisoformat(text):%-d %b %Y}"


def power_of_ten(exponent: float) -> Markup:
    """10 to a power, written as such, so that nothing underflows."""
    return Markup(f"10<sup>{f'{exponent:.1f}'.replace('-', '−')}</sup>")


def p_value(log10_p: float) -> Markup:
    """A p-value from its logarithm: three decimals down to 0.001, below that how seldom."""
    if log10_p >= -3:
        return Markup(f"{10**log10_p:.3f}")
    power = f"{log10_p:.1f}".replace("-", "−")
    if log10_p < -6:
        chance = "less than 1 in a million"
    else:
        often = 10**-log10_p
        chance = f"1 in {round(often, 2 - int(math.log10(often))):,.0f}"
    return Markup(f'<span class="p" title="10^{power}">{chance}</span>')


def coded(sentence: str) -> Markup:
    """A sentence of ours, with what it quotes (commands, keys, names) set as code."""
    return Markup(str(escape(sentence)).replace("“", "<code>").replace("”", "</code>"))


def duration(seconds: float) -> str:
    """A time in the two units that matter."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    rounded = round(seconds)
    if rounded < 60:
        return f"{rounded} s"
    if rounded < 3600:
        return f"{rounded // 60} min {rounded % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60:,} h {minutes % 60} min"


def breaking(name: Markup) -> Markup:
    """A name in a narrow column, which may go on in the next line after a point, a stroke or a hyphen.

    >>> breaking(label("scipy.optimize"))
    Markup('<bdi>scipy.<wbr>optimize</bdi>')
    """
    head, tag, rest = name.partition(">")
    shown, end, tail = rest.partition("<")
    for sign in "._-":
        shown = shown.replace(sign, sign + Markup("<wbr>"))
    return Markup(head) + Markup(tag) + Markup(shown) + Markup(end) + Markup(tail)


def label(name: str) -> Markup:
    """A name from outside: escaped, isolated from the text's direction, cut in the middle if long."""
    clean = "".join("�" if unicodedata.category(c) in ("Cc", "Cf") else c for c in name)
    if len(clean) <= _KEEP:
        return Markup(f"<bdi>{escape(clean)}</bdi>")
    title = clean if len(clean) <= _TITLE else clean[:_TITLE] + "…"
    return Markup(f'<bdi title="{escape(title)}">{escape(clean[: _KEEP - 10])}…{escape(clean[-9:])}</bdi>')


_STAGES = {
    "prepare": ("reading the corpus", ""),
    "serve": ("starting the Prefect server and the workers", ""),
    "sample": ("running the mechanism", "runs"),
    "test": ("testing documents", "documents"),
    "confirm": ("measuring detected leaks on fresh runs", "parts"),
    "certify": ("pairs of runs", "pairs"),
    "curves": ("drawing", "pictures"),
    "claim": ("runs on the worst case", "runs"),
    "start": ("starting the parties", "processes"),
    "iterate": ("iterations", "iterations"),
    "baseline": ("alone, public, exact", ""),
    "settings": ("settings", "settings"),
}


def words(stage: str) -> str:
    """`sample look-2` is the second look's."""
    verb, _, where = stage.partition(" ")
    return _STAGES.get(verb, (verb, ""))[0] + (f", {where.replace('-', ' ')}" if where else "")


def counted(stage: str) -> str:
    """Unit that a stage counts in; empty if it counts nothing."""
    return _STAGES.get(stage.partition(" ")[0], ("", ""))[1]


def rate(stage: str, units: float, seconds: float) -> str:
    """How fast a stage is; empty while that is not known."""
    what = counted(stage)
    if not what or units <= 0 or seconds <= 0:
        return ""
    return f"{units / seconds:.{2 if units < seconds else 1 if units < 10 * seconds else 0}f} {what}/s"


def stage_so_far(stage: str, done: int, total: int, seconds: float) -> str:
    """One plain line of a stage that goes on."""
    what = counted(stage)
    done_so_far = f"{done} of {total} {what} after {seconds:.0f} s" if what else f"{seconds:.0f} s so far"
    return f"{words(stage)}: {done_so_far}"


def stage_line(stage: str, done: int, total: int, seconds: float) -> str:
    """One plain line of a stage that is over."""
    what, fast = counted(stage), rate(stage, done, seconds)
    what = what.removesuffix("s") if done == total == 1 else what
    if not what:
        return f"{words(stage)}: {seconds:.1f} s"
    share = f"{done}" if done >= total else f"{done} of {total}"
    return f"{words(stage)}: {share} {what} in {seconds:.1f} s{', ' if fast else ''}{fast}"
