"""What unlike parties keep of their gain where each enters a secret draw of its documents.

::

    python -m benchmarks drawn --corpora enron-mail6 20newsgroups

PD-SVD, rank 7, every column, three splits: the six mailboxes, or the twenty groups, as parties. A draw bounds
every attack on who is held by its share (decision 17).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from benchmarks import ROOT
from ksdp.audit.learning.gain import MeasureGain, Score, gain_scores, summarise_gain
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.spec.models import GainSpec, parse_spec
from ksdp.storage.gain_rows import load_rows

CORPORA = {"enron-mail6": {"party": "mailbox"}, "20newsgroups": {"party": "label", "id": "id"}}
SHARES = (0.5, 0.25, 0.2, 0.1)
RANK, SPLITS, SEED = 7, 3, 7


def run(corpora: Sequence[str]) -> None:
    """Print one line a corpus and share."""
    for corpus in corpora:
        folder = f"$KSDP_DATA/{corpus}"
        keys = {"path": f"{folder}/counts.npz", "labels": f"{folder}/labels.parquet", "idf": "party"}
        spec = parse_spec(
            {
                "corpus": keys | {"weighting": "tf-idf"} | CORPORA[corpus],
                "mechanism": {"name": "pd-svd", "rank": RANK},
                "gain": {"splits": SPLITS},
            }
        )
        rows = load_rows(spec, ROOT, nonnegative=False)
        mechanism = PDSVD(rank=RANK, opens="final")
        baselines = [*gain_scores(mechanism, rows, spec.gain, SEED)]
        everybody = _energy(baselines, spec.gain)
        print(f"{corpus}: energy alone {everybody.alone.mean:.4f}, exact {everybody.exact.mean:.4f}", flush=True)
        others = [score for score in baselines if score.learner != "run"]
        for share in SHARES:
            entering = dataclasses.replace(rows, drawn=share)
            scores = gain_scores(mechanism, entering, spec.gain, SEED, baselines=False)
            drawn = _energy([*scores, *others], spec.gain)
            kept = drawn.kept
            assert kept is not None
            print(
                f"{corpus}, {share:g} enter: energy {drawn.run.mean:.4f}, keeps {kept.mean:.1%} "
                f"({kept.low:.0%} to {kept.high:.0%})",
                flush=True,
            )


def _energy(scores: Sequence[Score], asked: GainSpec) -> MeasureGain:
    return summarise_gain(list(scores), "pd-svd", asked, True).measures[0]
