"""What the singular values give away on top of what PD-SVD announces anyway.

::

    python -m benchmarks sigma-leak --corpora kos enron-mail6 20newsgroups --documents 150 --with-runs 150

Runs of the SVD that reveals Sigma (a party of a third, the 1,000 most frequent terms, rank 7, every round looked
at), and in each of them what PD-SVD would have announced: the same less ``sigma``, the scale of ``span_sigma`` and
the sums as they are. So both are of the same databases, to the last bit. Every default column of each.

D is the largest of a document's columns. There are more of them where Sigma is revealed, and the largest of more
is larger by noise alone. So the column is chosen on one half of the runs and D is taken on the other, both ways.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks import data_folder
from ksdp.audit.corpus import Corpus, canonical
from ksdp.audit.design import Block
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.sampling import run_observables
from ksdp.audit.spec import parse_spec
from ksdp.audit.verdicts.ks import ks_table
from ksdp.audit.weighting import tf_idf, unit_rows

Floats = NDArray[np.float64]
Bits = NDArray[np.bool_]

CORPORA = ("enron-mail6", "kos", "20newsgroups")
TERMS, PARTY, RANK = 1000, 1 / 3, 7
_OF_SIGMA = ("sigma", "block_sums")
_DRAWS = 2000


def run(corpora: list[str], documents: int, with_runs: int) -> None:
    """Print some lines a corpus."""
    for name in corpora:
        corpus = _rows(name)
        hidden, plain = (_plan(corpus, mechanism, documents, with_runs) for mechanism in ("pd-svd", "sigma-svd"))
        bits, without, given = _values(hidden, plain)
        before, after = _chosen(without, bits), _chosen(given, bits)
        noise = _distance(np.random.default_rng(0).normal(size=bits.T.shape), bits)
        more = after - before
        drawn = np.random.default_rng(0).choice(more, (_DRAWS, len(more))).mean(axis=1)
        low, high = np.quantile(drawn, (0.025, 0.975))
        print(
            f"{name}: {len(corpus)} rows, {plain.design.runs} runs; largest D, Sigma hidden "
            f"{_said(_largest(without, bits))}, revealed {_said(_largest(given, bits))}; noise {_said(noise)}; "
            f"chosen on other runs {_said(before)}, {_said(after)}: {more.mean():+.4f} "
            f"({low:+.4f} to {high:+.4f}) in the mean over {len(more)} documents",
            flush=True,
        )
        for column in sorted(set(given) - set(without)):
            print(f"  {column}: D {_said(_distance(given[column], bits))}", flush=True)


def _rows(name: str) -> Corpus:
    counts = sp.csr_array(sp.load_npz(data_folder() / name / "counts.npz"))
    most = np.sort(np.argsort(-np.asarray(counts.sum(axis=0)), kind="stable")[:TERMS])
    part = sp.csr_array(counts[:, most])
    part = unit_rows(tf_idf(canonical(sp.csr_array(part[np.diff(part.indptr) > 0]))))
    return Corpus(part, np.array([f"d{i}" for i in range(part.shape[0])]))


def _plan(corpus: Corpus, mechanism: str, documents: int, with_runs: int) -> Plan:
    design = {"party_size": PARTY, "with_runs": with_runs, "without_runs": "all", "documents": documents}
    wanted = {"name": mechanism, "rank": RANK}
    tables = {"seed": 7, "corpus": {"path": "x"}, "mechanism": wanted, "design": design | {"fresh_runs": 0}}
    return make_plan(parse_spec(tables), corpus)


def _values(hidden: Plan, plain: Plan) -> tuple[Bits, dict[str, Floats], dict[str, Floats]]:
    """Who is in which run, and values by column, shape (runs, documents): Sigma hidden, then revealed."""
    looked = plain.documents(0)
    found: tuple[dict[str, list[Floats]], ...] = ({}, {})
    for number in range(plain.design.runs):
        whole = {name: array.astype(float) for name, array in run_observables(plain, 0, number).items()}
        less = {name: array for name, array in whole.items() if name not in _OF_SIGMA}
        less["span_sigma"] = less["span_sigma"] / max(float(less["span_sigma"].max()), 1e-300)
        # What both show is looked at once, under the plan of the run that hides Sigma.
        for columns, arrays, plan in zip(found, (less, whole), (hidden, plain), strict=True):
            seen = Observables({name: arrays[name] for name in plan.seen})
            for statistic in plan.tested:
                if columns is found[1] and statistic.name in found[0]:
                    continue
                columns.setdefault(statistic.name, []).append(statistic.evaluate(seen, looked))
    bits = plain.design.inclusion(Block(0, 0, plain.design.runs))
    without, of_sigma = ({name: np.array(rows) for name, rows in columns.items()} for columns in found)
    return bits, without, {**without, **of_sigma}


def _distance(values: Floats, bits: Bits) -> Floats:
    rows = np.ascontiguousarray(values.astype(np.float32).T)
    return np.asarray(ks_table(rows, np.ascontiguousarray(bits)).distance)


def _largest(values: Mapping[str, Floats], bits: Bits) -> Floats:
    return np.asarray(np.max([_distance(column, bits) for column in values.values()], axis=0))


def _chosen(values: Mapping[str, Floats], bits: Bits) -> Floats:
    """D of the column that is the document's strongest on the other half of the runs; the mean of both ways."""
    halves = [
        np.stack([_distance(column[half::2], bits[:, half::2]) for column in values.values()]) for half in (0, 1)
    ]
    ways = [
        np.take_along_axis(other, one.argmax(axis=0)[None], axis=0)[0] for one, other in (halves, halves[::-1])
    ]
    return np.asarray(np.mean(ways, axis=0))


def _said(distance: Floats) -> str:
    return f"{np.median(distance):.3f} ({np.quantile(distance, 0.95):.3f})"
