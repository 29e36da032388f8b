"""Two cases that ksdp and four other tools can be asked, what each answers, and what is true.

A model is trained on a random half of the 569 patients of scikit-learn's breast cancer table:

- A: a logistic regression, exact;
- B: the two classes' sums, with normal noise of a tenth of the largest patient, which make a classifier by nearest
  centre;
- nothing: as B, of another random half, so that nobody's advantage is above 0.

What is true of B follows from its noise: sums of 284 patients are close to normal, so that a patient's advantage
is that of two normal laws. Of A it is what attacks of `benchmarks.hostile` prove. Of `nothing` is counted how
often a tool reports a leak by its own test, at 5 %.

Each tool is asked in an environment that has it (PyPI has `sacroml` and `jax-privacy`, not LeakPro or TAPAS)::

    python -m benchmarks.other_tools ksdp|sacroml|leakpro|tapas|jax_privacy|truth [--models 20] [--nulls 20]
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import logging
import os
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

Matrix = NDArray[np.float64]
NOISE, MARGIN, DELTA = 0.1, 0.2, 0.01
RUNS = 2000
SHADOWS = 100


@functools.cache
def patients() -> tuple[Matrix, NDArray[np.int64]]:
    """Rows of columns with deviation 1, the largest of length 1; and their classes."""
    table = load_breast_cancer()
    rows = (table.data - table.data.mean(axis=0)) / table.data.std(axis=0)
    return rows / np.linalg.norm(rows, axis=1).max(), table.target


def noised(sums: Matrix, rng: np.random.Generator) -> Matrix:
    """Sums with noise, which ksdp has to be told of: chance that nobody declares clears nobody."""
    try:
        import ksdp
    except ImportError:  # in an environment of another tool
        return sums + rng.normal(0, NOISE, sums.shape)
    return ksdp.noise(sums, rng, scale=NOISE)


class NoisyCentres(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Nearest centre, by sums of classes with noise."""

    def __init__(self, blind: bool = False, random_state: int | None = None) -> None:
        self.blind, self.random_state = blind, random_state

    def fit(self, X: Matrix, y: NDArray[np.int64]) -> NoisyCentres:
        rng = np.random.default_rng(self.random_state)
        if self.blind:
            (rows, labels), others = patients(), half(rng)
            X, y = rows[others], labels[others]
        sums = np.stack([X[y == label].sum(axis=0) for label in (0, 1)])
        self.classes_ = np.array([0, 1])
        self.released_ = noised(sums, rng)
        return self

    def decision_function(self, X: Matrix) -> Matrix:
        centres = self.released_ / 142  # a quarter of all
        return np.asarray(X @ (centres[1] - centres[0]) - (centres[1] @ centres[1] - centres[0] @ centres[0]) / 2)

    def predict_proba(self, X: Matrix) -> Matrix:
        positive = 1 / (1 + np.exp(-np.clip(self.decision_function(X), -500, 500)))
        return np.column_stack([1 - positive, positive])

    def predict(self, X: Matrix) -> NDArray[np.int64]:
        return (self.decision_function(X) > 0).astype(np.int64)


MODELS: dict[str, Any] = {
    "A": LogisticRegression(max_iter=1000),
    "B": NoisyCentres(),
    "nothing": NoisyCentres(blind=True),
}


def fitted(case: str, rows: Matrix, labels: NDArray[np.int64], rng: np.random.Generator) -> Any:
    """A model of these patients."""
    model = MODELS[case]
    return type(model)(**model.get_params() | {"random_state": int(rng.integers(2**31))}).fit(rows, labels)


def released(model: Any) -> Matrix:
    """The numbers of a model that are announced."""
    return model.released_.ravel() if hasattr(model, "released_") else np.append(model.coef_, model.intercept_)


def _of_case(case: str) -> Callable[[Matrix, np.random.Generator], Matrix]:
    def function(table: Matrix, rng: np.random.Generator) -> Matrix:
        return released(fitted(case, table[:, :-1], table[:, -1].astype(np.int64), rng))

    return function


def half(rng: np.random.Generator, count: int = 569) -> NDArray[np.bool_]:
    """Who is in a run."""
    held = np.zeros(count, np.bool_)
    held[rng.choice(count, count // 2, replace=False)] = True
    return held


def runs_of(case: str, runs: int, rng: np.random.Generator) -> tuple[Matrix, NDArray[np.bool_]]:
    """What many runs announce, and who was in them."""
    rows, labels = patients()
    bits = np.stack([half(rng) for _ in range(runs)])
    return np.stack([released(fitted(case, rows[held], labels[held], rng)) for held in bits]), bits


def advantages() -> Matrix:
    """Of each patient in B, as normal laws have it."""
    rows, labels = patients()
    enters = np.hstack([rows * (labels == label)[:, None] for label in (0, 1)])
    enters = enters - enters.mean(axis=0)
    spread = enters.T @ enters / 4 + NOISE**2 * np.eye(enters.shape[1])
    squares = np.einsum("ij,ij->i", enters, np.linalg.solve(spread, enters.T).T)
    return np.asarray(2 * norm.cdf(np.sqrt(squares / (1 - squares / 4)) / 2) - 1)  # the others' spread


TARGET = int(advantages().argmax())
"""The patient of the largest advantage in B, for tools that ask of one."""


def verdicts(case: str, seed: int) -> NDArray[np.str_]:
    """By ksdp, of every patient."""
    import ksdp

    table = np.column_stack(patients())
    audit = ksdp.audit(table, _of_case(case), party_size=0.5, with_runs=RUNS // 2, margin=MARGIN, seed=seed)
    return np.asarray(audit.verdicts["verdict"].to_numpy(), str)


def ask_ksdp(case: str, seed: int) -> tuple[str, bool]:
    """Every patient."""
    called = verdicts(case, seed)
    counts = {word: int((called == word).sum()) for word in ("sensitive", "clear", "undecided")}
    true = {"A": None, "B": advantages(), "nothing": np.zeros(len(called))}[case]
    wrong = (
        ""
        if true is None
        else (
            f"; {int((true[called == 'sensitive'] <= MARGIN).sum())} sensitive and "
            f"{int((true[called == 'clear'] > MARGIN).sum())} clear ones wrong"
        )
    )
    return ", ".join(f"{count} {word}" for word, count in counts.items()) + wrong, counts["sensitive"] > 0


def ask_sacroml(case: str, seed: int) -> tuple[str, bool]:
    """The model, by the confidence of its predictions."""
    from sacroml.attacks.likelihood_attack import LIRAAttack
    from sacroml.attacks.target import Target
    from sacroml.attacks.worst_case_attack import WorstCaseAttack

    (rows, labels), rng = patients(), np.random.default_rng(seed)
    held = half(rng)
    target = Target(
        model=fitted(case, rows[held], labels[held], rng),
        X_train=rows[held],
        y_train=labels[held],
        X_test=rows[~held],
        y_test=labels[~held],
    )
    with tempfile.TemporaryDirectory() as folder:
        worst = WorstCaseAttack(output_dir=folder, write_report=False)
        ratio = LIRAAttack(output_dir=folder, write_report=False, n_shadow_models=SHADOWS, mode="online-carlini")
        for attack in (worst, ratio):
            attack.attack(target)
    many = worst.metadata["global_metrics"]["n_sig_auc_p_vals_corrected"]
    said = ratio.metadata["global_metrics"]["AUC_sig"]
    areas = float(np.mean([one["AUC"] for one in worst.attack_metrics])), ratio.attack_metrics[0]["AUC"]
    found = f"AUC {areas[0]:.3f} worst case, {many} of 10 significant; {areas[1]:.3f} LiRA, {said.lower()}"
    return found, many > 0 or said.startswith("Significant")


def ask_leakpro(case: str, seed: int) -> tuple[str, None]:
    """The model: LeakPro's LiRA on logits of shadow models that are made here."""
    from leakpro.attacks.mia_attacks.lira import AttackLiRA

    (rows, labels), rng = patients(), np.random.default_rng(seed)
    attack = AttackLiRA.__new__(AttackLiRA)
    attack.configs = AttackLiRA.AttackConfig(num_shadow_models=SHADOWS, online=True)
    for name, value in attack.configs.model_dump().items():
        setattr(attack, name, value)
    attack.fix_var_threshold = 32  # as `prepare_attack` has it
    bits = np.stack([half(rng) for _ in range(SHADOWS + 1)])
    logits = [
        attack.rescale_logits(fitted(case, rows[held], labels[held], rng).decision_function(rows)[:, None], labels)
        for held in bits
    ]
    AttackLiRA.audit_dataset = {"in_members": np.flatnonzero(bits[0]), "out_members": np.flatnonzero(~bits[0])}
    attack.target_logits, attack.shadow_models_logits = logits[0], np.stack(logits[1:])
    attack.out_indices = ~bits[1:]
    found = attack.run_attack()
    return f"AUC {found.roc_auc:.3f}, TPR {found.fixed_fpr_table['TPR@1%FPR']:.3f} at FPR 0.01", None


def ask_tapas(case: str, seed: int) -> tuple[str, bool]:
    """One patient: the announced numbers are the synthetic table."""
    import pandas as pd
    from tapas.attacks import FeatureBasedSetClassifier, NaiveSetFeature, ShadowModellingAttack
    from tapas.datasets import TabularDataset
    from tapas.datasets.data_description import DataDescription
    from tapas.generators import Generator
    from tapas.report import EffectiveEpsilonReport
    from tapas.threat_models import AuxiliaryDataKnowledge, BlackBoxKnowledge, TargetedMIA

    (rows, labels), rng = patients(), np.random.default_rng(seed)
    np.random.seed(seed)  # noqa: NPY002 - which is what TAPAS draws from

    def table(values: Matrix) -> Any:
        names = [f"c{number}" for number in range(values.shape[1])]
        kinds = [{"name": name, "type": "real", "representation": "number"} for name in names]
        return TabularDataset(pd.DataFrame(values, columns=names), DataDescription(kinds))

    class Announced(Generator):  # type: ignore[misc]  # TAPAS has no types
        def fit(self, dataset: Any, **_: Any) -> None:
            self.seen = _of_case(case)(dataset.data.to_numpy(), rng)

        def generate(self, num_samples: int, random_state: Any = None) -> Any:
            return table(self.seen[None])

    every = table(np.column_stack([rows, labels]))
    target = every.get_records([TARGET])
    every.drop_records([TARGET], in_place=True)
    threat = TargetedMIA(
        AuxiliaryDataKnowledge(aux_data=every, test_data=every, num_training_records=len(rows) // 2),
        target,
        BlackBoxKnowledge(Announced(), num_synthetic_records=1),
        generate_pairs=False,
        replace_target=True,
    )
    attack = ShadowModellingAttack(
        FeatureBasedSetClassifier(NaiveSetFeature(), RandomForestClassifier(random_state=seed)), "forest"
    )
    attack.train(threat, num_samples=RUNS)
    found = threat.test(attack, num_samples=RUNS)
    with tempfile.TemporaryDirectory() as folder:
        bounds = EffectiveEpsilonReport([found], confidence_levels=0.95).publish(folder)
    low, high = bounds[["epsilon_low", "epsilon_high"]].to_numpy()[0]
    return f"advantage {found.mia_advantage:.2f}, epsilon {low:.2f} to {high:.2f}", low > 0


def ask_jax_privacy(case: str, seed: int) -> tuple[str, bool]:
    """One patient: scores of a linear attack, which it is given."""
    from jax_privacy.auditing import CanaryScoreAuditor

    rng = np.random.default_rng(seed)
    (learnt, before), (seen, bits) = runs_of(case, RUNS, rng), runs_of(case, RUNS, rng)
    held = before[:, TARGET]
    moved = learnt[held].mean(axis=0) - learnt[~held].mean(axis=0)
    scores = seen @ np.linalg.solve(np.cov(learnt.T), moved)
    auditor = CanaryScoreAuditor(scores[bits[:, TARGET]], scores[~bits[:, TARGET]])
    bound = auditor.epsilon_clopper_pearson(0.05, DELTA)
    return f"epsilon at least {bound:.2f} (delta {DELTA:g}), AUC {auditor.attack_auroc():.3f}", bound > 0


TOOLS: dict[str, Callable[[str, int], tuple[str, bool | None]]] = {
    "ksdp": ask_ksdp,
    "sacroml": ask_sacroml,
    "leakpro": ask_leakpro,
    "tapas": ask_tapas,
    "jax_privacy": ask_jax_privacy,
}


def truth() -> None:
    """What follows from the noise, and what attacks prove."""
    from benchmarks.hostile import attacks, proved

    exposed = np.argsort(-advantages())
    for case in ("A", "B"):
        seen, bits = runs_of(case, 3 * RUNS, np.random.default_rng(99))
        clear = verdicts(case, 1)[exposed] == "clear"
        for name, chosen in (
            ("most exposed", exposed[:24]),
            ("most exposed of ksdp's clear ones", exposed[clear][:24]),
        ):
            scores = attacks(seen, bits[:, chosen], RUNS)
            bounds = [
                proved([one[RUNS:, i] for one in scores], bits[RUNS:, who], 0.01 / len(chosen), RUNS // 2)
                for i, who in enumerate(chosen)
            ]
            above = sum(low > MARGIN for _, low in bounds)
            most, least = max(bounds)
            print(
                f"{case}: of the {len(chosen)} {name} {above} are proved above {MARGIN}; the most {most:.2f}, "
                f"proved {least:.2f}",
                flush=True,
            )
    true = advantages()
    size = norm.ppf((1 + true.max()) / 2) * 2
    epsilons = np.linspace(0, 10, 100_001)
    deltas = norm.cdf(size / 2 - epsilons / size) - np.exp(epsilons) * norm.cdf(-size / 2 - epsilons / size)
    print(
        f"B: {int((true > MARGIN).sum())} of {len(true)} are above {MARGIN}, the most {true.max():.3f}, epsilon "
        f"{epsilons[np.argmax(deltas <= DELTA)]:.2f} at delta {DELTA:g}"
    )


def main() -> None:
    """One tool's answers: the first of each case, and in how many of all it reports a leak."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", choices=[*TOOLS, "truth"])
    parser.add_argument("--models", type=int, default=1, help="of A and of B, each of another half")
    parser.add_argument("--nulls", type=int, default=20, help="of nothing")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    if chosen.tool == "truth":
        truth()
        return
    for case, count in (("A", chosen.models), ("B", chosen.models), ("nothing", chosen.nulls)):
        start = sum(os.times()[:4])
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            answers = [TOOLS[chosen.tool](case, seed) for seed in range(count)]
        seconds = (sum(os.times()[:4]) - start) / count
        reports = [leak for _, leak in answers if leak is not None]
        how = f"{sum(reports)} of {len(reports)} report a leak" if reports else "it has no test"
        print(f"{case}: {how}, {seconds:.1f} CPU s each")
        print("\n".join(f"    {answer}" for answer, _ in answers), flush=True)


if __name__ == "__main__":
    main()
