"""More runs continue a design by doublings, each of which costs half of the level."""

import numpy as np
import pytest

from ksdp.audit.errors import InputError
from ksdp.audit.planning import topped_up, wanted_factor
from ksdp.audit.specs.models import Spec, parse_spec


def spec(**design: object) -> Spec:
    tables = {"corpus": {"path": "m.npz"}, "mechanism": {"name": "pd-svd"}}
    return parse_spec(tables | {"design": {"with_runs": 50} | design})


def test_the_shared_design_keeps_everything_that_its_runs_depend_on() -> None:
    before = spec()
    after = topped_up(before, ["b", "a"], 2.5)
    assert after.design.with_runs == 200
    assert after.decision.level == before.decision.level / 4
    assert after.design.documents is None
    assert after.series == before.series
    assert after.model_copy(update={"design": before.design, "decision": before.decision}) == before


def test_other_designs_audit_what_was_asked_for_alone() -> None:
    before = spec(kind="balanced", documents=["a", "b", "c"])
    after = topped_up(before, ["c", "a"], 2.0, with_runs=51)
    assert after.design.documents == ("a", "c")
    assert after.seed != before.seed, "who was chosen by what was seen is looked at in other runs"
    assert after.design.with_runs == 100
    assert after.decision.level == before.decision.level / 2
    assert after.series == before.series
    with pytest.raises(InputError, match="above the 50 of the audit; got 50"):
        topped_up(before, ["a"], 9.0, with_runs=50)


def test_the_factor_is_that_of_the_neediest_within_reason() -> None:
    runs = np.array([100.0, 200.0, 100.0])
    assert wanted_factor(runs, np.array([300.0, 1000.0, np.nan])) == 5
    assert wanted_factor(runs, np.array([1e9, 1000.0, np.inf])) == 16
    assert wanted_factor(runs, np.array([110.0, np.inf, np.nan])) == 2
