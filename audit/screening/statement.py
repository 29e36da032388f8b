"""What a clearance says of itself, in words."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["statement"]


def statement(
    *,
    margin: float,
    level: float,
    rows: int,
    among: int,
    allowed: Sequence[str],
    beside: int,
    rounds: int,
    why: str | None = None,
) -> str:
    """What a clearance promises and what it does not, in plain words.

    Parameters
    ----------
    margin, level : float
        Of the decision; the level of all rounds together.
    rows, among : int
        Documents in a database, and documents they were drawn from in the last round.
    allowed : sequence of str
        Verdicts on the list.
    beside : int
        Documents in `among` that are not on the list.
    why : str, optional
        Why the listed documents were not audited by themselves, where some were beside them.
    """
    promises = [
        f"In the last of {rounds} audits, on runs of its own, no listed document was found sensitive in databases "
        f"of {rows} documents drawn from {among}. All rounds together were held to a level of {level:g}."
    ]
    if "clear" in allowed:
        promises.append(
            "Documents with the verdict clear: the advantage of every threshold on every statistic tried was "
            f"proved to be below {margin:g}."
        )
    if "undecided" in allowed:
        promises.append(
            "Documents with the verdict undecided are listed by decision of the reviewer: nothing is proved of "
            "them."
        )
    if beside:
        promises.append(
            f"The audit's databases also held {beside} documents that are not listed (undecided or not audited); "
            f"the listed ones were not audited without them{f', because {why}' if why else ''}."
        )
    else:
        promises.append("The audit's databases were drawn from the listed documents and from no others.")
    promises.append(
        "It says nothing of statistics that were not tried, of adversaries who know other documents of the "
        "database, of other corpora, mechanisms, parameters or party sizes, or of repeated releases, and it is "
        "not differential privacy. Features and their weights are those of the whole corpus, and that documents "
        "were left out is itself information about them."
    )
    return " ".join(promises)
