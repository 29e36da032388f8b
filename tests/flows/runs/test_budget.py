"""A budget over time: every run is written down before data moves, and one too many is refused before anything."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
import pytest
import scipy.sparse as sp
from prefect.logging import disable_run_logger
from scipy.stats import norm

from ksdp.audit.errors import ClearanceError, InputError, KsdpError, SpecError, StoreError
from ksdp.audit.mechanisms.privacy.spent import worst_price
from ksdp.flows.deployable import party_flow
from ksdp.flows.runs.budget import BudgetGuard, Priced, entries, open_guard, spent, spent_words
from ksdp.flows.runs.party import enter_documents
from ksdp.flows.runs.protocol_files import Run, read_run
from ksdp.storage.keys import load_private, make_identity
from ksdp.storage.runs.ledger import Ledger

from ...typed import typed
from .entering import played, protocol_toml

NOW = datetime(2026, 6, 1, tzinfo=UTC)
NOISY = 'name = "hardt-roth"\nrank = 2\niterations = 2\nepsilon = 1.0\nsampler = "discrete"'
EXACT = 'name = "pd-nmf"\nrank = 2\nsweeps = 2\ntolerance = 0.0'


class Two:
    """Ada and bob, with documents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "words.txt").write_text("a\nb\nc\nd\n")
        for name in ("ada", "bob"):
            make_identity(folder, name)
            counts = np.random.default_rng([3, *name.encode()]).integers(0, 3, (6, 4))
            counts[np.arange(6), np.arange(6) % 4] = 2  # no row is empty
            counts[np.arange(4), (np.arange(4) + 1) % 4] = 0  # no term is everywhere
            sp.save_npz(folder / f"{name}.npz", sp.csr_matrix(counts.astype(float)))

    def run(self, mechanism: str) -> Run:
        path = self.folder / "protocol.toml"
        more = "[precision]\nbound = 4096.0\n[timeouts]\npresent = 60\n"
        path.write_text(protocol_toml(("ada", "bob"), mechanism, more=more))
        return read_run(path)

    def guard(self, run: Run | Priced, limits: str = "", own: int = 6) -> BudgetGuard:
        budget = self.folder / "ada.budget.toml"
        budget.write_text(f"[budget]\n{limits}\n")
        return open_guard(run, "sha256:1", own, self.folder / "ada.ledger", budget, lambda: NOW)

    def play(self, run: Run, guard: BudgetGuard, out: str) -> dict[str, KsdpError | dict[str, Any]]:
        """Both, ada on her guard."""
        entered = {}
        for name in ("ada", "bob"):
            key = load_private(self.folder / f"{name}.key")
            said: dict[str, Any] = {"clearance": None, "uncleared": True, "identity": key, "now": NOW}
            entered[name] = enter_documents(run, self.folder / f"{name}.npz", **said)
        return played(run, self.folder, self.folder / out, entered, {"ada": guard})


@pytest.fixture
def two(tmp_path: Path) -> Two:
    return Two(tmp_path)


def test_a_clearance_that_expires_while_the_others_are_awaited_lets_no_data_out(two: Two) -> None:
    guard = two.guard(two.run(EXACT))
    for expires in (NOW, NOW - timedelta(seconds=1)):
        with pytest.raises(ClearanceError, match="expired") as refused:
            replace(guard, expires=expires).begin()
        assert refused.value.failed == "expired"
        assert not Ledger(two.folder / "ada.ledger").read()
    replace(guard, expires=NOW + timedelta(seconds=1)).begin()
    assert len(entries(Ledger(two.folder / "ada.ledger"))) == 1


def test_a_run_is_written_down_and_the_next_one_is_refused_before_anything_is_sent(two: Two) -> None:
    run = two.run(EXACT)
    ends = two.play(run, two.guard(run, "unbounded = 1"), "first")
    assert isinstance(ends["ada"], dict), ends
    (entry,) = entries(Ledger(two.folder / "ada.ledger"))
    assert (entry.finished, entry.session, entry.mechanism) == (True, ends["ada"]["session"], "pd-nmf")
    assert [line["what"] for line in Ledger(two.folder / "ada.ledger").read()] == ["begun", "finished"]
    with pytest.raises(InputError, match=r"beyond the budget.*1 is spent by 1 run,.*nothing bounds several"):
        two.guard(run, "unbounded = 1")
    assert len(entries(Ledger(two.folder / "ada.ledger"))) == 1


def test_a_run_that_another_one_overtook_ends_before_data_moves(two: Two) -> None:
    """Both were within the budget when they were started."""
    run = two.run(EXACT)
    slow, quick = two.guard(run, "unbounded = 1"), two.guard(run, "unbounded = 1")
    quick.begin()
    ends = two.play(run, slow, "out")
    assert isinstance(ends["ada"], InputError)
    assert "beyond the budget" in str(ends["ada"])
    assert isinstance(ends["bob"], KsdpError)
    assert "its own input was refused" in str(ends["bob"])
    said = [json.loads(line) for line in (two.folder / "out/ada/transcript.jsonl").read_text().splitlines()]
    kinds = {line["kind"] for line in said if line["what"] == "sent"}
    assert kinds <= {"greeting", "statement", "hello"}
    assert (said[-1]["what"], said[-1]["counts"]) == ("ended without a result", False)


def fits(mu: float, limits: str) -> int:
    """How many runs of this price do not exceed a limit, by another way: one Gaussian release of all together."""
    name, limit = limits.split(" = ")
    for count in range(1, 100):
        deviation = 1 / (mu * count**0.5)
        epsilon = dp_accounting.get_epsilon_gaussian(deviation, 1e-5)
        advantage = 2 * norm.cdf(1 / (2 * deviation)) - 1
        if (epsilon if name == "epsilon" else advantage) > float(limit):
            return count - 1
    raise AssertionError


@pytest.mark.parametrize("limits", ["epsilon = 1.2", "epsilon = 0.9", "advantage = 0.25"])
def test_runs_add_up_until_the_budget_is_spent(two: Two, limits: str) -> None:
    run = two.run(NOISY)
    mu = worst_price(run.terms.mechanism, 6, 2, 4).mu
    assert mu is not None
    for _ in range(fits(mu, limits)):
        two.guard(run, f"{limits}\naborted = 99").begin()
    with pytest.raises(InputError, match=limits.split()[0]):
        two.guard(run, f"{limits}\naborted = 99").begin()
    assert len(entries(Ledger(two.folder / "ada.ledger"))) == fits(mu, limits)


def test_a_run_that_did_not_finish_stays_counted(two: Two) -> None:
    guard = two.guard(two.run(NOISY))
    guard.begin()
    (entry,) = entries(guard.ledger)
    assert not entry.finished
    assert spent(guard.ledger).epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
    assert "1 run with noise: epsilon 1 at delta 1e-05" in spent_words(spent(guard.ledger))
    for _ in range(4):
        two.guard(two.run(NOISY)).begin()
    with pytest.raises(InputError, match="`aborted` may be 5 .*; 5 is spent by 5 runs"):
        two.guard(two.run(NOISY))


def test_a_ledger_that_was_changed_is_refused(two: Two) -> None:
    guard = two.guard(two.run(NOISY))
    for _ in range(3):
        two.guard(guard.priced).begin()
    path = two.folder / "ada.ledger"
    assert path.stat().st_mode & 0o777 == 0o600
    lines = path.read_text().splitlines(keepends=True)
    for damaged in (lines[1:], [lines[0], lines[2]], [lines[0].replace("hardt", "hardy"), *lines[1:]], ["{}\n"]):
        path.write_text("".join(damaged))
        with pytest.raises(StoreError, match="was changed or cut"):
            guard.check()
    path.write_text("".join(lines))
    assert spent(guard.ledger).runs == 3


@pytest.mark.parametrize("limits", ["epsilon = 0", "delta = 1", "advantage = 2", "unbounded = -1", "epsilons = 1"])
def test_budgets_that_are_refused(two: Two, limits: str) -> None:
    run = two.run(EXACT)
    with pytest.raises(SpecError):
        two.guard(run, limits)


def test_the_command_tells_what_is_spent(two: Two) -> None:
    for mechanism in (NOISY, EXACT, NOISY):
        two.guard(two.run(mechanism)).begin()
    said = typed("budget", two.folder / "ada.ledger").output
    assert "2 runs with noise: epsilon 1.4" in said
    assert "1 run promises nothing of a record: its audit is all that is known of it" in said
    assert said.count("did not finish") == 3
    found = json.loads(typed("budget", two.folder / "ada.ledger", "--json").output)
    assert found["together"]["unbounded"] == 1
    assert [line["mechanism"] for line in found["runs"]] == ["hardt-roth", "pd-nmf", "hardt-roth"]
    two.guard(two.run(EXACT)).begin()
    said = typed("budget", two.folder / "ada.ledger").output
    assert "2 runs promise nothing of a record: an audit measures one of them, and nothing bounds" in said


def test_a_flow_that_takes_part_keeps_the_budget_beside_the_key(tmp_path: Path) -> None:
    two = Two(tmp_path)
    two.run(EXACT)
    (tmp_path / "ada.budget.toml").write_text("[budget]\nunbounded = 0\n")
    protocol, key, out, corpus = (str(tmp_path / n) for n in ("protocol.toml", "ada.key", "out", "ada.npz"))
    with disable_run_logger(), pytest.raises(InputError, match="beyond the budget"):
        party_flow.fn(protocol, "ada", key, out, corpus=corpus, uncleared=True)
    assert not (tmp_path / "out").exists()
