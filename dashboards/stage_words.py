"""What a stage is called, what it counts, and how fast it is: words for terminals, logs, notebooks and pages."""

from __future__ import annotations

_STAGES = {
    "prepare": ("reading the corpus", ""),
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
    """`sample look-2` is the second look's.

    Examples
    --------
    >>> words("sample look-2")
    'running the mechanism, look 2'
    """
    verb, _, where = stage.partition(" ")
    return _STAGES.get(verb, (verb, ""))[0] + (f", {where.replace('-', ' ')}" if where else "")


def counted(stage: str) -> str:
    """What is counted in a stage; empty where there is nothing to count.

    Examples
    --------
    >>> counted("test fresh")
    'documents'
    """
    return _STAGES.get(stage.partition(" ")[0], ("", ""))[1]


def rate(stage: str, units: float, seconds: float) -> str:
    """How fast a stage is; empty while that is not known.

    Examples
    --------
    >>> rate("sample", 512, 4.0), rate("sample", 3, 60.0), rate("sample", 0, 1.0)
    ('128 runs/s', '0.05 runs/s', '')
    """
    what = counted(stage)
    if not what or units <= 0 or seconds <= 0:
        return ""
    return f"{units / seconds:.{2 if units < seconds else 1 if units < 10 * seconds else 0}f} {what}/s"


def stage_line(stage: str, done: int, total: int, seconds: float) -> str:
    """One plain line of a stage that is over.

    Examples
    --------
    >>> stage_line("sample", 512, 512, 4.0)
    'running the mechanism: 512 runs in 4.0 s, 128 runs/s'
    >>> stage_line("test", 900, 1800, 4.0)
    'testing documents: 900 of 1800 documents in 4.0 s, 225 documents/s'
    >>> stage_line("prepare", 0, 1, 0.5)
    'reading the corpus: 0.5 s'
    """
    what, fast = counted(stage), rate(stage, done, seconds)
    if not what:
        return f"{words(stage)}: {seconds:.1f} s"
    share = f"{done}" if done >= total else f"{done} of {total}"
    return f"{words(stage)}: {share} {what} in {seconds:.1f} s{', ' if fast else ''}{fast}"
