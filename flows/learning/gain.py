"""Measure what a run gains its parties, beside three baselines."""

from __future__ import annotations

from pathlib import Path

from ksdp.audit.learning.gain import GainSummary, gain_scores, summarise_gain
from ksdp.audit.registry import mechanism_of
from ksdp.audit.spec import Spec
from ksdp.flows.prepare import spec_corpus
from ksdp.storage.learning import load_rows, write_gain
from ksdp.storage.readers.spec_files import copies_kept
from ksdp.storage.store import Store


def measure_gain(spec: Spec, base: Path, store: Path | None = None) -> GainSummary:
    """Every learner over random splits, as `spec.gain` says, in this process.

    Parameters
    ----------
    base : Path
        Folder that the spec's paths are relative to.
    store : Path, optional
        Where it is kept, for the reports and pages of this spec's audits.
    """
    mechanism = mechanism_of(spec.mechanism)
    with copies_kept():  # what is kept of a corpus was measured on that one
        rows = load_rows(spec, base, nonnegative=getattr(mechanism, "nonnegative", False))
        corpus = None if store is None else spec_corpus(spec, base).hash
    scores = tuple(gain_scores(mechanism, rows, spec.gain, spec.seed))
    summary = summarise_gain(scores, mechanism.name, spec.gain, rows.party is not None)
    if store is not None and corpus is not None:
        write_gain(Store.open(store), spec.hash, corpus, summary.to_json())
    return summary
