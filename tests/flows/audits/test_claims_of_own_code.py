"""A claim of a user's own mechanism is that of its code as it stands, whatever version that states."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ksdp.audit.spec.models import Spec, parse_spec
from ksdp.flows.audits.claims import run_claim

OWN = """
from dataclasses import dataclass

from ksdp.audit.mechanisms.privacy.hardt_roth import {base} as Base


@dataclass(frozen=True)
class Mine(Base):
    name = "mine"
"""


def spec_of(folder: Path, base: str) -> Spec:
    """The own mechanism, as another process would import it."""
    (folder / "my_claiming.py").write_text(OWN.format(base=base))
    sys.modules.pop("my_claiming", None)
    mechanism = {"name": "my_claiming:Mine", "rank": 2, "iterations": 2, "epsilon": 1.0, "sampler": "fast"}
    return parse_spec({"seed": 3, "corpus": {"path": "x.npz"}, "mechanism": mechanism})


def test_the_claim_of_edited_code_is_audited_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def claim(base: str) -> tuple[bool, bool]:
        found = run_claim(
            spec_of(tmp_path, base),
            tmp_path / "store",
            runs=400,
            confidence=0.95,
            clock=lambda: datetime.now(UTC),
            simulated=True,
        )
        return found.read, found.finding.refuted

    assert claim("HardtRoth") == (False, False)
    assert claim("HardtRoth") == (True, False)
    assert claim("BrokenPower") == (False, True), "its noise is too small on purpose"
    assert claim("BrokenPower") == (True, True)
