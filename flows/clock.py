"""The clock that flows are given: a test gives another."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""The time, with a time zone."""


def utc_now() -> datetime:
    """The time of this machine."""
    return datetime.now(UTC)
