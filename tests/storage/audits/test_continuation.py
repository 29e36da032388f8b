"""Who continues an audit, and what a file says once its writer is dead."""

import pytest

from ksdp.audit.errors import StoreError
from ksdp.storage.audits.continuation import (
    Origin,
    claimed,
    read_origin,
    read_progress,
    write_origin,
    write_progress,
)
from ksdp.storage.store import Store


def state(store: Store) -> str | None:
    said = read_progress(store, "a1")
    return None if said is None else said["state"]


def test_one_continues_an_audit_at_a_time(store: Store) -> None:
    with claimed(store, "a1") as mine, claimed(store, "a1") as other, claimed(store, "a2") as elsewhere:
        assert mine is not None
        assert other is None
        assert elsewhere is not None
    with claimed(store, "a1") as again:
        assert again is not None


GOES_ON, ENDS = ("starting", "waiting", "running"), ("done", "failed", "interrupted")


@pytest.mark.parametrize("said", [*GOES_ON, *ENDS])
def test_what_goes_on_is_interrupted_once_its_process_is_gone_and_an_end_stays(store: Store, said: str) -> None:
    assert state(store) is None
    with claimed(store, "a1"):
        write_progress(store, "a1", {"state": said})
        assert state(store) == said
    assert state(store) == ("interrupted" if said in GOES_ON else said)


def test_a_damaged_file_is_no_answer(store: Store) -> None:
    with claimed(store, "a1"):
        write_progress(store, "a1", {"state": "running"})
    (store.root / "reviews" / "more-runs" / "a1.json").write_text("{")
    with pytest.raises(StoreError, match="a1.json of more runs is damaged"):
        read_progress(store, "a1")


def test_an_audit_says_what_it_continues(store: Store) -> None:
    assert read_origin(store, "a2") is None
    write_origin(store, "a2", Origin("spec", ("a1", "a2")))
    assert read_origin(store, "a2") == Origin("spec", ("a1", "a2"))
