"""Settings of a Python call: what `help` says of them, and where warnings point."""

import inspect
import warnings
from pathlib import Path

import numpy as np
import pytest

import ksdp
from ksdp.audit.errors import InputError
from ksdp.audit.specs.models import CorpusSpec, DecisionSpec, DesignSpec


def test_help_has_every_setting_with_its_default() -> None:
    signature, words = inspect.signature(ksdp.audit), inspect.getdoc(ksdp.audit) or ""
    assert words.startswith("Audit every document of some data")
    named = {key: model for model in (CorpusSpec, DesignSpec, DecisionSpec) for key in model.model_fields}
    for key in set(named) - {"path", "format"}:
        assert signature.parameters[key].default == named[key].model_fields[key].get_default(), key
        assert f"\n{key} : default " in words
    assert list(signature.parameters)[:2] == ["data", "mechanism"]
    assert list(signature.parameters)[-1] == "settings"


def test_a_warning_points_at_the_line_of_the_caller() -> None:
    data = np.ones((12, 3)) + np.eye(12, 3)
    data[2] = 0.0
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        ksdp.plan(data, "pd-svd", rank=1, party_size=0.5, with_runs=20)
        ksdp.audit(data, "pd-svd", rank=1, party_size=0.5, with_runs=20)
    told = [one for one in heard if "without any number but 0" in str(one.message)]
    assert [Path(one.filename) for one in told] == [Path(__file__)] * 2
    assert {"'3'" in str(one.message) for one in told} == {True}


@pytest.mark.repeats
def test_a_function_that_prints_is_heard_once_and_one_that_returns_nothing_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    data, few = np.random.default_rng(0).poisson(1.0, (12, 3)) + 0.5, {"party_size": 0.5, "with_runs": 10}

    def loud(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        print("hello")
        return np.asarray(rows.mean(axis=0))

    ksdp.audit(data, loud, fresh_runs=0, **few)
    assert capsys.readouterr().out == "hello\n"
    for returned, message in ((None, "must return"), (np.zeros(0), "output of no numbers"), ("text", "numbers")):
        with pytest.raises(InputError, match=message):
            ksdp.plan(data, lambda rows, rng, returned=returned: returned, **few)
