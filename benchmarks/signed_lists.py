"""What `ksdp clear` signs on everyday data, audited once more with another seed, and attacked.

::

    python -m benchmarks signed-lists --lists patients digits    # every setting, where none is named

Each setting is a table and a spec as somebody types them. `ksdp audit` and `ksdp clear` run as commands in a new
folder. What is signed is audited once more: exactly the listed documents, at the signed size, with another seed.
Then the attack of `benchmarks/signed.py` tries the list. The audit is in the store when `clear` begins, so that
the CPU seconds of `clear` are what it adds.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets

from ksdp.audit.opened import Opened
from ksdp.audit.planning import make_plan
from ksdp.audit.results.summary import Summary
from ksdp.audit.screening.rounds import list_corpus, list_spec
from ksdp.audit.specs.models import Spec
from ksdp.flows.audits.place import Place
from ksdp.flows.audits.run import run_prepared
from ksdp.flows.prepare import prepare_stored
from ksdp.storage.clearances import read_clearance

from . import signed, waiting

SEED = 6060
"""Of the audit that is made once more."""
ROOT = Path(__file__).resolve().parents[1]
V_ALONE = 'name = "pd-svd"\nrank = {}\nopens = "final"'
NOISE = 'name = "moments"\nrank = {}\nadvantage = {}\ncolluders = 1'
BOUND = NOISE + "\nrow_bound = {}"
SPEC = """seed = {seed}
[corpus]
path = "{path}"
{corpus}
[mechanism]
{mechanism}
[design]
party_size = {size}
with_runs = {runs}
[decision]
margin = {margin}
"""


@dataclass(frozen=True)
class Setting:
    """A table, a mechanism and a margin to audit by and to sign."""

    table: Callable[[], pd.DataFrame] | None
    """None: the docstrings of the demo."""
    mechanism: str
    margin: float
    size: float = 0.4
    runs: int = 30
    corpus: str = 'id = "id"\nweighting = "standardised"'

    def write(self, folder: Path) -> Path:
        """The table and its spec."""
        path, corpus = "demo", self.corpus
        if self.table is not None:
            path, rows = "table.csv", self.table()
            rows.to_csv(folder / path, index_label="id")
            corpus += f"\ncolumns = {json.dumps([*map(str, rows.columns)])}"
        spec = folder / "spec.toml"
        keys = {"mechanism": self.mechanism, "margin": self.margin, "size": self.size, "runs": self.runs}
        spec.write_text(SPEC.format(seed=7, path=path, corpus=corpus, **keys), encoding="utf-8")
        return spec


def _sklearn(name: str) -> pd.DataFrame:
    rows: pd.DataFrame = getattr(datasets, f"load_{name}")(as_frame=True).data
    return rows


def _scans(turn: int) -> pd.DataFrame:
    return _sklearn("digits")[turn::3]


def _news(most: int | None = None) -> pd.DataFrame:
    """The numbers of articles of the uniform sample, each once."""
    folder = Path(os.environ.get("KSDP_DATA", ROOT.parent / "shared" / "data")) / "online-news-popularity"
    mine = pd.read_parquet(folder / "samples.parquet")["sample_a"].to_numpy()
    rows = pd.read_parquet(folder / "table.parquet")[mine]
    flags = ("data_channel", "weekday", "is_weekend")
    rows = rows[[name for name in rows.columns[2:-1] if not name.startswith(flags)]].dropna().drop_duplicates()
    kept = np.sort(np.random.default_rng(1).permutation(len(rows))[:most])
    return rows.iloc[kept].reset_index(drop=True)


_TUTORIAL = 'id = "id"\nweighting = "counts"\nrows = "l2"'
SETTINGS = {
    "patients": Setting(partial(_sklearn, "breast_cancer"), V_ALONE.format(2), 0.3, runs=270),
    "patients-noise": Setting(partial(_sklearn, "breast_cancer"), BOUND.format(2, 0.4, 6.0), 0.4, 0.5),
    "diabetes": Setting(partial(_sklearn, "diabetes"), V_ALONE.format(1), 0.4, 0.5, 200),
    "wine": Setting(partial(_sklearn, "wine"), V_ALONE.format(2), 0.4, runs=150),
    "wine-noise": Setting(partial(_sklearn, "wine"), BOUND.format(1, 0.4, 4.0), 0.4),
    "digits": Setting(partial(_sklearn, "digits"), BOUND.format(4, 0.3, 8.0), 0.3),
    "news": Setting(partial(_news, 1500), V_ALONE.format(1), 0.3, runs=300),
    "news-noise": Setting(_news, BOUND.format(4, 0.3, 6.0), 0.3),
    "ada": Setting(partial(_scans, 0), NOISE.format(1, 0.5), 0.5, 0.5, corpus=_TUTORIAL),
    "bob": Setting(partial(_scans, 1), NOISE.format(1, 0.5), 0.5, 0.5, corpus=_TUTORIAL),
    "cyd": Setting(partial(_scans, 2), NOISE.format(1, 0.5), 0.5, 0.5, corpus=_TUTORIAL),
    "demo": Setting(None, NOISE.format(2, 0.3), 0.3, corpus='max_features = 36\nrows = "l2"'),
}
HEADER = (
    f"{'setting':15}{'audited':>8}{'sens/clear/und':>18}{'signed':>8}{'rounds':>7}{'audit CPU s':>12}"
    f"{'clear CPU s':>12}{'again sens/clear/und':>22}{'proved':>8}{'largest':>9}"
)


def run(names: Sequence[str] = (), simulated: int = signed.RUNS) -> None:
    """Print a row for each setting, and the rounds of those that are not signed at once."""
    print(HEADER)
    for name in names or SETTINGS:
        with tempfile.TemporaryDirectory() as folder:
            _row(name, Path(folder), simulated)


def _row(name: str, folder: Path, simulated: int) -> None:
    one = SETTINGS[name]
    spec, clearance = one.write(folder), folder / "clearance"
    _ksdp(folder, "keys", "ada")
    audit, of_audit = _ksdp(folder, "audit", spec, "--json")
    signer = ("--clearance", clearance, "--key", "ada.key", "--who", "Ada")
    cleared, of_clear = _ksdp(folder, "clear", spec, *signer, "--json")
    line = f"{name:15}{audit['documents']:8}{_counts(audit['verdicts']):>18}{cleared.get('allowed', 0):8}"
    line += f"{max(len(cleared.get('rounds', ())) - 1, 0):7}{of_audit:12.0f}{of_clear:12.0f}"
    if clearance.exists():
        again = audited_again(spec, clearance, folder / "again")
        attacked = attacked_list(spec, clearance, simulated)
        line += f"{_counts(again.verdicts.as_dict()):>22}"
        line += f"{attacked.proved(one.margin):8}{attacked.advantage.max():9.3f}"
    print(line, flush=True)
    for about in cleared.get("rounds", ())[1:]:
        print(f"   round {about['round']}: {about['documents']} alone, {_counts(about['verdicts'])}")
    print(f"   {cleared.get('outcome')}: {cleared.get('reason')}", flush=True)


def _counts(verdicts: dict[str, int]) -> str:
    return " / ".join(str(verdicts[word]) for word in ("sensitive", "clear", "undecided"))


def _ksdp(folder: Path, *words: object) -> tuple[dict[str, Any], float]:
    """What a command prints as JSON, and its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = waiting([sys.executable, "-m", "ksdp", *map(str, words)])
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 3, 4):
        print(f"   {words[0]}: exit {done.returncode}: {done.stderr.strip().splitlines()[-1:]}", flush=True)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (json.loads(done.stdout) if done.stdout.startswith("{") else {}), spent


def audited_again(spec: Path, file: Path, store: Path) -> Summary:
    """An audit of exactly the listed documents, at the signed size, with a seed of its own."""
    plan, clearance = signed.plan_of(spec), read_clearance(file)
    units, _ = signed.listed_units(file, plan)
    corpus, me = list_corpus(plan, plan.units.ids[units].tolist())
    tables = list_spec(plan, len(units), 1, me).model_dump(mode="json")
    tables["seed"], tables["decision"] = SEED, plan.spec.decision.model_dump(mode="json")
    tables["design"]["party_size"] = clearance.sizes.size
    again = make_plan(Opened.of(Spec.model_validate(tables), corpus))
    return run_prepared([prepare_stored(again, store, may_sample=True)], Place(1))[0]


def attacked_list(spec: Path, file: Path, simulated: int) -> signed.Attacked:
    """Runs of exactly the listed documents, at the signed size."""
    plan = signed.plan_of(spec)
    units, size = signed.listed_units(file, plan)
    assert size is not None
    return signed.attack(plan, units, units, min(size, len(units)), simulated, SEED)
