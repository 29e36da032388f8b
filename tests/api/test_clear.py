"""`ksdp.clear` as a person in a notebook uses it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

import ksdp
from ksdp.storage.audits.ledger import read_ledger
from ksdp.storage.clearances import verify_clearance
from ksdp.storage.keys import load_public, make_identity
from ksdp.storage.store import Store

from ..functions import mean, noisy_mean


def test_it_leaves_out_who_stands_out_and_signs_the_others(tmp_path: Path) -> None:
    """With the noise, 23 of 24 documents hardly show; the last one pulls a thousandfold."""
    data = np.random.default_rng(0).normal(size=(24, 3))
    data[5] += 2000
    make_identity(tmp_path, "ada")
    ksdp.audit(data, noisy_mean, store=tmp_path / "store", party_size=0.5, with_runs=20, fresh_runs=0, seed=1)
    found = ksdp.clear(
        data, noisy_mean, version=1, clearance=tmp_path / "c.json", key=tmp_path / "ada.key", who="Ada",
        store=tmp_path / "store", party_size=0.5, with_runs=150, margin=0.7, fresh_runs=0, seed=1,
    )  # fmt: skip
    assert found["outcome"] == "signed", found["reason"]
    assert (found["proposed"], found["allowed"]) == (23, 23)
    later = datetime.now(UTC) + timedelta(seconds=1)
    signed = verify_clearance(
        tmp_path / "c.json", now=later, public_key=load_public(tmp_path / "ada.pub")
    ).clearance
    assert signed.allows(["6", "7"]).tolist() == [False, True]
    # The call above, the audit that proposed the list, and the audits of the list.
    assert signed.evidence.attempts.attempts == 3


def test_a_function_asks_one_question_at_every_call(tmp_path: Path) -> None:
    data = np.random.default_rng(0).poisson(1.0, (20, 4)).astype(float)
    few = {"store": tmp_path / "store", "party_size": 0.5, "with_runs": 20, "fresh_runs": 0}
    for function, seed in ((mean, 1), (mean, 2), (noisy_mean, 1)):
        ksdp.audit(data, function, seed=seed, **few)
    asked = [one.content for one in read_ledger(Store(tmp_path / "store")).questions.values()]
    assert [asked.count(one) for one in asked] == [2, 2, 1]
