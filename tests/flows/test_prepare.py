"""What is refused depends on the mechanism, and a refusal writes nothing."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ksdp.audit.errors import CorpusError
from ksdp.audit.specs.models import Spec, parse_spec
from ksdp.flows.prepare import open_spec, prepare


def spec_of(mechanism: str) -> Spec:
    tables = {"corpus": {"path": "table.csv"}, "mechanism": {"name": mechanism, "rank": 2}}
    return parse_spec(tables | {"design": {"party_size": 10, "with_runs": 5}})


def test_negative_entries_are_refused_for_nmf_alone_and_before_anything_is_written(tmp_path: Path) -> None:
    table = pd.DataFrame(np.random.default_rng(0).random((40, 4)), columns=list("abcd"))
    table.loc[6, "c"] = -0.5
    table.to_csv(tmp_path / "table.csv", index=False)
    with pytest.raises(CorpusError, match=r"table\.csv.*row 7.*c.*negative"):
        prepare(open_spec(spec_of("pd-nmf"), tmp_path), tmp_path / "store")
    assert not (tmp_path / "store").exists()
    assert len(prepare(open_spec(spec_of("pd-svd"), tmp_path), tmp_path / "store").plan.audited) == 40
