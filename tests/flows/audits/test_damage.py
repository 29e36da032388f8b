"""Flips in every kind of stored file of a finished audit: none is silent, and the same command repairs all."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ksdp.audit.errors import KsdpError
from ksdp.flows.audits.run import run_prepared
from ksdp.flows.prepare import Prepared, open_spec, prepare
from ksdp.storage.audits.history import read_summary
from ksdp.storage.audits.queries import Findings
from ksdp.storage.audits.stages import read_stage, stage_names
from ksdp.storage.blocks import check_block
from ksdp.storage.findings import (
    read_curves,
    read_effects,
    read_spec,
    read_statistics,
    read_verdicts,
    report_whole,
)
from ksdp.storage.mapped_corpus import check_corpus
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.storage.store import Store
from ksdp.tasks.audit_ref import folders_of, open_plan
from ksdp.tasks.blocks import all_whole

from ...flips import flipped

FLIPS = 2
"""In each kind of file."""


def kinds(store: Store, prepared: Prepared) -> dict[str, Path]:
    """One file of each kind."""
    ref = prepared.ref
    audit, corpus, runs = store.audit(ref.audit), store.corpus(ref.corpus), folders_of(ref)
    files = [
        *(audit / name for name in ("spec.json", "audit.json", "report.html", "SHA256SUMS")),
        *(audit / f"{name}.parquet" for name in ("verdicts", "statistics", "effects", "curves")),
        *sorted(audit.glob("stages/*.parquet"))[:1],
        *(corpus / f"{name}.npy" for name in ("data", "indices", "indptr")),
        *(corpus / name for name in ("ids.parquet", "corpus.json")),
        *(sorted(folder.glob("*.parquet"))[0] for folder in (runs.values, runs.observables)),
    ]
    return {f"{file.parent.parent.name}/{file.name}": file for file in files}


def reads(store: Store, prepared: Prepared) -> list[Callable[[], object]]:
    """Everything that reads what is stored."""
    ref = prepared.ref
    audit, folders = store.audit(ref.audit), folders_of(ref)
    blocks = open_plan(ref).blocks
    return [
        lambda: read_spec(audit),
        lambda: read_summary(audit),
        lambda: report_whole(audit) or 1 / 0,
        *(lambda read=read: read(audit) for read in (read_verdicts, read_statistics, read_effects, read_curves)),
        lambda: Findings(audit).totals(),
        lambda: Findings(audit).overviews(),
        lambda: [read_stage(audit, name) for name in stage_names(audit)],
        lambda: check_corpus(store.corpus(ref.corpus)),
        lambda: [check_block(folders.values, block, folders.values_key) for block in blocks],
        lambda: [check_block(folders.observables, block, folders.key) for block in blocks],
    ]


def refused(read: Callable[[], object]) -> bool:
    try:
        read()
    except ZeroDivisionError:
        return True
    except KsdpError as error:
        return "\n" not in str(error)  # one line for a person
    return False


def harmless(file: Path, whole: pa.Table) -> bool:
    """Whether a flip is in a part of a block's footer that nobody reads, as pages alone have checksums."""
    return "runs" in file.parts and pq.read_table(file).equals(whole, check_metadata=True)


def test_no_flip_is_silent_and_the_same_command_repairs_them(
    ksdp: Callable, spec: Callable, tmp_path: Path
) -> None:
    path = spec("damage", seed=12, with_runs=8, families=["geometry"])
    first = ksdp("audit", path, "--store", tmp_path / "store", "--json")
    assert first.code in (0, 3, 4), first.err
    prepared = prepare(open_spec(*read_spec_file(path)), tmp_path / "store")
    store = Store.open(tmp_path / "store")
    audit = store.audit(prepared.ref.audit)
    before = [read_verdicts(audit), read_statistics(audit), read_effects(audit)]
    rng = np.random.default_rng(5)
    everything = reads(store, prepared)
    assert not any(map(refused, everything))
    tried = 0
    files = kinds(store, prepared)
    for kind, file in files.items():
        table = pq.read_table(file) if file.suffix == ".parquet" else None
        for bit in flipped(file, rng.choice(8 * file.stat().st_size, FLIPS, replace=False).tolist()):
            assert any(map(refused, everything)) or harmless(file, table), (kind, bit)
            tried += 1
    assert not any(map(refused, everything))
    assert tried == FLIPS * len(files) >= FLIPS * 15
    # Now a bit in every file at once.
    for kind, file in files.items():
        damaged = bytearray(file.read_bytes())
        damaged[len(damaged) // 2] ^= 16
        file.write_bytes(bytes(damaged))
        assert refused(lambda: [read() for read in everything]), kind
    again = ksdp("audit", path, "--store", tmp_path / "store", "--json", check=first.code)
    assert again.out["verdicts"] == first.out["verdicts"]
    check_corpus(store.corpus(prepared.ref.corpus))
    assert not any(map(refused, everything))
    assert all_whole(prepared.ref)
    after = [read_verdicts(audit), read_statistics(audit), read_effects(audit)]
    assert all(one.to_pandas().equals(other.to_pandas()) for one, other in zip(before, after, strict=True))
    # Killed after the findings, before their page: the audit is concluded again, from stored runs.
    (audit / "report.html").unlink()
    assert run_prepared([prepared])[0].sampled_runs == 0
    assert report_whole(audit)
