"""The plan of an audit of a corpus that a test has made."""

from collections.abc import Mapping
from typing import Any

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.opened import Opened
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.specs.models import parse_spec

PD_SVD = {"name": "pd-svd", "rank": 2}


def planned(corpus: Corpus, mechanism: Mapping[str, Any] = PD_SVD, /, **tables: Any) -> Plan:
    """With these tables of a spec, of which one may name another mechanism."""
    usual = {"seed": 1, "corpus": {"path": "x"}, "mechanism": mechanism}
    return make_plan(Opened.of(parse_spec(usual | tables), corpus))
