"""Flows on somebody's own Prefect server: deployed to a work pool, run by a process worker, or called."""

import pytest

import ksdp.flows
from ksdp.audit.errors import CorpusAway, InputError, InvalidAudit
from ksdp.flows.deployable import _worth_another


class _Ended:
    def __init__(self, error: BaseException | None) -> None:
        self._error = error

    def result(self) -> None:
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (InputError("no"), False),
        (CorpusAway("its server is silent"), True),
        (InvalidAudit("void"), False),
        (OSError(), True),
        (TimeoutError(), True),
        (None, False),
    ],
)
def test_what_was_refused_is_not_tried_again(error: BaseException | None, again: bool) -> None:
    assert _worth_another(None, None, _Ended(error)) is again


def test_they_are_found_by_name() -> None:
    names = {name: getattr(ksdp.flows, name).name for name in ksdp.flows.__all__}
    assert names == {"audit_flow": "ksdp-audit", "clear_flow": "ksdp-clear", "party_flow": "ksdp-party"}
    with pytest.raises(AttributeError, match="audit_flow"):
        ksdp.flows.audits_flow  # noqa: B018
