"""The data sets that the papers' tables are repeated on, each in a folder of its name under one folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus, standardised
from ksdp.audit.errors import InputError
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.specs.models import CorpusSpec
from ksdp.storage.corpora import load_corpus

FILES = {
    "20newsgroups": "counts.npz",
    "adult": "table.parquet",
    "enron-mail6": "counts.npz",
    "kos": "counts.npz",
    "mnist": "mnist.npz",
    "movielens-1m": "ratings.parquet",
    "mushroom": "table.parquet",
    "nursery": "table.parquet",
    "online-news-popularity": "table.parquet",
    "yearpredictionmsd": "table.parquet",
}
"""What must be there of each."""
_LEAST = 50


def missing(folder: Path, names: tuple[str, ...]) -> tuple[str, ...]:
    """Which of these data sets are not in the folder."""
    return tuple(name for name in names if not (folder / name / FILES[name]).is_file())


def _file(folder: Path, name: str) -> Path:
    if missing(folder, (name,)):
        raise InputError(f"{name}/{FILES[name]} is not in the data folder; `--data` or KSDP_DATA names it.")
    return folder / name / FILES[name]


def counts(folder: Path, name: str) -> sp.csr_array:
    """Words of documents."""
    return sp.csr_array(sp.load_npz(_file(folder, name)), dtype=np.float64)


def documents(folder: Path, name: str, most_frequent: int | None = None) -> Corpus:
    """Count matrix weighed by tf-idf, rows of unit length; labelled by mailbox or group where there are labels."""
    tables: dict[str, object] = {"path": str(_file(folder, name)), "weighting": "tf-idf"}
    if name == "enron-mail6":
        tables |= {"labels": str(folder / name / "labels.parquet"), "party": "mailbox"}
    if most_frequent is not None:
        tables["levers"] = {"most_frequent": most_frequent}
    return load_corpus(CorpusSpec.model_validate(tables), folder, nonnegative=True)


def stars(folder: Path) -> Corpus:
    """All ratings of MovieLens-1M, one row a user."""
    tables = {"path": str(_file(folder, "movielens-1m")), "format": "ratings"}
    return load_corpus(CorpusSpec.model_validate(tables), folder, nonnegative=True)


def ratings(folder: Path) -> sp.csr_array:
    """MovieLens-1M without users and movies of fewer than 50 ratings, as the paper treats Netflix; shuffled."""
    table = pd.read_parquet(_file(folder, "movielens-1m"), columns=["user_id", "item_id", "rating"])
    while True:
        often = [table.groupby(key)["rating"].transform("size") >= _LEAST for key in ("user_id", "item_id")]
        if (often[0] & often[1]).all():
            break
        table = table[often[0] & often[1]]
    users, rows = np.unique(table["user_id"], return_inverse=True)
    movies, places = np.unique(table["item_id"], return_inverse=True)
    values = table["rating"].to_numpy(float)
    matrix = sp.csr_array((values, (rows, places)), shape=(len(users), len(movies)))
    return sp.csr_array(matrix[np.random.default_rng(0).permutation(len(users))])


def songs(folder: Path) -> tuple[sp.csr_array, Floats]:
    """The uniform 7,000 of YearPredictionMSD: 90 columns in standard units, and years."""
    table = pd.read_parquet(_file(folder, "yearpredictionmsd"))
    table = table[table["subset"].isin(["a-train", "a-test"])]
    names = [name for name in map(str, table.columns) if name.startswith("timbre")]
    return standardised(sp.csr_array(table[names].to_numpy(float))), table["year"].to_numpy(float)


def news(folder: Path) -> tuple[sp.csr_array, Floats]:
    """The uniform sample of Online News Popularity: 58 columns in standard units, and the logarithm of shares."""
    table = pd.read_parquet(_file(folder, "online-news-popularity"))
    mine = pd.read_parquet(folder / "online-news-popularity" / "samples.parquet")["sample_a"].to_numpy()
    table = table[mine]
    target = np.log(table["shares"].to_numpy(float))
    return standardised(sp.csr_array(table.iloc[:, 2:-1].to_numpy(float))), target


def digits(folder: Path) -> Floats:
    """MNIST's training images, one a row, of norm 1 at most."""
    images = np.load(_file(folder, "mnist"))["train_images"].reshape(-1, 784) / 255.0
    return np.asarray(images / np.linalg.norm(images, axis=1).max())


def columns(folder: Path, name: str) -> pd.DataFrame:
    """A table of categories, as it is."""
    return pd.read_parquet(_file(folder, name))
