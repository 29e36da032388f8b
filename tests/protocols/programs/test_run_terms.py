"""What parties compare, and that nothing damaged passes for it."""

from dataclasses import replace

import pytest

from ksdp.audit.errors import InputError, ProtocolError, SpecError
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.protocols.channel.wire import pack
from ksdp.protocols.programs.programs import Precision
from ksdp.protocols.programs.run_terms import COLLECTS, Greeting, Statement, different_terms, session_seed

from .test_party_rounds import NMF, terms_of


def test_every_term_changes_the_digest() -> None:
    terms = terms_of(3)
    others = [
        terms_of(2),
        replace(terms, vocabulary="sha256:1"),
        replace(terms, features=13),
        replace(terms, precision=Precision(30)),
        replace(terms, precision=Precision(31, 2.0**19)),
        *(replace(terms, mechanism=replace(NMF, **{name: 0.5})) for name in ("tolerance", "alpha", "delta")),
        *(replace(terms, mechanism=replace(NMF, **{name: 4})) for name in ("rank", "sweeps", "start_seed")),
    ]
    digests = {each.digest for each in [terms, *others]}
    assert len(digests) == len(others) + 1
    assert {"mechanism.rank", "mechanism.start_seed", "vocabulary", "precision.fraction_bits"} <= set(terms.terms)


def test_what_no_run_can_keep_is_refused() -> None:
    with pytest.raises(InputError, match="needs"):
        terms_of(2, precision=Precision(31, 2.0**40))
    with pytest.raises(InputError, match="sorted by name"):
        replace(terms_of(2), participants=terms_of(2).participants[::-1])
    with pytest.raises(SpecError, match="`solver` must be 'power'"):
        terms_of(2, PDSVD(rank=2))
    with pytest.raises(SpecError, match="its own topics"):
        terms_of(2, PDNMF(rank=2, start="best-of-m"))
    with pytest.raises(SpecError, match="below the number of features"):
        terms_of(2, PDSVD(rank=12, solver="power"))


def test_a_greeting_comes_back_and_names_what_differs_without_repeating_strangers_words() -> None:
    terms = terms_of(2)
    greeting = Greeting(terms.terms, bytes(32))
    assert Greeting.from_bytes(greeting.to_bytes()) == greeting
    greeting.check(terms.terms, "bob")
    odd = Greeting({**terms.terms, "\x1b[31m": "0"}, bytes(32))
    with pytest.raises(ProtocolError) as caught:
        odd.check(terms.terms, "bob")
    assert str(caught.value).isprintable()
    assert "a term that is not known here" in str(caught.value)


def test_what_follows_from_a_line_is_listed_after_it() -> None:
    terms = replace(terms_of(3), features=40)
    two, three = (replace(terms, mechanism=PDSVD(rank=rank, opens="final")) for rank in (2, 3))
    first, *others = different_terms(two.terms, three.terms)
    assert first == "`mechanism.rank` is 2 here and 3 there"
    assert others
    assert all(line.startswith("`shares.") for line in others)


@pytest.mark.parametrize(
    "fields",
    [
        (b"cleared", b""),
        (b"uncleared", b"ab" * 32),
        (b"cleared", b"AB" * 32),
        (b"maybe", b""),
        (b"collects", b"ab" * 32),
    ],
)
def test_a_statement_says_one_of_three_things(fields: tuple[bytes, bytes]) -> None:
    with pytest.raises(ProtocolError):
        Statement.from_bytes(pack("statement", *fields))


def test_a_server_has_nothing_to_clear() -> None:
    assert Statement.from_bytes(COLLECTS.to_bytes()) == COLLECTS
    with pytest.raises(InputError, match="nothing that could be cleared"):
        Statement(True, "ab" * 32, collects=True)


def test_no_two_runs_share_a_session() -> None:
    terms = terms_of(2)
    nonces = {"ada": bytes(32), "bob": bytes(32)}
    said = {"ada": Statement(False), "bob": Statement(False)}
    first = session_seed(terms, nonces, said)
    assert first != session_seed(terms, nonces | {"bob": bytes([1] * 32)}, said)
    assert first != session_seed(terms, nonces, said | {"bob": Statement(True, "ab" * 32)})
    assert first != session_seed(replace(terms, vocabulary="sha256:1"), nonces, said)
