"""What a person does next, from what an audit found: a few sentences under the headline."""

from __future__ import annotations

from ksdp.dashboards.words import count, plural
from ksdp.storage.findings import Summary

_MANY = 0.5
"""A larger share of sensitive documents is a fault of the setting, not of single documents."""


def next_steps(summary: Summary) -> list[str]:
    """What to do next, the most urgent first; never empty."""
    if not summary.valid:
        return [
            "Use no verdict of this audit and release nothing on its account.",
            "Read below why its controls failed, mend that, and audit again.",
        ]
    counts, unit, total = summary.verdicts, summary.design.unit, summary.documents
    steps = []
    if counts.sensitive > _MANY * total:
        steps.append(
            f"Do not run it like this. With {count(counts.sensitive)} of {plural(total, unit, unit + 's')} given "
            "away, leaving some out does not help: “ksdp advise” looks for a setting that gives less away (larger "
            "parties, a lower rank, columns that are agreed on in public, noise)."
        )
    elif counts.sensitive:
        them = f"the {plural(counts.sensitive, f'sensitive {unit}', f'sensitive {unit}s')}"
        steps.append(
            f"Decide about {them}: leave out, or accept with a reason (“ksdp review”, or “ksdp decide”). Leaving "
            "some out can expose others, so what is left is audited again: “ksdp screen” does both and signs the "
            "rest."
        )
    if counts.undecided:
        some = plural(counts.undecided, f"undecided {unit}", f"undecided {unit}s")
        if summary.unread:
            what = ", ".join(summary.unread)
            how = f"no statistic looks at {what}: add one that does, or announce less, and audit again"
        else:
            how = "the same specification with a larger “with_runs” goes on from here; “ksdp plan” says how large"
        steps.append(f"Do not take the {some} for safe: {how}.")
    if not counts.sensitive and not counts.undecided:
        steps.append(
            "Sign what may be used (“ksdp clear”) and give the clearance to those who run the protocol: it holds "
            "for this setting and this corpus alone."
        )
    if summary.guarantee.kind == "(epsilon, delta)" and not summary.guarantee.protects:
        steps.append(
            "Before a real run, choose the vetted sampler: this audit simulated the noise by a faster one."
        )
    return steps
