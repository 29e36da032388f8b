"""Levels of the tests given ties: replayed over many audits.

Slow on purpose (`make validity`). Each test prints the figures that it checks.
"""

import numpy as np
import pytest

from ksdp.audit.verdicts.laws import ks_table
from ksdp.audit.verdicts.multiplicity import adjust
from ksdp.audit.verdicts.ties import tied_table

from .null_audits import dependent_values, shared_inclusion

pytestmark = pytest.mark.validity

AUDITS = 1000
LEVEL = 0.05
ABOVE = 3 * np.sqrt(LEVEL * (1 - LEVEL) / AUDITS)


TIES = {
    "rounded to integers": lambda x: x.round(0),
    "half are zero": lambda x: np.maximum(x, 0),
    "an event of one run in ten": lambda x: (x > 2.2).astype(float),
    "an event of one run in forty": lambda x: (x > 3.3).astype(float),
    "no ties": lambda x: x,
}


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize(("runs", "share"), [(240, 0.2), (200, 0.5)])
def test_the_law_given_ties_holds_its_level_and_comes_near_it(ties: str, runs: int, share: float) -> None:
    """Single tests, and whole audits of 40 documents under Holm."""
    rng = np.random.default_rng(41)
    rates: dict[str, list[float]] = {"conservative": [], "given ties": []}
    flagged = dict.fromkeys(rates, 0)
    for _ in range(AUDITS):
        inclusion = shared_inclusion(rng, 40, runs, share)
        values = TIES[ties](dependent_values(rng, 40, runs, statistics=1)[0])
        table = ks_table(values, inclusion)
        for name, log10_p in (
            ("conservative", table.log10_p),
            ("given ties", tied_table(values, inclusion, table)),
        ):
            rates[name].append(float((log10_p <= np.log10(LEVEL)).mean()))
            flagged[name] += bool((adjust(log10_p, "fwer") <= np.log10(LEVEL)).any())
    single = {name: float(np.mean(rate)) for name, rate in rates.items()}
    audits = {name: count / AUDITS for name, count in flagged.items()}
    print(f"{ties}, {runs} runs, share {share}: single tests at {LEVEL}: {single}; audits under Holm: {audits}")
    error = float(np.std(rates["given ties"])) / np.sqrt(AUDITS)  # audits are independent, their tests are not
    assert single["given ties"] <= LEVEL + 3 * error
    assert audits["given ties"] <= LEVEL + ABOVE
    assert single["given ties"] >= single["conservative"]
    if ties in ("rounded to integers", "half are zero"):
        assert single["given ties"] > 0.6 * LEVEL
    if ties == "rounded to integers":
        assert single["given ties"] > 1.5 * single["conservative"]
