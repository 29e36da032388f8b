"""Three organisations with ratings: from their audit's spec and clearance to predictions for their own users."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from ksdp.audit.contract import Database
from ksdp.audit.errors import ClearanceError
from ksdp.audit.learning.learners import Predictor
from ksdp.audit.screening.clearance import Covered
from ksdp.flows.runs.party import ContributedDocuments
from ksdp.flows.runs.protocol_files import Run, read_run
from ksdp.storage.keys import make_identity
from ksdp.storage.readers.spec_files import read_spec_file

from .entering import enter, played, protocol_toml, signed_clearance

NAMES = ("ada", "bob", "cyd")
ITEMS = [f"film {letter}" for letter in "hgfedcba"]
NOBODY = 3
"""Place of an item that nobody rated."""
MECHANISM = 'name = "pd-nmf"\nrank = 2\nsweeps = 6\nweighted = true\nbeta = 1.0\ndelta = 1.0\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every party's key, ratings (one of no agreed item) and spec; the catalogue; the protocol file."""
    base, rng = tmp_path_factory.mktemp("ratings"), np.random.default_rng(6)
    (base / "items.txt").write_text("".join(f"{item}\n" for item in ITEMS))
    for name in NAMES:
        make_identity(base, name)
        rows = [
            (f"{name}-{user}", item, float(rng.integers(1, 6)))
            for user in range(9)
            for item in rng.choice([n for n in ITEMS if n != ITEMS[NOBODY]], 4, replace=False)
        ]
        rows.append((f"{name}-0", "a film of its own", 5.0))
        frame = pd.DataFrame(rows, columns=["user_id", "item_id", "rating"])
        frame.to_parquet(base / f"{name}.parquet")
        (base / f"{name}.toml").write_text(
            f'[corpus]\npath = "{name}.parquet"\nformat = "ratings"\nvocabulary = "items.txt"\n'
            f"[mechanism]\n{MECHANISM}"
        )
    (base / "protocol.toml").write_text(protocol_toml(NAMES, MECHANISM, "items.txt"))
    return base


def entered_by(folder: Path, run: Run, name: str, clearance: Path | None = None) -> ContributedDocuments:
    return enter(run, folder, name, clearance=clearance, uncleared=clearance is None, now=datetime.now(UTC))


def clear(folder: Path, run: Run, name: str, left_out: int, announced: tuple[str, ...] | None = None) -> list[str]:
    """Write NAME.clearance of all but some users; ids of those on it."""
    whole = entered_by(folder, run, name).corpus
    ids = [str(name) for name in whole.ids[left_out:]]
    spec, _ = read_spec_file(folder / f"{name}.toml", own_code=False)
    other = {} if announced is None else {"coverage": Covered("every round", announced)}
    path, now = folder / f"{name}.clearance", datetime.now(UTC)
    signed_clearance(path, spec, whole, run.terms.mechanism, ids, now=now, signer=name, **other)
    return ids


def test_a_clearance_must_cover_the_weights_of_single_items(folder: Path) -> None:
    run = read_run(folder / "protocol.toml")
    ids = clear(folder, run, "ada", 2)
    entered = entered_by(folder, run, "ada", folder / "ada.clearance")
    assert entered.corpus.ids.tolist() == ids
    assert len(entered.mine) == 9
    assert entered.columns == tuple(ITEMS)
    clear(folder, run, "ada", 2, announced=("T", "numerators", "sums", "sweeps", "total"))
    with pytest.raises(ClearanceError, match="weights"):
        entered_by(folder, run, "ada", folder / "ada.clearance")


def test_predictions_of_cleared_and_other_users(folder: Path) -> None:
    protocol, out = folder / "protocol.toml", folder / "out"
    run = read_run(protocol)
    for name in NAMES:
        clear(folder, run, name, 2)
    entered = {name: entered_by(folder, run, name, folder / f"{name}.clearance") for name in NAMES}
    ends = played(run, folder, out, entered)
    assert all(isinstance(end, dict) for end in ends.values()), ends
    matrices = tuple(each.corpus.matrix for each in entered.values())
    ideal = run.terms.mechanism.run(Database(matrices), np.random.default_rng(0))
    for name in NAMES:
        result = np.load(out / name / "result.npz")
        np.testing.assert_allclose(result["T"], ideal["T"], rtol=0, atol=1e-7)
        assert not result["T"][:, NOBODY].any()
        assert len(np.load(out / name / "own.npz")["W"]) == 7
        assert json.loads((out / name / "run.json").read_text())["of"] == 9
        found = pq.read_table(out / name / "predictions.parquet").to_pandas()
        assert set(found.user) == {f"{name}-{user}" for user in range(9)}, "those too that did not enter"
        mine = entered[name].mine
        predictor = Predictor.of(run.terms.mechanism, result["T"], mine.matrix)
        rated = {
            (f"{user}", ITEMS[item])
            for user, row in zip(mine.ids, mine.matrix, strict=True)
            for item in row.indices
        }
        assert not rated & set(zip(found.user, found.item, strict=True))
        assert ITEMS[NOBODY] not in set(found.item)
        for each in predictor.suggested(mine.matrix, 100):
            theirs = found[found.user == str(mine.ids[each.user])]
            assert theirs.item.tolist() == [ITEMS[item] for item in each.items]
            np.testing.assert_allclose(theirs.rating, each.ratings, rtol=1e-6)
