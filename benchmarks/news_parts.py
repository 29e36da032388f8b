"""Split Online News Popularity into a public part (units of columns) and three parties' articles, with their spec.

    python -m benchmarks.news_parts $KSDP_DATA/online-news-popularity OUT

OUT gets `units.csv` (centre and scale of every column, of articles that belong to nobody), `articles.parquet`
(those with their shares, of three channels) and `news.toml`: what `docs/gain-and-levers.md` types.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

_APART = ("data_channel", "weekday", "is_weekend")
SPEC = """seed = 5
[corpus]
path = "articles.parquet"
id = "article"
party = "channel"
columns = {columns}
[corpus.levers]
units = "units.csv"
clip = 1.0
[mechanism]
name = "moments"
rank = 7
advantage = 0.2
[design]
party_size = 0.5
with_runs = 500
[decision]
margin = 0.2
[gain]
splits = 6
target = "log_shares"
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Read, split, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--channels", nargs="*", default=["world", "tech", "bus"])
    asked = parser.parse_args(arguments)
    table = pd.read_parquet(asked.data / "table.parquet")
    mine = pd.read_parquet(asked.data / "samples.parquet")["sample_a"].to_numpy()
    columns = [name for name in map(str, table.columns[2:-1]) if not name.startswith(_APART)]
    others = table.loc[~mine, columns]
    # Rows of the columns' own length are about 1 long.
    units = pd.DataFrame(
        {"column": columns, "centre": others.mean(), "scale": others.std() * np.sqrt(len(columns))}
    )
    prefix = "data_channel_is_"
    channels = [name for name in map(str, table.columns) if name.startswith(prefix)]
    table["article"] = [f"a{row:05d}" for row in range(len(table))]
    table["channel"] = table[channels].idxmax(axis=1).astype(str).str.removeprefix(prefix)
    table["log_shares"] = np.log(table["shares"])
    kept = table[mine & table["channel"].isin(asked.channels) & (table[channels].sum(axis=1) == 1)]
    kept = kept[["article", "channel", "log_shares", *columns]].dropna().drop_duplicates(columns)
    asked.out.mkdir(exist_ok=True)
    units.to_csv(asked.out / "units.csv", index=False)
    kept.to_parquet(asked.out / "articles.parquet", index=False)
    (asked.out / "news.toml").write_text(SPEC.format(columns=json.dumps(columns)), encoding="utf-8")


if __name__ == "__main__":
    main()
