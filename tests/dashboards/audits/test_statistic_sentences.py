from __future__ import annotations

from ksdp.audit.mechanisms.pem.mechanisms import PEMKMeans
from ksdp.audit.mechanisms.privacy.hardt_roth import HardtRoth
from ksdp.audit.registry import statistics
from ksdp.dashboards.audits.statistic_sentences import looks_at


def test_every_statistic_of_ours_has_one_plain_sentence() -> None:
    brought = [one.name for mechanism in (PEMKMeans(), HardtRoth()) for one in mechanism.statistics]
    said = {name: looks_at(name) for name in [*statistics(), *brought]}
    assert [name for name, sentence in said.items() if not sentence.endswith(".")] == []
    assert len(set(said.values())) == len(said)


def test_columns_with_names_of_their_own_have_one_too() -> None:
    assert "announced array mean" in looks_at("size:mean")
    assert looks_at("coefficient-3").startswith("The document’s weight")
    assert looks_at("learned-gaussian", "learned").startswith("A small model")
    assert looks_at("mine", "my-family") == ""
