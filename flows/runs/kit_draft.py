"""The draft of a protocol file: as it stood in the invitation, or as an edition of the kit has it since.

Requests name the invitation and nothing of its draft, so that they hold whatever becomes of it; what a draft makes
of them (a server that it has no need of) is refused when it is packaged. That all mean the same is said by the
protocol hash, and what a party has cleared by its clearance, which names the mechanism.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ksdp.audit.errors import InputError
from ksdp.audit.registry import mechanism_of
from ksdp.protocols.runs.protocol_file import parse_draft
from ksdp.storage.readers.files import read_text
from ksdp.storage.readers.toml import read_toml
from ksdp.storage.runs.sealed import Sealed

VOCABULARY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.txt")
"""Names that a vocabulary may have: it is written into every party's folder."""
_LARGEST = 1 << 20
"""Characters of a draft that an edition may bring; each check sends the kit."""
_SHOWN = 60


@dataclass(frozen=True)
class Draft:
    """The protocol file but for its parties, as text, and the list that it names."""

    text: str
    vocabulary: str | None


def read_draft(path: Path) -> Draft:
    """Read a draft and check it."""
    tables = read_toml(path, "the draft")
    for key in ("parties", "server"):
        if key in tables:
            raise InputError(f"a draft names no `{key}`: they come from requests (`ksdp kit request`).")
    spec = parse_draft(tables)
    mechanism_of(spec.mechanism, installed=True)
    named = spec.features.vocabulary
    if named is not None and not VOCABULARY.fullmatch(named):
        raise InputError(
            "`features.vocabulary` of a draft must be a file NAME.txt beside it: it goes with the kit."
        )
    return Draft(read_text(path, "utf-8"), None if named is None else read_text(path.parent / named, "utf-8"))


def invited_draft(invitation: Sealed) -> Draft:
    """The draft of an invitation that was read."""
    return Draft(str(invitation.said["text"]), invitation.said["vocabulary"])


def changed_draft(invited: Draft, now: Draft) -> dict[str, Any]:
    """What a kit says of a draft that is not the one that parties were invited with: its fields, or none.

    Raises
    ------
    InputError
        If it is too large for a kit.
    """
    if now == invited:
        return {}
    vocabulary = None if now.vocabulary == invited.vocabulary else now.vocabulary
    if len(now.text) + len(vocabulary or "") > _LARGEST:
        raise InputError(
            f"the changed draft has more than {_LARGEST} characters with its vocabulary, too many for a kit: "
            "start a new invitation in another folder."
        )
    return {"draft": {"text": now.text, "vocabulary": vocabulary}}


def draft_changes(before: Draft, after: Draft) -> tuple[str, ...]:
    """What differs, one line each."""
    if before == after:
        return ()
    try:
        old, new = (dict(_flat(tomllib.loads(draft.text))) for draft in (before, after))
    except (tomllib.TOMLDecodeError, RecursionError):
        return ("the draft is another, and cannot be read",)
    keys = [key for key in {**new, **old} if old.get(key) != new.get(key)]
    if "mechanism.name" in keys:  # what only the other one had says nothing of this one
        keys = [key for key in keys if key in new or not key.startswith("mechanism.")]
    lines = [f"`{key}` is {new.get(key, 'left out')}, was {old.get(key, 'left out')}" for key in keys]
    if before.vocabulary != after.vocabulary:
        counts = [len((draft.vocabulary or "").splitlines()) for draft in (after, before)]
        lines.append(f"the vocabulary is another: {counts[0]} terms, were {counts[1]}")
    return tuple(lines) or ("comments in the draft, and nothing else of it",)


def _flat(tables: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tables.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        else:
            text = json.dumps(value, ensure_ascii=True, default=str)
            yield _short(json.dumps(name)[1:-1]), _short(text)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
