"""SECURITY.md says what nodes that deviate can do; every row has tests that deviate so."""

import ast
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.protocols.channel.rounds import run_together
from ksdp.protocols.programs.programs import party_program
from ksdp.protocols.programs.run_terms import Statement

from .programs import noisy_parties, test_final_rounds, test_party_rounds

ROOT = Path(__file__).resolve().parents[2]


def test_every_row_about_deviations_has_tests_and_every_such_test_a_row() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    section = text.split("## What parties that deviate can do\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("|")][2:]
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    marked = [ast.walk(ast.parse(text)) for text in texts if "pytest.mark.deviation(" in text]
    calls = (node for node in itertools.chain(*marked) if isinstance(node, ast.Call))
    tried = {ast.literal_eval(c.args[0]) for c in calls if ast.unparse(c.func) == "pytest.mark.deviation"}
    assert len(rows) > 20
    assert {f"{protocol.strip()}: {deviation.strip()}" for protocol, deviation in rows} == tried


def by_sums(rows: list[sp.csr_array]) -> Any:
    """Of a party that says besides that it was cleared, and was not."""
    terms, mechanism = test_party_rounds.terms_of(3), test_party_rounds.NMF
    grounds = [Statement(cleared=False), Statement(True, "ab" * 32), Statement(cleared=False)]
    return run_together(
        {
            name: test_party_rounds.side(name, terms, party_program(mechanism, part), said)
            for name, part, said in zip(test_party_rounds.NAMES, rows, grounds, strict=False)
        }
    )


def by_shares(mechanism: Any, rounds: int) -> Callable[[list[sp.csr_array]], Any]:
    return lambda rows: test_final_rounds.played(test_final_rounds.terms_of(3, mechanism, rounds), rows)


def with_noise(mechanism: Any) -> Callable[[list[sp.csr_array]], Any]:
    return lambda rows: run_together(noisy_parties.sides(3, mechanism, rows))


@pytest.mark.deviation("every run: enter false rows, one document many times, or false grounds")
@pytest.mark.parametrize(
    "play",
    [
        by_sums,
        by_shares(PDSVD(rank=1, opens="final"), 8),
        by_shares(PDNMF(rank=2, sweeps=2, beta=0.1, delta=0.1, opens="final"), 0),
        with_noise(noisy_parties.BY_SUMS[0]),
        with_noise(noisy_parties.BY_UPLOADS[0]),
        with_noise(noisy_parties.BY_UPLOADS[2]),
    ],
    ids=["sums", "final vectors", "final topics", "noisy sums", "fedpower", "dpdispca"],
)
def test_false_rows_within_the_bound_are_noticed_by_nobody(play: Callable[[list[sp.csr_array]], Any]) -> None:
    rows = test_party_rounds.parts(3)
    announced = []
    for entered in (rows[1], sp.csr_array(np.vstack([rows[1].toarray()[:1]] * rows[1].shape[0]))):
        outcomes = play([rows[0], entered, rows[2]])[0]
        assert len({outcome.digest for outcome in outcomes.values()}) == 1
        announced.append(next(iter(outcomes["ada"].result.public.values())))
    assert np.abs(announced[0] - announced[1]).max() > 1e-6, "and say something of the others"
