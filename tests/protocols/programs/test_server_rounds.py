"""A run with a server that collects: what everybody learns, what the server sees, what ends it."""

from dataclasses import replace

import numpy as np
import pytest

from ksdp.audit.errors import ProtocolError
from ksdp.audit.mechanisms.privacy.transcript import GaussianReleases
from ksdp.protocols.channel.rounds import Round, run_together
from ksdp.protocols.channel.wire import pack, pack_array, pack_arrays, unpack
from ksdp.protocols.programs.programs import party_program, sum_entries
from ksdp.protocols.programs.rounds import largest_message, party_rounds
from ksdp.protocols.programs.run_terms import Statement

from ..conftest import Mail, body_of, ended_by, identity, instead, participant
from .noisy_parties import BY_UPLOADS, SERVER, ideal, kinds_said, sides, terms_of
from .test_party_rounds import NAMES, parts

FEDPOWER, FIRST, PCA = BY_UPLOADS


@pytest.mark.parametrize(("m", "mechanism"), [(2, PCA), (5, FEDPOWER), *((3, each) for each in BY_UPLOADS)])
def test_a_run_announces_what_the_audit_simulates_with_the_same_noise(m: int, mechanism: GaussianReleases) -> None:
    outcomes, said = run_together(sides(m, mechanism))
    assert len({outcome.digest for outcome in outcomes.values()}) == 1
    simulated = ideal(m, mechanism)
    public = outcomes["ada"].result.public
    for name, array in ((n, simulated[n]) for n in public if n in simulated):
        for node in outcomes:
            np.testing.assert_allclose(outcomes[node].result.public[name], array, rtol=0, atol=1e-12)
    assert outcomes[SERVER].sizes == (9,) * m
    limit = largest_message(terms_of(m, mechanism), sum_entries(mechanism, 12))
    assert all(len(message) <= limit for _, spoken in said for message in spoken.messages.values())


def test_uploads_go_to_the_server_alone() -> None:
    outcomes, said = run_together(sides(3, FEDPOWER))
    for sender, spoken in said:
        if spoken.kind == "upload":
            full = {peer for peer, message in spoken.messages.items() if unpack("round", message, 3)[2]}
            assert full == ({SERVER} if sender != SERVER else set())
    assert kinds_said(said, "ada") == {
        **dict.fromkeys(("greeting", "statement", "hello", "sizes", "public", "result"), 1),
        **dict.fromkeys(("upload", "told"), 2),
        "ask": 4,
    }
    assert "uploads, with that party's noise" in outcomes["ada"].reveals
    assert outcomes[SERVER].asked == outcomes["ada"].asked == {"sizes": 1, "upload": 2}


def test_what_the_first_shows_everybody_but_the_server_learns() -> None:
    outcomes, said = run_together(sides(3, FIRST))
    shown = [(sender, spoken) for sender, spoken in said if spoken.kind == "show"]
    for sender, spoken in shown:
        full = {peer for peer, message in spoken.messages.items() if unpack("round", message, 3)[2]}
        assert full == ({"bob", "cyd"} if sender == "ada" else set())
    assert "what the first party showed" in outcomes["ada"].reveals


def test_everybody_knows_that_the_server_collects() -> None:
    outcomes, _ = run_together(sides(2, PCA))
    for outcome in outcomes.values():
        assert outcome.statements[SERVER] == Statement(cleared=False, collects=True)
        assert outcome.statements[SERVER].as_json() == {"collects": True}
        assert not outcome.statements["ada"].collects


@pytest.mark.parametrize(
    ("kind", "sender", "receiver", "body", "message"),
    [
        ("upload", "ada", SERVER, b"", "ada said nothing where something is due"),
        ("upload", "ada", "bob", b"psst", "ada said something where nothing is due"),
        ("upload", SERVER, "bob", b"psst", "hub said something where nothing is due"),
        ("upload", "ada", SERVER, pack("upload", pack_array(np.ones((2, 3))), pack_array(np.ones(1))),
         "shapes: ada against bob, cyd"),
        ("upload", "ada", SERVER, pack("upload", b"x", b"y"), "array message was expected"),
        ("upload", "ada", SERVER, pack("upload", pack_array(np.full((2, 12), np.nan)), pack_array(np.ones(1))),
         "not finite"),
        ("told", SERVER, "bob", pack_array(np.eye(2, 12)), "another result|different results"),
        ("public", "bob", SERVER, pack_arrays({"V": np.eye(2, 12)}), "run is void: bob against ada, cyd."),
        ("ask", "bob", SERVER, pack("ask", b"sum", b""), "out of step: bob against ada, cyd."),
        ("ask", "bob", SERVER, pack("ask", b"sum", b"often"), "bob: What it asks for is damaged."),
        ("ask", "bob", SERVER, pack("ask", b"sum"), "bob: What it asks for is damaged."),
        ("ask", "bob", SERVER, pack("ask", b"sum", b"", b"x"), "bob: A number must have 8 bytes"),
        ("ask", "bob", "ada", pack("ask", b"sum", b""), "bob asks for something else"),
        ("sizes", "bob", "ada", bytes(8), "bob: no rows"),
        ("sizes", "bob", SERVER, bytes(8), "bob: no rows"),
        ("result", SERVER, "ada", bytes(32), "hub has another result"),
    ],
)  # fmt: skip
def test_who_deviates_ends_the_run(kind: str, sender: str, receiver: str, body: bytes, message: str) -> None:
    found = ended_by(sides(3, FEDPOWER), instead(kind, sender, receiver, body))
    assert any(part in found for part in message.split("|")), found


@pytest.mark.deviation("fedpower's and dpdispca's server: tell devices different numbers")
def test_a_server_that_tells_devices_different_numbers_voids_the_run() -> None:
    """It tells bob others, and takes no notice of the result that he then hands it."""

    def meddle(spoken: dict[str, Round], mail: Mail) -> None:
        if spoken[SERVER].kind == "told":
            mail["bob"][SERVER] = body_of(mail["bob"][SERVER], pack_array(np.eye(2, 12)))
        if spoken["bob"].kind == "public":
            mail[SERVER]["bob"] = mail[SERVER]["ada"]

    assert ended_by(sides(3, FEDPOWER), meddle) == "bob has another result: the run is void."


def test_all_that_ask_for_what_there_is_not_are_refused() -> None:
    def meddle(spoken: dict[str, Round], mail: Mail) -> None:
        for name in NAMES[:3]:
            if spoken[name].kind == "ask":
                mail[SERVER][name] = body_of(mail[SERVER][name], pack("ask", b"one-noise", b"0x1p-3"))

    assert "does not do" in ended_by(sides(3, FEDPOWER), meddle)


def test_a_party_that_says_it_collects_and_a_server_that_enters_are_refused() -> None:
    for who, said in (("ada", b"collects"), (SERVER, b"uncleared")):
        lie = instead("statement", who, "bob", pack("statement", said, b""))
        assert f"{who} takes part as what it is not" in ended_by(sides(3, FEDPOWER), lie)


def test_who_means_another_server_or_none_is_told() -> None:
    nodes = sides(3, FEDPOWER)
    other = replace(terms_of(3, FEDPOWER), server=participant("other"))
    nodes["bob"] = party_rounds(
        other, "bob", identity("bob"), party_program(FEDPOWER, parts(3)[1], 3), Statement(cleared=False)
    )
    spoken = {n: next(p) for n, p in nodes.items()}
    mail = {o: spoken[o].messages["ada"] for o in ("bob", "cyd", SERVER)}
    with pytest.raises(ProtocolError, match=r"bob agreed to something else: `server` is \["):
        nodes["ada"].send(mail)
