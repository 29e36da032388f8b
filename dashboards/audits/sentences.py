"""What numbers mean, in words that a privacy officer can use. Values in, plain text out (templates escape it)."""

from __future__ import annotations

from ksdp.dashboards.audits.certificate_sentences import grounds
from ksdp.dashboards.words import count, decimal, percent, plural
from ksdp.storage.audits.history import ViewsSummary, mechanism_of
from ksdp.storage.findings import Summary

AnySummary = Summary | ViewsSummary


def title(mechanism: str) -> str:
    """A mechanism's name as the papers print it.

    >>> title("pd-svd"), title("pd-nmf-init"), title("pd-svd with noise"), title("mine:thing")
    ('PD-SVD', 'PD-NMF-Init', 'PD-SVD with noise', 'mine:thing')
    """
    if not mechanism.startswith("pd-"):
        return mechanism
    name, *more = mechanism.split(" ", 1)
    return " ".join(["-".join(p.upper() if len(p) <= 3 else p.capitalize() for p in name.split("-")), *more])


def called(summary: AnySummary) -> str:
    """The mechanism of an audit as a person would name it."""
    return title(mechanism_of(summary.mechanism, summary.spec))


def margin_words(summary: AnySummary) -> str:
    """The margin that numbers are compared with, and whose advantage that is where it is not everybody's."""
    margin = decimal(summary.spec.rule.margin)
    return f"{margin} within a run" if summary.spec.draw_sentence else margin


def _documents(number: float) -> str:
    return plural(number, "document", "documents")


def correction(summary: AnySummary) -> str:
    """What the level promises, in words."""
    rule = summary.spec.rule
    level, margin = percent(rule.level), margin_words(summary)
    clear = percent(rule.for_clear)
    if rule.error == "fwer":
        wrong = f"; the chance that even one is called clear wrongly is at most {clear}" if rule.margin else ""
        return (
            "the chance that even one document is called sensitive wrongly is at most "
            f"{level} (family-wise error, Holm’s procedure){wrong}"
        )
    wrong = f" (an advantage of {margin} or less), and of those called clear at most {clear} to be above it"
    return (
        f"of the documents called sensitive, at most {level} are expected to be false alarms"
        f"{wrong if rule.margin else ''}, however documents depend on one another (false discovery rate, "
        "Benjamini–Yekutieli)"
    )


def headline(summary: Summary) -> str:
    """The result in one sentence."""
    name, total = called(summary), summary.documents
    word = summary.design.unit
    everything = plural(total, word, f"{word}s")
    verdicts, rule = summary.verdicts, summary.spec.rule
    if not summary.valid:
        return f"This audit of {name} is void: nothing can be said about any of its {everything}."
    if verdicts.sensitive:
        rate = "false discovery rate" if rule.error == "fdr" else "family-wise error rate"
        better = f"with an advantage above {margin_words(summary)}" if rule.margin else "better than chance"
        each = "for each of them somebody" if verdicts.sensitive > 1 else "somebody"
        return (
            f"{name} gives away {count(verdicts.sensitive)} of {everything}: {each} who sees what it "
            f"announces can tell {better} whether it took part, proved at a "
            f"{rate} of {percent(rule.level)}."
        )
    if verdicts.certified_clear == total:
        return (
            f"All {everything} are certified clear of {name}: no attack of any kind has an advantage above "
            f"{decimal(summary.spec.decision.margin)}, if {grounds(summary)}."
        )
    if verdicts.cleared == total:
        return (
            f"All {everything} are clear of {name}: under every statistic tried, the advantage of an "
            f"adversary is proved to be below {margin_words(summary)}."
        )
    left = verdicts.undecided
    verb = "is" if left == 1 else "are"
    some = f"all {count(total)} are" if left == total > 1 else f"{count(left)} of {count(total)} {verb}"
    return (
        f"No {word} was proved to be given away by {name}, but {some} undecided: there, this audit proves "
        f"neither that an advantage is above {margin_words(summary)} nor that it is below."
    )


def advantage_means(distance: float) -> str:
    """What an advantage of this size lets an adversary do.

    D is TPR - FPR of the best threshold, so the adversary is right in (1 + D) / 2 of all cases if half of the
    cases took part.
    """
    return (
        f"An advantage of {decimal(distance)} means: with the best threshold on that statistic, an adversary says "
        f"“it took part” {100 * distance:.0f} percentage points more often when the document did take part than "
        "when it did not. Were taking part a coin toss, this adversary would be right about "
        f"{50 + 50 * distance:.0f} times in 100 instead of 50."
    )


def fresh(summary: Summary) -> list[str]:
    """What the documents with a detected leak give away on fresh runs; empty where none were made."""
    found = summary.fresh
    if not found:
        return []
    level = summary.spec.decision.level
    one = found.documents == 1
    detected = "1 document with a detected leak was" if one else f"{count(found.documents)} documents were"
    runs = f"{count(found.runs)} fresh runs ({count(found.n_with_median)} with each)"
    confirmed = f"{count(found.confirmed)} of {count(found.documents)} are confirmed"
    return [
        "A leak is detected by the largest of many measured values, which is too large on average. So "
        f"the {detected} measured again on {runs}, by the statistic and the threshold that the first runs chose. "
        f"There the advantage of half of them is at least {decimal(found.median_advantage)}; {confirmed} (each "
        f"by itself, at {percent(level)}).",
        f"{_rarely_wrong(found.median_tpr_at_fpr_01)} The strongest disproves all differential privacy "
        f"with epsilon below {decimal(found.largest_epsilon_low)} (delta 0), with a confidence of "
        f"{percent(1 - level)} for that document by itself.",
    ]


def _rarely_wrong(rate: float | None) -> str:
    if rate is None:
        return "What an adversary detects at 1 % false alarms cannot be measured with so few runs."
    return f"At 1 % false alarms, an adversary detects half of them at least {percent(rate)} of the time."


def looks(summary: Summary) -> str | None:
    """When the audit looked and what each look decided; nothing where it looked once."""
    planned = summary.looks
    if len(planned) < 2:
        return None
    made = [look for look in planned if look.tested]
    decided = "; ".join(
        f"after {count(look.runs)} runs {count(look.sensitive)} sensitive and {count(look.clear)} clear "
        f"of {count(look.tested)} open"
        for look in made
    )
    saved = f" The last {plural(len(planned) - len(made), 'look was', 'looks were')} not needed."
    return (
        f"The audit looked {plural(len(made), 'time', 'times')}, each at its own part of the level, planned "
        f"beforehand: {decided}.{saved if len(made) < len(planned) else ''}"
    )


def announces(summary: Summary) -> str | None:
    """The arrays that the adversary sees, where the summary names them (`announced`)."""
    arrays = summary.announced
    if not arrays:
        return None
    listed = ", ".join(f"{a.name} ({' × '.join(count(n) for n in a.shape) or 'one number'})" for a in arrays)
    if not summary.unread:
        return listed
    return f"{listed}. Nobody looked at {', '.join(summary.unread)}: no document can be clear"


def design(summary: Summary) -> str:
    """Who is in which run."""
    rows, runs = _documents(summary.design.party_rows), count(summary.runs)
    least, _, most = summary.design.n_with
    share = percent(summary.design.share)
    arm = count(most) if least == most else f"{count(least)} to {count(most)}"
    others = "all others"
    if summary.design.every > 1:
        others = (
            "a part of the others, drawn from the seed beforehand so that both arms together are one run in "
            f"{summary.design.every}"
        )
    kinds = {
        "shared": (
            f"Shared: every run draws {rows} at random from the whole corpus as the victim’s database, each "
            f"document with probability {share}. One pool of {runs} runs serves every document: its with-arm is "
            f"the {arm} runs that drew it, its without-arm {others}."
        ),
        "balanced": (
            "Balanced: each audited document is in every run with probability one half, and other documents, "
            f"drawn at random, fill the victim’s database up to {rows}. A document’s with-arm is {arm} of "
            f"{runs} runs."
        ),
        "literal": (
            f"Literal (Algorithm 5 of the paper): each audited document has runs of its own, {arm} with it and as "
            f"many without, on random databases of {rows}; {runs} runs in all."
        ),
    }
    return kinds[summary.design.kind]


def sampling(summary: Summary) -> str:
    """Which databases are neighbours."""
    if summary.design.sampling == "poisson":
        return (
            "Poisson: documents join independently, so the size of the database varies with the document "
            "(add-or-remove neighbours). Part of what is detected may be the size."
        )
    if summary.design.unit == "group":
        return (
            "A fixed number of groups: with and without a group, the database holds equally many groups, but not "
            "equally many documents, so that the size may be a part of what is detected."
        )
    return (
        "Fixed size: with and without a document, the database is equally large (replace-one neighbours), so that "
        "the document is what is detected and not the size."
    )


def others(summary: Summary) -> str:
    """Whose data is in every run besides the victim's."""
    honest, coalition = summary.design.honest_rows, summary.design.coalition_rows
    hides = "No data of honest parties is in the runs, so nothing helps to hide the victim’s"
    if honest:
        verb = "is" if honest == 1 else "are"
        hides = (
            f"{plural(honest, 'row', 'rows')} of honest parties {verb} in every run and help to hide the victim’s"
        )
    holds = "the coalition’s share counts as subtracted from every announced sum already"
    if coalition:
        holds = (
            f"the coalition’s own {plural(coalition, 'row is', 'rows are')} in every run, and its share is "
            "subtracted from every announced sum"
        )
    return f"{hides}; {holds}."


def adversary(summary: Summary) -> str:
    """Who is assumed to look."""
    rest = "the honest parties’ and the victim’s" if summary.design.honest_rows else "the victim’s"
    if summary.spec.statistics.sees == "final":
        return (
            "Somebody who is given the final output and nothing else that is announced. They know the suspected "
            "document in full and how the mechanism works. They do not know which other documents the victim "
            "holds: those are random here."
        )
    if summary.opens == "final":
        return (
            "Whoever sees what a run opens at its end, and nothing else: everybody who takes part, as long as no "
            "two of the three parties that compute put together what they hold. Two of these would see the data "
            "itself: this audit says nothing of that. They know the suspected document in full and how the "
            "mechanism works. They do not know which other documents the victim holds: those are random here."
        )
    return (
        "The strongest that keeps to the protocol: all parties outside the honest ones named above pool what they "
        "see, subtract everything that is theirs from what is announced, and are left with a view of "
        f"{rest} data alone. They know the suspected document in full and how the mechanism works. They do not "
        "know which other documents the victim holds: those are random here."
    )
