"""Weighted PD-NMF on MovieLens-1M: among processes over TLS, and what predictions of later ratings gain.

Parties alike: a third of the users each. Unlike: users under 25, of 25 to 34, of 35 and over. A real run and the
gain of both; some minutes.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import ROOT, data_folder
from benchmarks.protocol_run import entered_rows, played, write_protocol
from ksdp.audit.contract import Database
from ksdp.flows.learning import measure_gain
from ksdp.storage.keys import make_identity
from ksdp.storage.readers.spec_files import read_spec_file

SPEC = ROOT / "examples/specs/movielens-1m-recommend.toml"
AGES = {"under-25": (0, 25), "25-to-34": (25, 35), "35-and-over": (35, 200)}
MECHANISM = "rank = 7\nweighted = true\nbeta = 1.0\ndelta = 1.0"
PRECISE = 1e-6


def run() -> None:
    """Print a paragraph for the run and one for each kind of parties."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ratings = by_age(folder)
        _among_parties(folder, ratings)
        _gain(folder)


def by_age(folder: Path) -> pd.DataFrame:
    """All ratings with the party of their user, in `ratings.parquet`; the catalogue, in `vocabulary.txt`."""
    data = data_folder() / "movielens-1m"
    users = pd.read_parquet(data / "users.parquet").set_index("user_id").age
    ratings = pd.read_parquet(data / "ratings.parquet")
    ages = users[ratings.user_id].to_numpy()
    ratings["party"] = ""
    for party, (least, below) in AGES.items():
        ratings.loc[(ages >= least) & (ages < below), "party"] = party
    ratings.to_parquet(folder / "ratings.parquet")
    catalogue = pd.read_parquet(data / "items.parquet").item_id.sort_values()
    (folder / "vocabulary.txt").write_text("".join(f"{item}\n" for item in catalogue), encoding="utf-8")
    return ratings


def _among_parties(folder: Path, ratings: pd.DataFrame) -> None:
    for party in AGES:
        make_identity(folder, party)
        ratings[ratings.party == party].to_parquet(folder / f"{party}.parquet")
        (folder / f"{party}.toml").write_text(
            f'[corpus]\npath = "{party}.parquet"\nformat = "ratings"\nvocabulary = "vocabulary.txt"\n'
            f'[mechanism]\nname = "pd-nmf"\n{MECHANISM}\n'
        )
    protocol = write_protocol(folder, "pd-nmf", MECHANISM, tuple(AGES))
    first, out = next(iter(AGES)), folder / "out"
    ended = played(protocol, out, tuple(AGES))
    read, abouts, found = ended.read, ended.abouts, ended.found
    matrices = tuple(entered_rows(read, folder, party, "toml") for party in AGES)
    ideal = read.terms.mechanism.run(Database(matrices), np.random.default_rng(0))
    unrated = ~np.any([np.diff(rows.tocsc().indptr) > 0 for rows in matrices], axis=0)
    predicted = pd.read_parquet(out / first / "predictions.parquet")
    size = (out / first / "predictions.parquet").stat().st_size
    error = np.abs(found["T"] - ideal["T"]).max()
    zero = int((found["T"][:, unrated] == 0).all(axis=0).sum())
    print(
        f"run: users {[about['documents'] for about in abouts.values()]} x {read.terms.features} items, rank 7, "
        f"{int(found['sweeps'][0])} sweeps (ideal {int(ideal['sweeps'][0])}) in {ended.seconds:.1f} s; "
        f"{abouts[first]['bytes']['sent']:,} bytes sent by one; results {ended.results}; off the ideal T by "
        f"{error:.1e} at most (largest entry {ideal['T'].max():.2g}); {unrated.sum()} items that nobody rated, 0 "
        f"in T at {zero}; {len(predicted):,} predictions of {first}, {size:,} bytes",
        flush=True,
    )
    if not error < PRECISE:
        raise SystemExit("The run is not the ideal one.")


def _gain(folder: Path) -> None:
    spec, _ = read_spec_file(SPEC, own_code=False)
    corpus = spec.corpus.model_copy(update={"path": "ratings.parquet", "party": "party"})
    for kind, parties in (("alike", 3), ("unlike, by age", None)):
        asked = spec.gain.model_copy(update={"parties": parties})
        found = measure_gain(spec.model_copy(update={"corpus": corpus, "gain": asked}), folder)
        print(f"{kind}: {' '.join(found.sentences)}", flush=True)
        for one in found.measures:
            learnt = {"alone": one.alone, "run": one.run, "exact": one.exact, "public": one.public}
            told = ", ".join(f"{who} {each.mean:.4f}" for who, each in learnt.items() if each is not None)
            gain = f"{one.gain.mean:+.4f} ({one.gain.low:+.4f} to {one.gain.high:+.4f})"
            print(f"  {one.measure}: {told}; run less alone {gain}")
            if one is found.measures[0]:
                for each in one.parties:
                    print(
                        f"    {each.party}, own users: alone {each.alone.mean:.4f}, run {each.run.mean:.4f}, gain "
                        f"{each.gain.mean:+.4f} ({each.gain.low:+.4f} to {each.gain.high:+.4f})"
                    )


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    run()
