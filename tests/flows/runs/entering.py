"""What a party enters with, from the files beside it: all its documents, or those on a clearance signed here."""

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.mechanisms.schema import opened
from ksdp.audit.screening.clearance import Clearance, Covered, MechanismIdentity
from ksdp.audit.specs.models import Spec
from ksdp.flows.runs.budget import BudgetGuard
from ksdp.flows.runs.party import ContributedDocuments, Node, enter_documents, run_party, run_server
from ksdp.flows.runs.protocol_files import Run, features_hash, protocol_text, read_run
from ksdp.protocols.channel.rounds import run_together
from ksdp.protocols.programs.programs import party_program
from ksdp.protocols.programs.rounds import party_rounds
from ksdp.storage.clearances import write_clearance
from ksdp.storage.corpora import corpus_features, rows_hash
from ksdp.storage.files import toml_value
from ksdp.storage.keys import load_private
from ksdp.storage.readers.spec_files import read_spec_file

from ...clearances import clearance
from ...ports import free_ports

__all__ = [
    "NOW",
    "agreed",
    "clearance_of",
    "enter",
    "parties_toml",
    "played",
    "protocol_toml",
    "run_of",
    "signed_clearance",
]

NOW = datetime(2026, 6, 1, tzinfo=UTC)
PATIENT = "[timeouts]\npresent = 120\nmessage = 120\nreconnect = 5\n"


def parties_toml(names: Sequence[str], server: str = "") -> str:
    """Each at a free port of this machine, with NAME.pub beside the protocol file."""
    nodes = [*names, server] if server else names
    return "".join(
        f'{"[server]" if name == server else "[[parties]]"}\nname = "{name}"\naddress = "127.0.0.1:{port}"\n'
        f'key = "{name}.pub"\n'
        for name, port in zip(nodes, free_ports(len(nodes)), strict=True)
    )


def protocol_toml(
    names: Sequence[str], mechanism: str, vocabulary: str = "words.txt", more: str = PATIENT, *, server: str = ""
) -> str:
    """A protocol file; `more` are its other sections."""
    features = f'[features]\nvocabulary = "{vocabulary}"\n'
    return f"protocol = 1\n[mechanism]\n{mechanism}\n{features}{more}{parties_toml(names, server)}"


def agreed(base: Path, names: Sequence[str], corpus: dict[str, Any], mechanism: dict[str, Any]) -> Run:
    """Every party's spec of NAME.npz, and the protocol file as `ksdp columns` writes it from the first one's."""
    for name in names:
        tables = {"corpus": {"path": f"{name}.npz"} | corpus, "mechanism": mechanism}
        (base / f"{name}.toml").write_text("".join(f"{key} = {toml_value(tables[key])}\n" for key in tables))
    spec, _ = read_spec_file(base / f"{names[0]}.toml")
    columns = corpus_features(spec.corpus, base)
    features = {"hash": features_hash(columns), "count": len(columns), "rows": rows_hash(spec.corpus, base)}
    parties = [f"{name}@127.0.0.1:{4000 + place}" for place, name in enumerate(names)]
    (base / "protocol.toml").write_text(protocol_text(spec, features, parties))
    return read_run(base / "protocol.toml")


def enter(run: Run, base: Path, name: str, **other: Any) -> ContributedDocuments:
    """All documents of a party's spec, without a clearance unless `other` says so."""
    key = load_private(base / f"{name}.key")
    said = {"clearance": None, "uncleared": True, "identity": key, "now": NOW}
    return enter_documents(run, base / f"{name}.toml", **(said | other))


def run_of(run: Run, base: Path, entered: Mapping[str, ContributedDocuments]) -> dict[str, Any]:
    """What every party has at the end of a run in this process, by name."""
    parties = {
        name: party_rounds(
            run.terms,
            name,
            load_private(base / f"{name}.key"),
            party_program(run.terms.mechanism, each.corpus.matrix, len(entered)),
            each.statement,
        )
        for name, each in entered.items()
    }
    return dict(run_together(parties)[0])


def played(
    run: Run,
    base: Path,
    out: Path,
    entered: Mapping[str, ContributedDocuments],
    guards: Mapping[str, BudgetGuard] = MappingProxyType({}),
) -> dict[str, Exception | dict[str, Any]]:
    """What every party and the server came to, each in a thread: with BASE/NAME.key, to OUT/NAME."""
    ends: dict[str, Exception | dict[str, Any]] = {}

    def take_part(name: str) -> None:
        node = Node(run, name, load_private(base / f"{name}.key"), out / name)
        try:
            if name == run.server:
                ends[name] = run_server(node)
            else:
                ends[name] = run_party(node, entered[name], guards.get(name))
        except Exception as error:  # what is no error of ksdp is seen by the test, not lost with its thread
            ends[name] = error

    threads = [threading.Thread(target=take_part, args=(name,)) for name in filter(None, (*entered, run.server))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


def signed_clearance(
    path: Path,
    spec: Spec,
    shown: Corpus,
    mechanism: Any,
    ids: Any,
    *,
    now: datetime = NOW,
    signer: str = "ada",
    **other: Any,
) -> Path:
    """Of an audit of this mechanism with every round opened, signed with a key beside `path`, for a day."""
    signed = clearance_of(shown, mechanism, ids, now, **({"spec": spec.binding} | other))
    path.unlink(missing_ok=True)
    write_clearance(path, signed, load_private(path.parent / f"{signer}.key"))
    return path


def clearance_of(shown: Corpus, mechanism: Any, ids: Any, now: datetime = NOW, /, **changes: Any) -> Clearance:
    """Of an audit of this mechanism with every round opened, for a day; or what else `changes` say."""
    values: dict[str, Any] = {
        "corpus": shown.hash,
        "mechanism": MechanismIdentity(mechanism.name, mechanism.version, parameters_of(mechanism)),
        "spec": "sha256:00",
        "created": now - timedelta(days=1),
        "expires": now + timedelta(days=1),
        "coverage": Covered("every round", tuple(sorted(opened(mechanism, shown.features)))),
    }
    return clearance(ids, **values | changes)
