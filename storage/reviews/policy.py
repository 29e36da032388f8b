"""How decisions are made in a store: `reviews/policy.json`."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ksdp.audit.errors import StoreError
from ksdp.storage.checksums import read_checked_json, write_checked_json
from ksdp.storage.store import Store


@dataclass(frozen=True, slots=True)
class Policy:
    """How decisions are made in a store."""

    four_eyes: bool = False
    """A second person must confirm `exclude`, `accept` and `withdraw`."""
    signed: bool = False
    """Every decision must be signed by its decider's key, and the second person's be another one: on the command
    line alone, because the dashboard holds no keys."""


def read_policy(store: Store) -> Policy:
    """The policy of a store; the default where none was set.

    Raises
    ------
    StoreError
        If the file is damaged: that is never read as "one person is enough".
    """
    file = store.root / "reviews" / "policy.json"
    try:
        fields = read_checked_json(file)
        known = {"four_eyes", "signed"}
        if not {"four_eyes"} <= set(fields) <= known:
            raise ValueError("other keys")
        if not all(isinstance(value, bool) for value in fields.values()):
            raise ValueError("not true or false")
    except FileNotFoundError:
        return Policy()
    except (OSError, ValueError, TypeError) as error:
        raise StoreError("reviews/policy.json cannot be read; set the policy again.") from error
    return Policy(**fields)


def write_policy(store: Store, policy: Policy) -> None:
    """Set the policy of a store. What is in the log is judged by it from now on."""
    write_checked_json(store.root / "reviews" / "policy.json", asdict(policy))
