"""Workers that see nothing of the client's store: the same blocks, tests and pairs by URL, bit for bit."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.errors import InputError, StoreError, Unreachable
from ksdp.audit.verdicts.looks import FRESH, Stage, fresh_seed
from ksdp.flows.prepare import Prepared, prepare_stored
from ksdp.storage.audits.stages import write_stage
from ksdp.storage.remote import place_at
from ksdp.storage.remote_audits import keep_blocks_at, publish_audit
from ksdp.storage.store import Store
from ksdp.tasks import remote
from ksdp.tasks import slices as tested
from ksdp.tasks.audit_ref import folders_of, open_plan
from ksdp.tasks.blocks import all_whole, compute_block
from ksdp.tasks.remote import at_worker, computing_versions, published

from ..plans import planned


@pytest.fixture
def corpus() -> Corpus:
    rng = np.random.default_rng(2)
    counts = rng.poisson(0.4, size=(40, 25)).astype(float)
    counts[:, 0] += 1
    party = np.array(["a", "b"] * 20)
    return Corpus(canonical(sp.csr_array(counts)), np.array([f"d{i}" for i in range(40)]), party)


@pytest.fixture
def url() -> str:
    return f"memory://away-{os.urandom(6).hex()}"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where workers keep what they fetch."""
    monkeypatch.setenv("KSDP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def prepared(corpus: Corpus, store: Path, url: str | None = None) -> Prepared:
    alone, cluster = {"families": [], "names": ["row-space-energy"]}, {"cluster": {"blocks": url}} if url else {}
    plan = planned(corpus, seed=3, design={"party_size": 10, "with_runs": 30}, statistics=alone, **cluster)
    return prepare_stored(plan, store, may_sample=True)


def on_workers(ready: Prepared, corpus: Corpus) -> list[Any]:
    """All blocks and tests of the first look, then the fresh runs' blocks, as workers do them."""
    whole = ready.plan
    stage = Stage(FRESH, fresh_seed(whole.design.seed), 20, whole.audited[3:9], ("row-space-energy",))
    write_stage(Store(Path(ready.ref.store)).audit(ready.ref.audit), stage)
    found: list[Any] = []
    for ref, of in (
        (ready.ref, compute_block),
        (ready.ref, tested.test_slice),
        (ready.ref.at(FRESH), compute_block),
    ):
        plan = open_plan(ref)
        parts = [(ref, part) for part in (plan.blocks if of is compute_block else tested.slices(plan))]
        if published(parts):
            found += [at_worker(computing_versions(), of, *some) for some in parts]
        else:
            found += [of(*some) for some in parts]
    return found


def test_workers_without_the_store_give_the_same(corpus: Corpus, url: str, cache: Path, tmp_path: Path) -> None:
    near, far = prepared(corpus, tmp_path / "near"), prepared(corpus, tmp_path / "far", url)
    assert near.ref.audit == far.ref.audit  # who computes it is no part of what is computed
    here, there = (on_workers(ready, corpus) for ready in (near, far))
    tests = [[part.tests for part in found if hasattr(part, "tests")] for found in (here, there)]
    for a, b in zip(*tests, strict=True):
        assert np.array_equal(a.distance, b.distance)
        assert np.array_equal(a.log10_p, b.log10_p)
    assert not list((tmp_path / "far").glob("runs/*/**/*.parquet"))
    files = sorted(p for p in (tmp_path / "near").glob("runs/*/**/*.parquet"))
    assert len(files) >= 4
    for file in files:
        place = place_at(url)
        for part in file.relative_to(tmp_path / "near").parts:
            place = place / part
        assert place.read_bytes() == file.read_bytes()
    assert all_whole(far.ref)
    folder = folders_of(far.ref).values
    (folder / "000000-0000000-0000120.parquet").unlink()
    assert not all_whole(far.ref)


def test_a_workers_corpus_is_the_one_that_was_asked_for(
    corpus: Corpus, url: str, cache: Path, tmp_path: Path
) -> None:
    ready = prepared(corpus, tmp_path / "store", url)
    publish_audit(Store(tmp_path / "store"), ready.ref.audit, ready.ref.corpus)
    other = corpus.matrix.data.copy()
    other[0] += 1
    file = place_at(url) / "corpora" / Store(tmp_path).corpus(ready.ref.corpus).name / "data.npy"
    file_content = file.read_bytes()
    header = len(file_content) - other.nbytes
    changed = file_content[:header] + other.astype(corpus.matrix.data.dtype).tobytes()
    place_write(file, changed)
    with pytest.raises(StoreError, match="is not the one that its hash names"):
        at_worker(computing_versions(), compute_block, ready.ref, ready.plan.blocks[0])
    place_write(file, file_content)
    assert at_worker(computing_versions(), compute_block, ready.ref, ready.plan.blocks[0]).how == "sampled"
    assert not list((cache).glob("*/corpora/.*"))


def place_write(place: Any, content: bytes) -> None:
    place.write_whole(lambda part: part.write_bytes(content) and None)


def test_a_worker_of_another_version_computes_nothing(
    corpus: Corpus, url: str, cache: Path, tmp_path: Path
) -> None:
    ready = prepared(corpus, tmp_path / "store", url)
    published([(ready.ref,)])
    wanted = computing_versions() | {"numpy": "0.0"}
    with pytest.raises(InputError, match=r"numpy .* \(here 0\.0\)"):
        at_worker(wanted, compute_block, ready.ref, ready.plan.blocks[0])
    assert {"ksdp", "code", "numpy", "scipy", "numba"} <= set(computing_versions())


def test_a_url_that_is_gone_for_a_while_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(remote.time, "sleep", slept.append)
    answers = iter([Unreachable("gone"), Unreachable("gone"), None])

    def asked(what: str) -> str:
        if (error := next(answers, Unreachable("gone"))) is not None:
            raise error
        return what

    assert at_worker(computing_versions(), asked, "there") == "there"
    assert slept == [0.5, 2.0]
    with pytest.raises(Unreachable):
        at_worker(computing_versions(), asked, "never")
    assert slept == [0.5, 2.0, 0.5, 2.0, 8.0, 30.0]


def test_blocks_that_a_store_has_move_with_it(corpus: Corpus, url: str, cache: Path, tmp_path: Path) -> None:
    before = prepared(corpus, tmp_path / "store")
    done = [compute_block(before.ref, block).how for block in before.plan.blocks]
    after = prepared(corpus, tmp_path / "store", url)
    published([(after.ref,)])
    again = [at_worker(computing_versions(), compute_block, after.ref, block).how for block in after.plan.blocks]
    assert (set(done), set(again)) == ({"sampled"}, {"cached"})
    with pytest.raises(InputError, match="name that one, or another store"):
        keep_blocks_at(Store(tmp_path / "store"), "memory://elsewhere")
    # Whoever names nothing finds them where they are.
    assert prepared(corpus, tmp_path / "store").ref.blocks == url
