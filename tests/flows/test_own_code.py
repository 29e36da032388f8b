"""Mechanisms and statistics that lie beside a spec: found, checked against their contracts, tried once."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ksdp.audit.errors import SpecError
from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_audit
from ksdp.flows.prepare import open_spec
from ksdp.storage.readers.spec_files import read_spec_file

ROOT = Path(__file__).resolve().parents[2]
SPEC = """
[corpus]
path = "x.csv"
[mechanism]
name = "{mechanism}"
[design]
party_size = 0.25
with_runs = 10
fresh_runs = 0
[statistics]
families = {families}
names = {names}
"""
GOOD = (ROOT / "examples" / "own-mechanism" / "noisy_sum.py").read_text(encoding="utf-8")
STATISTIC = '["{module}:along_the_sum"]'


@pytest.fixture(autouse=True)
def _clean_path() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before


def audit(folder: Path, code: str, mechanism: str = "NoisySum", names: str = STATISTIC) -> object:
    module = f"own_{folder.name}".replace("-", "_")
    (folder / f"{module}.py").write_text(code, encoding="utf-8")
    (folder / "x.csv").write_text("a,b\n" + "".join(f"{n},{n % 3}\n" for n in range(1, 21)), encoding="utf-8")
    spec = SPEC.format(mechanism=f"{module}:{mechanism}", families="[]", names=names.replace("{module}", module))
    (folder / "spec.toml").write_text(spec, encoding="utf-8")
    return run_audit(open_spec(*read_spec_file(folder / "spec.toml")), folder / "store", HERE)


def test_the_example_is_audited_from_beside_its_spec(tmp_path: Path) -> None:
    asked, folder = read_spec_file(ROOT / "examples" / "own-mechanism" / "noisy-sum.toml")
    rows = pd.DataFrame(np.random.default_rng(0).poisson(1.0, (150, 8)), columns=list("abcdefgh"))
    rows.to_csv(tmp_path / "x.csv", index=False)
    corpus = asked.corpus.model_copy(update={"path": str(tmp_path / "x.csv"), "max_features": None})
    design = asked.design.model_copy(update={"party_size": 0.2, "with_runs": 10})
    few = asked.model_copy(update={"corpus": corpus, "design": design})
    found = run_audit(open_spec(few, folder), tmp_path / "store", HERE)
    assert found.mechanism == "noisy-sum"
    assert found.parameters == {"noise": 0.05}
    assert found.documents == 100
    assert set(found.statistics) == {"along-the-sum", "simulated"}  # nobody's own mechanism is without
    (unread,) = found.unread  # an object of somebody's own is followed like a function
    assert unread.startswith("who was in, by following the function: 8 numbers are announced of 150")
    assert found.valid


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('(Release("total", (features,), final=True),)', '(("total", (features,)),)', "one holds a tuple"),
        ('(Release("total", (features,), final=True),)', "None", "tuple of `Release`"),
        (
            "ksdp.noise(total, rng, scale=self.noise)})",
            "total[:1]})",
            r"of shape \(1,\) \(lane 0, run 0\); declared are \(2,\)",
        ),
        ("    version = 1  #", "    #", "it has no `version`"),
        ("documents.matrix @", "documents.matrix.T @", "fails in a trial run: ValueError"),
        ('("total",)\n\n    def evaluate', '"total"\n\n    def evaluate', "must be a tuple of names"),
        ("import numpy as np", "import numpy as np\n1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_broken_contract_is_refused_in_a_sentence_before_anything_is_written(
    before: str, after: str, message: str, tmp_path: Path
) -> None:
    assert before in GOOD
    with pytest.raises(SpecError, match=message):
        audit(tmp_path, GOOD.replace(before, after, 1))
    assert not (tmp_path / "store").exists()


def test_what_lies_beside_other_peoples_files_is_never_imported(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC.format(mechanism="evil:Evil", families="[]", names="[]"))
    read_spec_file(tmp_path / "spec.toml", own_code=False)
    assert str(tmp_path) not in sys.path
