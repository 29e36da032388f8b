"""The documents that a search draws, and what a party that is drawn alike learns."""

from __future__ import annotations

import math

import numpy as np
from pydantic.dataclasses import dataclass

from ksdp.audit.corpus import Corpus
from ksdp.audit.design import as_rows
from ksdp.audit.groups import make_units
from ksdp.audit.learning.quality import NotLearnt, learnt_residual
from ksdp.audit.planning import make_plan
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.registry import make_mechanism
from ksdp.audit.results.parts import FORMAT
from ksdp.audit.screening.rounds import search_seed
from ksdp.audit.spec import Spec

__all__ = ["LearningQuality", "learning_quality", "public_scale", "sampled_spec"]


@dataclass(frozen=True, config=FORMAT)
class LearningQuality:
    """`learnt_residual` of what all parties learn together, and of what one learns alone; None without a basis."""

    from_all: float | None
    from_a_party: float | None


def sampled_spec(spec: Spec, units: int, pool: int, drawn: int) -> Spec:
    """The spec that audits `drawn` documents, with runs that no round has seen.

    The design is balanced where the documents fit into half of the databases, shared elsewhere. Where the spec
    names documents, the sample is of those. `units` is how many there are in the whole corpus, `pool` how many of
    them the victim's databases are drawn from.
    """
    tables = spec.model_dump(mode="json")
    tables["seed"] = search_seed(spec.seed)
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


def public_scale(spec: Spec, corpus: Corpus) -> dict[str, float]:
    """Typical size of the entries of each announced array: the power of two nearest to the root mean square.

    From one database that is drawn like those of the audit and is none of them. It is written into the spec before
    the first run, the same for all runs, so that the size of the noise tells nothing of who is in a run.

    Raises
    ------
    SpecError
        If the spec does not fit the corpus.
    """
    plan = make_plan(spec, corpus)
    rng = generator(spec.seed, Purpose.SAMPLE, 2)
    pool = np.setdiff1d(np.arange(len(plan.units)), np.concatenate([plan.honest, plan.coalition]))
    drawn = np.sort(rng.choice(pool, plan.party_rows, replace=False))
    seen = plan.mechanism.run(plan.stacked(drawn), rng)
    sizes = {name: float(np.sqrt(np.mean(np.square(seen[name], dtype=np.float64)))) for name in sorted(seen)}
    return {name: 2.0 ** round(math.log2(size)) if size > 0 else 1.0 for name, size in sizes.items()}


def learning_quality(spec: Spec, corpus: Corpus, seed: int) -> LearningQuality | NotLearnt:
    """`learnt_residual` at a spec, of all parties together and of a party of its size alone.

    From one seed a larger party holds the smaller one.
    """
    mechanism = make_mechanism(spec.mechanism.name, spec.mechanism.parameters)
    units = make_units(corpus, spec.design.unit)
    size = as_rows(spec.design.party_size, len(units))
    party = units.rows(np.sort(generator(seed, Purpose.SAMPLE, 1).permutation(len(units))[:size]))
    try:
        return LearningQuality(
            from_all=learnt_residual(mechanism, corpus, seed),
            from_a_party=learnt_residual(mechanism, corpus, seed, kept=party),
        )
    except ValueError as error:
        return NotLearnt(str(error))
