"""A store whose blocks are at a URL, and what workers that share no folder with it find there.

::

    <url>/
      corpora/<hash>/   as in the store: every worker reads it once, and compares it with its hash
      audits/<id>/      spec.json, stages/: what is to be computed
      runs/<key>/       the blocks, written by whoever computes them, read by whoever tests

Findings, reviews, ledgers and locks stay in the store's own folder: only blocks are large, and only they are
written by many.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import InputError, StoreError
from ksdp.audit.verdicts.looks import FIRST
from ksdp.storage.audits.stages import read_stage
from ksdp.storage.codec import check_checksum, write_checksum, write_with_checksum
from ksdp.storage.mapped_corpus import CORPUS_FILES, open_corpus
from ksdp.storage.remote import Place, place_at
from ksdp.storage.store import FORMAT, Store, copy_whole, write_json


def keep_blocks_at(store: Store, url: str) -> None:
    """Keep the blocks of a store at a URL from now on; those that it has already are copied there first."""
    if store.blocks_url == url:
        return
    if store.blocks_url is not None:
        raise InputError(
            f"the blocks of {store.root} are at {store.blocks_url}, `cluster.blocks` says {url}: name that one, "
            "or another store."
        )
    there = place_at(url)
    for file in sorted(store.root.glob("runs/*/**/*.parquet")):
        if not file.name.startswith("."):
            copy_whole(file, there / file.relative_to(store.root).as_posix())
    write_json(store.root / "ksdp-store.json", {"store": FORMAT, "blocks": url})


def publish_audit(store: Store, audit: str, corpus: str, stage: str = FIRST) -> None:
    """Put what workers need of an audit where they find it: its corpus, its spec, and the stages up to one."""
    there = store.blocks
    folder = store.corpus(corpus)
    if not (there / "corpora" / folder.name / CORPUS_FILES[-1]).is_file():
        for name in CORPUS_FILES:  # `corpus.json` comes last
            whose = f"the corpus {folder.name}"
            copy_whole(check_checksum(folder / name, whose), there / f"corpora/{folder.name}/{name}")
    named = [f"audits/{audit}/spec.json"]
    while stage != FIRST:
        named.append(f"audits/{audit}/stages/{stage}.parquet")
        stage = read_stage(store.audit(audit), stage).before or FIRST
    for name in named:
        copy_whole(store.root / name, there / name)


def fetch_audit(url: str, cache: Path, audit: str, corpus: str, stage: str = FIRST) -> Store:
    """A store in a folder of this machine, with what `publish_audit` put there; what it has already stays."""
    store, there = Store.open(cache), place_at(url)
    if store.blocks_url != url:
        write_json(store.root / "ksdp-store.json", {"store": FORMAT, "blocks": url})
    _fetch_corpus(store.corpus(corpus), there, corpus)
    _fetch(there, store.audit(audit) / "spec.json", f"audits/{audit}/spec.json")
    while stage != FIRST:
        name = f"stages/{stage}.parquet"
        _fetch(there, store.audit(audit) / name, f"audits/{audit}/{name}")
        stage = read_stage(store.audit(audit), stage).before or FIRST
    return store


def _read(place: Place) -> bytes:
    try:
        return place.read_bytes()
    except FileNotFoundError:
        raise StoreError(f"{place} is not there; run the audit again.") from None


def _fetch(there: Place, to: Path, name: str) -> None:
    if not to.is_file():
        content = _read(there / name)
        write_with_checksum(to, lambda part: part.write_bytes(content))


def _fetch_corpus(folder: Path, there: Place, wanted: str) -> None:
    """Beside its place first: it is there when it is whole, and the one that was asked for."""
    if (folder / CORPUS_FILES[-1]).is_file():
        return
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for name in CORPUS_FILES:
            (aside / name).write_bytes(_read(there / f"corpora/{folder.name}/{name}"))
        write_checksum(*(aside / name for name in CORPUS_FILES))
        corpus = open_corpus(aside)
        # Worked out again: what a file says of itself proves nothing.
        if Corpus(corpus.matrix, corpus.ids, corpus.party, corpus.group).hash != wanted:
            raise StoreError(f"the corpus {folder.name} at {there} is not the one that its hash names.")
        try:
            aside.rename(folder)
        except OSError:
            if not (folder / CORPUS_FILES[-1]).is_file():  # another process of this machine was faster
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
