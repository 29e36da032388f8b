"""What all statistics say of themselves."""

from ksdp.audit.contract import Release
from ksdp.audit.mechanisms.pem.mechanisms import PEMKMeans
from ksdp.audit.mechanisms.privacy.hardt_roth import HardtRoth
from ksdp.audit.registry import statistics
from ksdp.audit.statistic import sentence_of
from ksdp.audit.statistics.linear.groups import GroupMean
from ksdp.audit.statistics.plain import statistics_of_arrays


def test_every_statistic_of_ours_has_one_plain_sentence() -> None:
    brought = [s for mechanism in (PEMKMeans(), HardtRoth()) for s in mechanism.statistics]
    arrays = statistics_of_arrays([Release("mean", (5,)), Release("offset", (3,))], 5)
    rows = {s.name: s for s in (*statistics().values(), *brought, *arrays)}
    rows |= {row.name: row for row in (GroupMean(rows["row-space-energy"]), GroupMean(rows["sigma"]))}
    said = {name: sentence_of(row) for name, row in rows.items()}
    assert [name for name, sentence in said.items() if not sentence.endswith(".")] == []
    assert len(set(said.values())) == len(said)
    assert "announced array mean" in said["projection:mean"]
