"""Screens of corpora that leak nothing, replayed: all rounds together flag at the stated rate and no more.

A screen stops at its first round that flags nothing, which is nearly always the first here. The promise is for
every way to go on, so all rounds are run: what was flagged is left out, and after the first round also the
documents with the larger D, as if they were undecided and a proof followed.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus, canonical, restrict
from ksdp.audit.plan import CONTROLS
from ksdp.audit.planning import make_plan
from ksdp.audit.sampling import measure, sample
from ksdp.audit.screening.rounds import round_spec
from ksdp.audit.specs.design import Block
from ksdp.audit.specs.models import parse_spec
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.decide import decide
from ksdp.audit.verdicts.laws import ArmTests

pytestmark = pytest.mark.validity

SCREENS = 300
ROUNDS = 3
LEVEL = 0.2


def documents() -> Corpus:
    rng = np.random.default_rng(4)
    matrix = canonical(sp.csr_array(rng.poisson(0.7, (24, 12)) + np.eye(24, 12)))
    return Corpus(matrix, np.array([f"d{row}" for row in range(24)]))


def audit(mechanism: str, seed: int, number: int, corpus: Corpus, whole: int) -> tuple[ArmTests, np.ndarray]:
    """One round, as the flow runs it, and which documents it flags at its share of the level."""
    spec = parse_spec(
        {
            "seed": seed,
            "corpus": {"path": "x"},
            "mechanism": {"name": mechanism, "rank": 2},
            "design": {"party_size": 8, "with_runs": 30},
            "statistics": {"families": [], "names": ["row-space-energy"]},
            "decision": {
                "error": "fwer",
                "level": LEVEL,
                "margin": 0.0,
            },  # any proved leak: what the level is about
        }
    )
    spec = round_spec(spec, number, ROUNDS, whole)
    plan = make_plan(spec, corpus)
    block = Block(0, 0, plan.runs)
    found = measure(plan, block, sample(plan, block), plan.statistics)
    tested = compare_arms(found.values, found.inclusion)[: len(found.inclusion) - CONTROLS]
    verdicts = decide(tested, spec.rule).verdict
    whole_level = spec.decision.model_copy(update={"level": LEVEL})
    loose = decide(tested, whole_level).verdict
    return tested, np.stack([verdicts == "sensitive", loose == "sensitive"])


def replay(mechanism: str, seed: int) -> np.ndarray:
    """Whether any round flagged anything: at its share of the level, and at all of it."""
    corpus = documents()
    whole, ever = len(corpus), np.zeros(2, dtype=bool)
    for number in range(1, ROUNDS + 1):
        tested, flagged = audit(mechanism, seed, number, corpus, whole)
        ever |= flagged.any(axis=1)
        largest = np.argsort(tested.distance.max(axis=1))[-4:] if number == 1 else []
        stay = np.setdiff1d(np.flatnonzero(~flagged[0]), largest)
        if len(stay) < 14:
            break
        corpus = restrict(corpus, stay)
    return ever


def test_screens_of_what_leaks_nothing_flag_at_most_at_their_level() -> None:
    ever = np.mean([replay("null", seed) for seed in range(SCREENS)], axis=0)
    print(f"screens of {ROUNDS} rounds that flag anything at level {LEVEL}:", ever[0], "unsplit:", ever[1])
    assert ever[0] <= LEVEL + 3 * np.sqrt(LEVEL * (1 - LEVEL) / SCREENS)
    # Not vacuous: with the whole level in every round, more are flagged than may be.
    assert ever[1] > ever[0]


def test_the_same_screens_find_what_leaks() -> None:
    ever = np.mean([replay("planted-leak", seed) for seed in range(5)], axis=0)
    assert ever[0] == 1
