"""Write `docs/audit-and-run.md`: which mechanism takes which lever, in an audit and in a run. Found by trying."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ksdp.audit.contract import traits_of
from ksdp.audit.errors import KsdpError
from ksdp.audit.mechanisms.factorisation.nmf_starts import STARTS
from ksdp.audit.registry import make_mechanism
from ksdp.audit.specs.models import CorpusSpec
from ksdp.protocols.programs.programs import PROGRAMS, check_program
from ksdp.storage.corpora import corpus_features, load_corpus, rows_hash

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 6
RUN: Mapping[str, Mapping[str, Any]] = {
    **{key: {"solver": "power"} for key in ("pd-svd", "sigma-svd", "pd-pca")}, "noisy": {"opens": "final"},
}  # fmt: skip
"""Parameters that a run needs; of all but the last, one by announced sums."""
AROUND: Mapping[str, Mapping[str, Any]] = {"noisy": {"scale": 0.1}}
"""They stand around another mechanism, whose parameters are a table of its own; and what they need besides."""
ROWS: Mapping[str, Mapping[str, Any]] = {
    '`weighting = "tf-idf"`, `idf = "party"`': {"weighting": "tf-idf", "idf": "party", "party": "who"},
    '`idf = "public"`': {"weighting": "tf-idf", "idf": "public", "levers": {"reference": "public.tsv"}},
    '`idf = "global"`': {"weighting": "tf-idf"},
    "`levers.terms`": {"levers": {"terms": "terms.txt"}},
    "`levers.reference`, `most_frequent`": {"levers": {"reference": "public.tsv", "most_frequent": 3}},
    "`levers.most_frequent` alone": {"levers": {"most_frequent": 3}},
    "`levers.units`": {"levers": {"units": "units.csv"}},
    "`levers.basis`, `directions`": {"levers": {"basis": "basis.npy", "directions": 4}},
    "`levers.clip`": {"levers": {"clip": 1.0}},
    "`levers.drawn`": {"levers": {"drawn": 0.5}},
}
KINDS = ("both", "audit", "neither")
"""What trying a lever may give: a column each."""
PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    '`opens = "every round"`': {},
    '`opens = "final"`': {"opens": "final"},
    "`weighted = true`": {"weighted": True, "beta": 1.0, "delta": 1.0},
    **{f'`start = "{name}"`': {"start": name} for name in STARTS},
}


HEAD = """# Which settings a run takes

*For engineers whose organisation is about to run a mechanism with others. At the end you know whether each
setting of your spec can also be part of the real run. You need the spec, and [the steps of a
run](protocol-run.md).*

An audit runs on one machine and sees all of your documents. In a run no party sees the documents of all, so a
few settings of an audit cannot be part of it. The run then does not start, and says why.

**In short**, a run takes every setting that an audit of the same mechanism takes, but not these:

| where | a run refuses | do this instead |
|---|---|---|
"""
REFUSED = (
    ("`[corpus]`", '`missing = "median"`', "fill the gaps before: a median would be of one party's file alone"),
    ("`[corpus]`", "a URL as `path`", "download the file, and write its name"),
    ("`[corpus]`", "neither `columns` nor `vocabulary`", "name one of them: all parties need the same columns"),
    (
        "`[corpus.levers]`",
        "`most_frequent` without `reference`",
        "name a public file as `reference`: nobody may count the terms of all parties exactly",
    ),
    (
        "`[mechanism]`",
        '`opens = "final"` of most mechanisms',
        "take `pd-nmf`, `pd-svd`, `sigma-svd` or `pd-pca`, which three parties can compute on "
        "[shares](glossary.md#what-a-run-among-organisations-uses)",
    ),
    (
        "`[mechanism]`",
        "`noise` beside a mechanism without noise of its own",
        'take `pd-svd` or `pd-nmf` with `opens = "final"`, or a mechanism with noise of its own, '
        "such as `moments`",
    ),
    (
        "`pd-svd`, `sigma-svd`, `pd-pca`",
        "a `solver` that does not fit `opens`",
        'with `"every round"`, write `solver = "power"`; with `"final"`, leave out `solver`',
    ),
    (
        "`pd-nmf`",
        '`start = "best-of-m"`; with `opens = "final"` also `"nnsvd"`',
        'take `"random"`, `"random-2x"` or `"pd-nmf-init"`',
    ),
    (
        "`pd-nmf`",
        '`beta` or `delta` of 0 with `weighted = true`; with `opens = "final"`, one of the two alone',
        "write both, 1.0 each for stars from 1 to 5, 0.1 each for rows of length 1",
    ),
    (
        "any that adds noise",
        'a `sampler` other than `"discrete"`',
        "nothing: `ksdp plan` writes this line into the protocol file",
    ),
)
"""Where a setting stands, what of it a run refuses, and what to do instead."""
THEN = """
**If your spec has nothing of this table, you are done.** That is so for most data, with `weighting = "counts"`
or `"standardised"`, with or without `rows`.

## Setting by setting

Look up the row of your setting, and in it your mechanism. "All others" are the mechanisms that the row does not
name. `weighting`, `idf` and `levers` are keys of `[corpus]`; the others are keys of `[mechanism]`. `noisy` stands
for `pd-svd` with the key `noise`. Neither an audit nor a run takes a key that the mechanism does not have, nor
columns below 0, as `units` and `basis` make them, where the mechanism needs numbers of 0 and more.

| setting | a run takes it, as an audit does | only an audit takes it | neither takes it |
|---|---|---|---|
"""
TAIL = """
## What the settings are

They trade gain for leak, and are called [levers](glossary.md#what-makes-a-run-safer). [Keys of a
spec](spec.md#corpuslevers) has every key of `[corpus]`, and [Mechanisms](mechanisms.md) has every parameter.

- `weighting` and `idf` say how the numbers of a row are weighed, for example so that frequent terms count less.
  With `idf = "global"`, a term counts less if it occurs in many rows of the file; in a run this is the party's
  own file. With `weighting = "standardised"`, the mean and the scale of each column are the party's own, too.
  Noise [does not cover](noise-and-draw.md#joint-noise) what these numbers tell.
- `levers` change rows before they are used: `terms` and `most_frequent` keep some columns only. `reference` names
  a public file that says how frequent each term is. `units` gives each column a public centre and scale. `basis`
  and `directions` replace columns by fewer. `clip` shortens long rows. `drawn` is a [secret
  draw](noise-and-draw.md#a-secret-draw).
- `opens` says what is published: the sums of every round, or the final output alone.
- `weighted`, `start`, `beta` and `delta` are parameters of PD-NMF. With `weighted`, an entry that is missing
  from the table counts as unknown, and not as zero. `start` says where the topics start. `beta` and `delta` are
  weights that keep topics and documents small; this `delta` is not the one that stands beside epsilon.
- `solver` is a parameter of PD-SVD and its relatives: how the directions are computed.

**All parties must turn documents into rows in the same way.** They check this before a run by comparing the hash
`features.rows`, which `ksdp plan --columns` prints.

`tools/lever_table.py` generates this page by trying each setting with each mechanism.
"""


def page() -> str:
    """The page."""
    names = list(PROGRAMS)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        _files(base)
        for words, keys in ROWS.items():
            tried = [
                _tried(partial(_audited, base, keys, name), partial(_run, base, keys, name)) for name in names
            ]
            lines.append(_row(words, tried))
        for words, changes in PARAMETERS.items():
            tried = [_tried(partial(_made, name, changes), partial(_playable, name, changes)) for name in names]
            lines.append(_row(words, tried))
    refused = [f"| {' | '.join(row)} |" for row in REFUSED]
    return HEAD + "\n".join([*refused, THEN]) + "\n".join([*lines, TAIL])


def _row(words: str, tried: list[str]) -> str:
    """A lever, and the mechanisms by outcome; those of the most frequent outcome are "all others"."""
    names = {kind: [f"`{n}`" for n, what in zip(PROGRAMS, tried, strict=True) if what == kind] for kind in KINDS}
    most = max(names, key=lambda kind: len(names[kind]))
    rest = "all" if len(names[most]) == len(tried) else "all others"
    return f"| {words} | {' | '.join(rest if kind == most else ', '.join(names[kind]) or '-' for kind in KINDS)} |"


def _tried(audited: Callable[[], object], run: Callable[[], object]) -> str:
    if not _works(audited):
        return "neither"
    return "both" if _works(run) else "audit"


def _works(what: Callable[[], object]) -> bool:
    try:
        what()
    except KsdpError:
        return False
    return True


def _files(base: Path) -> None:
    """A corpus of few terms, and every public file that a lever may name."""
    names = [f"t{place}" for place in range(WIDTH)]
    counts = np.random.default_rng(0).poisson(0.5, (12, WIDTH)) + np.tile(np.eye(WIDTH), (2, 1))
    sp.save_npz(base / "a.npz", sp.csr_array(counts))
    (base / "labels.csv").write_text("who\n" + "ada\nbob\n" * 6)
    (base / "words.txt").write_text("".join(f"{name}\n" for name in names))
    (base / "terms.txt").write_text("".join(f"{name}\n" for name in names[:4]))
    (base / "public.tsv").write_text(
        "documents\t9\n" + "".join(f"{name}\t{n + 1}\n" for n, name in enumerate(names))
    )
    (base / "units.csv").write_text("column,centre,scale\n" + "".join(f"{name},1.0,2.0\n" for name in names))
    np.save(base / "basis.npy", np.linalg.qr(np.random.default_rng(1).normal(size=(WIDTH, WIDTH)))[0])


def _corpus(keys: Mapping[str, Any]) -> CorpusSpec:
    whole = {"path": "a.npz", "vocabulary": "words.txt", "labels": "labels.csv", "weighting": "counts", **keys}
    return CorpusSpec.model_validate(whole)


def _audited(base: Path, keys: Mapping[str, Any], name: str) -> None:
    mechanism = make_mechanism(name, {})
    load_corpus(_corpus(keys), base, nonnegative=traits_of(mechanism).nonnegative)


def _run(base: Path, keys: Mapping[str, Any], name: str) -> None:
    """What `ksdp party` asks of a corpus."""
    check_program(make_mechanism(name, _inside(name, RUN.get(name, {}))))
    corpus_features(_corpus(keys), base)
    rows_hash(_corpus(keys), base)


def _made(name: str, changes: Mapping[str, Any]) -> Any:
    plain: Any = make_mechanism(name, {})
    if not set(changes) <= {field.name for field in fields(plain.inner if name in AROUND else plain)}:
        raise KsdpError("it has no such parameter.")
    return make_mechanism(name, _inside(name, changes))


def _inside(name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of the other mechanism where one is around it."""
    return {"parameters": dict(changes), **AROUND[name]} if name in AROUND else dict(changes)


def _playable(name: str, changes: Mapping[str, Any]) -> None:
    regular = {"beta": 1.0, "delta": 1.0} if name == "pd-nmf" and "opens" in changes else {}
    own = {} if changes.get("opens") == "final" or name == "noisy" else RUN.get(name, {})
    check_program(make_mechanism(name, _inside(name, {**own, **changes, **regular})))


if __name__ == "__main__":
    (ROOT / "docs" / "audit-and-run.md").write_text(page(), encoding="utf-8")
    sys.exit(0)
