"""Mechanisms and statistics that lie beside a spec: found, checked against their contracts, tried once."""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ksdp.audit.errors import InputError, InvalidAudit, SpecError
from ksdp.audit.planning import make_plan
from ksdp.audit.results.summary import Summary
from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_audit
from ksdp.flows.prepare import open_spec
from ksdp.flows.reviews import decide
from ksdp.flows.screening.clear import Signing, clear, mechanism_identity
from ksdp.storage.keys import load_private, make_identity
from ksdp.storage.readers.spec_files import read_spec_file

from ..specs import spec_text

ROOT = Path(__file__).resolve().parents[2]
SPEC = {
    "corpus": {"path": "x.csv"},
    "design": {"party_size": 0.25, "with_runs": 10, "fresh_runs": 0},
    "statistics": {"families": [], "names": []},
}
GOOD = (ROOT / "examples" / "own-mechanism" / "noisy_sum.py").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _clean_path() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before


def audit(folder: Path, code: str) -> Summary:
    module = f"own_{folder.name}".replace("-", "_")
    (folder / f"{module}.py").write_text(code, encoding="utf-8")
    (folder / "x.csv").write_text("a,b\n" + "".join(f"{n},{n % 3}\n" for n in range(1, 21)), encoding="utf-8")
    own = {"mechanism": {"name": f"{module}:NoisySum"}, "statistics": {"names": [f"{module}:along_the_sum"]}}
    (folder / "spec.toml").write_text(spec_text(SPEC, **own), encoding="utf-8")
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


@pytest.mark.repeats
def test_edited_code_is_neither_signed_nor_let_through_and_what_it_imports_is_run_again(tmp_path: Path) -> None:
    """The key holds the files of the module's folder; of what lies elsewhere some runs are made again."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    helper = f"scale_of_{tmp_path.name}".replace("-", "_")
    (elsewhere / f"{helper}.py").write_text("SCALE = 1000.0\n")
    sys.path.append(str(elsewhere))
    quiet = GOOD.replace("scale=self.noise", f"scale={helper}.SCALE").replace(
        "import numpy as np", f"import {helper}\nimport numpy as np", 1
    )
    first = audit(tmp_path, quiet)
    assert audit(tmp_path, quiet).sampled_runs == 0
    (elsewhere / f"{helper}.py").write_text("SCALE = 0.000001\n")
    with pytest.raises(InvalidAudit, match="other numbers in"):
        audit(tmp_path, quiet)
    (elsewhere / f"{helper}.py").write_text("SCALE = 1000.0\n")
    make_identity(tmp_path, "ada")
    now = datetime.now(UTC)

    def sign(path: Path) -> None:
        key = load_private(tmp_path / "ada.key")
        clear(tmp_path / "store", first.audit, Signing(path, key, "Ada", now, now + timedelta(days=1)))

    decide(tmp_path / "store", first.audit, ["1"], "accept", "small", "Ada", now)
    sign(tmp_path / "list")
    identity = json.loads((tmp_path / "list").read_text())["clearance"]["mechanism"]
    edited = quiet.replace("    version = 1  #", "    version = 1  # edited,")
    assert edited != quiet
    (tmp_path / f"own_{tmp_path.name}.py".replace("-", "_")).write_text(edited)
    sys.modules.pop(f"own_{tmp_path.name}".replace("-", "_"), None)
    with pytest.raises(InputError, match="code of your own has changed since audit"):
        sign(tmp_path / "again")
    plan = make_plan(open_spec(*read_spec_file(tmp_path / "spec.toml")))
    assert mechanism_identity(plan).parameters["code"] != identity["parameters"]["code"]


def test_what_lies_beside_other_peoples_files_is_never_imported(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(spec_text(SPEC, mechanism={"name": "evil:Evil"}))
    read_spec_file(tmp_path / "spec.toml", own_code=False)
    assert str(tmp_path) not in sys.path
