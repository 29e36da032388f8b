"""A vocabulary agreed by counts of documents: from parties' files, in one process, to what the audit simulates."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database
from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.mechanisms.counted import Counted
from ksdp.audit.registry import make_mechanism
from ksdp.audit.specs.models import parse_spec
from ksdp.flows.runs.budget import open_guard
from ksdp.flows.runs.protocol_files import Run
from ksdp.flows.screening.clear import verify
from ksdp.protocols.programs.programs import check_program, sum_entries
from ksdp.protocols.programs.protocol_file import parse_run_spec
from ksdp.protocols.programs.share_terms import needs_norms
from ksdp.storage.corpora import load_corpus
from ksdp.storage.keys import make_identity
from ksdp.storage.readers.spec_files import read_spec_file

from ...typed import typed
from .entering import NOW, agreed, enter, run_of, signed_clearance

NAMES = ("ada", "bob", "cal")
TERMS = [f"t{place:02d}" for place in range(14)]
LEAST = 12
POWER = {"rank": 2, "solver": "power", "iterations": 40, "tolerance": 0.0}
CORPUS = {"vocabulary": "words.txt", "weighting": "counts", "rows": "l2"}
INSIDE: dict[str, dict[str, Any]] = {
    "sigma-svd": POWER,
    "pd-svd": POWER | {"iterations": 3},
    "pd-pca": POWER | {"reveal_sigma": True},
    "pd-nmf": {"rank": 2, "sweeps": 8, "tolerance": 0.0},
    "nnsvd": {"rank": 2, "sweeps": 4, "tolerance": 0.0, "start": "nnsvd"},
}


def counted(inside: str, least: int = LEAST) -> dict[str, Any]:
    name = "pd-nmf" if inside == "nnsvd" else inside
    return {"name": "counted", "mechanism": name, "at_least": least, "parameters": INSIDE[inside]}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    rng = np.random.default_rng(7)
    for name in NAMES:
        make_identity(tmp_path, name)
        rows = rng.poisson(2.0, (20, len(TERMS))) * (
            rng.random((20, len(TERMS))) < np.linspace(0.8, 0.05, len(TERMS))
        )
        rows[:, 0] += 1
        sp.save_npz(tmp_path / f"{name}.npz", sp.csr_array(rows.astype(float)))
    (tmp_path / "words.txt").write_text("".join(f"{term}\n" for term in TERMS))
    return tmp_path


@pytest.mark.parametrize("inside", INSIDE)
def test_a_run_is_what_the_audit_simulates(base: Path, inside: str) -> None:
    run = agreed(base, NAMES, CORPUS, counted(inside))
    entered = {name: enter(run, base, name) for name in NAMES}
    rows = {name: each.corpus.matrix for name, each in entered.items()}
    outcomes = run_of(run, base, entered)
    public = outcomes["ada"].result.public
    table = counted(inside)
    simulated = make_mechanism("counted", {key: value for key, value in table.items() if key != "name"})
    ideal = simulated.run(Database(tuple(rows.values())), np.random.default_rng(0))
    obvious = sum((part.toarray() != 0).sum(axis=0) for part in rows.values())
    np.testing.assert_array_equal(public["document_counts"], obvious)
    np.testing.assert_array_equal(public["kept_columns"], obvious >= LEAST)
    assert 3 < public["kept_columns"].sum() < len(TERMS)
    # PD-SVD on three iterations has not converged; who hides norms pays for every one.
    names = {"pd-svd": (), "pd-nmf": ("T", "numerators"), "nnsvd": ("T",)}.get(inside, ("V", "sigma"))
    for name in names:
        np.testing.assert_allclose(public[name], ideal[name], rtol=0, atol=2e-3, err_msg=name)
    for name in set(public) & {"V", "T", "mean"}:
        assert public[name].shape[-1] == len(TERMS)
        assert not public[name][..., public["kept_columns"] == 0].any()
        assert public[name].any()
    assert len({outcome.digest for outcome in outcomes.values()}) == 1
    assert {outcome.sums for outcome in outcomes.values()} == {outcomes["ada"].sums}
    assert outcomes["ada"].sums >= 1


def test_the_widest_sum_is_that_of_the_candidates() -> None:
    mechanism = Counted("pd-nmf", parameters={"rank": 2})
    assert sum_entries(mechanism, 30) >= 30
    assert sum_entries(Counted("sigma-svd", parameters=POWER), 30) >= 60
    assert needs_norms(Counted("pd-svd", parameters=POWER))
    assert not needs_norms(Counted("sigma-svd", parameters=POWER))


def test_what_parties_cannot_run_is_refused_as_it_is_alone() -> None:
    with pytest.raises(SpecError, match="`solver` must be 'power'"):
        check_program(Counted("pd-svd", parameters={"rank": 2}))


def test_the_protocol_file_says_what_the_spec_says(base: Path) -> None:
    agreed(base, NAMES, CORPUS, counted("pd-pca"))
    tables = tomllib.loads((base / "protocol.toml").read_text())
    assert tables["mechanism"]["parameters"] == INSIDE["pd-pca"]
    spec = parse_run_spec(tables)
    assert spec.mechanism.parameters["at_least"] == LEAST


def test_verify_and_the_ledger_name_what_is_counted_before(base: Path) -> None:
    run = agreed(base, NAMES, CORPUS, counted("sigma-svd"))
    whole = enter(run, base, "ada")
    clearance = cleared(run, base, whole, run.terms.mechanism)
    words = f"sigma-svd, columns in {LEAST} documents or more"
    about = verify(clearance, now=NOW)
    assert (about["mechanism"], about["computes"]) == ("counted", words)
    open_guard(run, whole.corpus.hash, 15, base / "ada.ledger", None, lambda: NOW).begin()
    assert words in typed("budget", base / "ada.ledger").output
    plain = cleared(run, base, whole, make_mechanism("sigma-svd", POWER))
    assert verify(plain, now=NOW)["computes"] is None


def test_a_run_that_keeps_too_few_columns_ends_at_every_party(base: Path) -> None:
    run = agreed(base, NAMES, CORPUS, counted("sigma-svd", 59))
    entered = {name: enter(run, base, name) for name in NAMES}
    with pytest.raises(CorpusError, match="`at_least` = 59 leaves 1 of 14 columns, too few for sigma-svd"):
        run_of(run, base, entered)


def cleared(run: Run, base: Path, whole: Any, mechanism: Any) -> Path:
    """A clearance of ada's first 15 documents, of an audit of this mechanism."""
    spec = read_spec_file(base / "ada.toml")[0]
    shown = load_corpus(parse_spec(spec.model_dump(mode="json")).corpus, base, nonnegative=False)
    path = base / f"{mechanism.name}-{getattr(mechanism, 'at_least', 0)}.clearance"
    return signed_clearance(path, spec, shown, mechanism, whole.mine.ids[:15])
