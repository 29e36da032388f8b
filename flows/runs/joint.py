"""Runs without a promise, in a ledger: which joint audit covers them, and the mechanism of the next one.

What two such runs give away together follows from no number of each. An audit of all of them as one view
(`audit.mechanisms.joint`) says it, for the corpus that it was made of. One covers a ledger if it has in it
every run of that kind, with every parameter, on that corpus, and found each document clear: a run that comes later
needs another audit, with that run in it, before it begins.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.contract import traits_of
from ksdp.audit.mechanisms.joint import JointMechanism
from ksdp.audit.registry import make_mechanism
from ksdp.audit.results.summary import Summary
from ksdp.storage.readers.files import toml_value
from ksdp.storage.runs.ledger import Ledger


@dataclass(frozen=True)
class JointAudit:
    """A joint audit that a ledger knows of."""

    audit: str
    corpus: str
    margin: float
    runs: tuple[str, ...]
    """Of each, name, version and all parameters, as one text."""


def record_joint(ledger: Ledger, summary: Summary, now: datetime) -> JointAudit:
    """Write down that a joint audit was made.

    Raises
    ------
    InputError
        If it is no joint audit, is void, left something announced unread, looked at some documents only, or
        did not find all of them clear.
    """
    if summary.mechanism != JointMechanism.name:
        raise InputError(f"{summary.audit} is an audit of {summary.mechanism}; a joint one is of `together`.")
    if not summary.valid:
        raise InputError(f"{summary.audit} is void: its controls failed.")
    if summary.unread:
        raise InputError(f"{summary.audit} did not look at {', '.join(summary.unread)}.")
    if summary.spec.design.documents is not None or summary.spec.statistics.sees == "final":
        raise InputError(f"{summary.audit} looked at some documents, or at the final output alone.")
    counts = summary.verdicts
    if counts.sensitive or counts.undecided:
        raise InputError(
            f"{summary.audit} found {counts.sensitive} documents sensitive and left {counts.undecided} undecided: "
            "it does not show that these runs are safe together. Leave those documents out, or add noise."
        )
    runs = tuple(sorted(map(identity_text, cast(list[dict[str, Any]], summary.parameters["runs"]))))
    found = JointAudit(summary.audit, summary.corpus, summary.spec.decision.margin, runs)
    line = {"run": f"joint {found.audit}", "time": now.isoformat(timespec="seconds"), "what": "joint"}
    with ledger.locked():
        ledger.add(
            line | {"audit": found.audit, "corpus": found.corpus, "margin": found.margin, "runs": list(found.runs)}
        )
    return found


def joint_audits(ledger: Ledger) -> tuple[JointAudit, ...]:
    """All that the ledger knows of."""
    return tuple(
        JointAudit(str(line["audit"]), str(line["corpus"]), float(line["margin"]), tuple(line["runs"]))
        for line in ledger.read()
        if line["what"] == "joint"
    )


def covering(audits: Sequence[JointAudit], runs: Sequence[tuple[str, Mapping[str, Any]]]) -> JointAudit | None:
    """An audit that has all these runs in it, each a corpus' hash and a mechanism; None where there is none."""
    wanted = Counter(identity_text(mechanism) for _, mechanism in runs)
    corpora = {corpus for corpus, _ in runs}
    fits = (a for a in audits if corpora == {a.corpus} and not wanted - Counter(a.runs))
    return next(iter(sorted(fits, key=lambda audit: audit.margin)), None)


def joint_table(runs: Sequence[Mapping[str, Any]]) -> str:
    """What a joint audit's spec says of the runs; a single one stands there twice, as it will be run again."""
    twice = [
        {key: value for key, value in run.items() if key != "version" and value is not None}
        for run in list(runs) * (2 if len(runs) == 1 else 1)
    ]
    lines = ["[mechanism]", f'name = "{JointMechanism.name}"']
    for run in twice:
        lines += ["", "[[mechanism.runs]]", *(f"{key} = {toml_value(value)}" for key, value in run.items())]
    lines += ["", "[statistics]", 'families = ["paper", "geometry", "rounds", "pem", "learned"]']
    together = make_mechanism(JointMechanism.name, {"runs": twice})
    traits = traits_of(together)
    if traits.learn_from or traits.learn_always:
        lines += ['names = ["learned-raw"]', "", "[store]", 'observables = "all"']  # without it nobody is clear
    return "\n".join(lines)


def identity_text(mechanism: Mapping[str, Any]) -> str:
    """A mechanism as one text, in exactly one way."""
    return json.dumps(mechanism, sort_keys=True, separators=(",", ":"))
