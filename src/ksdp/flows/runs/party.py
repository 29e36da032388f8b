"""One node of a run, party or server: what enters, the rounds, the result, and what `run.json` says."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from numpy.typing import NDArray
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ksdp.audit.contract import Mechanism, guarantee_of, traits_of
from ksdp.audit.corpus.groups import Unit, unit_names
from ksdp.audit.corpus.matrix import Corpus, restrict
from ksdp.audit.errors import ClearanceError, InputError, KsdpError, SpecError
from ksdp.audit.learning.learners import Predictor, predicts
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.mechanisms.privacy.moments import TermCounts
from ksdp.audit.mechanisms.privacy.spent import SecretDraw
from ksdp.audit.mechanisms.privacy.transcript import GaussianReleases
from ksdp.audit.mechanisms.schema import opened
from ksdp.audit.randomness import os_random
from ksdp.audit.reviewing import excluded_words, exclusion_row
from ksdp.audit.screening.clearance import MechanismIdentity, entering_units
from ksdp.audit.specs.models import CorpusSpec
from ksdp.flows.interruption import Clock, utc_now
from ksdp.flows.runs.budget import BudgetGuard, open_guard
from ksdp.flows.runs.protocol_files import Run, features_hash
from ksdp.protocols.channel.keys import Participant
from ksdp.protocols.channel.rounds import RoundEngine, Rounds
from ksdp.protocols.network.links import RUNS, LinkTimes
from ksdp.protocols.network.mesh import Address, Mesh, Note, Peer, run_over_mesh
from ksdp.protocols.network.tls import OTHER_CLOCK, TURNED_AWAY, make_credentials
from ksdp.protocols.programs.programs import is_noisy, party_program, sum_entries
from ksdp.protocols.programs.rounds import RunOutcome, compare, largest_message, party_rounds, server_rounds
from ksdp.protocols.programs.run_terms import LARGEST_GREETING, Statement
from ksdp.protocols.programs.secret_draw import secret_draw
from ksdp.protocols.programs.share_terms import covers_final, opens_final
from ksdp.storage.clearances import Verified, check_sizes, verify_clearance
from ksdp.storage.corpora import corpus_features, load_corpus, load_drawn, rows_hash
from ksdp.storage.keys import fingerprint
from ksdp.storage.readers.spec_files import at_urls, read_spec_file
from ksdp.storage.readers.tables import Labels
from ksdp.storage.reviews.decisions import exclusions
from ksdp.storage.runs.results import (
    Transcript,
    read_result,
    require_no_result,
    write_predictions,
    write_reference,
    write_run,
)
from ksdp.storage.store import Store

_STATES = ("waiting", "running", "done", "ended")
_EVENTS = {"waiting": "waiting", "all present": "running", "done": "done", "ended without a result": "ended"}
_EVERY = 5.0


class RunLog(Collector):
    """Told of every event of the transcript; kinds, names and sizes, never a value.

    Parameters
    ----------
    tell : callable, optional
        Told of progress in a line, every some seconds at most.
    clock : callable
        Seconds that only grow.
    """

    def __init__(
        self, tell: Callable[[str], None] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tell, self._clock = tell, clock
        self._began, self._told = clock(), clock()
        self.state = "waiting"
        self.sent: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.connected: dict[str, bool] = {}
        self.rounds = 0

    def note(self, what: str, peer: str = "", **more: Any) -> None:
        """Take in one event."""
        self.state = _EVENTS.get(what, self.state)
        if what == "waiting":
            self.connected = {**dict.fromkeys(more.get("peers", ()), False), **self.connected}
        elif what in ("connected", "reconnected", "lost"):
            self.connected[peer] = what != "lost"
            self.lost[peer] += what == "lost"
            if self._tell and (what == "lost" or self.state == "waiting"):
                absent = sorted(name for name, here in self.connected.items() if not here)
                self._tell(f"{peer} {what}; not connected: {', '.join(absent) or 'nobody'}")
        elif what.startswith((TURNED_AWAY, OTHER_CLOCK)) and self._tell:
            self._tell(what)
        elif more.get("counts") and self._tell:
            self._tell("This run counts in the ledger, at the most that it may give away: a part of it was sent.")
        elif what == "sent":
            self.sent[peer] += more["bytes"]
        elif what == "received":
            self.received[peer] += more["bytes"]
            if more["round"] >= self.rounds:
                self.rounds = more["round"] + 1
                self._progress(more["kind"])

    def _progress(self, kind: str) -> None:
        now = self._clock()
        if self._tell and now - self._told >= _EVERY:
            self._told = now
            megabytes = (self.sent.total() + self.received.total()) / 1e6
            self._tell(f"{now - self._began:.0f} s: round {self.rounds} ({kind}), {megabytes:.1f} MB")

    def collect(self) -> Iterable[Metric]:
        """For Prometheus."""
        state = GaugeMetricFamily("ksdp_party_state", "1 for the state that the run is in", labels=["state"])
        for name in _STATES:
            state.add_metric([name], float(name == self.state))
        rounds = CounterMetricFamily("ksdp_party_rounds", "Rounds that are over", value=self.rounds)
        moved = CounterMetricFamily(
            "ksdp_party_bytes", "Bytes of messages, without TLS", labels=["peer", "direction"]
        )
        for direction, counted in (("sent", self.sent), ("received", self.received)):
            for peer, count in sorted(counted.items()):
                moved.add_metric([peer, direction], count)
        here = GaugeMetricFamily("ksdp_party_connected", "1 if a peer is connected", labels=["peer"])
        lost = CounterMetricFamily("ksdp_party_lost_connections", "Connections that were lost", labels=["peer"])
        for peer, connected in sorted(self.connected.items()):
            here.add_metric([peer], float(connected))
            lost.add_metric([peer], self.lost[peer])
        seconds = GaugeMetricFamily(
            "ksdp_party_seconds", "Since the party was started", value=self._clock() - self._began
        )
        return [state, rounds, moved, here, lost, seconds]


_Played = TypeVar("_Played")
_NO_DATA = frozenset({"greeting", "statement", "hello", "ask", "keys", "key shares", "shared"})
"""Kinds of messages that say nothing of anybody's documents, but that they are cleared."""


class AgreedRun(Protocol):
    """Contents of a protocol file: a run among parties, or PEM between hosts."""

    @property
    def who(self) -> tuple[Participant, ...]:
        """All that take part, with their keys."""

    @property
    def said(self) -> Mapping[str, Any]:
        """Every term by its name."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Optional packages that it imports."""

    def address(self, name: str) -> Address:
        """Where one listens."""


def peers_of(run: AgreedRun, me: str) -> dict[str, Peer]:
    """All others of a run, by the keys that its file names."""
    keys = {node.name: Ed25519PublicKey.from_public_bytes(node.identity) for node in run.who if node.name != me}
    return {name: Peer(name, run.address(name), key) for name, key in keys.items()}


AnyRun = TypeVar("AnyRun", bound=AgreedRun)


@dataclass(frozen=True, eq=False)
class Node(Generic[AnyRun]):
    """One of a run, a party, its server or a host of PEM, on its own machine."""

    run: AnyRun
    name: str
    identity: Ed25519PrivateKey
    out: Path
    """Folder of the result; made where there is none."""
    listen: Address | None = None
    """Where it is not the address that the others dial."""
    clock: Clock = utc_now
    log: RunLog = field(default_factory=RunLog)

    def check(self) -> None:
        """Refuse a name that is no node of the run, another's key, and an installation that lacks a package."""
        identities = {node.name: node.identity for node in self.run.who}
        if self.name not in identities:
            raise InputError(f"`--me` must be one of {', '.join(identities)}; got {self.name!r}.")
        if identities[self.name] != self.identity.public_key().public_bytes_raw():
            whose = {node.identity: node.name for node in self.run.who}
            other = whose.get(self.identity.public_key().public_bytes_raw())
            hint = f"it is that of {other}: `--me {other}`?" if other else "`--key` where it is."
            raise InputError(f"the key is not the one that the protocol file names for {self.name}: {hint}")
        if missing := [package for package in self.run.packages if find_spec(package) is None]:
            raise InputError(f"this run needs {' and '.join(missing)}: pip install 'ksdp[parties]'.")

    def mesh(
        self,
        *,
        limit: int,
        times: LinkTimes,
        note: Note,
        patience: Mapping[str, float] | None = None,
        checks: bool = False,
    ) -> Mesh:
        """With all that it speaks with."""
        peers = peers_of(self.run, self.name)
        return Mesh(
            self.name,
            self.listen or self.run.address(self.name),
            peers,
            make_credentials(self.identity, {name: peer.key for name, peer in peers.items()}, now=self.clock()),
            limit=max(limit, LARGEST_GREETING),
            times=times,
            observe=lambda what, peer: note(what=what, peer=peer),
            patience=patience,
            checks=checks,
        )


class TranscribedRun:
    """A node's run as it is written down, whatever its protocol; a context that closes the transcript.

    Parameters
    ----------
    out : Path
        Folder of the result.
    clock : callable
    log : RunLog
        Told of every event that is transcribed.
    before_data : callable, optional
        Called once, before the first message that depends on data goes out; what it raises ends the run.
    no_data : kinds of messages
        That depend on no data.
    """

    def __init__(
        self, out: Path, clock: Clock, log: RunLog, before_data: Callable[[], None] | None, no_data: Set[str]
    ) -> None:
        self._began, self._started = time.monotonic(), clock()
        self._clock, self._log, self._no_data = clock, log, no_data
        self._waiting = [before_data] if before_data else []
        self._guarded = before_data is not None
        self.transcript = Transcript(out, clock)

    def __enter__(self) -> TranscribedRun:
        return self

    def __exit__(self, *ended: Any) -> None:
        self.transcript.__exit__(*ended)

    def note(self, **event: Any) -> None:
        """Tell whoever watches, and the transcript."""
        if self._waiting and event["what"] == "sent" and event["kind"] not in self._no_data:
            self._waiting[0]()
            self._waiting.clear()
        self._log.note(**event)
        self.transcript.note(**event)

    def played(self, rounds: Rounds[_Played], mesh: Mesh, present: float) -> _Played:
        """Play over a mesh to the end; an end without a result is transcribed, with its reason."""

        async def play() -> _Played:
            async with mesh:
                return await run_over_mesh(rounds, mesh, present=present, note=self.note)

        try:
            return asyncio.run(play())
        except KsdpError as error:
            self._end(str(error))
            raise
        except KeyboardInterrupt:
            self._end("stopped here")
            raise

    def _end(self, reason: str) -> None:
        self.note(what="ended without a result", reason=reason, counts=self._guarded and not self._waiting)

    def took(self) -> dict[str, Any]:
        """Times, rounds and bytes, for `run.json`."""
        return {
            "started": self._started.isoformat(timespec="seconds"),
            "finished": self._clock().isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - self._began, 3),
            "rounds": self._log.rounds,
            "bytes": {"sent": self._log.sent.total(), "received": self._log.received.total()},
        }


def run_node(
    node: Node[Run],
    rounds: Rounds[RunOutcome],
    *,
    header: Mapping[str, Any],
    about: Mapping[str, Any],
    own: Mapping[str, NDArray[Any]],
    before_data: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Take part and write the result."""
    node.check()
    require_no_result(node.out)
    run = node.run
    with TranscribedRun(node.out, node.clock, node.log, before_data, _NO_DATA) as transcribed:
        agreed = {"agreement": run.terms.digest.hex(), "mechanism": run.terms.mechanism.name}
        transcribed.transcript.note(what="run", me=node.name, **agreed, **header)
        times, note = run.spec.timeouts, transcribed.note
        link = LinkTimes(message=times.message, reconnect=times.reconnect)
        mesh = node.mesh(limit=_largest(run), times=link, note=note)
        outcome = transcribed.played(rounds, mesh, times.present)
        record = _about(run, node.name, outcome) | dict(about) | transcribed.took()
        write_run(node.out, outcome.result.public, dict(own) | dict(outcome.result.own), record)
        stated = {name: statement.as_json() for name, statement in outcome.statements.items()}
        transcribed.note(what="done", session=outcome.session, result=outcome.digest, grounds=stated)
    return record


def guarantee_words(result: Mapping[str, Any]) -> str:
    """Guarantee of a run for `run.json`, in one line."""
    guarantee, claimed = result["guarantee"], result["claimed"]
    if guarantee["kind"] != "(epsilon, delta)":
        how = "none" if guarantee["kind"] == "none" else "measured, not promised"
        return f"guarantee: {how}. {guarantee['notes']}"
    number = f"epsilon {claimed['epsilon']:.4g} at delta {claimed['delta']:g}" if claimed else "no epsilon"
    drawn = f"; noise by the sampler {guarantee['sampler']['name']!r}" if guarantee["sampler"] else ""
    unsound = "" if guarantee["sound"] else f"; UNSOUND as printed: {guarantee['notes']}"
    trust = "; ".join(filter(None, [f"trust: {guarantee['trust']}", result.get("taken_as_known")]))
    return f"guarantee: {number}; unit: {guarantee['unit']}; {trust}{drawn}{unsound}"


def _largest(run: Run) -> int:
    terms = run.terms
    if opens_final(terms.mechanism):
        from ksdp.protocols.programs.final_rounds import largest_final_message

        return largest_final_message(terms)
    return largest_message(terms, sum_entries(terms.mechanism, terms.features))


def _about(run: Run, name: str, outcome: RunOutcome) -> dict[str, Any]:
    mechanism, terms = run.terms.mechanism, run.terms
    names = [p.name for p in terms.participants]
    sizes = _SIZES_TOLD if outcome.sizes else _SIZES_ADDED if traits_of(mechanism).tells_rows else _SIZES_HIDDEN
    return {
        "me": name,
        "session": outcome.session,
        "agreement": terms.digest.hex(),
        "result": outcome.digest,
        "mechanism": {"name": mechanism.name, "version": mechanism.version, **parameters_of(mechanism)},
        "guarantee": guarantee_of(mechanism).as_json(),
        "claimed": claimed(terms.as_run, outcome.sizes, terms.features),
        "features": terms.features,
        "parties": {p.name: outcome.statements[p.name].as_json() for p in terms.participants},
        "server": run.server or None,
        "sizes": dict(zip(names, outcome.sizes, strict=True)) if outcome.sizes else None,
        "departed": dict(outcome.departed),
        "sums": outcome.sums,
        "normed_sums": outcome.normed_sums,
        "asked": dict(outcome.asked),
        "opens": traits_of(mechanism).opens,
        "sum_error": None if opens_final(mechanism) else terms.precision.coding(terms.parties).error,
        "reveals": f"{outcome.reveals} {sizes}".lstrip(),
    }


_SIZES_TOLD = "Everybody is told how many documents each party entered."
_SIZES_HIDDEN = "Nobody is told how many documents another party entered."
_SIZES_ADDED = "Everybody is told how many documents all parties entered together."


def claimed(mechanism: Mechanism, sizes: tuple[int, ...], features: int) -> dict[str, float] | None:
    """The epsilon and delta that a mechanism claims for the sizes of this run, where it makes them public."""
    if not isinstance(mechanism, GaussianReleases):
        return None
    try:
        epsilon, delta = mechanism.claim(sizes, features)
    except SpecError:  # nothing is claimed with these parameters
        return None
    return {"epsilon": epsilon, "delta": delta} if math.isfinite(epsilon) else None


SUGGESTED = 100
"""Items that are written down for a user."""


@dataclass(frozen=True, eq=False)
class ContributedDocuments:
    """The documents that a party enters, and on what grounds."""

    corpus: Corpus
    statement: Statement
    of: int
    """Documents of its corpus; the others are not on the clearance."""
    clearance: dict[str, Any] | None
    mine: Corpus
    """All documents of the party, those included that do not enter."""
    columns: tuple[str, ...]
    exclusions: str
    """Up to when exclusions by decision are known, in a sentence."""
    excluded: tuple[str, ...] = ()
    """A line for each excluded document: its id, the audit, the person, the time and the reason."""
    draw: SecretDraw | None = None
    """The party's secret draw of its documents; None: all enter."""
    expires: datetime | None = None
    """The first moment at which the clearance holds no more; None without one."""


def reviews_of(folder: Path | None) -> Store | None:
    """The store whose review log says who is excluded: `KSDP_STORE` or `ksdp-store` where none is named."""
    if folder is not None:
        return Store.open(folder, create=False)
    usual = Path(os.environ.get("KSDP_STORE", "ksdp-store"))
    return Store.open(usual, create=False) if usual.is_dir() else None


def enter_documents(
    run: Run,
    corpus: Path,
    *,
    clearance: Path | None,
    uncleared: bool,
    identity: Ed25519PrivateKey,
    now: datetime,
    signer: Ed25519PublicKey | None = None,
    reviews: Path | None = None,
) -> ContributedDocuments:
    """Load a party's corpus and keep the documents that its clearance lists and nobody has excluded.

    The clearance must be by `signer`; by default, by the party's own key.
    """
    if clearance is None and not uncleared:
        raise InputError("a party enters documents on a clearance (`--clearance FILE`), or says `--uncleared`.")
    if clearance is not None and uncleared:
        raise InputError("`--clearance` and `--uncleared` exclude each other.")
    named = _named(run, corpus)
    columns = corpus_features(named.source, named.base)
    _check_columns(run, named, columns)
    nonnegative = traits_of(run.terms.mechanism).nonnegative
    loaded, part = _read(named.source, named.base, named.unit, identity, nonnegative=nonnegative)
    if loaded.features != run.terms.features:
        raise InputError(f"the corpus has {loaded.features} features, the protocol file {run.terms.features}.")
    draw = _draw_of(named, own_hash=loaded.hash, identity=identity)
    everything = named.me is None or loaded.party is None
    mine = np.arange(len(loaded)) if everything else np.flatnonzero(loaded.party == named.me)
    own = restrict(loaded, mine)
    entering = own if part is loaded else restrict(part, np.flatnonzero(np.isin(part.ids, own.ids)))
    store = reviews_of(reviews)
    out = {} if store is None else exclusions(store, loaded, named.source.path)
    entering = restrict(entering, np.flatnonzero([name not in out for name in entering.ids.tolist()]))
    here = {*own.ids.tolist()}
    elsewhere = {*loaded.ids.tolist(), *loaded.left_out} - here
    named_out = (exclusion_row(n, e, n not in here) for n, e in out.items() if n not in elsewhere)
    excluded = tuple(f"{row['document']} {excluded_words(row)}" for row in named_out)
    if not len(entering):
        raise InputError(f"no document of {corpus.name} is left: {len(out)} are excluded by decision.")
    own_least, least_of_others = run.terms.fewest(identity.public_key().public_bytes_raw())
    if clearance is None:
        _check_least(len(np.unique(unit_names(entering, named.unit))), own_least, named.unit)
        scope = _NONE_KNOWN if store is None else _read_from(store)
        return ContributedDocuments(
            entering, Statement(cleared=False), len(mine), None, own, columns, scope, excluded, draw
        )
    verified = _verified(run, clearance, named, loaded, signer=signer or identity.public_key(), now=now)
    rows, sizes = np.flatnonzero(verified.clearance.allows(entering.ids)), verified.clearance.sizes
    if sizes.unit == "group":  # it enters as a whole, or not at all
        broken = unit_names(own, "group")[np.isin(own.ids, list(out))]
        rows = rows[~np.isin(unit_names(entering, "group")[rows], broken)]
    if not len(rows):
        raise ClearanceError("content", f"{clearance.name} lists no document of the corpus.")
    entering = restrict(entering, rows)
    count = entering_units(verified.clearance, entering)
    _check_least(count, own_least, sizes.unit)
    check_sizes(clearance, verified.clearance, count, len(run.terms.participants), least_of_others)
    if not sizes.every_size:  # it was measured: a run that differs was not
        if draw is not None and loaded.from_rows:
            raise ClearanceError("drawn", f"{clearance.name} {_OTHER_ROWS}")
        if run.terms.threshold:
            raise ClearanceError("sizes", f"{clearance.name} {_MEASURED}")
        parties, noisy = len(run.terms.participants), run.terms.mechanism
        if is_noisy(noisy) and noisy.holds_against == 0 and not sizes.coalition:
            raise ClearanceError("sizes", f"{clearance.name} {_OUTSIDER}")
        pooled = is_noisy(noisy) and parties > sizes.parties and noisy.holds_against < parties - 1
        if sizes.coalition and (pooled or run.terms.shares is not None):
            raise ClearanceError("sizes", f"{clearance.name} {_POOLED}")
    signed = verified.clearance.created.isoformat(timespec="minutes")
    scope = f"exclusions are those known at {signed}, when {clearance.name} was signed; {_LATER}"
    grounds = {
        "signer": verified.fingerprint,
        "checked": [*verified.checked, "sizes", *([] if store is None else ["exclusions"])],
        "reviewer": verified.clearance.reviewer,
    }
    scope = scope if store is None else _read_from(store)
    about = columns, scope, excluded, draw, verified.clearance.expires
    return ContributedDocuments(entering, Statement(True, verified.file), len(mine), grounds, own, *about)


def guard_of(run: Run, entered: ContributedDocuments, ledger: Path, budget: Path | None) -> BudgetGuard:
    """The guard of a run that these documents enter."""
    corpus, count = entered.corpus.hash, len(entered.corpus)
    return open_guard(run, corpus, count, ledger, budget, utc_now, entered.draw, entered.expires)


_MEASURED = (
    "rests on what was measured of parties that stay. Where some may leave (`leave`), two sums differ by what one "
    "party entered: sign on a bound of every attack at every size (`mechanism.epsilon`, `mechanism.advantage`)."
)
_OUTSIDER = (
    "rests on noise of which each party of a run knows its own part: audit and sign with `mechanism.colluders` 1 "
    "or more, or with a mechanism that has it."
)
_POOLED = (
    "is of a coalition that was audited as one party. In this run, several parties could put together what nobody "
    "audited, their noise or their shares: audit and sign with `mechanism.colluders` for all parties but one, or "
    "without a coalition."
)
_OTHER_ROWS = (
    "is of rows that the whole corpus weighs, and those of a draw are weighed by themselves: take public weights "
    '(`corpus.idf = "public"`, `levers.reference`), or a draw of at most the margin.'
)
_LATER = "later decisions are not known, as no store was named (--store)"
_NONE_KNOWN = f"none are known; {_LATER}"


def _read_from(store: Store) -> str:
    return f"exclusions are those of the review log in {store.root.name}, as of now"


@dataclass(frozen=True)
class _Named:
    """Corpus that `--corpus` names."""

    source: CorpusSpec
    base: Path
    spec_hash: str | None = None
    """Hash of the audit's spec; None for a bare matrix."""
    me: str | None = None
    """Whose rows are entered; None: all."""
    unit: Unit = "document"


def _named(run: Run, corpus: Path) -> _Named:
    if corpus.suffix == ".toml":
        spec, base = read_spec_file(corpus, own_code=False)
        if away := at_urls(spec.corpus):
            raise InputError(f"`corpus.{away[0]}` is at a URL; a party enters files of its own machine.")
        return _Named(spec.corpus, base, spec.binding, spec.parties.me, spec.design.unit)
    if run.spec.features.vocabulary is None:
        raise InputError("`--corpus` must name a spec: the protocol file has no vocabulary for a bare matrix.")
    vocabulary = str((run.base / run.spec.features.vocabulary).resolve())
    return _Named(CorpusSpec(path=str(corpus.resolve()), vocabulary=vocabulary), run.base)


def _check_columns(run: Run, named: _Named, columns: Sequence[str]) -> None:
    if features_hash(columns) != run.terms.vocabulary:
        raise InputError(
            "the features of the corpus, or their order, are not those of the protocol file "
            "(`ksdp plan SPEC --columns FILE` writes what it has)."
        )
    if run.terms.rows and rows_hash(named.source, named.base) != run.terms.rows:
        raise InputError(
            "rows are not made as the protocol file says (`features.rows`): levers, weighting or idf "
            "(`ksdp plan SPEC --columns FILE` writes yours)."
        )


def _verified(
    run: Run, clearance: Path, named: _Named, loaded: Corpus, *, signer: Ed25519PublicKey, now: datetime
) -> Verified:
    mechanism, drawn = run.terms.mechanism, named.source.levers.drawn
    verified = verify_clearance(
        clearance,
        now=now,
        public_key=signer,
        corpus_hash=loaded.hash,
        mechanism=MechanismIdentity(mechanism.name, mechanism.version, parameters_of(mechanism)),
        spec_hash=named.spec_hash,
        # A run that opens less than was audited is covered: `opened` is compared with what the audit looked at.
        left_out=("sampler",) if is_noisy(mechanism) else ("opens",) if covers_final(mechanism) else (),
        opened=opened(mechanism, loaded.features),
    )
    if verified.clearance.drawn != drawn:
        raise ClearanceError(
            "drawn",
            f"{clearance.name} is of rows of which {_share(verified.clearance.drawn)}; {_share(drawn)} here.",
        )
    return verified


def _share(drawn: float | None) -> str:
    return "all enter" if drawn is None else f"a secret draw of {drawn:g} enters"


def _check_least(entering: int, least: int, unit: str) -> None:
    if entering < least:
        raise InputError(
            f"{entering} {unit}s of this party enter, and the protocol file says at least {least} (`enters`): the "
            "others' clearances rest on it. Enter more, or let all sign a file with a smaller number."
        )


def _draw_of(named: _Named, own_hash: str, identity: Ed25519PrivateKey) -> SecretDraw | None:
    """The draw, named by key, unit and the column that names units, or the corpus where rows are numbered."""
    share, column = named.source.levers.drawn, named.source.group if named.unit == "group" else named.source.id
    if share is None:
        return None
    return SecretDraw(share, " ".join([fingerprint(identity), named.unit, column or own_hash]))


def _read(
    source: CorpusSpec, base: Path, unit: str, identity: Ed25519PrivateKey, *, nonnegative: bool
) -> tuple[Corpus, Corpus]:
    """The whole corpus, and what may enter: all, or what a party's secret draw lets in, weighed by itself."""
    share = source.levers.drawn
    if share is None:
        loaded = load_corpus(source, base, nonnegative=nonnegative)
        return loaded, loaded

    def enters(labels: Labels) -> NDArray[np.bool_]:
        units = labels.group if unit == "group" and labels.group is not None else labels.ids
        return secret_draw(identity, units.tolist(), share)

    return load_drawn(source, base, enters, nonnegative=nonnegative)


def run_party(node: Node[Run], entered: ContributedDocuments, guard: BudgetGuard | None = None) -> dict[str, Any]:
    """Take part, and write the result into a folder: what its `run.json` says."""
    terms, matrix = node.run.terms, entered.corpus.matrix
    if opens_final(terms.mechanism):
        # MPyC is loaded by those who compute with it.
        from ksdp.protocols.programs.final_rounds import final_rounds

        rounds = final_rounds(terms, node.name, matrix, entered.statement)
    else:
        program = party_program(terms.as_run, matrix, terms.parties)
        rounds = party_rounds(terms, node.name, node.identity, program, entered.statement)
    entering = {"documents": len(entered.corpus), "of": entered.of, "uncleared": not entered.statement.cleared}
    checked = entered.clearance["checked"] if entered.clearance else None
    result = run_node(
        node,
        rounds,
        header=entering | {"clearance": entered.statement.clearance or None, "checked": checked},
        about=entering
        | {
            "clearance": entered.clearance,
            "exclusions": entered.exclusions,
            "taken_as_known": entered.mine.taken_as_known,
        },
        own={"ids": entered.corpus.ids},
        before_data=guard.begin if guard else None,
    )
    if guard is not None:
        guard.finish(result)
    if predicts(terms.mechanism):
        given, topics = entered.mine.matrix, read_result(node.out)["T"]
        suggested = Predictor.of(terms.mechanism, topics, given).suggested(given, SUGGESTED)
        write_predictions(node.out, entered.mine.ids, entered.columns, suggested)
    if isinstance(terms.mechanism, TermCounts):
        documents = sum(size for name, size in result["sizes"].items() if result["departed"].get(name) != 0)
        counts = terms.mechanism.counted(read_result(node.out)["totals"], documents)
        write_reference(node.out, entered.columns, counts, documents)
    return result


def run_server(node: Node[Run]) -> dict[str, Any]:
    """Collect, as the server of a run, and write the public result: what its `run.json` says."""
    if not node.run.server:
        raise InputError("the protocol file names no server.")
    collects = {"collects": True}
    rounds = server_rounds(node.run.terms)
    return run_node(node, rounds, header=collects, about=collects, own={})


def check_peers(node: Node[AgreedRun], wait: float) -> dict[str, str]:
    """A dry run: connect with all peers as a run does, compare greetings, and part."""
    peers = peers_of(node.run, node.name)
    patience = dict.fromkeys(peers, wait)
    mesh = node.mesh(limit=0, times=LinkTimes(), note=lambda **_: None, patience=patience, checks=True)
    greeted = compare(RoundEngine(node.name, tuple(peers)), node.run.said, os_random)

    async def play() -> dict[str, str]:
        async with mesh:
            said = await run_over_mesh(greeted, mesh, present=wait, note=lambda **_: None)
            for name in peers.keys() - said.keys():
                lost = mesh.links[name].failed.result()
                said[name] = "" if lost.word == RUNS else str(lost)
        return dict(sorted(said.items()))

    return asyncio.run(play())
