"""Misconfigurations, each planted, each named in one line with what mends it; over real sockets where needed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ksdp.audit.errors import ClearanceError
from ksdp.audit.screening.clearance import Covered, MechanismIdentity
from ksdp.flows.runs.check import Finding, PeerCheck, Question, check_here, compare, dry_mesh, look
from ksdp.flows.runs.party import about_of, enter_documents
from ksdp.flows.runs.protocol_files import Run, read_run
from ksdp.flows.screening.clear import verify
from ksdp.protocols.network.links import LinkTimes
from ksdp.protocols.network.mesh import Address, Mesh, Peer
from ksdp.protocols.network.tls import make_credentials
from ksdp.protocols.programs.run_terms import About
from ksdp.storage.clearances import write_clearance
from ksdp.storage.keys import load_private, make_identity
from ksdp.storage.readers.spec_files import read_spec_file

from ...clearances import SIZES
from ...ports import free_ports
from .entering import clearance_of
from .findings_said import of_cases, one_line, only_one

NAMES = ("ada", "bob", "cyd")
TERMS = [f"term{i}" for i in range(6)]
NOW = datetime.now(UTC)
LONG = 20.0
"""Seconds for what answers; nothing waits as long."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys, words and documents of three parties."""
    folder = tmp_path_factory.mktemp("organisations")
    for name in NAMES:
        make_identity(folder, name)
        counts = np.random.default_rng([7, *name.encode()]).integers(0, 3, (8, len(TERMS)))
        counts[np.arange(8), np.arange(8) % len(TERMS)] = 2  # no row is empty
        counts[np.arange(len(TERMS)), (np.arange(len(TERMS)) + 1) % len(TERMS)] = 0  # no term is everywhere
        sp.save_npz(folder / f"{name}.npz", sp.csr_matrix(counts.astype(float)))
    (folder / "words.txt").write_text("\n".join(TERMS) + "\n")
    return folder


class Files:
    """A protocol file of the three, and what one of them would give to `ksdp party`."""

    def __init__(self, folder: Path, made: Path) -> None:
        self.folder, self.made = folder, made
        for path in made.iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
            (folder / path.name).chmod(path.stat().st_mode & 0o777)
        self.ports = dict(zip(NAMES, free_ports(3), strict=True))

    def protocol(self, rank: int = 2, names: tuple[str, ...] = NAMES, **changes: str) -> Path:
        """`changes`: NAME_address, NAME_key."""
        tables = "".join(
            f'[[parties]]\nname = "{name}"\naddress = "{changes.get(name + "_address", self.address(name))}"\n'
            f'key = "{changes.get(name + "_key", name + ".pub")}"\n'
            for name in names
        )
        path = self.folder / f"protocol-{rank}-{len(names)}-{len(changes)}.toml"
        path.write_text(
            f'protocol = 1\n[mechanism]\nname = "pd-nmf"\nrank = {rank}\n'
            f'[features]\nvocabulary = "words.txt"\n[precision]\nbound = 4096.0\n{tables}'
        )
        return path

    def address(self, name: str) -> str:
        return f"127.0.0.1:{self.ports[name]}"

    def key(self, name: str) -> Ed25519PrivateKey:
        return load_private(self.folder / f"{name}.key")

    def question(self, me: str = "ada", **changes: Any) -> Question:
        said = {
            "protocol": changes.get("protocol") or self.protocol(),
            "me": me,
            "key": self.folder / f"{me}.key",
            "load": load_private,
        }
        said |= {"corpus": self.folder / f"{me}.npz", "uncleared": True}
        return Question(**said | changes)

    def clear(self, **changes: Any) -> Path:
        """Ada's clearance, right but for the changes."""
        run, mechanism = read_run(self.protocol()), read_run(self.protocol()).terms.mechanism
        signer, corpus = self.key(changes.pop("signer", "ada")), changes.pop("of", self.folder / "ada.npz")
        said: dict[str, Any] = {"clearance": None, "uncleared": True, "signer": signer.public_key(), "now": NOW}
        whole = enter_documents(run, corpus, **said).corpus
        changes = {"expires": NOW + timedelta(days=9)} | changes
        clearance = clearance_of(whole, mechanism, whole.ids.tolist(), NOW, **changes)
        write_clearance(self.folder / "ada.clearance", clearance, signer)
        return self.folder / "ada.clearance"


@pytest.fixture
def files(tmp_path: Path, made: Path) -> Files:
    return Files(tmp_path, made)


def cleared(files: Files, path: Path) -> Question:
    return files.question(clearance=path, uncleared=False)


def tampered(files: Files) -> Path:
    path = files.clear()
    path.write_text(path.read_text().replace("Ana Lytic", "Ana Lytik"))
    return path


def written(files: Files, old: str, new: str) -> Path:
    path = files.protocol()
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return path


@pytest.mark.parametrize(("audited", "fits"), [(7, True), (8, True), (9, False)])
def test_a_size_is_checked_alike_by_verify_check_and_run(files: Files, audited: int, fits: bool) -> None:
    spec_file = files.folder / "ada.toml"
    spec_file.write_text(
        '[corpus]\npath = "ada.npz"\nvocabulary = "words.txt"\n[mechanism]\nname = "pd-nmf"\nrank = 2\n'
        "[design]\nparty_size = 7\n"
    )
    spec, base = read_spec_file(spec_file)
    signed = files.clear(of=spec_file, sizes=replace(SIZES, size=audited), spec=spec.binding)
    entering = {"clearance": signed, "uncleared": False, "signer": files.key("ada").public_key(), "now": NOW}
    found = check_here(files.question(corpus=spec_file, clearance=signed, uncleared=False), NOW).findings
    if fits:
        assert all(finding.fine for finding in found), found
        assert len(enter_documents(read_run(files.protocol()), spec_file, **entering).corpus) == 8
        assert "sizes" in verify(signed, now=NOW, spec=spec, base=base)["checked"]
        return
    said = f"8 documents enter, and the audited databases had {audited}"
    assert any(said in finding.said for finding in found if not finding.fine)
    with pytest.raises(ClearanceError, match=said):
        enter_documents(read_run(files.protocol()), spec_file, **entering)
    with pytest.raises(ClearanceError, match=said):
        verify(signed, now=NOW, spec=spec, base=base)


def noisy(files: Files, noise: float = 0.1, within: str = "pd-svd") -> Path:
    """A protocol file of three parties that adds noise to the final output of another mechanism."""
    text = files.protocol().read_text()
    outer = f'name = "noisy"\nmechanism = "{within}"\nscale = 1.0\nnoise = {noise}\n'
    outer += '[mechanism.parameters]\nrank = 1\nopens = "final"\n'
    outer += "beta = 0.1\ndelta = 0.1\n" if within == "pd-nmf" else ""
    path = files.folder / f"noisy-{within}-{noise}.toml"
    path.write_text(text.replace('name = "pd-nmf"\nrank = 2\n', outer, 1))
    return path


def wide(files: Files) -> Path:
    sp.save_npz(files.folder / "wide.npz", sp.csr_matrix(np.ones((8, 7))))
    return files.folder / "wide.npz"


def turned(files: Files) -> Path:
    (files.folder / "turned.txt").write_text("\n".join(reversed(TERMS)) + "\n")
    path = files.folder / "turned.toml"
    path.write_text('[corpus]\npath = "ada.npz"\nvocabulary = "turned.txt"\n[mechanism]\nname = "pd-nmf"\n')
    return path


def no_key(files: Files) -> Path:
    (files.folder / "no.key").write_text("secret")
    (files.folder / "no.key").chmod(0o600)
    return files.folder / "no.key"


def loose(files: Any) -> Path:
    (files.folder / "ada.key").chmod(0o644)
    return files.folder / "ada.key"


def used(files: Any) -> Path:
    (files.folder / "run.json").write_text("{}")
    return files.folder


HERE: list[tuple[str, Callable[[Files], Question], str, str]] = [
    ("no protocol file", lambda f: f.question(protocol=f.folder / "none.toml"), "file", "cannot be read"),
    ("unknown key", lambda f: f.question(protocol=written(f, "rank = 2", "ranks = 2")), "file", "ranks"),
    (
        "two parties at one address",
        lambda f: f.question(protocol=f.protocol(bob_address=f.address("ada"))),
        "file",
        "parties.address",
    ),
    ("party not in the protocol", lambda f: f.question(me="dan"), "me", "'dan' is not named"),
    ("no key file", lambda f: f.question(key=f.folder / "none.key"), "key", "cannot be read"),
    ("a file that is no key", lambda f: f.question(key=no_key(f)), "key", "is not a private key"),
    ("key readable by others", lambda f: f.question(key=loose(f)), "mode", "read by others"),
    ("swapped names", lambda f: f.question(key=f.folder / "bob.key"), "whose", "key of bob, not of ada"),
    (
        "key that does not match the public one",
        lambda f: f.question(protocol=f.protocol(ada_key="00" * 31 + "01")),
        "key-there",
        "not the key that",
    ),
    ("no data file", lambda f: f.question(corpus=f.folder / "none.npz"), "documents", "none.npz"),
    ("wrong number of columns", lambda f: f.question(corpus=wide(f)), "columns", "columns"),
    ("columns in another order", lambda f: f.question(corpus=turned(f)), "columns", "or their order"),
    ("no clearance", lambda f: f.question(uncleared=False), "clearance", "there is none"),
    ("clearance changed", lambda f: cleared(f, tampered(f)), "clearance-content", "was changed"),
    (
        "clearance of another party",
        lambda f: cleared(f, f.clear(signer="bob")),
        "clearance-signer",
        "is signed by",
    ),
    (
        "clearance of another mechanism",
        lambda f: cleared(f, f.clear(mechanism=MechanismIdentity("pd-nmf", 2, {"rank": 3}))),
        "clearance-mechanism",
        "another mechanism",
    ),
    (
        "clearance of a run without noise",
        lambda f: f.question(protocol=noisy(f), clearance=f.clear(), uncleared=False),
        "clearance-mechanism",
        "it clears name pd-nmf, and this is noisy",
    ),
    (
        "clearance that looked at less than is opened",
        lambda f: cleared(f, f.clear(coverage=Covered("final", ("T",)))),
        "clearance-coverage",
        "did not look at",
    ),
    (
        "clearance of another corpus",
        lambda f: cleared(f, f.clear(corpus="sha256:11")),
        "clearance-corpus",
        "another corpus",
    ),
    ("clearance expired", lambda f: cleared(f, f.clear(expires=NOW)), "clearance-expired", "expired"),
    (
        "clearance from tomorrow",
        lambda f: cleared(f, f.clear(created=NOW + timedelta(days=1))),
        "clearance-early",
        "not valid before",
    ),
    ("result folder in use", lambda f: f.question(out=used(f)), "out", "result of a run already"),
]


def overspent(files: Files) -> dict[str, Path]:
    (files.folder / "ada.budget.toml").write_text("[budget]\nunbounded = 0\n")
    return {"ledger": files.folder / "ada.ledger", "budget": files.folder / "ada.budget.toml"}


def misspelt(files: Files) -> dict[str, Path]:
    (files.folder / "ada.budget.toml").write_text("[budget]\nepsilons = 3\n")
    return {"ledger": files.folder / "ada.ledger", "budget": files.folder / "ada.budget.toml"}


def made_another_way(files: Files) -> Path:
    """A protocol file that says how rows are made, and not as ada's spec makes them."""
    return written(files, 'vocabulary = "words.txt"', f'vocabulary = "words.txt"\nrows = "sha256:{64 * "0"}"')


HERE += [
    (
        "the budget's file is misspelt",
        lambda f: f.question(**misspelt(f)),
        "budget-file",
        "did you mean `epsilon`",
    ),
    ("rows made another way", lambda f: f.question(protocol=made_another_way(f)), "rows", "`features.rows`"),
    ("a public key for a private one", lambda f: f.question(key=f.folder / "ada.pub"), "key", "is a public key"),
]
HERE += [("beyond the budget", lambda f: f.question(**overspent(f)), "budget", "beyond the budget")]


@of_cases(HERE)
def test_what_is_wrong_here_is_named(
    files: Files, plant: Callable[[Files], Question], code: str, said: str
) -> None:
    only_one(check_here(plant(files), NOW).findings, code, said)


def test_a_clearance_of_another_spec_is_named(files: Files) -> None:
    spec = files.folder / "ada.toml"
    spec.write_text('[corpus]\npath = "ada.npz"\nvocabulary = "words.txt"\n[mechanism]\nname = "pd-nmf"\n')
    question = replace(cleared(files, files.clear(of=spec)), corpus=spec)
    (found,) = (finding for finding in check_here(question, NOW).findings if not finding.fine)
    assert found.code == "clearance-spec"
    one_line(found, "is for another spec")


def test_nothing_is_wrong_where_nothing_is(files: Files) -> None:
    here = check_here(cleared(files, files.clear()), NOW)
    assert [finding.code for finding in here.findings if not finding.fine] == []
    assert here.grounds == "cleared"


# --- with others


def keys_of(run: Run, me: str) -> dict[str, Ed25519PublicKey]:
    return {n.name: Ed25519PublicKey.from_public_bytes(n.identity) for n in run.terms.nodes if n.name != me}


@contextlib.asynccontextmanager
async def present(
    files: Files, name: str, run: Run, *, at: str = "", now: datetime = NOW, **changes: Any
) -> AsyncIterator[None]:
    """A party that checks too; it may say other things of itself than are so."""
    keys = keys_of(run, name)
    credentials = make_credentials(files.key(name), keys, now=now)
    about = replace(about_of(run, "uncleared", now), **changes)
    peers = {peer: Peer(peer, Address("127.0.0.1", 1), key) for peer, key in keys.items()}
    async with dry_mesh(name, Address.parse(at or files.address(name)), peers, credentials, about.to_bytes):
        yield


@contextlib.asynccontextmanager
async def answers(port: int, reply: bytes | None, context: ssl.SSLContext | None = None) -> AsyncIterator[None]:
    """Something that is no ksdp: says a thing and hangs up."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            if reply is not None:
                await reader.read(10)
                writer.write(reply)
                await writer.drain()
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", port, ssl=context)
    try:
        yield
    finally:
        server.close()


@contextlib.contextmanager
def listens(port: int, backlog: int) -> Any:
    """A socket of which nobody takes connections; with no backlog left the next one hears nothing at all."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", port))
        server.listen(backlog)
        if backlog == 0:
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            for _ in range(3):
                more = stack.enter_context(socket.socket())
                more.setblocking(False)
                more.connect_ex(("127.0.0.1", port))
        yield


def looks(files: Files, me: str, protocol: Path, *, hop: float = LONG, listen: str | None = None) -> PeerCheck:
    """At the moment that peers say, too: it may be minutes ago where all tests run in any order."""
    run = read_run(protocol)
    where = Address.parse(listen) if listen else None
    return PeerCheck(run, me, files.key(me), "uncleared", where, 0.0, hop, lambda: NOW)


async def faults(asked: PeerCheck) -> list[Finding]:
    found: list[Finding] = []
    await look(asked, found.append)
    return [finding for finding in found if not finding.fine]


def bob_finds(files: Files, protocol: Path, context: Any, **changes: Any) -> Finding:
    """What bob finds at ada, who answers as `context` does; cyd comes later in the alphabet."""

    async def play() -> list[Finding]:
        async with contextlib.AsyncExitStack() as stack:
            if hasattr(context, "__aenter__"):
                await stack.enter_async_context(context)
            else:
                stack.enter_context(context)
            return await faults(looks(files, "bob", protocol, **changes))

    found = [finding for finding in asyncio.run(play()) if finding.code != "nobody"]
    assert len(found) == 1, found
    return found[0]


def two(files: Files, **changes: str) -> Path:
    return files.protocol(names=("ada", "bob"), **changes)


def nothing() -> Any:
    return contextlib.nullcontext()


Plant = Callable[[Files], tuple[Path, Any]]
PEERS: list[tuple[str, Plant, str, str]] = [
    ("nobody listens", lambda f: (two(f), nothing()), "refused", "nothing listens at 127.0.0.1"),
    (
        "wrong port",
        lambda f: (two(f, ada_address=f.address("cyd")), present(f, "ada", read_run(two(f)))),
        "refused",
        "nothing listens at",
    ),
    (
        "name that is not known",
        lambda f: (two(f, ada_address=f"{'x' * 70}.example:7001"), nothing()),
        "name",
        "is not known here",
    ),
    (
        "no way there",
        lambda f: (two(f, ada_address="255.255.255.255:7001"), nothing()),
        "route",
        "there is no way to",
    ),
    (
        "not TLS",
        lambda f: (two(f), answers(f.ports["ada"], b"HTTP/1.1 400 Bad Request\r\n\r\n")),
        "not-tls",
        "not with TLS",
    ),
    ("hangs up", lambda f: (two(f), answers(f.ports["ada"], None)), "hung-up", "hangs up"),
    (
        "wrong pinned key",
        lambda f: (two(f, ada_key="cyd.pub"), present(f, "ada", read_run(two(f)))),
        "key-there",
        "not with the key that is named for ada",
    ),
    (
        "a key that the other end does not know",
        lambda f: (two(f), present(f, "ada", read_run(two(f, bob_key="cyd.pub")))),
        "refuses-us",
        "does not know the key",
    ),
    (
        "swapped addresses",
        lambda f: (
            f.protocol(ada_address=f.address("cyd"), cyd_address=f.address("ada")),
            present(f, "cyd", read_run(f.protocol())),
        ),
        "swapped",
        "cyd answers at",
    ),
    (
        "clock days ahead",
        lambda f: (two(f), present(f, "ada", read_run(two(f)), now=NOW + timedelta(days=3))),
        "date",
        "3 days ahead",
    ),
    (
        "certificate expired",
        lambda f: (two(f), present(f, "ada", read_run(two(f)), now=NOW - timedelta(days=40))),
        "date",
        "40 days behind",
    ),
    (
        "clock half an hour off",
        lambda f: (two(f), present(f, "ada", read_run(two(f)), clock=NOW.timestamp() - 1800.0)),
        "clock",
        "behind the clock here",
    ),
    (
        "another version",
        lambda f: (two(f), present(f, "ada", read_run(two(f)), ksdp="9.9")),
        "version",
        f"ada has ksdp 9.9, this is {version('ksdp')}",
    ),
    (
        "the same version of other code",
        lambda f: (two(f), present(f, "ada", read_run(two(f)), code="0" * 16)),
        "version",
        "other code",
    ),
    (
        "another line of the protocol",
        lambda f: (two(f), present(f, "ada", read_run(f.protocol(rank=3, names=("ada", "bob"))))),
        "terms",
        "`mechanism.rank` is 2 here and 3 there",
    ),
    (
        "another size of noise",
        lambda f: (noisy(f), present(f, "ada", read_run(noisy(f, noise=0.2)))),
        "terms",
        "`mechanism.noise` is 0.1 here and 0.2 there",
    ),
    (
        "another mechanism with noise",
        lambda f: (noisy(f, within="pd-nmf"), present(f, "ada", read_run(noisy(f)))),
        "terms",
        '`mechanism.mechanism` is "pd-nmf" here and "pd-svd" there',
    ),
    (
        "another party",
        lambda f: (two(f), present(f, "ada", read_run(f.protocol()))),
        "terms",
        "`parties`: there are 1 there that are not named here",
    ),
]


@pytest.mark.parametrize(("plant", "code", "said"), [case[1:] for case in PEERS], ids=[case[0] for case in PEERS])
def test_what_is_wrong_with_a_peer_is_named(files: Files, plant: Plant, code: str, said: str) -> None:
    protocol, context = plant(files)
    found = bob_finds(files, protocol, context)
    assert (found.code, found.party) == (code, "ada")
    one_line(found, said)


@pytest.mark.parametrize(
    ("backlog", "code", "said"),
    [(0, "silent", "without a word"), (8, "mute", "takes the connection and says nothing")],
)
def test_silence_is_named(files: Files, backlog: int, code: str, said: str) -> None:
    """A firewall that drops; a port that is taken and never answered."""
    found = bob_finds(files, two(files), listens(files.ports["ada"], backlog), hop=0.5)
    assert found.code == code
    one_line(found, said)


def test_a_proxy_that_ends_tls_is_named(files: Files, certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    found = bob_finds(files, two(files), answers(files.ports["ada"], b"", context))
    assert found.code == "proxy"
    one_line(found, "terminates TLS with its own certificate ('ksdp review')")


@pytest.mark.parametrize(
    ("listen", "code", "said"),
    [
        (None, "taken", "another process listens there"),
        ("192.0.2.1:7001", "not-here", "is no address of this machine"),
    ],
)
def test_a_port_that_cannot_be_had_is_named(files: Files, listen: str | None, code: str, said: str) -> None:
    async def play() -> list[Finding]:
        with listens(files.ports["ada"], 8):
            return await faults(looks(files, "ada", files.protocol(), listen=listen))

    (found,) = asyncio.run(play())
    assert (found.code, found.party, found.hop) == (code, "ada", "listen")
    one_line(found, said)


def test_who_does_not_come_is_named(files: Files) -> None:
    found = asyncio.run(faults(looks(files, "ada", files.protocol())))
    assert [(finding.party, finding.code) for finding in found] == [("bob", "nobody"), ("cyd", "nobody")]
    one_line(found[0], "has not knocked")


def test_a_peer_that_knows_no_checks_is_named(files: Files) -> None:
    """As one of an earlier version: TLS without an application protocol."""
    run = read_run(two(files))
    credentials = make_credentials(files.key("ada"), keys_of(run, "ada"), now=NOW)
    found = bob_finds(files, two(files), answers(files.ports["ada"], b"", credentials.server))
    assert found.code == "old"
    one_line(found, "answers no checks")


def test_three_that_are_right_find_nothing(files: Files) -> None:
    async def play() -> list[list[Finding]]:
        run = files.protocol()
        asked = [replace(looks(files, name, run), wait=LONG) for name in NAMES]
        return await asyncio.gather(*(faults(one) for one in asked))

    assert asyncio.run(play()) == [[], [], []]


def test_a_party_that_waits_in_a_run_answers_a_check_and_its_run_is_not_touched(files: Files) -> None:
    async def play() -> tuple[list[Finding], bool]:
        run = read_run(two(files))
        keys = keys_of(run, "ada")
        mesh = Mesh(
            "ada",
            run.address("ada"),
            {"bob": Peer("bob", run.address("bob"), keys["bob"])},
            make_credentials(files.key("ada"), keys, now=NOW),
            limit=100,
            times=LinkTimes(),
            observe=lambda what, peer: None,
            about=about_of(run, "cleared", NOW).to_bytes,
        )
        async with mesh:
            found: list[Finding] = []
            await look(looks(files, "bob", two(files)), found.append)
            return found, mesh.links["bob"].connected.is_set()

    found, touched = asyncio.run(play())
    assert [finding.code for finding in found] == ["", ""]
    assert "means the same run" in found[1].said
    assert not touched


@pytest.mark.parametrize(
    "heard",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"ksdp": 1, "code": "", "clock": 1.0, "terms": {}}',
        b'{"ksdp": "", "code": "", "clock": NaN, "terms": {}}',
        b'{"ksdp": "", "code": "", "clock": 1.0, "terms": []}',
        b'{"ksdp": "", "code": "", "clock": 1.0, "terms": {}, "grounds": "none"}',
        b'{"ksdp": "", "code": "", "clock": 1.0, "terms": {}, "more": 3}',
    ],
)
def test_whatever_a_peer_says_is_no_error_here(files: Files, heard: bytes) -> None:
    (found,) = compare(read_run(two(files)), "ada", heard, NOW)
    assert found.code == "old"


def test_what_is_said_holds_nothing_of_the_data(files: Files) -> None:
    said = json.loads(about_of(read_run(two(files)), "cleared", NOW).to_bytes())
    assert set(said) == {"ksdp", "code", "clock", "terms", "grounds"}
    assert About.from_bytes(json.dumps(said).encode()).grounds == "cleared"
