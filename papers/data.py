"""The data sets, each in a folder of its name under `--data`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp
import snowballstemmer
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FILES = {
    "20newsgroups": "counts.npz",
    "adult": "table.parquet",
    "covertype": "table.parquet",
    "enron-mail6": "counts.npz",
    "kos": "counts.npz",
    "mnist": "mnist.npz",
    "movielens-1m": "ratings.parquet",
    "mushroom": "table.parquet",
    "nursery": "table.parquet",
    "online-news-popularity": "table.parquet",
    "reuters-21578": "counts.npz",
    "yearpredictionmsd": "table.parquet",
}
"""The file that each data set must have."""
_LEAST = 50


def missing(folder: Path, names: tuple[str, ...]) -> tuple[str, ...]:
    """Which of these data sets are not in the folder."""
    return tuple(name for name in names if not (folder / name / FILES[name]).is_file())


def _file(folder: Path, name: str) -> Path:
    return folder / name / FILES[name]


def table(folder: Path, name: str) -> pd.DataFrame:
    """A table of categories."""
    return pd.read_parquet(_file(folder, name))


def counts(folder: Path, name: str) -> sp.csr_array:
    """Word counts of documents."""
    return sp.csr_array(sp.load_npz(_file(folder, name)), dtype=np.float64)


def tf_idf(words: sp.csr_array) -> sp.csr_array:
    """Counts weighed by tf-idf, rows of unit length; rows of zeros stay."""
    idf = np.log(words.shape[0] / np.maximum(1, np.bincount(words.indices, minlength=words.shape[1])))
    weighed = sp.csr_array(words @ sp.diags_array(idf))
    weighed.eliminate_zeros()
    lengths = np.sqrt(np.asarray(weighed.multiply(weighed).sum(axis=1)).ravel())
    return sp.csr_array(sp.diags_array(1 / np.where(lengths > 0, lengths, 1.0)) @ weighed)


def documents(folder: Path, name: str, most_frequent: int | None = None) -> tuple[sp.csr_array, NDArray[np.str_]]:
    """tf-idf rows, and who holds each: the mailbox of a mail, else one of three parties in turn."""
    words = counts(folder, name)
    if most_frequent is not None:
        often = np.bincount(words.indices, minlength=words.shape[1])
        words = sp.csr_array(words[:, np.sort(np.argsort(-often, kind="stable")[:most_frequent])])
    rows = tf_idf(words)
    if name == "enron-mail6":
        labels = pd.read_parquet(folder / name / "labels.parquet")["mailbox"].to_numpy(str)
    else:
        labels = np.char.add("party ", (np.arange(rows.shape[0]) % 3).astype(str))
    some = np.diff(rows.indptr) > 0
    return rows[some], labels[some]


def stars(folder: Path) -> sp.csr_array:
    """All ratings of MovieLens-1M, one row a user."""
    return _rated(pd.read_parquet(_file(folder, "movielens-1m")))


def ratings(folder: Path) -> sp.csr_array:
    """MovieLens-1M without users and movies of fewer than 50 ratings, as the paper treats Netflix; shuffled."""
    rated = pd.read_parquet(_file(folder, "movielens-1m"), columns=["user_id", "item_id", "rating"])
    while True:
        often = [rated.groupby(key)["rating"].transform("size") >= _LEAST for key in ("user_id", "item_id")]
        if (often[0] & often[1]).all():
            break
        rated = rated[often[0] & often[1]]
    matrix = _rated(rated)
    return sp.csr_array(matrix[np.random.default_rng(0).permutation(matrix.shape[0])])


def _rated(rated: pd.DataFrame) -> sp.csr_array:
    users, rows = np.unique(rated["user_id"], return_inverse=True)
    movies, places = np.unique(rated["item_id"], return_inverse=True)
    return sp.csr_array((rated["rating"].to_numpy(float), (rows, places)), shape=(len(users), len(movies)))


def _standardised(dense: Floats) -> sp.csr_array:
    dense = dense - dense.mean(axis=0)
    spread = dense.std(axis=0)
    return sp.csr_array(np.divide(dense, spread, out=np.zeros_like(dense), where=spread > 1e-12))


def songs(folder: Path) -> tuple[sp.csr_array, Floats]:
    """The uniform 7,000 of YearPredictionMSD: 90 columns in standard units, and years."""
    read = table(folder, "yearpredictionmsd")
    read = read[read["subset"].isin(["a-train", "a-test"])]
    names = [name for name in map(str, read.columns) if name.startswith("timbre")]
    return _standardised(read[names].to_numpy(float)), read["year"].to_numpy(float)


def news(folder: Path) -> tuple[sp.csr_array, Floats]:
    """The uniform sample of Online News Popularity: 58 columns in standard units, and the logarithm of shares."""
    read = table(folder, "online-news-popularity")
    read = read[pd.read_parquet(folder / "online-news-popularity" / "samples.parquet")["sample_a"].to_numpy()]
    return _standardised(read.iloc[:, 2:-1].to_numpy(float)), np.log(read["shares"].to_numpy(float))


def stemmed(folder: Path, name: str) -> sp.csr_array:
    """Word counts with the terms of one English stem (Snowball) together."""
    stemmer = snowballstemmer.stemmer("english")
    terms = (folder / name / "vocabulary.txt").read_text(encoding="utf-8").split()
    stems, places = np.unique(stemmer.stemWords(terms), return_inverse=True)
    together = sp.csr_array((np.ones(len(terms)), (np.arange(len(terms)), places)), shape=(len(terms), len(stems)))
    return sp.csr_array(counts(folder, name) @ together)


def cover(folder: Path) -> Floats:
    """Covertype's 54 columns in standard units, one row a patch of forest, of norm 1 at most, in random order."""
    rows = _standardised(table(folder, "covertype").drop(columns="Cover_Type").to_numpy(float)).toarray()
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    return np.asarray(rows / np.linalg.norm(rows, axis=1).max())


def digits(folder: Path) -> Floats:
    """MNIST's training images, one a row, of norm 1 at most."""
    images = np.load(_file(folder, "mnist"))["train_images"].reshape(-1, 784) / 255.0
    return np.asarray(images / np.linalg.norm(images, axis=1).max())


def one_hot(categories: pd.DataFrame) -> sp.csr_array:
    """One column of 0 and 1 for each value of each column."""
    return sp.csr_array(pd.get_dummies(categories.astype(str)).to_numpy(dtype=np.float64))


ADULT_EDGES = {
    "age": (25, 35, 45, 60),
    "fnlwgt": (100_000, 150_000, 200_000, 300_000),
    "education-num": (8, 9, 10, 12),
    "capital-gain": (1, 5000, 10_000, 20_000),
    "capital-loss": (1, 1000, 1700, 2000),
    "hours-per-week": (30, 39, 41, 50),
}
"""Round numbers, chosen without the data: quantiles of it would be a release."""


def adult(read: pd.DataFrame) -> tuple[sp.csr_array, sp.csr_array]:
    """Records with the label in the last column, for training and for testing; 14 ones a record besides it."""
    read = read.copy()
    columns = {c.replace("_", "-"): c for c in read.columns}
    for name, edges in ADULT_EDGES.items():
        read[columns[name]] = np.digitize(read[columns[name]].astype(float), edges)
    label_name = next(c for c in columns.values() if read[c].astype(str).str.contains(">50K").any())
    label = read[label_name].astype(str).str.contains(">50K").to_numpy(dtype=np.float64)
    features = one_hot(read.drop(columns=[label_name, "split"]))
    every = sp.csr_array(sp.hstack((features, label[:, None]), format="csr"))
    train = (read["split"] == "train").to_numpy()
    return every[np.flatnonzero(train)], every[np.flatnonzero(~train)]


def split(matrix: sp.csr_array, n: int) -> tuple[sp.csr_array, ...]:
    """Rows in order, cut into n nearly equal parts."""
    return tuple(sp.csr_array(matrix[rows]) for rows in np.array_split(np.arange(matrix.shape[0]), n))
