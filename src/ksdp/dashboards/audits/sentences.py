"""Sentences about an audit: its result, its proofs, its strength, its mechanism's guarantee, what to do next."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ksdp.dashboards.words import at_most, count, decimal, percent, plural
from ksdp.storage.audits.claims import StoredClaim
from ksdp.storage.audits.history import BoundSummary, ProvedBy, Summary, Verdict, mechanism_of
from ksdp.storage.learning import GainAndAdvice

if TYPE_CHECKING:
    from ksdp.dashboards.audits.audit_model import AuditModel
    from ksdp.dashboards.audits.result import AuditResult
    from ksdp.storage.audits.queries import Row
    from ksdp.storage.findings import VerdictRow


def certified(summary: Summary) -> str | None:
    """State what paired runs prove of all documents; None if there are none."""
    certificate = summary.bound(ProvedBy.PAIRS)
    if certificate is None:
        return None
    unit = summary.design.unit
    return (
        f"{plural(certificate.pairs or 0, 'pair', 'pairs')} of runs that differ in one {unit} alone bound the "
        "advantage of every attack, including those that nobody has thought of, if the noise is what the "
        "mechanism says it is: parties that compute the result follow the protocol (semi-honest). "
        f"Half of the {unit}s have a bound of at most {at_most(certificate.median)}, all of them of at most "
        f"{at_most(certificate.largest)}; it is within the margin of {margin_words(summary)} for "
        f"{count(certificate.certified)} of {count(summary.documents)}. All bounds hold together with probability "
        f"{percent(1 - certificate.level)}, and at every number of pairs."
    )


def kept_promise(summary: Summary) -> str | None:
    """State what the mechanism's own noise proves of all documents; None if it proves nothing."""
    promise, unit = summary.bound(ProvedBy.NOISE), summary.design.unit
    if promise is None:
        return None
    sure = (
        "The mechanism's noise proves that no attack of any kind has an advantage above "
        f"{at_most(promise.largest)} on any {unit}, not even if the attacker knows all others."
    )
    if not promise.certified:
        return f"{sure} That is above the margin of {margin_words(summary)}, so it decides nothing."
    return (
        f"{sure} So every {unit} is clear, whatever a run shows: the {count(summary.runs)} runs only check that "
        "the program does what was proved."
    )


def trusted(summary: Summary) -> str | None:
    """Name those whom one must trust for the noise, once a page; None where noise proves nothing."""
    promise = summary.bound(ProvedBy.NOISE)
    if promise is None:
        return None
    return f"Whom one must trust: {promise.trust}. The bound holds whatever the attacker knows of the others."


def copied(summary: Summary) -> str | None:
    """State what many copies prove of some documents; None if they prove nothing."""
    copies = summary.bound(ProvedBy.COPIES)
    if copies is None or not copies.certified:
        return None
    each = "has" if copies.certified == 1 else "have"
    sure = (
        f"{plural(copies.certified, 'document', 'documents')} {each} so many copies that no attack of any kind "
        f"tells more than {at_most(copies.largest_certified)} of one of them: at most, a run shows how many "
        f"of the copies were in, and not which. The fewest are {count(copies.fewest_copies or 0)} documents of "
        "one content. This bound is exact, not estimated. That one of them took part may still be obvious: if "
        "copies belong to one person, audit groups."
    )
    if not copies.sensitive:
        return sure
    verb = "is" if copies.sensitive == 1 else "are"
    return f"{sure} {count(copies.sensitive)} of them {verb} called sensitive: false alarms."


def absent(summary: Summary) -> str | None:
    """The proof of some documents before any run, in a sentence; None where there is none."""
    proof, unit = summary.absence, summary.design.unit
    if proof is None:
        return None
    verb = "is" if proof.documents == 1 else "are"
    return (
        f"{plural(proof.documents, unit, unit + 's')} {verb} sensitive before any run: their rarest feature is so "
        "often in nobody else of a run that it gives them away, half of them with an advantage of "
        f"{decimal(proof.median_bound)} or more. That is computed, not sampled: chance cannot make it wrong, and "
        "no run was spent on it."
    )


def absent_here(summary: Summary, row: VerdictRow) -> str | None:
    """Why a document is sensitive that no run measured; None of others."""
    if row.proof != "absence":
        return None
    return (
        f"In {percent(row.distance)} of the runs without it, no other {summary.design.unit} has its rarest "
        "feature, and what is announced shows whether one has: computed, not sampled. No run measured it."
    )


def grounds(summary: Summary) -> str:
    """On what a certified verdict stands: behind "if"."""
    noise = summary.bound(ProvedBy.NOISE)
    if summary.bound(ProvedBy.DRAW) is not None:
        return "nobody learns which documents the secret draw lets in"
    if noise is not None and noise.certified:
        return "the noise is what the mechanism says and those named under “Whom one must trust” are honest"
    stranger = f"the attacker does not know the other {summary.design.unit}s"
    if summary.spec.certificate is None:
        return f"copies of a document are as likely to take part as it is, and {stranger}"
    return f"the noise is what the mechanism says, and {stranger}"


def doubtful(summary: Summary) -> str | None:
    """Where certificate and verdict do not agree."""
    certificate, unit = summary.bound(ProvedBy.PAIRS), summary.design.unit
    if certificate is None or not certificate.sensitive:
        return None
    verb = "has" if certificate.sensitive == 1 else "have"
    return (
        f"{plural(certificate.sensitive, unit, unit + 's')} called sensitive {verb} a bound of at most the "
        "margin: either is a false alarm, at the rate stated for it. A certificate overrules no proof of a leak."
    )


def stronger(summary: Summary) -> str | None:
    """State the advantage of an adversary who knows all other documents; None if it is not known."""
    certificate, unit = summary.bound(ProvedBy.PAIRS), summary.design.unit
    if summary.knows_all == 1:
        return f"Somebody who has every other {unit} of the run can always tell (advantage 1): no noise is added."
    if certificate is None:
        return None
    return (
        f"Somebody who knows all other {unit}s of the run faces the noise alone. On average over databases their "
        f"advantage is {decimal(certificate.median_knows_all or 0.0)} or less for half of the {unit}s, and "
        f"{decimal(certificate.largest_knows_all or 0.0)} for the most exposed one."
    )


def by_knowledge(summary: Summary) -> list[tuple[str, list[str]]]:
    """List what is proved of every attack, by what the attacker knows."""
    unit = summary.design.unit
    about = [
        (f"An attacker who knows anything, all other {unit}s of a run included", [kept_promise(summary)]),
        (
            f"An attacker who knows the corpus, and not which other {unit}s are in a run",
            [certified(summary), doubtful(summary), copied(summary)],
        ),
        (f"An attacker who knows all other {unit}s of a run", [stronger(summary)]),
    ]
    return [(who, bounds) for who, what in about if (bounds := [sentence for sentence in what if sentence])]


def certified_here(row: Row) -> str | None:
    """The bound of one document, beside what was measured."""
    if row.certified_bound is None:
        return None
    bound = f"no attack has more than {at_most(row.certified_bound)}; measured {decimal(row.distance)}"
    if row.verdict == Verdict.CLEAR and row.proof == "statistics":
        return f"{bound}. The bound does not reach the margin: tests make it clear"
    return bound


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


def promised(summary: Summary, claim: StoredClaim | None = None) -> str | None:
    """State what the mechanism claims, and what was proved; None if it claims no differential privacy."""
    guarantee = summary.guarantee
    if guarantee.kind != "(epsilon, delta)":
        return None
    epsilon = (
        "an epsilon that follows from the sizes" if guarantee.epsilon is None else f"epsilon {guarantee.epsilon:g}"
    )
    sentences = [f"It claims {epsilon} at delta {guarantee.delta:g}, for {guarantee.unit}."]
    sentences += filter(None, ["" if guarantee.sound else "The claim does not hold.", guarantee.notes])
    if claim is None:
        sentences.append("Nobody tried in this store to refute that by runs on its worst case (ksdp claim).")
    elif claim.finding.refuted:
        sentences.append(f"REFUTED: it does not keep its claim. {proved(claim)}")
    else:
        sentences.append(f"{proved(claim)} That does not refute it.")
    fresh = summary.fresh
    if fresh:
        sentences.append(
            f"Fresh runs of this audit prove at least {decimal(fresh.epsilon_low)} (delta 0) for the "
            "document that its first runs showed most, against an adversary who does not know the others."
        )
    if guarantee.sampler:
        sentences.append(
            f"This audit drew the noise by the {guarantee.sampler.name} sampler ({guarantee.sampler.description})."
        )
    return " ".join(sentences)


def proved(claim: StoredClaim) -> str:
    """State what runs on the mechanism's worst case proved, and what it claims."""
    finding = claim.finding
    more, low = finding.gaussian_low or 0.0, finding.measured_low
    normal = f", and {more:.3g} as its noise is normal" if more > low else ""
    return (
        f"Claimed epsilon {finding.claimed_epsilon:.3g} at delta {finding.claimed_delta:g}; proved on its worst "
        f"case: at least {low:.3g}{normal} ({count(finding.runs)} runs an arm, confidence "
        f"{percent(finding.confidence)})."
    )


_WHY = {
    "missing": "they hold words or columns that no other document of a run has: a zero in the release shows it",
    "linear": "what is released can be solved, as equations, for who was in the run",
    "first-order": "what is released moves the way that such a document moves it, and hardly another does",
    "simulated": "a rule that was learnt from simulated runs tells the runs with them from those without",
}
_FAR = "they lie far from the rest, and the release turns towards them"
_FEW = 1 / 6
"""Share of documents that are not clear up to which leaving them out, and as many that they hid, may end."""


def why_sensitive(summary: Summary) -> str:
    """Why the sensitive documents are found, by what finds most of them alone."""
    if summary.absence is not None and 2 * summary.absence.documents >= summary.verdicts.sensitive:
        return f"most are found because {_WHY['missing']}, before any run"
    name, row = max(summary.statistics.items(), key=lambda item: item[1].sensitive)
    why = next((why for start, why in _WHY.items() if name.startswith(start)), _FAR)
    return (
        f"most are found because {why} (“{name}”)"
        if row.sensitive
        else "only several statistics together find them"
    )


def steps_of(result: AuditResult, spec: str = "SPEC.toml") -> list[str]:
    """Return what to do next (`next_steps`); commands that need the spec name this file."""
    return next_steps(result.summary, result.findings.totals().runs_to_decide, result.learning, spec)


def next_steps(
    summary: Summary,
    runs_to_decide: float | None = None,
    learning: GainAndAdvice | None = None,
    spec: str = "SPEC.toml",
) -> list[str]:
    """Why documents are sensitive and what to do next: from an audit to advice, and from there to a signature."""
    if not summary.valid:
        return [
            "Use no verdict of this audit and release nothing on its account.",
            "Read below why its controls failed, mend that, and audit again.",
        ]
    counts, unit, total = summary.verdicts, summary.design.unit, summary.documents
    in_python, steps = summary.spec.corpus.in_memory, []
    if counts.sensitive:
        them = f"{count(counts.sensitive)} of {plural(total, unit, unit + 's')} are given away"
        why = f"{them}; {why_sensitive(summary)}"
        steps.append(f"Do not run it as it stands: {why}. {_within_reach(summary, learning, spec)}")
        if total - counts.clear <= _FEW * total:
            steps.append(
                f"Or decide about the {plural(counts.sensitive, f'sensitive {unit}', f'sensitive {unit}s')}: "
                "leave out, or accept with a reason (“ksdp review”). As few stand out, “ksdp clear” may sign the "
                "others: it audits them by themselves until all that is listed holds."
            )
    if counts.undecided:
        some = plural(counts.undecided, f"undecided {unit}", f"undecided {unit}s")
        if summary.unread:
            how = f"nobody can be clear, however many runs there are: nothing tests {', '.join(summary.unread)}"
        else:
            how = "the same specification with a larger “with_runs” goes on from here; “ksdp plan” says how large"
            if runs_to_decide is not None:
                enough, needed = summary.design.with_runs(runs_to_decide), count(runs_to_decide)
                more = f"Set “with_runs = {enough}” in the specification: the audit goes on from here, and about"
                more = f"With “with_runs={enough}” in the call, about" if in_python else more
                how = f"{count(summary.runs)} runs prove neither. {more} {needed} runs would decide half of them"
        steps.append(f"Do not take the {some} for safe: {how}.")
    if counts.clear == total:
        sign = f"ksdp clear {spec} --clearance FILE --key ME.key --who NAME"
        sign = "ksdp.clear(..., clearance=FILE, key=ME, who=NAME, store=FOLDER)" if in_python else sign
        steps.append(
            f"Sign what may be used, and give the clearance to those who run the protocol: “{sign}”. It holds for "
            "this setting and this corpus alone."
        )
    if summary.guarantee.kind == "(epsilon, delta)" and not summary.guarantee.protects:
        steps.append(
            "This audit simulated the noise. A real run needs the sampler “discrete”: “ksdp plan --party” writes "
            "it into the protocol file, and “ksdp party” refuses any other."
        )
    return steps


def _within_reach(summary: Summary, learning: GainAndAdvice | None, spec: str) -> str:
    """State the gain and time of a setting within the margin, with the command; or the advice that there is."""
    advice = None if learning is None else learning.advice
    if advice is None or (learning is not None and learning.recommended):
        outlook = (None if learning is None else learning.outlook) or {}
        first = f"{outlook['remedy']} " if outlook.get("remedy") else ""
        takes = count(round(outlook.get("seconds", 5)))
        made = " (“ksdp init” makes it of a file with these data)" * summary.spec.corpus.in_memory
        return (
            f"{first}“ksdp advise {spec}”{made} looks for a setting within the margin that still gains, proofs "
            f"first. It takes about {takes} CPU seconds, and as long as three audits like this one "
            f"({3 * summary.seconds:.0f} s) more if nothing is proved. It writes a spec that “ksdp clear” signs, "
            "and says what is kept of the gain; or it says why there is none."
        )
    finding = " ".join((advice["sentences"][0], *advice["gain"]["sentences"][:1]))
    if advice["best"] is None:
        return f"“ksdp advise” found: {finding} {advice['sentences'][-1]}"
    sign = next(step["command"] for step in advice["commands"] if step["command"].startswith("ksdp clear"))
    return f"“ksdp advise” found: {finding} Next: “{sign}”"


def _documents(number: float) -> str:
    return plural(number, "document", "documents")


def paper_alone(summary: Summary) -> str:
    """State what the paper's own statistics would have decided, with the same correction."""
    alone, every = summary.paper_alone, summary.detected
    assert alone is not None
    names, detected = alone.statistics, alone.detected
    which = f"{'statistic' if len(names) == 1 else f'{len(names)} statistics'} alone ({', '.join(names)})"
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
    """State what the paper's practice, the smallest p without any correction, would have decided."""
    alone, level, total = summary.paper_alone, summary.spec.decision.level, summary.documents
    assert alone is not None
    more = "" if len(alone.statistics) == 1 else " or more (each further statistic adds some)"
    return (
        f"The paper’s practice, the smallest p-value compared with {level:g} without any correction, would have "
        f"named {count(alone.uncorrected_below_level)}. That number proves little: of {_documents(total)} "
        f"that leak nothing, this rule names about {count(level * total)}{more}."
    )


def reach(view: AuditModel) -> list[str]:
    """State what an audit of this size can detect, and what it can show to be clear."""
    power, margin = view.result.summary.power, decimal(view.result.summary.spec.decision_in_run.margin)
    detectable, certified = power.detectable_D, power.certifiable_margin
    sentences = ["With this few runs, no leak of a single document is sure to be detected."]
    if detectable < 1:
        sentences = [
            f"An audit of this size detects a leak of advantage {decimal(detectable)} in 8 of 10 cases, even if "
            "no other document leaks. Smaller leaks are detected where many documents leak. A detected leak is "
            "sensitive only if it is proved to be above the margin."
        ]
    if view.result.summary.all_proved:
        sentences.append("A proof makes every document clear; the runs only check it.")
    elif certified < view.result.summary.spec.decision_in_run.margin:
        sentences.append(
            f"The smallest margin at which it can call anything clear is {decimal(certified)}, and {margin} was "
            "asked for: documents of a small enough D can be cleared."
        )
    else:
        size = f"is {decimal(certified)}" if certified < 1 else "is above 1"
        sentences.append(
            f"The smallest margin at which it can call anything clear {size}, and {margin} was asked for: with "
            "this many runs hardly any document could be cleared, however little it leaks."
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
    """Both bounds as numbers of documents; the upper one also as a share, rounded up to stay a bound."""
    fewest, most = (round(part * population) for part in (low, high))
    at_least = f"at least {count(fewest)} and " if fewest else ""
    return f"{at_least}at most {count(most)} ({math.ceil(100 * high - 1e-9)} %) have"


def drawn_share(summary: Summary) -> str | None:
    """State what the documents that were drawn say of all of them; None if none were drawn."""
    share = summary.share
    if share is None:
        return None
    unit, margin = summary.design.unit, summary.spec.decision_in_run.margin
    leak = f"an advantage above {decimal(margin)}" if margin else "a leak"
    return (
        f"The {count(share.drawn)} {unit}s are drawn at random from {count(share.population)}. Of all of these, "
        f"{_bounds(share.low, share.high, share.population)} {leak}. This range is wrong in at most one of "
        f"{count(1 / share.level)} audits; errors of the verdicts and of the draw are both counted."
    )


def title(mechanism: str) -> str:
    """A mechanism's name as the papers print it."""
    if not mechanism.startswith("pd-"):
        return mechanism
    name, *more = mechanism.split(" ", 1)
    return " ".join(["-".join(p.upper() if len(p) <= 3 else p.capitalize() for p in name.split("-")), *more])


def called(summary: Summary) -> str:
    """The mechanism of an audit as a person would name it."""
    return title(mechanism_of(summary.mechanism, summary.spec))


def explored(summary: Summary) -> str:
    """Warning about an audit on which nothing may rest; empty for any other."""
    if summary.spec.planted:
        return "Leaks were planted in what runs announced, to see whether they are found: no verdict may be used."
    if not summary.spec.statistics.explored:
        return ""
    if summary.spec.statistics.runs_of is not None:
        return (
            "Edited versions: the runs held the documents themselves, and D is what somebody learns of these who "
            "knows the versions alone. Nothing is decided."
        )
    return (
        "Explored: these statistics were named after the runs had been seen, so that nothing is decided. A "
        "verdict takes fresh runs: audit with these statistics.names and another seed."
    )


def margin_words(summary: Summary) -> str:
    """Name the limits, and whose advantage they refer to if not everybody's."""
    return f"{summary.spec.decision_in_run.limits}{' within a run' if summary.spec.draw_sentence else ''}"


def meaning(summary: Summary, verdict: str) -> str:
    """Meaning of a verdict."""
    word = next(word for word in Verdict if word == verdict)
    if word.may_enter and proof_of_all(summary):
        return f"No attack of any kind has an advantage above {margin_words(summary)}, if {grounds(summary)}."
    return word.meaning.format(margin=margin_words(summary))


def correction(summary: Summary) -> str:
    """State what the level promises."""
    rule = summary.spec.decision_in_run
    level, margin = percent(rule.level), margin_words(summary)
    clear = percent(summary.spec.level_of_clear)
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
        "Benjamini–Yekutieli; for clear as Blanchard and Roquain reshaped it)"
    )


def proof_of_all(summary: Summary) -> BoundSummary | None:
    """The bound that makes every document clear; None where a test was needed, or something is not clear."""
    bounds = summary.bounds if summary.all_proved else ()
    return next((bound for bound in bounds if bound.certified == summary.documents), None)


def proved_limit(summary: Summary) -> str | None:
    """The bound that makes every document clear; None where a test was needed, or something is not clear."""
    proof, drawn = proof_of_all(summary), summary.spec.corpus.levers.drawn
    if proof is None:
        return None
    if proof.by == ProvedBy.DRAW and drawn is not None:
        return f"at most {at_most(drawn)} of what is held"
    return f"at most {at_most(proof.largest)}"


def how_sure(summary: Summary) -> str:
    """How often verdicts are wrong, by tests or by a proof."""
    proof = proof_of_all(summary)
    if proof is None:
        either = ", or a bound on every attack," if summary.verdicts.every_attack else ""
        return (
            f"The promise behind the verdicts: {correction(summary)}. A document is clear only where a test under "
            f"every statistic{either} proves its advantage to be below the margin."
        )
    if proof.level:
        return f"No test decided: all bounds of every attack hold together, {percent(1 - proof.level)} sure."
    return "No test decided: every document is clear by a proof, which chance cannot make wrong."


def headline(summary: Summary) -> str:
    """The result in one sentence."""
    name, total = called(summary), summary.documents
    word = summary.design.unit
    everything = plural(total, word, f"{word}s")
    verdicts, rule = summary.verdicts, summary.spec.decision_in_run
    if not summary.valid:
        return f"This audit of {name} is void: nothing can be said about any of its {everything}."
    if verdicts.sensitive:
        better = f"with an advantage above {margin_words(summary)}" if rule.margin else "better than chance"
        each = "each of them" if verdicts.sensitive > 1 else "it"
        wrong = (
            f"Of such findings at most {percent(rule.level)} are expected to be wrong (false discovery rate)."
            if rule.error == "fdr"
            else f"The chance that any such finding is wrong is at most {percent(rule.level)} (family-wise error)."
        )
        return (
            f"{name} gives away {count(verdicts.sensitive)} of {everything}: anybody who sees what it "
            f"announces can tell {better} whether {each} took part. {wrong}"
        )
    if summary.all_proved:
        return (
            f"All {everything} are clear: no attack of any kind on {name} has an advantage above "
            f"{summary.spec.decision.limits}, if {grounds(summary)}."
        )
    if verdicts.clear == total:
        return (
            f"All {everything} are clear of {name}: under every statistic tried, the advantage of an "
            f"adversary is proved to be below {margin_words(summary)}."
        )
    remaining, called_so = verdicts.left
    verb = "is" if remaining == 1 else "are"
    some = f"all {count(total)} are" if remaining == total > 1 else f"{count(remaining)} of {count(total)} {verb}"
    return (
        f"No {word} was proved to be given away by {name}, but {some} {called_so}: there, this audit "
        f"proves neither that an advantage is above {margin_words(summary)} nor that it is below."
    )


def advantage_means(distance: float) -> str:
    """Explain what an advantage of this size lets an adversary do."""
    return (
        f"An advantage of {decimal(distance)} means: with the best threshold, an adversary says “it took part” "
        f"{100 * distance:.0f} percentage points more often when the document did take part than when it did not. "
        "Were taking part a coin toss, this adversary would be right about "
        f"{50 + 50 * distance:.0f} times in 100 instead of 50."
    )


def fresh(summary: Summary) -> list[str]:
    """State what the documents with a detected leak give away on fresh runs; empty if there were none."""
    check = summary.fresh
    if not check:
        return []
    level = summary.spec.decision.level
    single = check.documents == 1
    detected = "1 document with a detected leak was" if single else f"{count(check.documents)} documents were"
    runs = f"{count(check.runs)} fresh runs ({count(check.n_with_median)} with each)"
    confirmed = f"{count(check.confirmed)} of {count(check.documents)} are confirmed"
    return [
        "A leak is detected by the largest of many measured values, which is too large on average. So "
        f"the {detected} measured again on {runs}, by the statistic and the threshold that the first runs chose. "
        f"There the advantage of half of them is at least {decimal(check.median_advantage)}; {confirmed} (each "
        f"by itself, at {percent(level)}).",
        _rarely_wrong(check.median_tpr_at_fpr_01) + _broken_promise(check.epsilon_low, level),
    ]


def layers(summary: Summary) -> list[tuple[str, list[str]]]:
    """The risk in three layers, which no single number stands for; empty where the audit is void."""
    if not summary.valid:
        return []
    risk, unit = summary.risk.measured, summary.design.unit
    margin = decimal(risk.margin)
    if summary.all_proved:
        measured = [f"A proof bounds the advantage of every attack on each {unit} by the margin, {margin}."]
    else:
        largest = f"The largest measured advantage of one {unit} is {decimal(risk.largest)}."
        measured = [f"{largest} As the largest of many it is too large on average. The margin is {margin}."]
    if risk.median is not None:
        half = f"half of the {unit}s with a detected leak have {decimal(risk.median)} or more"
        measured.append(f"On fresh runs, {half}. {_rarely_wrong(risk.median_tpr_at_fpr_01)}")
    unsaid = "Not computed: “prior” in “[declared]” of the spec would say how sure an attacker is before looking."
    combined = precise(summary) or [unsaid]
    return [("Measured", measured), ("Declared", list(_declared(summary))), ("Combined", combined)]


def _declared(summary: Summary) -> Iterator[str]:
    stated = summary.spec.declared
    if stated.prior is not None:
        yield f"Before looking, the attacker gives a document a chance of {percent(stated.prior)} to take part."
    if stated.people is not None:
        yield f"People concerned: {count(stated.people)}."
    if harm := stated.text("harm"):
        yield f"Harm: {harm.rstrip('.')}."
    if missing := [name for name in ("prior", "people", "harm") if not stated.all[name]]:
        yield f"Not declared: {', '.join(missing)}."


def precise(summary: Summary) -> list[str]:
    """How often an attacker is right, by the declared prior: first at most, then as measured; empty without."""
    risk = summary.risk
    combined = risk.combined
    if combined is None:
        return []
    prior = summary.spec.declared.prior or 0.0
    attack = "attack" if proof_of_all(summary) else "attack that was tried"
    lines = [
        f"At most, for a document within the margin, as every clear one is: no {attack} that guesses whether it "
        f"took part is right more than {percent(combined.at_margin)} of the time; without looking, "
        f"{percent(max(prior, 1 - prior))} is possible. If the attacker accuses 1 % or more of those that took no "
        f"part, at most {percent(combined.at_margin_fpr_01)} of the accusations are right; without looking, "
        f"{percent(prior)}. Whoever accuses fewer may be right more often: no number here bounds that."
    ]
    rates = (
        ("for the document that the first runs showed most", combined.proved),
        ("for half of the detected", combined.median),
    )
    if reached := ", ".join(f"{percent(right)} {whom}" for whom, right in rates if right is not None):
        rare = combined.median_at_fpr_01
        rarely = "" if rare is None else f"; with 1 % false alarms, {percent(rare)} for half of the detected"
        lines.append(
            f"Reached by the best attack that was tried: of its accusations are right at least {reached}{rarely}. "
            "That is no upper limit: another attack may do better."
        )
    if combined.exposed is not None and combined.undecided is not None:
        also = f", and {count(combined.undecided)} more may be" if combined.undecided else ""
        lines.append(
            f"Of {count(summary.spec.declared.people or 0)} people, about {count(combined.exposed)} are exposed "
            f"above the margin{also}, if all have equally many documents."
        )
    return lines


def _broken_promise(epsilon: float, level: float) -> str:
    if epsilon < 0.005:
        return ""
    return (
        f" For the document that the first runs showed most, a promise of differential privacy with epsilon below "
        f"{decimal(epsilon)} (delta 0) would be false, with a confidence of {percent(1 - level)}."
    )


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
        f"after {count(look.runs)} runs {look.verdicts.words} of {count(look.tested)} open" for look in made
    )
    spared = len(planned) - len(made)
    saved = f" The last {plural(spared, 'look was', 'looks were')} not needed." if spared else ""
    return (
        f"The audit looked {plural(len(made), 'time', 'times')}, each at its own part of the level, planned "
        f"beforehand: {decided}.{saved}"
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
    """Describe which documents are in which run."""
    rows, runs = _documents(summary.design.party_rows), count(summary.runs)
    least, _, most = summary.design.n_with
    share = percent(summary.design.share)
    arm = count(most) if least == most else f"{count(least)} to {count(most)}"
    others = "all others"
    if summary.design.every > 1:
        others = (
            "a part of the others, drawn from the seed beforehand so that all that are compared are one run in "
            f"{summary.design.every}"
        )
    kinds = {
        "shared": (
            f"Shared: every run draws {rows} at random from the whole corpus as the victim’s database, each "
            f"document with probability {share}. The same {runs} runs serve every document: compared are the "
            f"{arm} runs that drew it and {others}."
        ),
        "balanced": (
            "Balanced: each audited document is in every run with probability one half, and other documents, "
            f"drawn at random, fill the victim’s database up to {rows}. A document is in {arm} of {runs} "
            "runs, which are compared with the others."
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
    if not honest and not coalition:
        return "Worst case assumed: no other data hides the victim’s, and all that others announce is known."
    hides = "No data of honest parties is in the runs, so nothing helps to hide the victim’s"
    if honest:
        verb = "is" if honest == 1 else "are"
        hides = (
            f"{plural(honest, 'row', 'rows')} of honest parties {verb} in every run and help to hide the victim’s"
        )
    holds = "what the coalition announces is known"
    if coalition:
        holds = (
            f"the coalition’s own {plural(coalition, 'row is', 'rows are')} in every run, and its share is "
            "subtracted from every announced sum"
        )
    return f"{hides}; {holds}."


def adversary(summary: Summary) -> str:
    """Describe the adversary."""
    rest = "the honest parties’ and the victim’s" if summary.design.honest_rows else "the victim’s"
    premises = f"They know the suspected document in full and how the mechanism works. {_others_known(summary)}"
    if summary.spec.statistics.sees == "final":
        return f"Somebody who is given the final output and nothing else that is announced. {premises}"
    if summary.opens == "final":
        return (
            "Whoever sees what a run opens at its end, and nothing else: everybody who takes part, as long as no "
            "two of the three parties that compute put together what they hold. Two of these would see the data "
            f"itself: this audit says nothing of that. {premises}"
        )
    if (proof := proof_of_all(summary)) is not None and proof.any_knowledge:
        return f"Whoever sees what is announced, and does not do what the proof trusts them not to do. {premises}"
    return (
        "The strongest that keeps to the protocol: all parties but the honest ones of the spec pool what they "
        "see, subtract everything that is theirs from what is announced, and are left with a view of "
        f"{rest} data alone. {premises}"
    )


def _others_known(summary: Summary) -> str:
    premise = "They do not know which other documents the victim holds: those are random here."
    if (proof := proof_of_all(summary)) is not None and proof.any_knowledge:
        return f"{premise} The proof assumes nothing of that: it holds whatever they know."
    if summary.design.kind != "shared":
        return premise
    more = (1.0 - summary.design.share) ** -0.5
    return (
        f"{premise} They do know all that these are drawn from: a run holds {percent(summary.design.share)}. If "
        f"they did not, attacks by averages would have an advantage smaller by a factor of up to {more:.2f} "
        "(arXiv 2605.25819), and attacks by equations an even smaller one (`design.pool` measures it)."
    )


def pool_known(summary: Summary, measured: tuple[int, float, float] | None) -> str:
    """State what knowing the pool is worth, if a spec asks."""
    if summary.spec.design.pool is None:
        return ""
    if measured is None:
        return "The same spec without `design.pool`, audited in this store, measures those who do not know it."
    documents, here, there = measured
    return (
        f"Measured, as the median D of {plural(documents, 'document', 'documents')} in both audits: "
        f"{decimal(here)} for who knows the pool, {decimal(there)} for who knows the corpus alone. The verdicts "
        "are of the first."
    )
