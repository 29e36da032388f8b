"""Audits of a list by itself: who is in them, at which level, with how many runs. And audits of a sample."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ksdp.audit.corpus.groups import restrict_to, unit_names
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import SpecError
from ksdp.audit.plan import Plan
from ksdp.audit.randomness import Purpose, derived_seed, generator
from ksdp.audit.run_subsampling import more_runs
from ksdp.audit.specs.design import as_rows
from ksdp.audit.specs.models import Spec
from ksdp.audit.verdicts.margins import band_width

_SEARCH = 2**31
"""In the place of a round's number: no list is audited so often."""
_NARROWER = 0.9
"""Width of a round's bands over those of the audit before it. With equal widths, each round would leave out the
documents that only chance had put below the margin in the last one, and few would be left after some rounds."""


def list_corpus(plan: Plan, listed: Sequence[str]) -> tuple[Corpus, str | None]:
    """The corpus of a list's own audit: the listed documents, and those that other parties hold in an audit."""
    units, holdings, unit = plan.units, plan.holdings, plan.spec.design.unit
    others = np.concatenate([holdings.honest, holdings.coalition])
    corpus = restrict_to(plan.corpus, unit, [*listed, *units.ids[others].tolist()])
    if not len(others) or plan.spec.parties.me is not None:
        return corpus, None
    if len(holdings.honest) and len(holdings.coalition):
        raise SpecError(
            "`parties.honest` and `parties.coalition` draw their documents from the audited corpus, so that a "
            "part of it cannot be audited by itself: name the parties (`corpus.party`, `parties.me`)."
        )
    mine = np.isin(unit_names(corpus, unit), list(listed))
    return replace(corpus, party=np.where(mine, _ME, _OTHERS)), _ME


_ME, _OTHERS = "listed", "others"


def list_spec(plan: Plan, listed: int, number: int, me: str | None = None) -> Spec:
    """The spec of a list's own audit: fresh runs, half the level of the audit before, the same share in a run."""
    tables = plan.spec.tables_at_level(lambda level: level / 2)
    share = plan.holdings.size / drawn_from(plan)
    tables["seed"] = derived_seed(plan.spec.seed, Purpose.SCREEN, number)
    tables["design"] |= {
        "party_size": max(1, round(share * listed)),
        "documents": None,
        "pool": None,
        "with_runs": max(plan.spec.design.with_runs, runs_for_list(plan, listed)),
    }
    if me is not None:
        others = "colluding" if len(plan.holdings.coalition) else "fixed"
        tables["parties"] = {"me": me, "others": others}
    return Spec.model_validate(tables)


def runs_for_list(plan: Plan, listed: int) -> int:
    """Runs in the smaller arm of a list's own audit (`proof_runs`); it has half of the level of the one before."""
    level, statistics = plan.spec.decision.level, len(plan.statistics)
    each = level / (len(plan.audited) * statistics)
    # As strong as the tests, which may read a part of the runs; those of the list may do so, too.
    runs = plan.design.runs / more_runs(plan.design.share, plan.reading.every)
    with_runs = runs * plan.design.share
    arms = (round(with_runs), round(runs - with_runs), each)
    share = plan.holdings.size / drawn_from(plan)
    return proof_runs(arms, share, level / 2 / (listed * statistics))


def proof_runs(before: tuple[int, int, float], share: float, level: float) -> int:
    """Runs in the smaller arm at which a round's bands are nine tenths as wide as those of the audit before."""
    width = _NARROWER * _width(*before)
    ratio = max(share, 1 - share) / min(share, 1 - share)

    def narrow(runs: int) -> bool:
        return _width(runs, round(runs * ratio), level) <= width

    enough = 2
    while not narrow(enough):
        enough *= 2
    return 2 + bisect_left(range(2, enough), True, key=narrow)


def _width(n_with: int, n_without: int, level: float) -> float:
    return float(band_width(np.array([n_with]), np.array([n_without]), level)[0])


def drawn_from(plan: Plan) -> int:
    """Documents that the victim's databases are drawn from."""
    return len(plan.holdings.victim)


def pool_size(spec: Spec, documents: int) -> int:
    """Documents that the victim's databases are drawn from."""
    sizes = (spec.parties.honest, spec.parties.coalition)
    return documents - sum(as_rows(size, documents) for size in sizes if size is not None)


def sampled_spec(spec: Spec, units: int, pool: int, drawn: int) -> Spec:
    """The spec that audits `drawn` documents, with runs that no round has seen."""
    tables = spec.model_dump(mode="json")
    # None of a search's runs are those of an audit that decided whether to search.
    tables["seed"] = derived_seed(spec.seed, Purpose.SCREEN, _SEARCH)
    design, named = tables["design"], spec.design.documents
    rows = as_rows(spec.design.party_size, units)
    fits = drawn <= rows and pool // 2 <= pool - drawn and spec.design.sampling == "fixed"
    design["kind"] = "balanced" if fits and rows <= pool - drawn else "shared"
    design["party_size"] = rows
    design["documents"] = drawn
    if isinstance(named, tuple):
        rng = generator(spec.seed, Purpose.SAMPLE)
        design["documents"] = sorted(rng.choice(np.unique(named), drawn, replace=False).tolist())
    return Spec.model_validate(tables)
