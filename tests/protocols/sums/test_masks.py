"""Keystreams against AES block by block; no number twice."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.sums import masks
from ksdp.protocols.sums.masks import Keystream, PairwiseMasks

from ..written_out import aes_ctr

KEY = bytes(range(16))


def block_by_block(key: bytes, number: int, entries: int) -> list[int]:
    """AES of number * 2^64 + i, one block after the other, as little-endian numbers."""
    stream = aes_ctr(key, number * 2**64, 8 * entries)
    return [int.from_bytes(stream[8 * i : 8 * i + 8], "little") for i in range(entries)]


def mask(stream: Keystream, number: int, entries: int) -> NDArray[np.uint64]:
    total = np.zeros(entries, dtype="<u8")
    stream.add_to(total, number)
    return total


@given(st.binary(min_size=16, max_size=16), st.integers(0, 2**64 - 1), st.integers(0, 70))
def test_a_mask_is_aes_in_counter_mode(key: bytes, number: int, entries: int) -> None:
    assert mask(Keystream(key), number, entries).tolist() == block_by_block(key, number, entries)


def test_masks_are_the_published_blocks() -> None:
    """Zeros under the key of zeros: H, E(K, Y0) and E(K, Y1) of test cases 1 and 2 in McGrew and Viega's GCM."""
    published = "66e94bd4ef8a2c3b884cfa59ca342b2e58e2fccefa7e3061367f1d57a4e7455a0388dace60b6a392f328c2b971b2fe78"
    assert mask(Keystream(bytes(16)), 0, 6).tobytes().hex() == published
    assert masks.keystream(masks.counter_mode(bytes(16)), 48).tobytes().hex() == published


def test_long_masks_go_on_where_the_last_chunk_ended() -> None:
    entries = 2 * masks._CHUNK // 8 + 13
    assert mask(Keystream(KEY), 5, entries).tolist() == block_by_block(KEY, 5, entries)


@given(st.lists(st.integers(0, 6), max_size=12))
def test_no_number_is_given_twice_or_out_of_order(numbers: list[int]) -> None:
    stream, used = Keystream(KEY), -1
    for number in numbers:
        if number > used:
            mask(stream, number, 4)
            used = number
        else:
            with pytest.raises(ProtocolError, match="used before"):
                mask(stream, number, 4)


def test_a_key_gives_no_more_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "MAX_BLOCKS", 10)
    stream = Keystream(KEY)
    mask(stream, 0, 11)  # six blocks
    with pytest.raises(ProtocolError, match="agree on new keys"):
        mask(stream, 1, 10)
    mask(stream, 1, 8)
    with pytest.raises(ProtocolError, match="agree on new keys"):
        mask(stream, 2, 1)


@given(st.integers(2, 6), st.integers(0, 50), st.data())
@settings(deadline=None)
def test_the_masks_of_all_parties_cancel(parties: int, entries: int, data: st.DataObject) -> None:
    keys = {
        frozenset((a, b)): data.draw(st.binary(min_size=16, max_size=16).filter(bool), label=f"{a}{b}")
        for a in range(parties)
        for b in range(a)
    }
    if len(set(keys.values())) < len(keys):
        return
    total = np.zeros(entries, dtype="<u8")
    for own in range(parties):
        mine = {str(b): keys[frozenset((own, b))] for b in range(parties) if b != own}
        PairwiseMasks(str(own), mine).add_to(total, 0)
    assert not total.any()


def test_what_cannot_be_masked_is_refused() -> None:
    for bad in (np.zeros(4, dtype=np.int64), np.zeros((2, 2), dtype=np.uint64), np.zeros(8, dtype=np.uint64)[::2]):
        with pytest.raises(InputError, match="contiguous vector"):
            Keystream(KEY).add_to(bad, 0)
    with pytest.raises(InputError, match="16 bytes; got 32"):
        Keystream(bytes(32))
    with pytest.raises(InputError, match="the same key"):
        PairwiseMasks("ada", {"bob": KEY, "cyd": KEY})
    with pytest.raises(InputError, match="with itself"):
        PairwiseMasks("ada", {"ada": KEY})
