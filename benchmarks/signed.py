"""An attack on what was signed: runs of databases that are drawn from exactly the listed documents.

::

    python -m benchmarks signed patients.clearance patients.toml
    python -m benchmarks signed ids.txt patients.toml --size 227      # one id a line

It shares no statistic with the product: the mechanism runs on databases of the signed size, and a linear
discriminant per document is trained on one half of the runs and judged on the other. The discriminant reads the
released arrays, with signs, order or a rotation of their rows undone where the release leaves them open, and the
projector V^T V of such rows. A document is *proved* above the margin if TPR - FPR of a threshold that was chosen
on the first half exceeds it, by Clopper-Pearson bounds that hold for all listed documents together. The second
line is the same attack in runs of the whole audited population.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.stats import beta
from sklearn.utils.extmath import randomized_svd

from ksdp.audit.contract import Release
from ksdp.audit.mechanisms.schema import with_sampler
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.runs import stacked
from ksdp.flows.prepare import open_spec
from ksdp.storage.clearances import read_clearance
from ksdp.storage.readers.spec_files import read_spec_file

RUNS, ERROR = 24_000, 0.05
RIDGES = (1e-4, 1e-2, 1.0)
"""In mean eigenvalues of the covariance."""
MOST_COMPONENTS = 1000
MOST_PRODUCTS = 3000
AT_ONCE = 256
"""Documents."""
Matrix = NDArray[np.float64]
Bits = NDArray[np.bool_]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Attacked:
    """What the attack found of each listed document."""

    advantage: Matrix
    """TPR - FPR in the second half of the runs."""
    lower: Matrix
    """Its bound."""

    def proved(self, margin: float) -> int:
        """Documents above the margin."""
        return int((self.lower > margin).sum())


def run(files: Sequence[str], size: int | None = None, runs: int = RUNS, seed: int = 60) -> None:
    """Print one line for runs of the list, and one for runs of what was audited."""
    if len(files) != 2:
        raise SystemExit("name a clearance, or a file of ids, and the spec: python -m benchmarks signed LIST SPEC")
    listed, spec = map(Path, files)
    plan = plan_of(spec)
    units, signed = listed_units(listed, plan)
    size, margin = size or signed or plan.holdings.size, plan.spec.decision_in_run.margin
    print(f"{len(units)} listed, margin {margin:g}, {size} in a run, all bounds together {1 - ERROR:.0%}")
    print(f"{'runs of':12} {'documents':>9} {'proved':>7} {'largest':>8} {'median':>7} {'CPU s':>6}")
    for name, pool in (("the list", units), ("the audited", plan.holdings.victim)):
        start = time.process_time()
        found = attack(plan, pool, units, size, runs, seed)
        line = f"{name:12} {len(pool):9} {found.proved(margin):7} {found.advantage.max():8.3f}"
        print(f"{line} {np.median(found.advantage):7.3f} {time.process_time() - start:6.0f}", flush=True)


def plan_of(spec: Path) -> Plan:
    """The mechanism, the corpus and the other parties of a spec."""
    read, base = read_spec_file(spec)
    return make_plan(open_spec(read, base))


def listed_units(file: Path, plan: Plan) -> tuple[Rows, int | None]:
    """The listed documents (or groups), and the signed size where there is one."""
    ids, size = plan.corpus.ids, None
    if file.read_bytes().startswith(b"{"):
        clearance = read_clearance(file)
        allowed, size = clearance.allows(ids), clearance.sizes.size
    else:
        allowed = np.isin(np.asarray(ids, str), file.read_text().split())
    listed = [unit for unit in plan.holdings.victim if allowed[plan.units.rows(np.array([unit]))].all()]
    return np.array(listed, np.int64), size


def attack(plan: Plan, pool: Rows, units: Rows, size: int, runs: int, seed: int) -> Attacked:
    """Learn on one half of the runs and judge the other."""
    held, arrays = [], []
    for bits, released in _simulated(plan, pool, size, runs, seed):
        held.append(bits)
        arrays.append(released)
    bits = np.stack(held)[:, units]
    return judged(np.stack(arrays), bits)


def _simulated(plan: Plan, pool: Rows, size: int, runs: int, seed: int) -> Iterator[tuple[Bits, Matrix]]:
    rng, mechanism = np.random.default_rng([seed, len(pool)]), with_sampler(plan.mechanism, "fast")
    references: dict[str, Matrix] = {}
    for _ in range(runs):
        drawn = np.sort(rng.choice(pool, size, replace=False))
        others = plan.holdings
        honest = np.sort(rng.choice(others.honest, others.entering, replace=False)) if others.drawn else None
        seen = mechanism.run(stacked(plan, drawn, honest), rng)
        bits = np.zeros(len(plan.units), bool)
        bits[drawn] = True
        yield (
            bits,
            np.concatenate(
                [read(one, np.asarray(seen[one.name], float), references) for one in plan.releases.read]
            ),
        )


def read(release: Release, array: Matrix, references: dict[str, Matrix]) -> Matrix:
    """An array's numbers, its rows turned to those of the first run, and their projector where these may turn."""
    if release.alignment == "none" or array.ndim < 2:
        return array.ravel()
    rows = array.reshape(-1, array.shape[-1])
    reference = references.setdefault(release.name, rows)
    width = rows.shape[1]
    if release.alignment == "permutation":
        return np.asarray(rows[linear_sum_assignment(reference @ rows.T, maximize=True)[1]].ravel())
    turned = rows * np.where((rows * reference).sum(axis=1) < 0, -1.0, 1.0)[:, None]
    if release.alignment == "rotation":
        left, _, right = np.linalg.svd(reference @ rows.T)
        turned = left @ right @ rows
    if width * (width + 1) // 2 > MOST_PRODUCTS:
        return np.asarray(turned.ravel())
    return np.concatenate([turned.ravel(), (rows.T @ rows)[np.triu_indices(width)]])


def judged(numbers: Matrix, bits: Bits) -> Attacked:
    """Train ridge discriminants on the first half of the rows; bounds of TPR - FPR on the second."""
    half, documents = len(numbers) // 2, bits.shape[1]
    centre, spread = numbers[:half].mean(axis=0), numbers[:half].std(axis=0)
    varies = spread > 1e-12 * np.maximum(np.abs(centre), 1.0)
    z = np.asarray((numbers[:, varies] - centre[varies]) / spread[varies])
    kept = min(MOST_COMPONENTS, z.shape[1], half // 4)
    if kept < z.shape[1]:
        left, values, axes = randomized_svd(z[:half], kept, random_state=0)
    else:
        left, values, axes = np.linalg.svd(z[:half], full_matrices=False)
    tested = z[half:] @ (axes.T / np.maximum(values, 1e-9 * values[0]))
    advantage, lower = np.zeros((2, documents))
    for start in range(0, documents, AT_ONCE):
        part = slice(start, start + AT_ONCE)
        known, scores = _scores(left, values, tested, bits[:half, part].astype(float))
        for at, (one, mine) in enumerate(zip(known.T, scores.T, strict=True)):
            cut = _threshold(one, bits[:half, start + at])
            advantage[start + at], lower[start + at] = bounded(mine > cut, bits[half:, start + at], documents)
    return Attacked(advantage, lower)


def _scores(left: Matrix, values: Matrix, tested: Matrix, bits: Matrix) -> tuple[Matrix, Matrix]:
    """Of each document by its best ridge: with each training run left out, and of the second half."""
    centred = bits - bits.mean(axis=0)
    turned = left.T @ centred
    best, known = np.full(bits.shape[1], -np.inf), np.zeros_like(bits)
    scores = np.zeros((len(tested), bits.shape[1]))
    for ridge in RIDGES:
        kept = values**2 / (values**2 + ridge * (values**2).mean())
        leverage = (left**2) @ kept
        guess = centred - (centred - left @ (turned * kept[:, None])) / (1.0 - leverage)[:, None]
        gain = (guess * centred).sum(axis=0) / np.maximum(np.linalg.norm(guess, axis=0), 1e-300)
        better = gain > best
        best[better], known[:, better] = gain[better], guess[:, better]
        scores[:, better] = tested @ (turned[:, better] * kept[:, None])
    return known, scores


def _threshold(scores: Matrix, bits: Bits) -> float:
    """The score above which most of those with the document are, and fewest without."""
    order = np.argsort(-scores)
    gap = np.cumsum(bits[order]) / max(bits.sum(), 1) - np.cumsum(~bits[order]) / max((~bits).sum(), 1)
    return float(np.nextafter(scores[order[gap.argmax()]], -np.inf))


def bounded(flagged: Bits, bits: Bits, documents: int) -> tuple[float, float]:
    """TPR - FPR, and its lower bound that holds for so many documents together."""
    each = ERROR / (2 * documents)
    hits, ins, alarms, outs = (flagged & bits).sum(), bits.sum(), (flagged & ~bits).sum(), (~bits).sum()
    least = beta.ppf(each, hits, ins - hits + 1) if hits else 0.0
    most = beta.isf(each, alarms + 1, outs - alarms) if alarms < outs else 1.0
    return float(hits / max(ins, 1) - alarms / max(outs, 1)), float(least - most)
