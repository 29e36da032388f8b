"""The documents that a search draws."""

from __future__ import annotations

import numpy as np

from ksdp.audit.design import as_rows
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.screening.rounds import search_seed
from ksdp.audit.spec import Spec


def pool_size(spec: Spec, documents: int) -> int:
    """Documents that the victim's databases are drawn from."""
    held = (spec.parties.honest, spec.parties.coalition)
    return documents - sum(as_rows(size, documents) for size in held if size is not None)


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
