"""Products by one thread: the order of additions, and so the last bits, depend on how many share them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any, cast

import scipy.linalg  # noqa: F401  # its library of products is one of those that are told
from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[Any]:
    """Hold NumPy's and SciPy's products to one thread.

    The libraries are looked up once: `threadpool_limits` looks for them in the process's memory map every time,
    which takes milliseconds.
    """
    return cast(AbstractContextManager[Any], _libraries().limit(limits=1))


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
