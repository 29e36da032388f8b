"""`ksdp.advise` as a person in a notebook uses it."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import ksdp
from ksdp.audit.errors import InputError

from ..specs import spec_text

SPEC = {
    "corpus": {"path": "counts.npz", "weighting": "counts", "rows": "l2"},
    "mechanism": {"name": "moments", "rank": 4, "advantage": 0.2},
    "design": {"party_size": 0.5, "with_runs": 40},
    "gain": {"splits": 2},
}


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(12, 0.2), size=2)
    counts = np.array([rng.multinomial(12, weights[row % 2]) for row in range(150)])
    sp.save_npz(tmp_path / "counts.npz", sp.csr_array(counts))
    (tmp_path / "spec.toml").write_text(spec_text(SPEC))
    return tmp_path / "spec.toml"


def test_it_gives_a_table_words_and_a_picture(spec: Path) -> None:
    found = ksdp.advise(spec, quota=0.2)
    table = found.settings
    assert {"advantage", "value", "gain", "gain_low", "proved", "leak", "best", "refused"} <= set(table.columns)
    assert table["best"].sum() == (found["best"] is not None)
    assert repr(found).splitlines()[0] == found["sentences"][0]
    assert "<table" in found._repr_html_()


def test_refusals_name_what_is_wrong(spec: Path) -> None:
    with pytest.raises(InputError, match="`quota` must be"):
        ksdp.advise(spec, quota=3)
    with pytest.raises(InputError, match="must be the path of a spec"):
        ksdp.advise(np.zeros((3, 3)))  # type: ignore[arg-type]
