"""Signs of numbers on shares, by bits that the three parties hold in pairs.

x is opened behind a mask, C = x + r_0 + r_1 + r_2 + a constant; every r_m is known to the two parties other than
m (`arithmetic`). So x = A_0 + A_1 + A_2 modulo 2^64 with A_m known to the same two, and the sign is the highest
bit of that sum. It comes from an adder on words whose bits are held the same way: a word is the XOR of three
parts, part m known to all but party m. XOR and shifts are local; for an AND everybody computes the terms that it
knows, hides them behind a sharing of zero and tells one other party (Araki, Furukawa, Lindell, Nof and Ohara 2016,
semi-honest, honest majority). What a party is told is uniform given all that it knows.

Eight rounds and 112 bytes a number.
"""

from __future__ import annotations

from hashlib import shake_128
from typing import Any

import numpy as np

from ksdp.audit.array_types import Words
from ksdp.audit.errors import ProtocolError
from ksdp.protocols.shared.engine import COMPUTING

WIDTH = 64
"""Bits of a word."""
Pair = tuple[Words, Words]
"""The two parts that a party holds: those of the parties after it, and after that."""


class PairedBits:
    """One party's side of computations on words whose bits are held in pairs.

    Parameters
    ----------
    runtime : mpyc.runtime.Runtime
        Its keys make sharings of zero, its connections carry what is told.
    """

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        me = runtime.pid
        self.after, self.before = (me + 1) % COMPUTING, (me + 2) % COMPUTING

    async def negative(self, parts: Pair) -> Pair:
        """The highest bit of A_0 + A_1 + A_2 modulo 2^64, in words of that one bit.

        Parameters
        ----------
        parts
            A_m of the parties after this one.
        """
        one, other = parts
        # A_0 + A_1 + A_2 is their XOR and twice their majority; two parts know each product in it.
        carry = await self._told(one & other)
        carry = (carry[0] << np.uint64(1), carry[1] << np.uint64(1))
        generate = await self._both(parts, carry)
        whole = propagate = (one ^ carry[0], other ^ carry[1])
        for level in range(6):
            step = np.uint64(1 << level)
            left = [np.concatenate([part, part]) for part in propagate]
            right = [np.concatenate([g << step, p << step]) for g, p in zip(generate, propagate, strict=True)]
            found = await self._both((left[0], left[1]), (right[0], right[1]))
            half = len(one)
            generate = (generate[0] ^ found[0][:half], generate[1] ^ found[1][:half])
            propagate = (found[0][half:], found[1][half:])
        top = np.uint64(WIDTH - 1)
        carried = (generate[0] << np.uint64(1), generate[1] << np.uint64(1))
        return (whole[0] ^ carried[0]) >> top, (whole[1] ^ carried[1]) >> top

    async def _both(self, left: Pair, right: Pair) -> Pair:
        """The AND, bit by bit."""
        return await self._told((left[0] & right[0]) ^ (left[0] & right[1]) ^ (left[1] & right[0]))

    async def _told(self, mine: Words) -> Pair:
        """Parts of the XOR of what every party has computed."""
        runtime = self._runtime
        unique = runtime._prss_uci()
        hidden = mine.copy()
        for key in runtime._prss_keys.values():
            hidden ^= np.frombuffer(shake_128(key + unique).digest(8 * len(mine)), dtype="<u8")
        runtime._program_counter[0] += 1
        runtime._send_message(self.after, hidden.astype("<u8").tobytes())
        (arrived,) = await runtime.gather([runtime._receive_message(self.before)])
        if len(arrived) != 8 * len(mine):
            raise ProtocolError("A computing party sent bits of another length.")
        # What a party computes is the part of the one before it: it and the one after it know it.
        return np.frombuffer(arrived, dtype="<u8").astype(np.uint64), hidden
