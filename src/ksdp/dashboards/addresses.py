"""Addresses: every state of the dashboard is one, so that it can be sent, kept and gone back to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from ksdp.storage.audits.queries import SORTS, VERDICTS, Filter
from ksdp.storage.store import InputError

PAGE_ROWS = 25
_LONGEST_SEARCH = 200
_MOST = 10**9


def link(path: str, /, anchor: str = "", **query: Any) -> str:
    """An address; what is None, empty or False is left out."""
    given = [(name, value) for name, value in query.items() if value not in (None, "", False)]
    return path + (f"?{urlencode(given)}" if given else "") + (f"#{anchor}" if anchor else "")


def whole_number(text: str, name: str, least: int = 0) -> int:
    """A number from an address or a form."""
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) < _MOST):
        raise InputError(f"`{name}` must be a whole number of at least {least}; got {text[:20]!r}.")
    return int(text)


def page_number(query: Mapping[str, str]) -> int:
    """Number of the page that is asked for, from 1."""
    return whole_number(query.get("page", "1"), "page", 1)


@dataclass(frozen=True, kw_only=True)
class Paged:
    """A page that shows a part of its rows."""

    total: int
    """Rows on all pages."""

    @property
    def pages(self) -> int:
        """How many there are."""
        return max(1, -(-self.total // PAGE_ROWS))


@dataclass(frozen=True)
class Listing(Filter):
    """Which documents of an audit are listed, how, and which part: what stands behind the `?`."""

    page: int = 1

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Listing:
        """From an address."""
        verdict, sort = query.get("verdict") or None, query.get("sort") or "evidence"
        search = query.get("search", "").strip()
        if verdict is not None and verdict not in VERDICTS:
            raise InputError(f"`verdict` must be one of {', '.join(VERDICTS)}.")
        if sort not in SORTS:
            raise InputError(f"`sort` must be one of {', '.join(SORTS)}.")
        if len(search) > _LONGEST_SEARCH:
            raise InputError(f"`search` must have at most {_LONGEST_SEARCH} characters.")
        down, reason = query.get("down") == "1", query.get("reason") or None
        return cls(verdict, search, sort, down, statistic=reason, page=page_number(query))

    @property
    def offset(self) -> int:
        """Rows before this page."""
        return (self.page - 1) * PAGE_ROWS

    @property
    def query(self) -> dict[str, Any]:
        """Query of it, without defaults."""
        return {
            "verdict": self.verdict,
            "reason": self.statistic,
            "search": self.search,
            "sort": None if self.sort == "evidence" else self.sort,
            "down": "1" if self.descending else None,
            "page": None if self.page == 1 else self.page,
        }

    def at(self, page: int) -> dict[str, Any]:
        """Another page of the same."""
        return replace(self, page=page).query

    def sorted_by(self, sort: str) -> dict[str, Any]:
        """The same by another column; by the same column, the other way round."""
        down = self.sort == sort and not self.descending
        return replace(self, sort=sort, descending=down, page=1).query

    def of(self, verdict: str | None, reason: str | None = None) -> dict[str, Any]:
        """The same for another verdict and reason."""
        return replace(self, verdict=verdict, statistic=reason, page=1).query

    def order(self, sort: str) -> str:
        """A column's order as a screen reader announces it."""
        if self.sort != sort:
            return "none"
        falls = sort in ("advantage", "band", "bound")
        return "ascending" if falls == self.descending else "descending"
