"""From a search over levers to advice that is kept: page, recommended spec, and the audit that confirms it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from ksdp.audit.content_keys import content_key
from ksdp.audit.errors import InputError
from ksdp.audit.randomness import Purpose, derived_seed
from ksdp.audit.results.summary import Summary
from ksdp.audit.screening.advice import ADVICE_VERSION, advice_sentences
from ksdp.audit.spec import Spec
from ksdp.dashboards.learning.advice_report import render_advice
from ksdp.flows.audits.place import Place
from ksdp.flows.audits.run import run_prepared
from ksdp.flows.learning.advise import Limits, search_levers
from ksdp.flows.prepare import Prepared, prepare, spec_corpus
from ksdp.flows.progress import current
from ksdp.storage.learning import advice_page, write_advice, write_advice_page, write_advised_spec, write_gain
from ksdp.storage.readers.spec_files import at_urls, copies_kept
from ksdp.storage.store import Store


def advise_spec(
    spec: Spec,
    base: Path,
    store: Path,
    limits: Limits,
    *,
    write: Path,
    confirm: bool = False,
    workers: int | None = None,
) -> dict[str, Any]:
    """Search, keep what was found, and write the spec that is recommended, if one is.

    Parameters
    ----------
    base : Path
        Folder that the spec's paths are relative to.
    write : Path
        The recommended spec; in `base`, because its paths are relative to it.
    confirm : bool
        Audit it whole, on runs that the search has not seen.
    workers : int, optional
        Of that audit.

    Returns
    -------
    dict
        As `advice/<id>.json` holds it.
    """
    if write.resolve().parent != base.resolve():
        raise InputError(f"`--write` must name a file in the spec's folder, {base.name}: its paths start there.")
    opened = Store.open(store)
    with copies_kept():  # every setting, and what is said of the recommended one, is of the same files
        search = search_levers(spec, base, limits)
        advised = None if search.spec is None else _on_fresh_runs(search.spec)
        corpus = None if advised is None else spec_corpus(advised, base).hash
        audit = _prepared(advised, base, store) if advised is not None and confirm else None
    asked = {"advice": ADVICE_VERSION, "spec": spec.hash, "gain": spec.gain.model_dump(), "limits": vars(limits)}
    name = content_key(asked | {"corpus": search.corpus})[:12]
    content = search.advice.to_json() | {
        "name": name,
        "asked": spec.hash,
        "corpus": search.corpus,
        "mechanism": spec.mechanism.name,
        "sentences": list(advice_sentences(search.advice)),
        "gain": search.gain.to_json(),
        "advised": None,
        "spec": None,
        "confirmed": None,
        "commands": [],
    }
    if advised is not None and corpus is not None:
        written = advised.model_dump(mode="json", exclude_defaults=True)
        if advised.cluster is not None:
            written["cluster"] = advised.cluster.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        write_advised_spec(write, written, f"Recommended by `ksdp advise`, {name}.")
        best = search.advice.tried[search.advice.best or 0]
        content |= {"advised": advised.hash, "spec": str(write)}
        write_gain(opened, advised.hash, corpus, search.gain.to_json())
        if audit is not None:
            current().say("a whole audit of the recommended spec, on runs that the search has not seen")
            content["confirmed"] = _confirmed(run_prepared([audit], Place(workers))[0])
        content["commands"] = next_commands(
            write, store, audited=confirm, runnable=best.cannot_run is None, here=not at_urls(advised.corpus)
        )
    write_advice(opened, name, content)
    write_advice_page(opened, name, render_advice(opened, name))
    return content | {"report": str(advice_page(opened, name))}


def _on_fresh_runs(found: Spec) -> Spec:
    """The recommended spec, with a seed that the search has not used."""
    return Spec.model_validate(found.tables() | {"seed": derived_seed(found.seed, Purpose.SEARCHED)})


def _prepared(spec: Spec, base: Path, store: Path) -> Prepared:
    current().stage("prepare", 1)
    return prepare(spec, base, store)


def _confirmed(summary: Summary) -> dict[str, Any]:
    counts, documents = summary.verdicts.as_dict(), summary.documents
    clear = summary.verdicts.cleared
    told = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items() if count)
    sentence = f"Confirmed on fresh runs, every document: {clear / documents:.1%} clear ({told})."
    return {
        "audit": summary.audit,
        "valid": summary.valid,
        "documents": documents,
        "clear": clear,
        "verdicts": counts,
        "report": summary.report,
        "sentence": sentence
        if summary.valid
        else "The audit of the recommended spec is void: its controls failed.",
    }


def next_commands(spec: Path, store: Path, *, audited: bool, runnable: bool, here: bool) -> list[dict[str, str]]:
    """What to type next, in order: audit the whole corpus, screen and clear it, run it among parties.

    Parameters
    ----------
    here : bool
        Whether the corpus and its files are on this machine, as a party's run wants them.
    """
    at, stem = shlex.quote(str(spec)), spec.with_suffix("")
    kept, clearance = shlex.quote(str(store)), shlex.quote(f"{stem}.clearance")
    commands = [] if audited else [("the whole corpus, on fresh runs", f"ksdp audit {at} --store {kept}")]
    commands.append(
        (
            "leave out what is sensitive, sign the rest",
            f'ksdp screen {at} --clearance {clearance} --key ME.key --who "YOUR NAME" --store {kept}',
        )
    )
    if runnable:
        entered, why = f"--corpus {at} --clearance {clearance}", "take part, with the others"
        if not here:
            entered = "--corpus HERE.toml --clearance HERE.clearance"
            why += "; HERE.toml names copies of the files on this machine, and is what was screened"
        commands += [
            ("what all parties agree on", f"ksdp columns {at} --party NAME@HOST:PORT --party ... > protocol.toml"),
            (why, f"ksdp party protocol.toml --me ME --key ME.key {entered} --out result"),
        ]
    return [{"why": why, "command": command} for why, command in commands]
