"""The demo: a real corpus that needs no download, what PD-SVD gives away of it, and a run that is signed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ksdp.audit.opened import Opened
from ksdp.audit.planning import corpus_notes, make_plan
from ksdp.audit.results.summary import Summary
from ksdp.audit.specs.models import Spec, parse_spec
from ksdp.dashboards.audits.sentences import meaning
from ksdp.flows.audits.place import ANYWHERE, Place
from ksdp.flows.audits.run import run_prepared
from ksdp.flows.interruption import advance, current, utc_now
from ksdp.flows.prepare import open_spec, prepare_stored
from ksdp.flows.screening.clear import Signing, clear
from ksdp.storage.clearances import read_clearance

_OPENED = {"every round": "every round", "final": "final output alone"}
"""Every round opened: documents of every verdict are found. Of the final output alone fewer leak."""


@dataclass(frozen=True)
class Demo:
    """Results of the demo."""

    every: Summary
    final: Summary
    noise: Summary
    """Audits in the order of `demo_specs`."""
    clearance: Path
    """Signed on the last audit, with a key that is thrown away."""
    public: Path
    signed: int

    @property
    def audits(self) -> tuple[Summary, Summary, Summary]:
        """All three."""
        return self.every, self.final, self.noise


def demo_specs() -> list[Spec]:
    """The three settings, as anybody can audit them again: two of PD-SVD, and noise that bounds every attack."""
    shared: dict[str, Any] = {
        "seed": 7,
        "corpus": {"path": "demo", "max_features": 36, "rows": "none"},
        "design": {"party_size": 0.4, "with_runs": 200, "documents": 150, "fresh_runs": 30},
        "decision": {"margin": 0.3},
    }
    mechanism = {"name": "pd-svd", "rank": 2}
    leaky = [
        parse_spec(shared | {"title": title, "mechanism": mechanism | {"opens": what}})
        for what, title in _OPENED.items()
    ]
    noise = shared | {
        "title": "noise that all parties make together",
        "corpus": shared["corpus"] | {"rows": "l2"},
        "mechanism": {"name": "moments", "rank": 2, "advantage": 0.3, "colluders": 1},
        "design": {"party_size": 0.4, "with_runs": 30},
    }
    return [*leaky, parse_spec(noise)]


def run_demo(store: Path, place: Place = ANYWHERE) -> Demo:
    """Audit docstrings of numpy, scipy and pandas, each package a party and each docstring a document; sign."""
    specs = demo_specs()
    corpora = {spec.corpus: open_spec(spec, Path.cwd()).corpus for spec in {s.corpus: s for s in specs}.values()}
    opened = [Opened.of(spec, corpora[spec.corpus]) for spec in specs]
    for line in corpus_notes(opened[0]):
        current().say(line)
    prepared = []
    current().stage("prepare", len(specs))  # opening a spec has begun a stage of its own
    for opened_spec in opened:
        prepared.append(prepare_stored(make_plan(opened_spec), store, may_sample=True))
        advance(1)
    every, final, noise = run_prepared(prepared, place)
    clearance, public = (store / f"demo-{noise.audit}{ending}" for ending in (".clearance", ".pub"))
    if not clearance.exists():
        key, now = Ed25519PrivateKey.generate(), utc_now()
        public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        signing = Signing(clearance, key, "the demo", now, now + timedelta(days=90))
        clear(store, noise.audit, signing, place=place)
    return Demo(every, final, noise, clearance, public, len(read_clearance(clearance).documents))


def _counted(summary: Summary) -> str:
    lines = [f"  {n:4} {word:9}   {meaning(summary, word)}" for word, n in summary.verdicts.as_dict().items()]
    if summary.verdicts.every_attack:
        why = "" if summary.documents == summary.verdicts.every_attack else ": they have many copies"
        lines.append(f"  {summary.verdicts.every_attack:4} are clear whatever the attack{why}")
    return "\n".join([*lines, f"       report {summary.report}"])


def demo_words(demo: Demo) -> str:
    """Return the text of the demo: the three verdicts, the safer run, and a signature that holds."""
    every, final, noise = demo.audits
    before, after = every.verdicts, final.verdicts
    lines = [
        f"PD-SVD among parties of which one holds 40 % of the docstrings; {every.documents} of them are audited.",
        f"Every round opened, as the protocol does:\n{_counted(every)}",
        f"The final output alone, its rounds computed on secret shares:\n{_counted(final)}",
    ]
    if after.sensitive < before.sensitive:
        lines.append(
            f"What makes this run safer: announce less. Of {before.sensitive} sensitive documents "
            f"{after.sensitive or 'none'} {'are' if after.sensitive > 1 else 'is'} left, "
            f"and {after.clear} of {final.documents} are proved clear "
            '(`opens = "final"` in a protocol file: docs/run-reference.md).'
        )
    lines += [
        "These verdicts hold in runs of all docstrings. In a run of the clear ones alone, one may hide another no "
        "longer: `ksdp clear` signs no list before it has audited exactly this list.",
        "What makes it safe: noise that all parties make together (`moments`), enough against every attack:\n"
        f"{_counted(noise)}",
        f"Signed: {demo.signed:,} of {noise.documents:,} docstrings. The proof holds for every part of them and "
        f"every size.\n  ksdp verify {demo.clearance} --key {demo.public}",
    ]
    return "\n".join(lines)
