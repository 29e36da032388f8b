"""PD-PCA and the safe mechanism with levers: from parties' files, in one process, to what the audit simulates."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database
from ksdp.audit.corpus.matrix import weighed
from ksdp.audit.errors import ClearanceError, InputError
from ksdp.audit.registry import make_mechanism
from ksdp.audit.reviewing import CorpusUnits
from ksdp.flows.runs.protocol_files import Run, read_run
from ksdp.protocols.programs.secret_draw import secret_draw
from ksdp.storage.corpora import load_corpus
from ksdp.storage.keys import load_private, make_identity
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.storage.reviews.decisions import Decision, Proposal, Subject, append
from ksdp.storage.store import Store

from ...clearances import SIZES
from ...ports import free_ports
from .entering import NOW, agreed, enter, played, run_of, signed_clearance

NAMES = ("ada", "bob")
TERMS = [f"t{place:02d}" for place in range(12)]
PCA = {"name": "pd-pca", "rank": 2, "reveal_sigma": True, "solver": "power", "iterations": 40, "tolerance": 0.0}
MOMENTS = {"name": "moments", "rank": 2, "noise": 1e-5, "sampler": "discrete"}
COUNTED = {"name": "counted-svd", "rank": 2}
CORPUS = {"vocabulary": "words.txt", "weighting": "counts", "rows": "none"}
LEVERS: dict[str, dict[str, Any]] = {
    "terms": {"levers": {"terms": "terms.txt"}},
    "frequent": {
        "levers": {"reference": "public.tsv", "most_frequent": 6},
        "idf": "public",
        "weighting": "tf-idf",
    },
    "units": {"levers": {"units": "units.csv"}},
    "basis": {"levers": {"basis": "basis.npy", "directions": 4, "clip": 1.0}, "rows": "l2"},
}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    rng = np.random.default_rng(7)
    kinds = rng.random((3, len(TERMS))) ** 4 * np.array([[9.0], [5.0], [2.0]])
    for name in NAMES:
        make_identity(tmp_path, name)
        rows = rng.poisson(rng.dirichlet([0.4] * 3, 30) @ kinds) + (rng.random((30, len(TERMS))) < 0.1)
        rows[:, 0] += 1
        sp.save_npz(tmp_path / f"{name}.npz", sp.csr_array(rows.astype(float)))
    (tmp_path / "words.txt").write_text("".join(f"{term}\n" for term in TERMS))
    (tmp_path / "terms.txt").write_text("".join(f"{term}\n" for term in TERMS[3:10]))
    counts = "".join(f"{term}\t{place + 1}\n" for place, term in enumerate(TERMS))
    (tmp_path / "public.tsv").write_text(f"documents\t20\n{counts}")
    units = "".join(f"{term},0.5,2.0\n" for term in TERMS)
    (tmp_path / "units.csv").write_text(f"column,centre,scale\n{units}")
    np.save(tmp_path / "basis.npy", np.linalg.qr(rng.normal(size=(len(TERMS), len(TERMS))))[0])
    return tmp_path


@pytest.mark.parametrize(
    ("mechanism", "lever"), [*((PCA, lever) for lever in LEVERS), (MOMENTS, "basis"), (COUNTED, "terms")], ids=str
)
def test_a_run_is_what_the_audit_simulates(base: Path, mechanism: dict[str, Any], lever: str) -> None:
    run = agreed(base, NAMES, CORPUS | LEVERS[lever], mechanism)
    entered = {name: enter(run, base, name) for name in NAMES}
    outcomes = run_of(run, base, entered)
    public = outcomes["ada"].result.public
    specs = [read_spec_file(base / f"{name}.toml")[0].corpus for name in NAMES]
    audited = tuple(load_corpus(spec, base, nonnegative=False).matrix for spec in specs)
    simulated = make_mechanism(mechanism["name"], {k: v for k, v in mechanism.items() if k != "name"})
    ideal = simulated.run(Database(audited), np.random.default_rng(0))
    opened = {"pd-pca": ("mean", "V", "sigma"), "moments": ("moments",), "counted-svd": ("counts", "V")}
    for name in opened[mechanism["name"]]:
        np.testing.assert_allclose(public[name], ideal[name], rtol=0, atol=1e-3, err_msg=name)
    assert len({outcome.digest for outcome in outcomes.values()}) == 1


def test_counts_of_terms_are_the_reference_of_the_next_run(base: Path) -> None:
    mechanism = {"name": "term-counts", "noise": 0.1, "colluders": 1, "sampler": "discrete"}
    agreed(base, NAMES, CORPUS, mechanism)
    text = (base / "protocol.toml").read_text()
    for place, port in enumerate(free_ports(2)):
        text = text.replace(f"127.0.0.1:{4000 + place}", f"127.0.0.1:{port}")
    (base / "protocol.toml").write_text(text)
    run = read_run(base / "protocol.toml")
    ends = played(run, base, base / "out", {name: enter(run, base, name) for name in NAMES})
    assert not any(isinstance(end, Exception) for end in ends.values()), ends
    texts = [(base / "out" / name / "reference.tsv").read_text() for name in NAMES]
    assert texts[0] == texts[1]
    rows = [sp.csr_array(sp.load_npz(base / f"{name}.npz")) for name in NAMES]
    first, second, *_ = texts[0].splitlines()
    assert first == f"documents\t{sum(part.shape[0] for part in rows)}"
    assert second.startswith("t00\t")
    levers = {"levers": {"reference": "out/ada/reference.tsv", "most_frequent": 6}, "idf": "public"}
    run = agreed(base, NAMES, CORPUS | levers | {"weighting": "tf-idf"}, MOMENTS | {"colluders": 1})
    public = run_of(run, base, {name: enter(run, base, name) for name in NAMES})["ada"].result.public
    assert public["V"].shape == (2, 6)


def test_a_party_with_another_lever_is_refused(base: Path) -> None:
    run = agreed(base, NAMES, CORPUS | LEVERS["frequent"], PCA)
    spec = base / "bob.toml"
    spec.write_text(spec.read_text().replace('"most_frequent" = 6', '"most_frequent" = 5'))
    with pytest.raises(InputError, match="features of the corpus"):
        enter(run, base, "bob")
    spec.write_text(spec.read_text().replace('"most_frequent" = 5', '"most_frequent" = 6, "clip" = 0.5'))
    with pytest.raises(InputError, match=r"`features\.rows`"):
        enter(run, base, "bob")


DRAWN = {"levers": {"drawn": 0.5}, "weighting": "tf-idf"}


def test_a_secret_draw_enters_and_is_weighed_by_itself(base: Path) -> None:
    run = agreed(base, NAMES, CORPUS | DRAWN, PCA)
    key = load_private(base / "ada.key")
    entered, again = enter(run, base, "ada"), enter(run, base, "ada")
    wanted = secret_draw(key, entered.mine.ids.tolist(), 0.5)
    assert 0 < wanted.sum() < len(wanted)
    assert (entered.corpus.matrix != again.corpus.matrix).nnz == 0
    # What is not drawn counts nowhere: the same rows as of a file that never held it. Terms that are in every
    # text that is drawn weigh nothing, and a text of such terms alone (some keys draw that) is left out as empty.
    counts = sp.csr_array(sp.load_npz(base / "ada.npz"))[np.flatnonzero(wanted)]
    alone = weighed(sp.csr_array(counts), None, "tf-idf", "global", "none").toarray()
    held = alone.any(axis=1)
    assert entered.corpus.ids.tolist() == entered.mine.ids[wanted][held].tolist()
    np.testing.assert_allclose(entered.corpus.matrix.toarray(), alone[held])


@pytest.mark.parametrize("labels", [{}, {"labels": "wards.csv", "party": "ward"}], ids=["", "labels without ids"])
def test_a_draw_is_another_with_another_key_and_where_other_rows_have_its_numbers(
    base: Path, labels: dict[str, str]
) -> None:
    (base / "wards.csv").write_text("ward\n" + "x\n" * 30)
    run = agreed(base, NAMES, CORPUS | DRAWN | labels, PCA)
    draw = enter(run, base, "ada").draw
    assert draw == enter(run, base, "ada").draw
    assert draw != enter(run, base, "ada", identity=load_private(base / "bob.key")).draw
    counts = sp.csr_array(sp.load_npz(base / "ada.npz"))
    sp.save_npz(base / "ada.npz", counts[1:])  # all rows have other numbers
    (base / "wards.csv").write_text("ward\n" + "x\n" * 29)
    assert draw != enter(run, base, "ada").draw


def test_ids_of_another_column_are_another_draw(base: Path) -> None:
    (base / "people.csv").write_text("mail,number\n" + "".join(f"m{n},{n}\n" for n in range(30)))
    labelled = (CORPUS | DRAWN | {"labels": "people.csv", "id": column} for column in ("mail", "number"))
    first, second = (enter(agreed(base, NAMES, corpus, PCA), base, "ada").draw for corpus in labelled)
    assert first != second


def test_a_group_of_which_a_document_is_excluded_stays_out(base: Path) -> None:
    (base / "people.csv").write_text("id,person\n" + "".join(f"d{n},p{n // 3}\n" for n in range(30)))
    run = agreed(base, NAMES, CORPUS | {"labels": "people.csv", "id": "id", "group": "person"}, PCA)
    spec, shown = read_spec_file(base / "ada.toml")[0], enter(run, base, "ada").corpus
    sizes = replace(SIZES, unit="group")
    path = signed_clearance(base / "a.clearance", spec, shown, run.terms.mechanism, shown.ids, sizes=sizes)
    subject = Subject(CorpusUnits(shown.hash, spec.corpus.path, "document"), shown.ids.tolist())
    proposal = Proposal("", "d4", Decision.EXCLUDE, "objection", "Ana")
    append(Store.open(base / "reviews"), [proposal], NOW, subject=subject)
    found = enter(run, base, "ada", clearance=path, uncleared=False, reviews=base / "reviews")
    assert set(shown.ids) - set(found.corpus.ids) == {"d3", "d4", "d5"}


def test_noise_that_holds_against_outsiders_alone_clears_no_party(base: Path) -> None:
    power = {"name": "hardt-roth", "rank": 2, "sampler": "discrete"}
    together = replace(SIZES, coalition=9, parties=2)
    for colluders, sizes, refused in (
        (0, SIZES, "each party of a run knows its own part"),
        (1, SIZES, None),
        (0, together, None),
        (0, replace(together, parties=1), "audited as one party"),
        (1, replace(together, parties=1), None),
    ):
        run = agreed(base, NAMES, CORPUS, power | {"colluders": colluders})
        spec, shown = read_spec_file(base / "ada.toml")[0], enter(run, base, "ada").corpus
        path = signed_clearance(base / "a.clearance", spec, shown, run.terms.mechanism, shown.ids, sizes=sizes)
        if refused is None:
            assert enter(run, base, "ada", clearance=path, uncleared=False).statement.cleared
            continue
        with pytest.raises(ClearanceError, match=refused):
            enter(run, base, "ada", clearance=path, uncleared=False)


def test_a_clearance_of_another_draw_is_refused(base: Path) -> None:
    run = agreed(base, NAMES, CORPUS | DRAWN, PCA)
    whole = enter(run, base, "ada")
    drawn = cleared(run, base, whole, drawn=0.5)
    found = enter(run, base, "ada", clearance=drawn, uncleared=False)
    # Of those that are listed the draw lets in the ones that it would without a list.
    assert found.corpus.ids.tolist() == [name for name in whole.corpus.ids if name in whole.mine.ids[:20]]
    for other, words in ((None, "all enter; a secret draw of 0.5"), (0.25, "a secret draw of 0.25 enters")):
        with pytest.raises(ClearanceError, match=words) as refused:
            enter(run, base, "ada", clearance=cleared(run, base, whole, drawn=other), uncleared=False)
        assert refused.value.failed == "drawn"


def test_what_was_measured_of_other_weights_clears_no_draw(base: Path) -> None:
    for weighting in ("counts", "tf-idf"):
        run = agreed(base, NAMES, CORPUS | DRAWN | {"weighting": weighting}, PCA)
        whole = enter(run, base, "ada")
        measured = cleared(run, base, whole, drawn=0.5, every_size=False)
        if weighting == "counts":
            assert enter(run, base, "ada", clearance=measured, uncleared=False).statement.cleared
    assert not np.isin(whole.corpus.matrix.data, whole.mine.matrix.data).all(), "the draw weighs its own rows"
    with pytest.raises(ClearanceError, match="those of a draw are weighed by themselves"):
        enter(run, base, "ada", clearance=measured, uncleared=False)


def cleared(run: Run, base: Path, whole: Any, drawn: float | None, **sizes: bool) -> Path:
    """A clearance of ada's first 20 documents."""
    mechanism, spec = run.terms.mechanism, read_spec_file(base / "ada.toml")[0]
    shown = load_corpus(spec.corpus, base, nonnegative=False)
    ids, about = whole.mine.ids[:20], replace(SIZES, **{"every_size": True} | sizes)
    return signed_clearance(base / f"{drawn}.clearance", spec, shown, mechanism, ids, drawn=drawn, sizes=about)
