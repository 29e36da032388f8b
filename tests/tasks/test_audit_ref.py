"""A worker rebuilds the plan of an audit, with the code of whoever started it or not at all."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import InputError
from ksdp.audit.opened import Opened
from ksdp.audit.planning import make_plan
from ksdp.audit.specs.models import parse_spec
from ksdp.flows.prepare import Prepared, prepare_stored
from ksdp.tasks import audit_ref
from ksdp.tasks.audit_ref import open_audit

OWN = """
from dataclasses import dataclass

from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD


@dataclass(frozen=True)
class Mine(PDSVD):
    name = "mine"
"""


def prepared(folder: Path, mechanism: str, own: str = OWN) -> Prepared:
    """As another process that imports the module as it stands."""
    (folder / "my_own_svd.py").write_text(own)
    sys.modules.pop("my_own_svd", None)
    audit_ref._audit.cache_clear()
    rows = sp.csr_array(np.random.default_rng(0).poisson(0.5, (40, 6)).astype(float))
    tables = {"corpus": {"path": "x.npz"}, "mechanism": {"name": mechanism, "rank": 1}}
    spec = parse_spec(tables | {"design": {"party_size": 0.3, "with_runs": 8}})
    return prepare_stored(
        make_plan(Opened.of(spec, Corpus(rows, np.arange(40).astype(str)))), folder / "store", may_sample=True
    )


def test_other_code_of_the_mechanism_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    first = prepared(tmp_path, "my_own_svd:Mine")
    assert first.ref.code is not None
    assert open_audit(first.ref).mechanism.name == "mine"
    assert prepared(tmp_path, "my_own_svd:Mine").ref == first.ref
    second = prepared(tmp_path, "my_own_svd:Mine", OWN + "    noise: float = 0.0\n")
    assert second.ref.audit != first.ref.audit
    with pytest.raises(InputError, match="other code of the mechanism"):
        open_audit(first.ref)
    # What was found earlier can still be looked at, and measured again by the code of today.
    assert open_audit(replace(first.ref, code=None)).mechanism.name == "mine"


def test_our_own_code_is_not_compared(tmp_path: Path) -> None:
    assert prepared(tmp_path, "pd-svd").ref.code is None
