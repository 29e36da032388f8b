"""From a search over levers to advice that is kept: page, recommended spec, and the audit that confirms it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ksdp.audit.errors import InputError
from ksdp.audit.randomness import Purpose, derived_seed
from ksdp.audit.spec import Spec
from ksdp.dashboards.learning.advice_report import render_advice
from ksdp.flows.audits.run import run_audit
from ksdp.flows.learning.advise import Limits, search_levers
from ksdp.flows.progress import current
from ksdp.storage.learning.advice import (
    advice_page,
    write_advice,
    write_advice_page,
    write_advised_spec,
)
from ksdp.storage.store import Store, content_key

__all__ = ["advise_spec"]


def advise_spec(
    spec: Spec,
    base: Path,
    store: Path,
    limits: Limits,
    *,
    write: Path,
    confirm: bool = False,
    workers: int | None = None,
) -> dict[str, Any]:
    """Search, keep what was found, and write the spec that is recommended, if one is.

    Parameters
    ----------
    base : Path
        Folder that the spec's paths are relative to.
    write : Path
        The recommended spec; in `base`, because its paths are relative to it.
    confirm : bool
        Audit it whole, on runs that the search has not seen.
    workers : int, optional
        Of that audit.

    Returns
    -------
    dict
        As `advice/<id>.json` holds it.

    Raises
    ------
    InputError
        If anything is refused, before work starts.
    """
    if write.resolve().parent != base.resolve():
        raise InputError(f"`--write` must name a file in the spec's folder, {base.name}: its paths start there.")
    opened = Store.open(store)
    found = search_levers(spec, base, limits)
    name = content_key({"advice": 1, "spec": spec.hash, "gain": spec.gain.model_dump(), "limits": vars(limits)})[
        :12
    ]
    first = next((one.leak for one in found.advice.tried if one.leak is not None), None)
    about = found.advice.to_json() | {
        "name": name,
        "mechanism": spec.mechanism.name,
        "gain": found.gain.to_json(),
        "drawn": 0 if first is None else first.documents,
        "chance": 0.0 if first is None else first.chance,
        "spec": None,
        "confirmed": None,
    }
    if found.spec is not None:
        tables = found.spec.model_dump(mode="json") | {"seed": derived_seed(spec.seed, Purpose.SEARCHED)}
        advised = Spec.model_validate(tables)
        write_advised_spec(write, advised.model_dump(mode="json"), f"Recommended by `ksdp advise`, {name}.")
        about["spec"] = str(write)
        if confirm:
            current().say("a whole audit of the recommended spec, on runs that the search has not seen")
            summary = run_audit(advised, base, store, workers=workers)
            about["confirmed"] = {
                "audit": summary.audit,
                "valid": summary.valid,
                "documents": summary.documents,
                "verdicts": summary.verdicts.as_dict(),
                "report": summary.report,
            }
    write_advice(opened, name, about)
    write_advice_page(opened, name, render_advice(opened, name))
    return about | {"report": str(advice_page(opened, name))}
