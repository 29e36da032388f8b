"""Recording decisions: whole or not at all, by one person or two, from several processes at once."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import InputError, InvalidAudit, StoreError
from ksdp.audit.reviewing import CorpusUnits, Decision, Proposal, StaleDecision, Status, fold
from ksdp.storage.audits.history import read_summary
from ksdp.storage.audits.ledger import read_ledger
from ksdp.storage.codec import write_json_with_checksum
from ksdp.storage.findings import write_summary
from ksdp.storage.mapped_corpus import store_corpus
from ksdp.storage.reviews.decisions import (
    Policy,
    Subject,
    append,
    document_log,
    document_state,
    exclusions,
    head,
    lineage,
    newer_audits,
    newest_audits,
    read_log,
    read_policy,
    set_policy,
    states,
    write_policy,
)
from ksdp.storage.reviews.log import check_chain, log_file
from ksdp.storage.store import Store

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def say(
    store: Store, document: str, decision: str, who: str = "Ana", saw: int | None = None, audit: str = "one"
) -> int:
    proposal = Proposal(audit, document, Decision(decision), "a reason", who, saw)
    return append(store, [proposal], NOW)[0].number


def test_what_was_decided_is_found_again(store: Store, audited: Callable[..., str]) -> None:
    audited()
    assert states(store, "one") == {}
    assert document_state(store, "one", "3").status is Status.OPEN
    batch = [Proposal("one", d, Decision.ACCEPT, " a reason ", "Ana ") for d in ("3", "1")]
    made = append(store, batch, NOW)
    assert [(e.number, e.document, e.saw, e.reason, e.reviewer) for e in made] == [
        (1, "3", 0, "a reason", "Ana"),
        (2, "1", 0, "a reason", "Ana"),
    ]
    assert say(store, "3", "exclude", "Ben", saw=1) == 3
    found = states(store, "one")
    assert {d: (s.status, s.decision, s.version) for d, s in found.items()} == {
        "3": ("decided", "exclude", 3),
        "1": ("decided", "accept", 2),
    }
    with pytest.raises(InputError, match="is excluded, in audit one by Ben"):
        say(store, "3", "accept")
    assert list(states(store, "one", ["4", "1"])) == ["4", "1"]
    log = read_log(store)
    assert log[:2] == made
    assert read_log(store, document="3", newest_first=True) == [log[2], log[0]]
    assert read_log(store, audit="one", limit=1, offset=1) == [log[1]]
    assert read_log(store, audit="two") == []
    assert head(store).number == 3
    assert head(store).hash == log[2].hash
    assert check_chain(store.root).whole


def test_a_stale_decision_is_refused_and_shows_the_newer_one(store: Store, audited: Callable[..., str]) -> None:
    audited()
    say(store, "1", "accept", saw=0)
    with pytest.raises(StaleDecision) as refused:
        say(store, "1", "exclude", "Ben", saw=0)
    assert refused.value.newer == read_log(store)[0]
    both = [Proposal("one", d, Decision.EXCLUDE, "why", "Ben", 0) for d in ("2", "1")]
    with pytest.raises(StaleDecision):
        append(store, both, NOW)
    assert len(read_log(store)) == 1  # not even the one that was fresh


def test_a_change_of_policy_is_an_entry_of_the_log_and_of_no_document(
    store: Store, audited: Callable[..., str], tmp_path: Path
) -> None:
    audited()
    say(store, "1", "accept")
    roles = tmp_path / "roles.toml"
    roles.write_text('four_eyes = true\ndecide = ["Ana"]\n')
    policy, entry = set_policy(store, str(roles), "Ben", NOW)
    assert read_policy(store) == policy == Policy(four_eyes=True, decide=("Ana",))
    assert read_log(store)[1] == entry
    assert (entry.number, entry.reviewer, entry.at, entry.decision) == (2, "Ben", NOW, "policy")
    assert entry.reason == "two persons decide; may decide: Ana; may sign: every key"
    assert document_state(store, "one", "1").waiting is not None  # nobody confirmed it
    assert check_chain(store.root).whole
    set_policy(store, "one-person", "Ben", NOW)
    assert document_state(store, "one", "1").decision == "accept"
    log_file(store.root).write_bytes(log_file(store.root).read_bytes().replace(b"two persons", b"one persons"))
    assert check_chain(store.root).broken == 2


def test_a_policy_is_decided_about_no_document(store: Store, audited: Callable[..., str]) -> None:
    audited()
    with pytest.raises(InputError, match="is about no document"):
        say(store, "1", "policy")


def test_two_people_where_the_store_asks_for_two(store: Store, audited: Callable[..., str]) -> None:
    audited()
    assert read_policy(store) == Policy(four_eyes=False)
    say(store, "1", "accept")
    write_policy(store, Policy(four_eyes=True))
    assert document_state(store, "one", "1").status is Status.WAITING  # decided before two were asked for
    number = say(store, "2", "exclude")
    with pytest.raises(InputError, match="another must confirm"):
        say(store, "2", "confirm", "ana", saw=number)
    with pytest.raises(StaleDecision):
        say(store, "2", "confirm", "Ben", saw=number - 1)
    say(store, "2", "confirm", "Ben", saw=number)
    found = document_state(store, "one", "2")
    assert (found.status, found.decision) == ("decided", "exclude")
    assert found.confirmed.reviewer == "Ben"
    (store.root / "reviews" / "policy.json").write_text('{"four_eyes": 0}')
    with pytest.raises(StoreError, match=r"policy\.json"):
        say(store, "3", "accept")


def test_who_is_listed_decides_and_others_comment(store: Store, audited: Callable[..., str]) -> None:
    audited()
    say(store, "1", "accept", "Cem")
    write_policy(store, Policy(four_eyes=True, decide=("Ana", "Ben")))
    for decision in ("exclude", "more-runs", "withdraw"):
        with pytest.raises(InputError, match=r"'Cem' may comment .*, and not decide: ask one of Ana, Ben, or"):
            say(store, "1", decision, "Cem")
    number = say(store, "2", "accept", " ana")
    with pytest.raises(InputError, match="may comment"):
        say(store, "2", "confirm", "Cem", saw=number)
    comment = say(store, "2", "comment", "Cem")
    found = document_state(store, "one", "2")
    assert (found.status, found.version) == ("waiting", number), "a comment makes nobody's decision stale"
    assert [entry.number for entry in document_log(store, "one", "2")] == [comment, number]
    say(store, "2", "confirm", "Ben", saw=number)
    assert document_state(store, "one", "2").decision == "accept"


def test_an_owner_stays_with_the_document_when_it_is_audited_again(
    store: Store, audited: Callable[..., str]
) -> None:
    audited("one", 5)
    to_ben = Proposal("one", "1", Decision.ASSIGN, "", "Ana", None, " Ben ", "2026-12-31")
    append(store, [to_ben], NOW)
    audited("two", 3, day=2, seed=9)
    (entry,) = read_log(store)
    assert (entry.owner, entry.due, entry.reason) == ("Ben", "2026-12-31", "")
    assert states(store, "two")["1"].assigned == entry
    say(store, "1", "accept", audit="two")
    assert states(store, "two")["1"].assigned is None
    assert check_chain(store.root).whole


def test_a_newer_audit_of_the_same_question_makes_old_decisions_stale(
    store: Store, audited: Callable[..., str]
) -> None:
    audited("one", 5)
    say(store, "1", "accept")
    audited("two", 3, day=2, seed=9)
    audited("void", 5, day=3, valid=False)
    audited("other", 5, day=4, mechanism={"name": "pd-svd", "rank": 4})
    assert newer_audits(store, "one") == ["two"]
    assert newer_audits(store, "two") == newer_audits(store, "other") == []
    assert [entry.audit for entry in newest_audits(store)] == ["other", "two"]
    old = document_state(store, "one", "1")
    assert (old.status, old.decision, old.superseded_by) == ("superseded", "accept", "two")
    with pytest.raises(StaleDecision, match="audited again in two"):
        say(store, "1", "exclude")
    new = states(store, "two")["1"]
    assert (new.status, new.version, new.earlier) == ("open", 0, read_log(store)[0])
    say(store, "4", "accept")  # the newer audit does not hold it
    assert "4" not in states(store, "two")
    with pytest.raises(InvalidAudit, match="controls of audit void failed"):
        say(store, "1", "accept", audit="void")


@pytest.mark.parametrize(
    "changes",
    [
        {"decision": {"margin": 0.5}},
        {"statistics": {"names": ["d-sum"]}},
        {"design": {"with_runs": 90}},
        {"corpus": {"path": "elsewhere/mail.parquet"}},
        {"corpus": {"path": "renamed.parquet"}},
    ],
)
def test_how_it_was_asked_makes_no_other_question(
    store: Store, audited: Callable[..., str], changes: dict[str, Any]
) -> None:
    audited("one", 5)
    audited("two", 5, day=2, **changes)
    assert newer_audits(store, "one") == ["two"]
    assert [entry.audit for entry in newest_audits(store)] == ["two"]


def test_what_another_audit_proved_stands_beside_the_newest_verdict(
    store: Store, audited: Callable[..., str]
) -> None:
    loose = {"decision": {"margin": 0.1}}
    audited("one", 5, sensitive=["2"])
    audited("two", 5, day=2, seed=9, sensitive=["4"], **loose)
    audited("three", 5, day=3, seed=10)
    found = states(store, "three")
    assert {name: state.proved_by for name, state in found.items()} == {"2": "one"}, "0.1 is less than 0.2"
    assert states(store, "two")["2"].proved_by == "one"
    assert document_state(store, "three", "3").proved_by is None


@pytest.mark.parametrize(
    ("audit", "documents", "error", "message"),
    [
        ("none", ["1"], StoreError, "no finished audit 'none'"),
        ("one", ["77"], InputError, "no document '77'"),
        ("one", ["1", "1"], InputError, "named twice"),
        ("one", ["4"], InputError, "`saw` must be in 0 to 0, the newest entry; got 4"),
    ],
)
def test_what_does_not_exist_is_refused(
    store: Store, audited: Callable[..., str], audit: str, documents: list[str], error: type, message: str
) -> None:
    audited()
    saw = 4 if documents == ["4"] else None
    with pytest.raises(error, match=message):
        append(store, [Proposal(audit, d, Decision.ACCEPT, "why", "Ana", saw) for d in documents], NOW)
    with pytest.raises(InputError, match="time zone"):
        append(store, [], NOW.replace(tzinfo=None))
    assert not log_file(store.root).exists()


def test_a_torn_line_is_no_entry_and_nothing_is_added_behind_a_broken_one(
    store: Store, audited: Callable[..., str]
) -> None:
    audited()
    for document in "12":
        say(store, document, "accept")
    log = log_file(store.root)
    log.write_bytes(log.read_bytes() + b'{"at":"20')
    assert len(read_log(store)) == 2
    assert say(store, "3", "accept") == 3
    good = log.read_bytes()
    for spoilt in (good.replace(b"a reason", b"b reason"), good[: good.rindex(b"\n", 0, -1) + 1], good[:-1]):
        log.write_bytes(spoilt)
        with pytest.raises(StoreError, match="broken"):
            say(store, "4", "accept")
        assert log.read_bytes() == spoilt
    log.write_bytes(good)
    assert say(store, "4", "accept") == 4


WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from ksdp.audit.reviewing import StaleDecision
from ksdp.audit.reviewing import Decision, Proposal
from ksdp.storage.reviews.decisions import append
from ksdp.storage.store import Store
store, who = Store.open(Path(sys.argv[1])), sys.argv[2]
for document in range(5):
    for saw in (None, None, None, 0):
        try:
            append(store, [Proposal("one", str(document), Decision.ACCEPT, "why", who, saw)], datetime.now(UTC))
        except StaleDecision:
            print("stale")
"""


@pytest.mark.e2e
def test_several_processes_add_to_one_chain(store: Store, audited: Callable[..., str]) -> None:
    audited()
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(store.root), who], stdout=subprocess.PIPE, text=True)
        for who in ("Ana", "Ben", "Cem")
    ]
    stale = sum(process.communicate(timeout=600)[0].count("stale") for process in running)
    assert [process.returncode for process in running] == [0, 0, 0]
    assert stale == 15  # what saw version 0 came after something, each time
    log = read_log(store)
    assert check_chain(store.root).entries == len(log) == 45
    assert Counter(entry.reviewer for entry in log) == {"Ana": 15, "Ben": 15, "Cem": 15}
    for document, found in states(store, "one").items():
        assert found == fold(log, "one", document, four_eyes=False)  # the slow way
        mine = [entry for entry in log if entry.document == document]
        assert [entry.saw for entry in mine] == [0, *(entry.number for entry in mine[:-1])]


RANK_5 = {"name": "pd-svd", "rank": 5}


def test_an_audit_of_another_version_is_never_overlooked(store: Store, audited: Callable[..., str]) -> None:
    """Where it asked the same, its level was spent: nothing is signed as if it had not been."""
    mine, same, other = audited("mine", day=3), audited("same", day=2), audited("other", day=1, mechanism=RANK_5)
    for name in (other, same):
        assert lineage(store, mine, read_ledger(store))[1] == [same]
        file = store.audit(name) / "audit.json"
        write_json_with_checksum(file, json.loads(file.read_text()) | {"version": 0})
        os.utime(file, ns=(1, 1))
    with pytest.raises(StoreError, match="'same' cannot be read: its summary has version 0"):
        lineage(store, mine, read_ledger(store))[1]


def corpus_of(groups: list[str] | None = None) -> Corpus:
    ids = np.array([str(n) for n in range(5)])
    return Corpus(sp.csr_array(np.eye(5)), ids, None, None if groups is None else np.array(groups))


@pytest.mark.parametrize(
    "asked",
    [
        {"decision": {"margin": 0.5}},
        {"statistics": {"names": ["d-sum"]}},
        {"mechanism": {"name": "pd-svd", "rank": 5}},
        {"corpus": {"path": "/elsewhere/mail.parquet", "weighting": "counts"}},
        {"seed": 9},
    ],
)
def test_an_exclusion_holds_whatever_is_asked_until_it_is_withdrawn(
    store: Store, audited: Callable[..., str], asked: dict
) -> None:
    audited("one", 5)
    say(store, "1", "exclude")
    audited("other", 5, day=2, **asked)
    found = document_state(store, "other", "1")
    assert found.exclusion == read_log(store)[0]
    assert states(store, "other")["1"] == found
    corpus = corpus_of()
    assert list(exclusions(store, corpus, "mail.parquet")) == ["1"]
    assert exclusions(store, corpus, "post.parquet") == {}
    with pytest.raises(InputError, match=r"is excluded, in audit one by Ana on 2026-03-01: a reason\. Withdraw"):
        say(store, "1", "accept", audit="other")
    say(store, "1", "withdraw", audit="other")
    assert document_state(store, "one", "1").exclusion is None
    say(store, "1", "accept", audit="other")
    assert exclusions(store, corpus, "mail.parquet") == {}


def test_a_person_is_excluded_before_any_audit_with_all_their_documents(
    store: Store, audited: Callable[..., str]
) -> None:
    units = CorpusUnits("sha256:c", "mail.parquet", "group")
    subject = Subject(units, {"ann", "bob"})

    def decide(group: str, decision: str) -> None:
        append(store, [Proposal("", group, Decision(decision), "objection", "Ana")], NOW, subject=subject)

    decide("ann", "exclude")
    with pytest.raises(InputError, match="mail.parquet has no group 'cyd'"):
        decide("cyd", "exclude")
    with pytest.raises(InputError, match="without an audit, `decision` must be one of exclude"):
        decide("bob", "accept")
    groups = ["ann", "bob", "ann", "bob", "cyd"]
    corpus = corpus_of(groups)
    assert {document: entry.document for document, entry in exclusions(store, corpus, "mail.parquet").items()} == {
        "0": "ann",
        "2": "ann",
    }
    with pytest.raises(InputError, match=r"exclude 1 group of mail.parquet, .*set `corpus.group`"):
        exclusions(store, corpus_of(), "mail.parquet")
    households = exclusions(store, corpus_of(["x", "x", "y", "y", "y"]), "mail.parquet")
    assert list(households) == ["group ann"], "nothing is called ann, and somebody is told"
    audited()
    store_corpus(corpus, store.corpus(read_summary(store.audit("one")).corpus))
    assert document_state(store, "one", "2").exclusion == read_log(store)[0]
    assert list(states(store, "one")) == ["0", "2"]
    with pytest.raises(InputError, match="excluded with the group 'ann': withdraw that"):
        say(store, "2", "withdraw")
    decide("ann", "withdraw")
    assert exclusions(store, corpus, "mail.parquet") == states(store, "one") == {}


def test_a_group_is_out_with_a_document_of_it(store: Store, audited: Callable[..., str]) -> None:
    """A clearance of groups rests on an audit of whole groups."""
    summary = read_summary(store.audit(audited()))
    write_summary(store.audit("one"), replace(summary, design=replace(summary.design, unit="group")))
    corpus = replace(corpus_of(["0", "1", "0", "1", "2"]), ids=np.array([f"d{n}" for n in range(5)]))
    store_corpus(corpus, store.corpus(summary.corpus))
    subject = Subject(CorpusUnits("sha256:c", "mail.parquet", "document"), {"d2"})
    append(store, [Proposal("", "d2", Decision.EXCLUDE, "objection", "Ana")], NOW, subject=subject)
    assert {name: state.exclusion for name, state in states(store, "one").items()} == {"0": read_log(store)[0]}
