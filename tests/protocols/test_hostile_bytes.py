"""Whatever bytes a peer sends, a reader takes them or ends the run with a reason: nothing else is raised."""

import json
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.errors import ProtocolError
from ksdp.extras.pem.rounds import read_upload
from ksdp.extras.pem.states import unpack_state
from ksdp.protocols.channel.keys import Envelope
from ksdp.protocols.channel.wire import pack, pack_arrays, unpack_array, unpack_arrays, unpack_names
from ksdp.protocols.network.links import Resume
from ksdp.protocols.programs.run_terms import Greeting, Statement
from ksdp.protocols.sums.secure_sum import Contribution

READERS: dict[str, Callable[[bytes], Any]] = {
    "greeting": Greeting.from_bytes,
    "statement": Statement.from_bytes,
    "envelope": Envelope.from_bytes,
    "contribution": Contribution.from_bytes,
    "pem-upload": lambda data: read_upload(data, bytes(32), 2, 2),
    "pem-state": unpack_state,
    "resume": Resume.from_bytes,
    "array": unpack_array,
    "arrays": unpack_arrays,
    "names": unpack_names,
}
WORDS = ("sum-header", "shape", "block", "blocks", "array", "names", "f8", "shares")

scalars = st.binary(max_size=40) | st.integers(0, 2**64 - 1).map(lambda n: n.to_bytes(8, "big"))
texts = st.text(max_size=12).map(lambda text: text.encode("utf-8", "replace"))
numbers = st.lists(st.floats(width=64), max_size=4).map(lambda values: np.array(values).tobytes())
leaves = scalars | texts | numbers
fields = st.recursive(
    leaves,
    lambda inner: st.tuples(st.sampled_from([*READERS, *WORDS]), st.lists(inner, max_size=6)).map(
        lambda said: pack(said[0], *said[1])
    ),
    max_leaves=12,
)
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def taken_or_refused(name: str, data: bytes) -> None:
    try:
        READERS[name](data)
    except ProtocolError as error:
        assert str(error)  # noqa: PT017 - whatever else is raised fails the test


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=30)
@given(data=st.data())
def test_no_bytes_make_a_reader_fail_in_another_way_than_by_refusing(name: str, data: st.DataObject) -> None:
    inner = st.lists(fields, max_size=8).map(lambda parts: pack(name, *parts))
    taken_or_refused(name, data.draw(inner | fields | st.binary(max_size=200)))


TERMS = {"rank": 3, "parties": [["ada", "00"]], "parameters": {"sweeps": 2}}


@settings(max_examples=100)
@given(changed=st.dictionaries(st.sampled_from([*TERMS, "more"]), json_like, max_size=3))
def test_no_terms_make_a_comparison_fail_in_another_way(changed: dict[str, Any]) -> None:
    data = pack("greeting", bytes(32), version("ksdp").encode(), json.dumps(TERMS | changed).encode())
    try:
        Greeting.from_bytes(data).check(TERMS, "bob")
    except ProtocolError as error:
        assert str(error).isprintable()  # noqa: PT017 - whatever else is raised fails the test


@pytest.mark.parametrize("text", ["\x1b[2J", "0.1\n0.2", "0.1\u202e", "x" * 81])
def test_what_a_peer_says_of_itself_moves_no_terminal(text: str) -> None:
    with pytest.raises(ProtocolError, match="damaged"):
        Greeting.from_bytes(pack("greeting", bytes(32), text.encode(), b"{}"))


@settings(max_examples=100)
@given(at=st.integers(0, 10**6), bit=st.integers(0, 7), cut=st.none() | st.integers(0, 10**6))
def test_a_changed_message_of_arrays_is_read_or_refused(at: int, bit: int, cut: int | None) -> None:
    content = bytearray(pack_arrays({"V": np.arange(6.0).reshape(2, 3), "sigma": np.ones(2)}))
    content[at % len(content)] ^= 1 << bit
    taken_or_refused("arrays", bytes(content if cut is None else content[: cut % len(content)]))
