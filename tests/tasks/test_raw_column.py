"""The learner on raw announcements through the store: the same as from announcements made again beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.errors import SpecError, StoreError
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.sampling import run_observables
from ksdp.audit.spec.design import Block
from ksdp.audit.spec.models import parse_spec
from ksdp.audit.statistics.learned import gram_of_runs
from ksdp.audit.verdicts.effects import Flagged
from ksdp.audit.verdicts.learned import raw_tests
from ksdp.audit.verdicts.looks import FRESH, Stage, fresh_seed
from ksdp.flows.prepare import Prepared, prepare_stored
from ksdp.storage.audits.stages import write_stage
from ksdp.storage.store import Store
from ksdp.tasks import slices as tested
from ksdp.tasks.audit_ref import open_plan
from ksdp.tasks.blocks import compute_block
from ksdp.tasks.slices import effects, slices


def prepared(folder: Path, **sections: Any) -> Prepared:
    """60 documents over 8 features, PD-NMF of rank 2, a party of 20."""
    rng = np.random.default_rng(2)
    corpus = Corpus(canonical(sp.csr_array(rng.gamma(0.6, size=(60, 8)))), np.array([f"d{i}" for i in range(60)]))
    tables: dict[str, Any] = {"seed": 3, "corpus": {"path": "x"}, "mechanism": {"name": "pd-nmf", "rank": 2}}
    tables |= {"design": {"party_size": 20, "with_runs": 80}, "store": {"observables": "all"}}
    tables |= {"statistics": {"families": [], "names": ["row-space-energy", "learned-raw"]}}
    return prepare_stored(make_plan(parse_spec(tables | sections), corpus), folder, may_sample=True)


def announced(plan: Plan) -> np.ndarray:
    runs = [run_observables(plan, 0, run) for run in range(plan.design.runs)]
    return np.stack([np.concatenate([run[name].ravel() for name in plan.seen]) for run in runs])


def test_the_stored_announcements_give_the_tests(tmp_path: Path) -> None:
    ready = prepared(tmp_path)
    for block in ready.plan.blocks:
        compute_block(ready.ref, block)
    found = tested.test_slice(ready.ref, slices(ready.plan)[0]).tests
    bits = ready.plan.design.inclusion(Block(0, 0, ready.plan.design.runs))
    assert [column.name for column in ready.plan.columns] == ["row-space-energy", "learned-raw"]
    expected = raw_tests(gram_of_runs(announced(ready.plan)), bits)
    np.testing.assert_allclose(found.distance[:60, 1], expected.distance[:, 0])
    np.testing.assert_allclose(found.log10_p[:60, 1], expected.log10_p[:, 0])
    assert found.learned is not None
    assert found.learned[0].tolist() == [False, True]
    # It does see documents here, so that a mix-up of runs would show.
    assert expected.log10_p.min() < -20


def test_fresh_runs_are_scored_by_the_filter_of_all_the_audits(tmp_path: Path) -> None:
    ready = prepared(tmp_path)
    stage = Stage(FRESH, fresh_seed(ready.plan.design.seed), 100, np.arange(5, 25), ("row-space-energy",))
    write_stage(Store(Path(ready.ref.store)).audit(ready.ref.audit), stage)
    fresh = ready.ref.at(FRESH)
    later = open_plan(fresh)
    for ref, plan in ((ready.ref, ready.plan), (fresh, later)):
        for block in plan.blocks:
            compute_block(ref, block)
    rows = (7, 20)
    found = effects(ready.ref, fresh, slices(later)[0], [Flagged(row, "learned-raw") for row in rows]).effects

    runs, more = ready.plan.design.runs, later.design.runs
    own, new = (p.design.inclusion(Block(0, 0, p.design.runs)) for p in (ready.plan, later))
    both = np.concatenate([announced(ready.plan), announced(later)])
    gram = gram_of_runs(both, np.flatnonzero(np.arange(runs) // 2 % 5 == 0))
    for effect, row in zip(found, rows, strict=True):
        bits = np.concatenate([own[row], new[row - 5]])[None, :]
        inner = gram[:runs, :runs]
        centre = np.eye(runs) - 1 / runs
        kernel = centre @ inner @ centre
        system = kernel + 0.1 * np.trace(kernel) / runs * np.eye(runs)
        y = bits[0, :runs] - bits[0, :runs].mean()
        weights = np.linalg.solve(system, y)
        left_out = y - weights / np.diag(np.linalg.inv(system))
        held = bits[0, :runs]
        threshold = (left_out[held].mean() + left_out[~held].mean()) / 2
        across = gram[runs:, :runs] - inner.mean(axis=0)
        hits = across @ (centre @ weights) > threshold
        there = bits[0, runs:]
        assert effect.advantage == pytest.approx(hits[there].mean() - hits[~there].mean())
        assert (effect.n_with, effect.n_without) == (there.sum(), more - there.sum())


def test_announcements_that_are_not_kept_or_too_many_are_refused(tmp_path: Path) -> None:
    for kept in ("none", "last"):
        with pytest.raises(SpecError, match=r"store\.observables.*every announced array"):
            prepared(tmp_path, store={"observables": kept})
    with pytest.raises(SpecError, match="at most 8192 runs"):
        prepared(tmp_path, design={"party_size": 20, "with_runs": 3000})


def test_a_store_without_them_says_so(tmp_path: Path) -> None:
    ready = prepared(tmp_path)
    for block in ready.plan.blocks:
        compute_block(ready.ref, block)
    for path in tmp_path.rglob("observables/*.parquet"):
        path.unlink()
    with pytest.raises(StoreError, match="not in the store"):
        tested.test_slice(ready.ref, slices(ready.plan)[0])
