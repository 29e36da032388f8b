"""A party's run that survives its process: what is kept of it, in the folder of its result."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.flows.runs.terms import Run
from ksdp.protocols.network.kept_run import KeptRun
from ksdp.protocols.runs.restart import seconds_to_restart
from ksdp.storage.runs.journal import open_journal
from ksdp.storage.runs.results import TRANSCRIPT


@contextlib.contextmanager
def kept_run(run: Run, me: str, identity: Ed25519PrivateKey, out: Path) -> Iterator[KeptRun | None]:
    """What is kept of a party's run; of an earlier process, if it did not come to an end. None where nothing is.

    Raises
    ------
    InputError
        If the folder keeps another run, or what it keeps was damaged.
    StoreError
        If another process has it.
    """
    if not seconds_to_restart(run.terms, run.spec.timeouts):
        yield None
        return
    new = not out.exists()
    agreement = hashlib.sha256(run.terms.digest + me.encode()).digest()
    with open_journal(out, identity, agreement) as journal:
        kept = KeptRun(journal)
        try:
            yield kept
        except BaseException:
            if not kept.sent:
                kept.forget()
                if new:
                    _leave_nothing(out)
            raise


def _leave_nothing(out: Path) -> None:
    """Take a folder away in which nothing was written."""
    with contextlib.suppress(OSError):
        if (out / TRANSCRIPT).stat().st_size == 0:
            (out / TRANSCRIPT).unlink()
            out.rmdir()
