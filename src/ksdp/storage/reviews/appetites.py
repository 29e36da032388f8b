"""Risk appetites: read from `appetite.toml`, kept with an audit, and held to what the store knows of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import InputError
from ksdp.audit.results.appetite import Appetite, AuditedDocuments, appetite_record, check_spec
from ksdp.audit.results.appetite import AppetiteRecord as AppetiteRecord
from ksdp.audit.reviewing import Decision
from ksdp.audit.specs.models import Spec, validated
from ksdp.audit.verdicts.verdict import Proof
from ksdp.storage.audits.history import Summary
from ksdp.storage.codec import read_object, write_checked_json
from ksdp.storage.files import read_toml
from ksdp.storage.findings import read_verdicts
from ksdp.storage.reviews.decisions import states
from ksdp.storage.store import Store


def read_appetite(path: Path, spec: Spec | None = None) -> Appetite:
    """Read `appetite.toml`; `SpecError` where it is refused, or no audit by a spec can meet it."""
    appetite = given_appetite(path)
    if spec is not None:
        check_spec(appetite, spec)
    return appetite


def given_appetite(given: str | Path | Mapping[str, Any]) -> Appetite:
    """Read an appetite from its file, or from its keys."""
    tables = given if isinstance(given, Mapping) else read_toml(Path(given), "the appetite")
    return validated(Appetite, tables, "appetite")


def kept_appetite(store: Store, audit: str) -> Appetite | None:
    """Return the appetite that an audit is held to; None if there is none."""
    path = store.appetite(audit)
    whose = f"the appetite of audit {audit}"
    return read_object(path, Appetite.model_validate, whose, "restore it") if path.is_file() else None


def keep_appetite(store: Store, audit: str, appetite: Appetite) -> bool:
    """Write down what an audit is held to, once: whether this did; `InputError` if it is held to another."""
    kept = kept_appetite(store, audit)
    if kept is None:
        write_checked_json(store.appetite(audit), appetite.model_dump(mode="json"))
    elif kept != appetite:
        raise InputError(
            f"audit {audit} is held to another appetite, which stays. `ksdp show {audit} --appetite FILE` "
            "compares it with this one and keeps nothing."
        )
    return kept is None


def kept_record(store: Store, summary: Summary) -> AppetiteRecord | None:
    """A finished audit held to the appetite that is kept with it; None where none is."""
    appetite = kept_appetite(store, summary.audit)
    return None if appetite is None else read_record(store, appetite, summary)


def read_record(
    store: Store, appetite: Appetite, summary: Summary, entering: Collection[str] | None = None
) -> AppetiteRecord:
    """Hold a finished audit to an appetite, with what people decided."""
    audit, file = summary.audit, store.audit(summary.audit) / "verdicts.parquet"
    names, criteria = _measured(store, audit, file.stat().st_mtime_ns if file.is_file() else 0)
    verdict = criteria.verdict.copy()
    decided = states(store, audit) if summary.valid else {}
    verdict[np.isin(names, [name for name, state in decided.items() if state.proved_by])] = "sensitive"
    for decision, word in ((Decision.ACCEPT, "accepted"), (Decision.EXCLUDE, "out")):
        some = [n for n, state in decided.items() if state.waiting is None and state.decision is decision]
        verdict[np.isin(names, some)] = word
    if entering is not None:
        verdict[~np.isin(names, list(entering))] = "out"
    return appetite_record(appetite, summary, replace(criteria, verdict=verdict))


@lru_cache(maxsize=8)
def _measured(store: Store, audit: str, _stamp: int) -> tuple[NDArray[np.str_], AuditedDocuments]:
    table = read_verdicts(store.audit(audit))
    names, verdict = (np.array(table[name].to_pylist(), "U") for name in ("document", "verdict"))
    certified = np.array([proof == Proof.EVERY_ATTACK for proof in table["proof"].to_pylist()], np.bool_)
    return names, AuditedDocuments(verdict.astype("U9"), certified)
