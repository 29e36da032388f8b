"""Gain against leak, of all mechanisms and levers: a table and a picture for each corpus.

::

    python -m benchmarks frontier --corpora enron-mail6 20newsgroups kos online-news-popularity movielens-1m
    python -m benchmarks frontier --corpora enron-mail6 --scaling --features 1000 3000

A line a setting: of the exact run's gain over working alone what is kept, over splits; the bound on every attack,
by noise, draw or certificate; measured D that 95 % of some documents stay below, chance taken out; whether parties
can run it. Unlike parties: mailboxes, topics, channels, ages; those of KOS are alike.

Texts are in the vocabulary of `term-counts` among their parties, at an advantage of 0.06; noise after it leaves
0.2 of both runs together, also where `epsilon` says so. A draw of texts counts in its own run (`counted-svd`), and
needs none of this. `own` is what a party gains on its own held-out documents, in energy. The exact run is PD-SVD,
every round, every column; of MovieLens, weighted PD-NMF. What gains nothing is not looked at any more.

`--scaling`: what `moments` with joint noise keeps as documents grow, in vocabularies of so many terms. Noise is of
one size, and V depends on noise over documents alone: documents with an m-th of the noise stand for m times as
many. Columns in which parts of the corpus agree with the whole show how far this holds.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from tools.pictures import standalone

from benchmarks import ROOT, data_folder, news_parts
from benchmarks.ratings import by_age
from ksdp.audit.contract import Database
from ksdp.audit.errors import InputError
from ksdp.audit.learning.gain import GainRows, Interval, Score, gain_scores, summarise_gain
from ksdp.audit.learning.learners import exact_of
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.mechanisms.privacy.counted_svd import CountedSVD
from ksdp.audit.mechanisms.privacy.moments import Moments, TermCounts
from ksdp.audit.numeric.sparse_rows import take_rows
from ksdp.audit.registry import mechanism_of
from ksdp.audit.screening.advice import Advice, Leak, Setting, Tried, at_setting, frontier_of
from ksdp.audit.specs.models import Spec, parse_spec
from ksdp.audit.verdicts.certificates import pair_advantage
from ksdp.dashboards.learning import frontier_svg
from ksdp.flows.learning import Limits, Search, begin_search, measure_gain, spec_rows
from ksdp.storage.gain_rows import gain_rows
from ksdp.storage.readers.counts import read_vocabulary
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.storage.runs.results import write_reference
from ksdp.storage.store import Store

CORPORA = ("enron-mail6", "20newsgroups", "kos", "online-news-popularity", "movielens-1m")
TEXTS: dict[str, dict[str, str]] = {
    "enron-mail6": {"party": "mailbox", "labels": "labels.parquet"},
    "20newsgroups": {"party": "label", "id": "id", "labels": "labels.parquet"},
    "kos": {},
}
RANK, SPLITS, SEED, TERMS = 7, 10, 7, 1000
MARGIN, COUNTED, DRAWN = 0.2, 0.06, 0.2
"""Of both runs together; of the counts; what enters."""
LIMITS = Limits(documents=80, runs=12)
MOST = 0.9
"""Of what the exact run gains: what `--scaling` looks for."""
PARTS, TIMES, SEEDS = (0.25, 0.5, 1.0), (1, 2, 4, 8, 16, 32, math.inf), range(7, 12)
"""Of `--scaling`: of the documents; how many they stand for, over all there are; splits."""


@dataclass(frozen=True)
class Row:
    """One setting: how it is called, what differs from V alone, and in whose place it stands."""

    name: str
    setting: Setting
    mechanism: Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A corpus."""

    tables: Mapping[str, Any]
    base: Path
    rows: tuple[Row, ...]
    counted: float = 0.0
    """The advantage of the run before."""


def run(corpora: Sequence[str], out: Path) -> None:
    """Print a table and write `NAME.svg` for each corpus; what was measured is kept in `out`."""
    store = Store.open(out / "store")
    for name in corpora:
        with tempfile.TemporaryDirectory() as folder:
            advice, names, own = _tried(_case(name, Path(folder)), store)
        first = advice.baselines
        print(
            f"{name}: {advice.documents:,} documents; {first.measure}: alone {first.alone:.4f}, exact run "
            f"{first.exact:.4f}"
        )
        for line in _lines(advice, names, own):
            print(line, flush=True)
        pairs = zip(names, own[1:], strict=True)
        shown = [name + (f" (own {one.mean:+.2f})" if one else "") for name, one in pairs]
        picture = standalone(frontier_svg(advice.to_json(), shown))
        (out / f"{name}.svg").write_text(picture, encoding="utf-8")


def scaling(corpora: Sequence[str], vocabularies: Sequence[int]) -> None:
    """Print what is kept at so many documents, and from how many on it is what is wanted."""
    for name in corpora:
        with tempfile.TemporaryDirectory() as folder:
            case = _texts(name, Path(folder))
            for terms in vocabularies:
                mechanism = Moments(rank=RANK, advantage=_without(MARGIN, COUNTED), colluders=1)
                spec = at_setting(parse_spec({**case.tables, "seed": SEED}), Setting(vocabulary=terms), 2 * terms)
                rows = gain_rows(spec_rows(spec, case.base), spec, nonnegative=False)
                _scaled(f"{name}, {terms:,} terms", mechanism, rows, spec)


def _scaled(title: str, mechanism: Moments, rows: GainRows, spec: Spec) -> None:
    count, scale = rows.learn.shape[0], mechanism.scale(rows.learn.shape[1])
    asked = spec.gain.model_copy(update={"splits": 1, "public": None})
    heads = [f"{count * times:,}" if times < math.inf else "no noise" for times in TIMES]
    print(f"{title:34}" + "".join(f"{head:>17}" for head in heads), flush=True)
    for part in PARTS:
        found: dict[float, list[Score]] = {times: [] for times in TIMES}
        for seed in SEEDS:
            drawn = np.sort(np.random.default_rng(seed).permutation(count)[: round(part * count)])
            some = _part(rows, drawn)
            alone: list[Score] = []
            for times in TIMES:
                noise = max(scale * part / times, 1e-6)
                scores = list(gain_scores(replace(mechanism, noise=noise), some, asked, seed, baselines=not alone))
                alone = alone or [score for score in scores if score.learner != "run"]
                every = [score for score in scores if score.learner == "run"] + alone
                found[times] += [replace(score, split=seed) for score in every]
        kept = [summarise_gain(scores, mechanism.name, asked, True).measures[0].kept for scores in found.values()]
        cells = [f"{one.mean:.0%} ({100 * one.low:.0f} to {100 * one.high:.0f})" if one else "-" for one in kept]
        print(f"{f'{len(drawn):,} documents':34}" + "".join(f"{cell:>17}" for cell in cells), flush=True)
    curves = zip(*((one.mean, one.high, one.low) for one in kept if one), strict=True)
    about, first, last = (_reached(curve, count) for curve in curves)
    print(f"{MOST:.0%} kept from so many documents on: {about} ({first} to {last})", flush=True)


def _part(rows: GainRows, drawn: NDArray[np.int64]) -> GainRows:
    assert rows.party is not None
    learn, judge = take_rows(rows.learn, drawn), take_rows(rows.judge, drawn)
    return replace(rows, learn=learn, judge=judge, party=rows.party[drawn])


def _reached(kept: Sequence[float], count: int) -> str:
    """From how many documents on as much is kept as is wanted: between two columns in the logarithm."""
    if kept[0] >= MOST:
        return f"{count:,} or fewer"
    steps = zip(itertools.pairwise(kept), itertools.pairwise(TIMES), strict=True)
    for (low, high), (fewer, more) in steps:
        if high >= MOST and more < math.inf:
            at = fewer * (more / fewer) ** ((MOST - low) / (high - low))
            return f"{round(count * at, -3):,.0f}"
    return "never"


def _tried(case: Case, store: Store) -> tuple[Advice, list[str], list[Interval | None]]:
    """Also what a party gains on its own documents: by the exact run, then setting by setting."""
    left = _without(MARGIN, case.counted)
    common = {"seed": SEED, "decision": {"margin": left}}
    tables = {**common, "design": {"party_size": 0.5, "with_runs": 100}, **case.tables}
    spec = parse_spec(tables)
    search = begin_search(spec, spec_rows(spec, case.base), LIMITS, store)
    found = [_one(search, tables, row, case) for row in case.rows]
    tried = tuple(one for one, _ in found)
    advice = search.advice()
    baselines = replace(advice.baselines, exact_leak=_exact_leak(search, spec))
    advice = replace(
        advice, margin=MARGIN, tried=tried, baselines=baselines, frontier=frontier_of(tried), nearest=None
    )
    return advice, [row.name for row in case.rows], [search.gain.measures[0].own, *(own for _, own in found)]


def _exact_leak(search: Search, spec: Spec) -> Leak | None:
    """What the exact run gives away, without levers; None where it cannot be run so."""
    exact, tables = exact_of(mechanism_of(spec.mechanism)), spec.tables()
    tables["mechanism"] = {"name": exact.name, **parameters_of(exact)}
    tables["corpus"] |= {"levers": {"units": spec.corpus.levers.units}}
    if spec.corpus.idf == "public":
        tables["corpus"]["idf"] = "global"
    try:
        return search.leak(Spec.model_validate(tables), spec.decision.level)
    except (InputError, ValueError):
        return None


def _one(search: Search, tables: Mapping[str, Any], row: Row, case: Case) -> tuple[Tried, Interval | None]:
    setting, columns, counted = row.setting, search.source.features, case.counted
    if setting.shrink is not None:  # the run counts by itself
        corpus = {key: value for key, value in tables["corpus"].items() if key not in ("idf", "levers")}
        tables, counted = {**tables, "corpus": corpus}, 0.0
    asked = parse_spec({**tables, "mechanism": dict(row.mechanism)})
    if setting.noise is not None:  # in units of the root mean square entry of rows of length 1
        setting = replace(setting, noise=setting.noise / math.sqrt(setting.vocabulary or columns))
    found = search.gained(setting, asked)
    own = None
    if found.gain is not None and found.gain.mean > 0:
        spec = at_setting(asked, setting, columns)
        own = measure_gain(spec, case.base).measures[0].own
        found = replace(found, leak=search.leak(spec, asked.decision.level))
    if not counted or found.promised is None:
        return found, own
    apart = float(np.linalg.norm(2 * ndtri((1 + np.array([found.promised, counted])) / 2)))
    return replace(found, promised=float(pair_advantage(apart))), own


def _without(margin: float, spent: float) -> float:
    """What another run may tell: by a budget's accountant normal laws add up in squares."""
    whole, before = 2 * ndtri((1 + np.array([margin, spent])) / 2)
    return float(pair_advantage(np.sqrt(whole**2 - before**2)))


def _lines(advice: Advice, names: Sequence[str], own: Sequence[Interval | None]) -> list[str]:
    lines = [f"{'':32}{'kept':>22}{'own':>9}{'every attack':>14}{'measured D':>12}  parties"]
    base = advice.baselines
    gained = base.exact - base.alone
    lines.append(_line("exact run", Interval(1, 1, 1), own[0], "", base.exact_leak, None))
    for name, one, mine in zip(names, advice.tried, own[1:], strict=True):
        if one.gain is None:
            lines.append(f"{name:32}{one.refused}")
            continue
        kept = one.kept or Interval(*(end / gained for end in (one.gain.mean, one.gain.low, one.gain.high)))
        bound = "" if one.promised is None else f"{one.promised:.2f}"
        lines.append(_line(name, kept, mine, bound, one.leak, one.cannot_run))
    if base.public is not None:
        lines.append(f"{'public data alone':32}{(base.public - base.alone) / gained:>22.0%}{'0':>23}")
    lines.append(f"{'working alone':32}{0:>22.0%}{'+0.00':>9}{'0':>14}")
    return lines


def _line(
    name: str, kept: Interval, own: Interval | None, bound: str, leak: Leak | None, cannot: str | None
) -> str:
    share = f"{kept.mean:.0%} ({100 * kept.low:.0f} to {100 * kept.high:.0f})"
    seen = "" if leak is None else f"{leak.net:.2f}"
    can = "" if leak is None else "no" if cannot else "yes"
    mine = "" if own is None else f"{own.mean:+.2f}"
    return f"{name:32}{share:>22}{mine:>9}{bound:>14}{seen:>12}  {can}"


def _case(name: str, folder: Path) -> Case:
    if name == "movielens-1m":
        return _ratings(folder)
    if name == "online-news-popularity":
        return _news(folder)
    return _texts(name, folder)


def _svd(left: float, fewer: Setting) -> tuple[Row, ...]:
    """What any corpus has; `left` is what noise may tell, `fewer` the columns that it is added to."""
    alone = {"name": "pd-svd", "rank": RANK, "opens": "final"}
    noise: dict[str, Any] = {"rank": RANK, "advantage": left}
    epsilon = Moments(advantage=left).claim((), 2)[0]
    private = {"rank": RANK, "epsilon": epsilon, "adjacency": "replace-one"}
    return (
        Row("V alone", Setting(), alone),
        *([Row(f"V alone, {fewer.name}", fewer, alone)] if fewer.values else []),
        Row("V alone, rank 3", Setting(rank=3), alone),
        Row("V alone, noise 0.1", Setting(noise=0.1), alone),
        Row("a fifth drawn", Setting(drawn=DRAWN, shrink=CountedSVD.shrink if fewer.values else None), alone),
        Row("moments, joint noise", fewer, {"name": "moments", "colluders": 1} | noise),
        Row("moments, everybody's noise", fewer, {"name": "moments"} | noise),
        Row("Hardt-Roth", fewer, {"name": "hardt-roth"} | private),
        Row("FedPower 3", fewer, {"name": "fedpower-private"} | private),
        Row("DPdisPCA", fewer, {"name": "dpdispca"} | private),
    )


def _nmf(left: float, fewer: Setting) -> tuple[Row, ...]:
    hidden = {"sweeps": 20, "tolerance": 0.0, "beta": 0.1, "delta": 0.1}
    private = {"epsilon": Moments(advantage=left).claim((), 2)[0], "delta": 1e-5, "adjacency": "replace-one"}
    return (
        Row("topics alone", fewer, {"name": "pd-nmf", "rank": RANK, "opens": "final"} | hidden),
        Row("DP-NMF", fewer, {"name": "dp-nmf", "rank": RANK} | private),
    )


def _texts(corpus: str, folder: Path) -> Case:
    """In the vocabulary that parties counted together."""
    path, keys = f"$KSDP_DATA/{corpus}", dict(TEXTS[corpus])
    if "labels" in keys:
        keys["labels"] = f"{path}/{keys['labels']}"
    named = keys | {"path": f"{path}/counts.npz", "vocabulary": f"{path}/vocabulary.txt", "weighting": "tf-idf"}
    _count(corpus, named, folder)
    tables = {
        "corpus": named | {"idf": "public", "levers": {"reference": str(folder / "reference.tsv")}},
        "mechanism": {"name": "pd-svd", "rank": RANK},
        "gain": {"splits": SPLITS, "public": 500},
    }
    left, fewer = _without(MARGIN, COUNTED), Setting(vocabulary=TERMS)
    return Case(tables, ROOT, _svd(left, fewer) + _nmf(left, fewer), COUNTED)


def _count(corpus: str, named: Mapping[str, Any], folder: Path) -> None:
    counts = {"corpus": {**named, "weighting": "counts"}, "mechanism": {"name": "pd-svd"}}
    spec = parse_spec(counts)
    rows = gain_rows(spec_rows(spec, ROOT), spec, nonnegative=False)
    count = rows.judge.shape[0]
    party = np.arange(count) % 3 if rows.party is None else rows.party
    parties = tuple(take_rows(rows.judge, np.flatnonzero(party == each)) for each in np.unique(party))
    mechanism = TermCounts(advantage=COUNTED, colluders=1)
    seen = mechanism.run(Database(parties), np.random.default_rng(SEED), made_by=len(parties))
    terms = read_vocabulary(data_folder() / corpus / "vocabulary.txt", "utf-8")
    write_reference(folder, terms, mechanism.counted(seen["totals"], count), count)


def _news(folder: Path) -> Case:
    news_parts.main([str(data_folder() / "online-news-popularity"), str(folder)])
    read, base = read_spec_file(folder / "news.toml")
    corpus = read.tables()["corpus"]
    asked = {"splits": SPLITS, "target": "log_shares", "public": 500}
    tables = {"corpus": corpus, "mechanism": {"name": "pd-svd", "rank": RANK}, "gain": asked}
    return Case(tables, base, _svd(MARGIN, Setting()))


def _ratings(folder: Path) -> Case:
    by_age(folder)
    corpus = {"path": "ratings.parquet", "format": "ratings", "vocabulary": "vocabulary.txt", "party": "party"}
    weighted = {"name": "pd-nmf", "rank": RANK, "weighted": True, "beta": 1.0, "delta": 1.0}
    alone = weighted | {"opens": "final"}
    tables = {
        "corpus": corpus,
        "mechanism": weighted,
        "gain": {"splits": SPLITS, "time": "timestamp", "public": 200},
    }
    rows = (
        Row("T alone", Setting(), alone),
        Row("T alone, rank 3", Setting(rank=3), alone),
        Row("T alone, noise 4", Setting(noise=4.0), alone),
        Row("T alone, a fifth drawn", Setting(drawn=DRAWN), alone),
    )
    return Case(tables, folder, rows)
