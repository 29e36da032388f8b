"""What a run keeps of its gain where noise bounds every attack on its documents at 0.2.

::

    python -m benchmarks joint-noise --corpora enron-mail6 20newsgroups online-news-popularity
    python -m benchmarks certified --corpora enron-mail6 --ranks 5 --sizes 0.5 --documents 60 --pairs 200

The first is `moments`, the noise made together, on a vocabulary by `term-counts` among the same parties: both runs
together are bounded at 0.2 for every document. The second is the least noise on V that certifies 95 % of them.

PD-SVD, V alone; the six mailboxes (1,000 terms), the twenty groups (1,000 terms) or three channels of Online News
(44 columns in public units) as parties. A row for each rank and share of the documents in a run. Gain is over
working alone, kept of what the exact run of rank 7 gains; `needed`: from how many documents on noise would cost a
tenth of what V alone keeps, as a document moves V by 1 / n.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy.special import ndtri

from benchmarks import ROOT, data_folder, news_parts
from ksdp.audit.certifying import paired_advantages
from ksdp.audit.errors import InputError
from ksdp.audit.learning.gain import GainRows, MeasureGain, Score, gain_scores, summarise_gain
from ksdp.audit.mechanisms.contract import Database
from ksdp.audit.mechanisms.privacy.moments import Moments, TermCounts
from ksdp.audit.numeric.sparse_rows import take_rows
from ksdp.audit.registry import mechanism_of
from ksdp.audit.screening.advice import at_setting, certifying, paired_plan
from ksdp.audit.screening.certified_noise import GRID, certified_noise
from ksdp.audit.spec.models import Spec, parse_spec
from ksdp.audit.verdicts.certificates import pair_advantage
from ksdp.flows.prepare import spec_corpus
from ksdp.storage.gain_rows import load_rows
from ksdp.storage.readers.counts import read_vocabulary
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.storage.runs.results import write_reference

TEXTS = {"enron-mail6": {"party": "mailbox"}, "20newsgroups": {"party": "label", "id": "id"}}
NEWS = "online-news-popularity"
RANK, SPLITS, SEED, LEVEL, QUOTA = 7, 3, 7, 0.05, 0.05
WORTH = 0.9
"""Of what V alone keeps: `needed`."""
TERMS, MARGIN, COUNTED = 2000, 0.2, 0.06
"""Terms of the vocabulary; the advantage of both runs together, and of the counts."""


def run(corpora: Sequence[str], ranks: Sequence[int], sizes: Sequence[float], documents: int, pairs: int) -> None:
    """Print a line a corpus, and one a rank and size."""
    with tempfile.TemporaryDirectory() as name:
        for corpus in corpora:
            if corpus == NEWS:
                tables, base = _news(Path(name))
            else:
                tables, base = _texts(corpus), ROOT
            tables |= {"seed": SEED, "decision": {"margin": 0.2}, "certificate": {"pairs": pairs}}
            tables["gain"] = {**tables.get("gain", {}), "splits": SPLITS}
            _corpus(corpus, tables, base, [(rank, size) for rank in ranks for size in sizes], documents)


def _texts(corpus: str) -> dict[str, Any]:
    folder = f"$KSDP_DATA/{corpus}"
    keys = {"path": f"{folder}/counts.npz", "labels": f"{folder}/labels.parquet", "weighting": "tf-idf"}
    return {"corpus": keys | TEXTS[corpus] | {"levers": {"most_frequent": 1000}}}


def _news(folder: Path) -> tuple[dict[str, Any], Path]:
    """The spec of Online News as three channels, and where its files are."""
    news_parts.main([str(data_folder() / NEWS), str(folder)])
    read, base = read_spec_file(folder / "news.toml")
    return read.tables(), base


def joint(corpora: Sequence[str]) -> None:
    """Print a line a corpus."""
    for corpus in corpora:
        with tempfile.TemporaryDirectory() as name:
            if corpus == NEWS:
                tables, base = _news(Path(name))
                _moments(corpus, {key: tables[key] for key in ("corpus", "gain")}, base, MARGIN)
            else:
                _moments(corpus, _counted(corpus, Path(name)), ROOT, _left(MARGIN, COUNTED))


def _counted(corpus: str, folder: Path) -> dict[str, Any]:
    """Texts in the vocabulary that their parties counted together."""
    tables = _texts(corpus)
    named = tables["corpus"] | {"vocabulary": f"$KSDP_DATA/{corpus}/vocabulary.txt"}
    del named["levers"]
    rows = load_rows(
        parse_spec({"corpus": named | {"weighting": "counts"}, "mechanism": {"name": "pd-svd"}}),
        ROOT,
        nonnegative=False,
    )
    assert rows.party is not None
    parties = tuple(take_rows(rows.judge, np.flatnonzero(rows.party == each)) for each in np.unique(rows.party))
    counts = TermCounts(advantage=COUNTED, colluders=1)
    seen = counts.run(Database(parties), np.random.default_rng(SEED), made_by=len(parties))
    terms = read_vocabulary(data_folder() / corpus / "vocabulary.txt", "utf-8")
    documents = rows.judge.shape[0]
    write_reference(folder, terms, counts.counted(seen["totals"], documents), documents)
    levers = {"reference": str(folder / "reference.tsv"), "most_frequent": TERMS}
    return {"corpus": named | {"idf": "public", "levers": levers}}


def _left(margin: float, spent: float) -> float:
    """What another run may tell, by the accountant of a budget: normal laws add up in squares."""
    mu = math.sqrt(ndtri((1 + margin) / 2) ** 2 - ndtri((1 + spent) / 2) ** 2)
    return float(pair_advantage(2 * mu))


def _moments(name: str, tables: dict[str, Any], base: Path, advantage: float) -> None:
    tables = tables | {"seed": SEED, "gain": {**tables.get("gain", {}), "splits": SPLITS}}
    own = parse_spec(tables | {"mechanism": {"name": "moments", "rank": RANK, "advantage": advantage}})
    rows = load_rows(own, base, nonnegative=False)
    scores = [*gain_scores(mechanism_of(own.mechanism), rows, own.gain, SEED)]
    others = [score for score in scores if score.learner != "run"]
    mechanism = replace(cast(Moments, mechanism_of(own.mechanism)), colluders=1)
    together = _measured([*gain_scores(mechanism, rows, own.gain, SEED, baselines=False), *others], own)
    whole, alone = together.gain_exact, _measured(scores, own)
    print(
        f"{name}: moments at advantage {advantage:.3f}, {MARGIN:g} with counts of terms at {COUNTED:g} before it; "
        f"the exact run gains {whole.mean:+.4f}; kept: noise made together {together.gain.mean / whole.mean:.1%} "
        f"({together.gain.low / whole.mean:.0%} to {together.gain.high / whole.mean:.0%}), every party's own "
        f"{alone.gain.mean / whole.mean:.1%}",
        flush=True,
    )


def _spec(tables: dict[str, Any], rank: int, size: float) -> Spec:
    mechanism = {"name": "pd-svd", "rank": rank, "opens": "final"}
    return parse_spec(tables | {"mechanism": mechanism, "design": {"party_size": size, "with_runs": 100}})


def _corpus(
    name: str, tables: dict[str, Any], base: Path, cells: Sequence[tuple[int, float]], documents: int
) -> None:
    full = _spec(tables, RANK, 0.5)
    corpus, rows = spec_corpus(full, base), load_rows(full, base, nonnegative=False)
    every = [*gain_scores(mechanism_of(full.mechanism), rows, full.gain, SEED)]
    main, others = _measured(every, full), [score for score in every if score.learner != "run"]
    print(
        f"{name}: {len(corpus):,} documents, {corpus.features} columns; {main.measure}: the exact run gains "
        f"{main.gain_exact.mean:+.4f} ({main.gain_exact.low:+.4f} to {main.gain_exact.high:+.4f})",
        flush=True,
    )
    for rank, size in cells:
        spec = _spec(tables, rank, size)
        plan = paired_plan(at_setting(spec, certifying(spec, {}, GRID[-1]), corpus.features), corpus, documents)
        pairs = full.certificate.pairs if full.certificate else 0
        advantages = paired_advantages(plan, 0, pairs)
        alone = _kept(spec, 0.0, rows, others, corpus.features)
        said = f"{name}, rank {rank}, {plan.holdings.size:,} in a run: V alone keeps {alone:.1%}"
        try:
            found = certified_noise(
                plan, advantages, documents=documents, level=LEVEL, population=len(corpus), quota=QUOTA
            )
        except InputError as error:
            print(f"{said}; {error}", flush=True)
            continue
        kept = _kept(spec, found.noise, rows, others, corpus.features)
        print(
            f"{said}; noise {found.noise:g} certifies {found.certified} of {found.documents} by {pairs} pairs and "
            f"keeps {kept:.1%}; needed {_needed(spec, found.noise, rows, others, corpus.features):,.0f}",
            flush=True,
        )


def _needed(spec: Spec, noise: float, rows: GainRows, others: Sequence[Score], features: int) -> float:
    """Documents of which the largest noise that costs at most a tenth would be enough."""
    least, count = WORTH * _kept(spec, 0.0, rows, others, features), len(rows.judge.indptr) - 1
    for smaller in reversed([size for size in GRID if size <= noise]):
        if _kept(spec, smaller, rows, others, features) >= least:
            return count * noise / smaller
    return math.inf


def _kept(spec: Spec, noise: float, rows: GainRows, others: Sequence[Score], features: int) -> float:
    asked = at_setting(spec, certifying(spec, {}, noise), features) if noise else spec
    scores = gain_scores(mechanism_of(asked.mechanism), rows, spec.gain, SEED, baselines=False)
    found = _measured([*scores, *others], spec)
    kept: float = found.gain.mean / found.gain_exact.mean
    return kept


def _measured(scores: Sequence[Score], spec: Spec) -> MeasureGain:
    return summarise_gain(scores, "pd-svd", spec.gain, True).measures[0]
