"""Three organisations on one machine: from three corpora to one topic model, none of them showing a document.

::

    python examples/three-parties/run.py FOLDER

The corpora are the docstrings of the installed numpy, scipy and pandas. Each organisation is a process with its
own key, its own corpus and its own connection to every other: TLS 1.3 between keys that the protocol file names.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd

from ksdp.storage.readers.demo import docstrings

HERE = Path(__file__).resolve().parent
NAMES = ("numpy", "pandas", "scipy")
TOPICS = 5

SPEC = """[corpus]
path = "{name}.parquet"
text = "text"
id = "id"
vocabulary = "vocabulary.txt"

[mechanism]
{mechanism}
"""
MECHANISM = f"""name = "pd-nmf"
rank = {TOPICS}
sweeps = 30"""


def free_ports() -> list[int]:
    """Ports that nobody listens on."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in NAMES]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def ksdp(*arguments: str) -> list[str]:
    """The command of this Python."""
    return [sys.executable, "-m", "ksdp", *arguments]


def write_corpora(folder: Path, most: int | None) -> None:
    """What each organisation has before it has heard of the others; and the words that they agreed on."""
    shutil.copy(HERE / "vocabulary.txt", folder)
    documents = docstrings()
    for name in NAMES:
        own = [document for document in documents if document.party == name][:most]
        table = pd.DataFrame({"id": [d.id for d in own], "text": [d.text for d in own]})
        table.to_parquet(folder / f"{name}.parquet")
        (folder / f"{name}.toml").write_text(SPEC.format(name=name, mechanism=MECHANISM))


def write_protocol(folder: Path) -> Path:
    """The file that all three agree on: it holds public keys and addresses, and no secret."""
    parties = "".join(
        f'\n[[parties]]\nname = "{name}"\naddress = "127.0.0.1:{port}"\nkey = "{name}.pub"\n'
        for name, port in zip(NAMES, free_ports(), strict=True)
    )
    path = folder / "protocol.toml"
    path.write_text(
        f'protocol = 1\n\n[mechanism]\n{MECHANISM}\n\n[features]\nvocabulary = "vocabulary.txt"\n{parties}'
    )
    return path


def party(folder: Path, protocol: Path, name: str) -> list[str]:
    """What this organisation types. `--uncleared` stands where `--clearance FILE` belongs: see README.md."""
    files = ("--key", str(folder / f"{name}.key"), "--corpus", str(folder / f"{name}.toml"))
    return ksdp(
        "party", str(protocol), "--me", name, *files, "--uncleared", "--out", str(folder / f"{name}-result")
    )


def main() -> int:
    """Run all three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="A new folder.")
    parser.add_argument("--documents", type=int, default=None, help="Most documents of each organisation.")
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True)

    write_corpora(folder, given.documents)
    for name in NAMES:
        subprocess.run(ksdp("keys", name, "--folder", str(folder)), check=True, stdout=subprocess.DEVNULL)
    protocol = write_protocol(folder)

    started = {name: subprocess.Popen(party(folder, protocol, name)) for name in NAMES}
    try:
        codes = {name: process.wait(timeout=600) for name, process in started.items()}
    finally:
        for process in started.values():
            process.terminate()
    if any(codes.values()):
        return 1

    results = {name: np.load(folder / f"{name}-result" / "result.npz")["T"] for name in NAMES}
    same = all((topics == results[NAMES[0]]).all() for topics in results.values())
    about = json.loads((folder / "numpy-result" / "run.json").read_text())
    terms = (folder / "vocabulary.txt").read_text().split()
    print(f"\n{about['sums']} secure sums; the three results are {'equal, bit by bit' if same else 'NOT equal'}.")
    for topic in results[NAMES[0]]:
        print("  " + " ".join(terms[at] for at in np.argsort(-topic)[:8]))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
