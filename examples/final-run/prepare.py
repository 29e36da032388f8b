"""Three organisations before they have heard of each other: keys, matrices, specs, and the file they agree on.

::

    python examples/final-run/prepare.py FOLDER --data "$KSDP_DATA/enron-mail6"

The mailboxes of enron-mail6 are dealt out to them. See README.md for what to do then.
"""

from __future__ import annotations

import argparse
import socket
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ksdp.storage.keys import make_identity

NAMES = ("ada", "bob", "cyd")

EXACT = """[mechanism]
name = "pd-svd"
rank = {rank}
opens = "final"
"""
NOISY = """[mechanism]
name = "pd-svd"
rank = {rank}
opens = "final"
noise = {noise}
"""
SPEC = """seed = {seed}

[corpus]
path = "{name}.npz"
vocabulary = "vocabulary.txt"
weighting = "tf-idf"

{mechanism}
[design]
party_size = 0.3
with_runs = {runs}
fresh_runs = 0

[decision]
margin = {margin}
"""
PROTOCOL = """protocol = 1

{mechanism}
[shares]
computing = ["ada", "bob", "cyd"]  # three, where there are more
rounds = 24                        # iterations, fixed; vectors by default: 2 rank + 10

[features]
vocabulary = "vocabulary.txt"

[precision]
bound = 8192.0                     # the squares of a party's entries add up to no more: its mails, of length 1
"""


def ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return found


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="A new folder.")
    parser.add_argument("--data", type=Path, required=True, help="Folder of enron-mail6.")
    parser.add_argument("--terms", type=int, default=500, help="The most frequent ones.")
    parser.add_argument("--mails", type=int, default=None, help="Most mails of each organisation.")
    parser.add_argument("--rank", type=int, default=3)
    parser.add_argument("--runs", type=int, default=200, help="Of an audit, with each document.")
    parser.add_argument("--margin", type=float, default=0.45, help="The largest advantage that is accepted.")
    noise = "Standard deviation of the noise on every entry of V; 0: none."
    parser.add_argument("--noise", type=float, default=0.01, help=noise)
    given = parser.parse_args()
    mechanism = (NOISY if given.noise else EXACT).format(rank=given.rank, noise=given.noise)
    given.folder.mkdir(parents=True)
    counts = sp.csr_array(sp.load_npz(given.data / "counts.npz"))
    mailbox = pd.read_parquet(given.data / "labels.parquet")["mailbox"].to_numpy()
    terms = (given.data / "vocabulary.txt").read_text(encoding="utf-8").splitlines()
    columns = np.sort(np.argsort(-np.asarray(counts.sum(axis=0)), kind="stable")[: given.terms])
    (given.folder / "vocabulary.txt").write_text("".join(f"{terms[at]}\n" for at in columns), encoding="utf-8")
    protocol = PROTOCOL.format(mechanism=mechanism)
    boxes = np.array_split(np.unique(mailbox), len(NAMES))
    for at, (name, mine, port) in enumerate(zip(NAMES, boxes, ports(len(NAMES)), strict=True)):
        make_identity(given.folder, name)
        rows = counts[np.flatnonzero(np.isin(mailbox, mine))][: given.mails]
        sp.save_npz(given.folder / f"{name}.npz", sp.csr_array(rows[:, columns]))
        (given.folder / f"{name}.toml").write_text(
            SPEC.format(name=name, seed=at, mechanism=mechanism, runs=given.runs, margin=given.margin)
        )
        protocol += f'\n[[parties]]\nname = "{name}"\naddress = "127.0.0.1:{port}"\nkey = "{name}.pub"\n'
    (given.folder / "protocol.toml").write_text(protocol)


if __name__ == "__main__":
    main()
