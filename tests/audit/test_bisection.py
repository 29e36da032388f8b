"""The first number that holds, against a walk."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from ksdp.audit.bisection import first_whole


@given(st.integers(0, 500), st.integers(0, 40))
def test_is_what_a_walk_meets_first(edge: int, above: int) -> None:
    wanted = next(n for n in count(above + 1) if n >= edge)
    assert first_whole(lambda n: n >= edge, above) == wanted
