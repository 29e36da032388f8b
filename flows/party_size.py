"""Where leaving documents out does not help: the smallest party size at which few documents stand out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from ksdp.audit.corpus import Corpus
from ksdp.audit.design import as_rows
from ksdp.audit.errors import InputError, InvalidAudit
from ksdp.audit.party_sizes import share_upper_limit, size_grid, smallest_good
from ksdp.audit.registry import make_mechanism
from ksdp.audit.spec import Spec
from ksdp.flows.prepare import prepare_stored, spec_corpus
from ksdp.flows.progress import current
from ksdp.flows.run import run_prepared
from ksdp.storage.findings import read_verdicts
from ksdp.storage.screens import write_screen
from ksdp.storage.store import Store, content_key

__all__ = ["search_party_size"]


def search_party_size(
    spec: Spec,
    base: Path,
    store: Path,
    *,
    share: float = 0.05,
    documents: int = 200,
    largest: int | None = None,
    steps: int = 2,
    workers: int | None = None,
    dask: str | None = None,
) -> dict[str, Any]:
    """Search for the smallest party size at which at most a share of the documents stands out.

    Each size is one audit (shared design) of documents drawn at random. A document stands out if the measured D
    of its strongest statistic exceeds the margin; noise tends to raise that, so this errs on the side of standing
    out. A size is good if the upper confidence limit (Clopper-Pearson) of the share of the corpus that stands out
    is at most `share`. The limits hold together for all sizes of the grid: each is at the spec's level over their
    number. That sizes above a good one are good is assumed by the search, and by nothing that is said of the size
    found. Nothing is said of any single document: screen again at the size found.

    Parameters
    ----------
    spec, base, store : as for `run_audit`
        `design.kind` and `design.documents` of the spec are replaced.
    share : float in (0, 1)
    documents : int
        Drawn from the seed for each size; the same for all sizes.
    largest : int, optional
        Rows; half of the corpus by default.
    steps : int
        Sizes a doubling, starting at the spec's own.
    workers, dask : optional
        As for `run_audit`.

    Returns
    -------
    dict
        As `screens/<search>.json` holds it: `found` (rows, or None) and a sentence, `reason`.

    Raises
    ------
    InputError
        If anything is refused, or so few documents cannot show such a share.
    InvalidAudit
        If the controls of an audit fail.
    """
    started = time.monotonic()
    corpus = spec_corpus(spec, base)
    first = as_rows(spec.design.party_size, len(corpus))
    sizes = size_grid(first, len(corpus) // 2 if largest is None else largest, steps)
    drawn = min(documents, len(corpus))
    level = spec.decision.level / len(sizes)
    if not 0 < share < 1 or drawn < 1 or share_upper_limit(0, drawn, level) > share:
        raise InputError(
            f"`documents` is too small: even if none of {drawn} stands out, the share may be up to "
            f"{share_upper_limit(0, max(drawn, 1), level):.3f} over {len(sizes)} sizes; `share` is {share}."
        )
    tried: list[dict[str, Any]] = []

    def good(rows: int) -> bool:
        about = _try(spec, corpus, store, rows, drawn, workers, dask)
        about["upper_limit"] = share_upper_limit(about["above_margin"], about["documents"], level)
        tried.append(about)
        current().say(f"party of {rows}: {about['above_margin']} of {about['documents']} stand out")
        return bool(about["upper_limit"] <= share)

    found = smallest_good(sizes, good)
    name = content_key(
        {
            "search": "party-size",
            "spec": spec.hash,
            "corpus": corpus.hash,
            "share": share,
            "documents": drawn,
            "sizes": list(sizes),
        }
    )[:12]
    summary = {
        "search": name,
        "corpus": corpus.hash,
        "mechanism": make_mechanism(spec.mechanism.name, spec.mechanism.parameters).name,
        "spec": spec.hash,
        "margin": spec.decision.margin,
        "level": spec.decision.level,
        "share": share,
        "sizes": list(sizes),
        "tried": sorted(tried, key=lambda about: int(about["party_rows"])),
        "found": found,
        "reason": _reason(found, sizes, share, spec.decision.margin, spec.decision.level),
        "seconds": round(time.monotonic() - started, 3),
    }
    write_screen(Store.open(store), name, summary)
    return summary


def _try(
    spec: Spec, corpus: Corpus, store: Path, rows: int, drawn: int, workers: int | None, dask: str | None
) -> dict[str, Any]:
    tables = spec.model_dump(mode="json")
    tables["design"] |= {"kind": "shared", "documents": drawn, "party_size": rows}
    prepared = prepare_stored(Spec.model_validate(tables), corpus, store, may_sample=True)
    summary = run_prepared([prepared], workers=workers, dask=dask)[0]
    if not summary["valid"]:
        raise InvalidAudit(f"the audit at a party size of {rows} is void: {summary['controls']['reason']}.")
    distance = np.asarray(read_verdicts(Store(Path(prepared.ref.store)).audit(prepared.ref.audit))["distance"])
    return {
        "party_rows": rows,
        "audit": prepared.ref.audit,
        "documents": len(distance),
        "above_margin": int((distance > spec.decision.margin).sum()),
        "median_D": float(np.median(distance)),
        "sensitive": summary["verdicts"]["sensitive"],
        "runs": summary["runs"],
    }


def _reason(found: int | None, sizes: tuple[int, ...], share: float, margin: float, level: float) -> str:
    few = f"at most {share:.1%} of the documents have a measured D above {margin:g} (confidence {1 - level:.0%})"
    if found is None:
        return f"No party size up to {sizes[-1]} documents was found at which {few}."
    if found == sizes[0]:
        return f"At the spec's own party size of {found} documents, {few}."
    return f"At a party size of {found} documents, {few}."
