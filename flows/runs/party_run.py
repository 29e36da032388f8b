"""A run among parties that share nothing but secure sums: what one of them does, from its files to its result."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from numpy.typing import NDArray

from ksdp.audit.corpus.matrix import Corpus, restrict
from ksdp.audit.errors import ClearanceError, InputError
from ksdp.audit.learning.learners import Predictor, predicts
from ksdp.audit.mechanisms.contract import opened, traits_of
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.screening.clearance import MechanismIdentity
from ksdp.audit.spec.models import CorpusSpec
from ksdp.flows.prepare import read_spec_file
from ksdp.flows.runs.budget import Purse
from ksdp.flows.runs.countersigned import features_hash
from ksdp.flows.runs.node_run import Node, run_node
from ksdp.flows.runs.terms import Run
from ksdp.protocols.runs.party_rounds import party_rounds
from ksdp.protocols.runs.programs import is_noisy, party_program
from ksdp.protocols.runs.run_terms import Statement
from ksdp.protocols.runs.secret_draw import secret_draw
from ksdp.protocols.runs.server_rounds import server_rounds
from ksdp.protocols.runs.share_terms import covers_final, opens_final
from ksdp.storage.clearances import Verified, verify_clearance
from ksdp.storage.corpora import corpus_features, load_corpus, load_drawn, rows_hash
from ksdp.storage.readers.spec_files import at_urls
from ksdp.storage.readers.tables import Labels
from ksdp.storage.runs.predictions import write_predictions
from ksdp.storage.runs.results import read_result

SUGGESTED = 100
"""Items that are written down for a user."""


@dataclass(frozen=True, eq=False)
class Entered:
    """The documents that a party enters, and on what grounds."""

    corpus: Corpus
    statement: Statement
    of: int
    """Documents of its corpus; the others are not on the clearance."""
    clearance: dict[str, Any] | None
    """Who signed it and what was checked."""
    mine: Corpus
    """All documents of the party, those included that do not enter."""
    columns: tuple[str, ...]
    """Their names."""


def enter_documents(
    run: Run,
    corpus: Path,
    *,
    clearance: Path | None,
    uncleared: bool,
    signer: Ed25519PublicKey,
    now: datetime,
    identity: Ed25519PrivateKey | None = None,
) -> Entered:
    """Load a party's corpus and keep the documents that its clearance lists.

    The clearance must be for the mechanism of the run with every parameter; of a mechanism with noise all but
    `sampler`: audits simulate noise of the same law by a faster sampler, which no run takes.

    Parameters
    ----------
    corpus : Path
        An audit's spec (TOML), of which `[corpus]` counts, or a count matrix with the columns of the run.
    uncleared : bool
        Enter every document without one; everybody is told.
    signer : Ed25519PublicKey
        Who must have signed the clearance.
    now : datetime
        With a time zone.
    identity : Ed25519PrivateKey, optional
        The party's own: it decides the draw, where the spec's rows are a secret draw (`corpus.levers.drawn`).

    Raises
    ------
    InputError
        If the corpus is refused, its columns are not those of the run, or no document is left; if there is neither
        a clearance nor `uncleared`, or both.
    ClearanceError
        Naming the first check that failed.
    """
    if clearance is None and not uncleared:
        raise InputError("a party enters documents on a clearance (`--clearance FILE`), or says `--uncleared`.")
    if clearance is not None and uncleared:
        raise InputError("`--clearance` and `--uncleared` exclude each other.")
    named = _named(run, corpus)
    columns = corpus_features(named.source, named.base)
    _check_columns(run, named, columns)
    nonnegative = traits_of(run.terms.mechanism).nonnegative
    whole, part = _read(named.source, named.base, named.unit, identity, nonnegative=nonnegative)
    if whole.features != run.terms.features:
        raise InputError(f"the corpus has {whole.features} features, the protocol file {run.terms.features}.")
    everything = named.me is None or whole.party is None
    mine = np.arange(len(whole)) if everything else np.flatnonzero(whole.party == named.me)
    held = restrict(whole, mine)
    entering = held if part is whole else restrict(part, np.flatnonzero(np.isin(part.ids, held.ids)))
    if clearance is None:
        return Entered(entering, Statement(cleared=False), len(mine), None, held, columns)
    verified = _verified(run, clearance, named, whole, signer=signer, now=now)
    rows = np.flatnonzero(verified.clearance.allows(entering.ids))
    if not len(rows):
        raise ClearanceError("content", f"{clearance.name} lists no document of the corpus.")
    grounds = {
        "signer": verified.fingerprint,
        "checked": list(verified.checked),
        "reviewer": verified.clearance.reviewer,
    }
    digest = hashlib.sha256(clearance.read_bytes()).hexdigest()
    return Entered(restrict(entering, rows), Statement(True, digest), len(mine), grounds, held, columns)


@dataclass(frozen=True)
class _Named:
    """What `--corpus` names."""

    source: CorpusSpec
    base: Path
    """Folder that its paths are relative to."""
    spec_hash: str | None = None
    """Of the audit's spec; None for a bare matrix."""
    me: str | None = None
    """Whose rows are entered; None: all."""
    unit: str = "document"


def _named(run: Run, corpus: Path) -> _Named:
    if corpus.suffix == ".toml":
        spec, base = read_spec_file(corpus, own_code=False)
        if away := at_urls(spec.corpus):
            raise InputError(f"`corpus.{away[0]}` is at a URL; a party enters files of its own machine.")
        return _Named(spec.corpus, base, spec.hash, spec.parties.me, spec.design.unit)
    if run.spec.features.vocabulary is None:
        raise InputError("`--corpus` must name a spec: the protocol file has no vocabulary for a bare matrix.")
    vocabulary = str((run.base / run.spec.features.vocabulary).resolve())
    return _Named(CorpusSpec(path=str(corpus.resolve()), vocabulary=vocabulary), run.base)


def _check_columns(run: Run, named: _Named, columns: Sequence[str]) -> None:
    """Refuse other columns than the run's, and rows that are made in another way."""
    if features_hash(columns) != run.terms.vocabulary:
        raise InputError("the features of the corpus, or their order, are not those of the protocol file.")
    if run.terms.rows and rows_hash(named.source, named.base) != run.terms.rows:
        raise InputError(
            "rows are not made as the protocol file says (`features.rows`): levers, weighting or idf."
        )


def _verified(
    run: Run, clearance: Path, named: _Named, whole: Corpus, *, signer: Ed25519PublicKey, now: datetime
) -> Verified:
    """The clearance, if it is for this corpus and spec, the run's mechanism and all that the run opens."""
    mechanism, drawn = run.terms.mechanism, named.source.levers.drawn
    verified = verify_clearance(
        clearance,
        now=now,
        public_key=signer,
        corpus_hash=whole.hash,
        mechanism=MechanismIdentity(mechanism.name, mechanism.version, parameters_of(mechanism)),
        spec_hash=named.spec_hash,
        # A run that opens less than was audited is covered: `opened` is compared with what the audit looked at.
        left_out=("sampler",) if is_noisy(mechanism) else ("opens",) if covers_final(mechanism) else (),
        opened=opened(mechanism, whole.features),
    )
    if verified.clearance.drawn != drawn:
        raise ClearanceError(
            "drawn",
            f"{clearance.name} is of rows of which {_share(verified.clearance.drawn)}; {_share(drawn)} here.",
        )
    return verified


def _share(drawn: float | None) -> str:
    return "all enter" if drawn is None else f"a secret draw of {drawn:g} enters"


def _read(
    source: CorpusSpec, base: Path, unit: str, identity: Ed25519PrivateKey | None, *, nonnegative: bool
) -> tuple[Corpus, Corpus]:
    """The whole corpus, and what may enter: all, or what a party's secret draw lets in, weighed by itself."""
    share = source.levers.drawn
    if share is None:
        whole = load_corpus(source, base, nonnegative=nonnegative)
        return whole, whole
    if identity is None:
        raise InputError(
            "the rows of this run are a secret draw (`corpus.levers.drawn`), which takes a party's key."
        )

    def enters(labels: Labels) -> NDArray[np.bool_]:
        units = labels.group if unit == "group" and labels.group is not None else labels.ids
        return secret_draw(identity, units.tolist(), share)

    return load_drawn(source, base, enters, nonnegative=nonnegative)


def run_party(node: Node, entered: Entered, purse: Purse | None = None) -> dict[str, Any]:
    """Take part, and write the result into a folder: what its `run.json` says.

    Of a run on ratings the folder holds predictions for all of the party's users as well.

    Parameters
    ----------
    purse : Purse, optional
        Where it is written down what the run gives away, and how much is left.

    Raises
    ------
    InputError
        If the name, the key, or the folder is refused; if another run has left too little of the budget.
    ProtocolError
        If the run ends without a result; then none is written.
    """
    terms, matrix = node.run.terms, entered.corpus.matrix
    if opens_final(terms.mechanism):
        # MPyC is loaded by those who compute with it.
        from ksdp.protocols.runs.final_rounds import final_rounds

        rounds = final_rounds(terms, node.name, node.identity, matrix, entered.statement)
    else:
        program = party_program(terms.mechanism, matrix, terms.parties)
        rounds = party_rounds(terms, node.name, node.identity, program, entered.statement)
    entering = {
        "documents": len(entered.corpus),
        "of": entered.of,
        "uncleared": not entered.statement.cleared,
    }
    checked = entered.clearance["checked"] if entered.clearance else None
    result = run_node(
        node,
        rounds,
        header=entering | {"clearance": entered.statement.clearance or None, "checked": checked},
        about=entering | {"clearance": entered.clearance},
        own={"ids": entered.corpus.ids},
        before_data=purse.begin if purse else None,
    )
    if purse is not None:
        purse.finish(result)
    if predicts(terms.mechanism):
        _predict(node.run, entered, node.out)
    return result


def _predict(run: Run, entered: Entered, out: Path) -> None:
    """Write what the party's users would rate highest, those included that did not enter."""
    given, topics = entered.mine.matrix, read_result(out)["T"]
    suggested = Predictor.of(run.terms.mechanism, topics, given).suggested(given, SUGGESTED)
    write_predictions(out, entered.mine.ids, entered.columns, suggested)


def run_server(node: Node) -> dict[str, Any]:
    """Collect, as the server of a run, and write the public result: what its `run.json` says.

    Raises
    ------
    InputError
        If the run has no server, or the key or the folder is refused.
    ProtocolError
        If the run ends without a result; then none is written.
    """
    if not node.run.server:
        raise InputError("the protocol file names no server.")
    collects = {"collects": True}
    rounds = server_rounds(node.run.terms, node.identity)
    return run_node(node, rounds, header=collects, about=collects, own={})
