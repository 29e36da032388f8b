"""What `ksdp party --check` finds: what a run would refuse, and every peer, over real sockets."""

import contextlib
import json
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import ClearanceError, InputError
from ksdp.audit.screening.clearance import Covered, MechanismIdentity
from ksdp.flows.prepare import open_spec
from ksdp.flows.runs.party import Node, check_peers, enter_documents, run_party
from ksdp.flows.runs.protocol_files import read_run
from ksdp.flows.screening.clear import verify
from ksdp.protocols.programs.run_terms import Greeting
from ksdp.storage.clearances import write_clearance
from ksdp.storage.keys import load_private, make_identity
from ksdp.storage.readers.spec_files import read_spec_file

from ...clearances import SIZES
from ...ports import free_ports
from ...typed import typed
from .entering import clearance_of

NAMES = ("ada", "bob", "cyd")
TERMS = [f"term{i}" for i in range(6)]
NOW = datetime.now(UTC)


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

    def command(self, me: str = "ada", **changes: Any) -> list[Any]:
        """The command that checks, right but for the changes; None leaves an option out."""
        protocol = changes.pop("protocol", None) or self.protocol()
        said = {"key": self.folder / f"{me}.key", "corpus": self.folder / f"{me}.npz", "check": 0} | changes
        options = [part for name, value in said.items() if value is not None for part in (f"--{name}", value)]
        grounds = [] if "clearance" in changes else ["--uncleared"]
        return ["party", protocol, "--me", me, *options, *grounds]

    def node(self, me: str, protocol: Path, now: datetime = NOW, **changes: Any) -> Node[Any]:
        return Node(read_run(protocol), me, self.key(me), self.folder / f"out-{me}", clock=lambda: now, **changes)

    def clear(self, **changes: Any) -> Path:
        """Ada's clearance, right but for the changes."""
        run, mechanism = read_run(self.protocol()), read_run(self.protocol()).terms.mechanism
        signer, corpus = self.key(changes.pop("signer", "ada")), changes.pop("of", self.folder / "ada.npz")
        said: dict[str, Any] = {"clearance": None, "uncleared": True, "identity": signer, "now": NOW}
        whole = enter_documents(run, corpus, **said).corpus
        changes = {"expires": NOW + timedelta(days=9)} | changes
        clearance = clearance_of(whole, mechanism, whole.ids.tolist(), NOW, **changes)
        write_clearance(self.folder / "ada.clearance", clearance, signer)
        return self.folder / "ada.clearance"


@pytest.fixture
def files(tmp_path: Path, made: Path) -> Files:
    return Files(tmp_path, made)


def written(files: Files, old: str, new: str) -> Path:
    path = files.protocol()
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return path


@pytest.mark.parametrize(("audited", "fits"), [(8, True), (9, False)])
def test_a_size_is_checked_alike_by_verify_check_and_run(files: Files, audited: int, fits: bool) -> None:
    spec_file = files.folder / "ada.toml"
    spec_file.write_text(
        '[corpus]\npath = "ada.npz"\nvocabulary = "words.txt"\n[mechanism]\nname = "pd-nmf"\nrank = 2\n'
        "[design]\nparty_size = 7\n"
    )
    spec, base = read_spec_file(spec_file)
    signed = files.clear(of=spec_file, sizes=replace(SIZES, size=audited), spec=spec.binding)
    entering = {"clearance": signed, "uncleared": False, "identity": files.key("ada"), "now": NOW}
    check = files.command(corpus=spec_file, clearance=signed)
    if fits:
        assert "8 of 8 enter on their clearance" in typed(*check, code=1).stderr  # nobody else is there
        assert len(enter_documents(read_run(files.protocol()), spec_file, **entering).corpus) == 8
        assert "sizes" in verify(signed, now=NOW, against=open_spec(spec, base))["checked"]
        return
    said = f"8 documents enter, and the audited databases had {audited}"
    with pytest.raises(InputError, match=said):
        typed(*check)
    for refused in (
        lambda: enter_documents(read_run(files.protocol()), spec_file, **entering),
        lambda: verify(signed, now=NOW, against=open_spec(spec, base)),
    ):
        with pytest.raises(ClearanceError, match=said):
            refused()


def noisy(files: Files, noise: float = 0.1) -> Path:
    """A protocol file of three parties that adds noise to the final output of another mechanism."""
    text = files.protocol().read_text()
    outer = f'name = "noisy"\nmechanism = "pd-svd"\nscale = 1.0\nnoise = {noise}\n'
    outer += '[mechanism.parameters]\nrank = 1\nopens = "final"\n'
    path = files.folder / f"noisy-{noise}.toml"
    path.write_text(text.replace('name = "pd-nmf"\nrank = 2\n', outer, 1))
    return path


def turned(files: Files) -> Path:
    (files.folder / "turned.txt").write_text("\n".join(reversed(TERMS)) + "\n")
    path = files.folder / "turned.toml"
    path.write_text('[corpus]\npath = "ada.npz"\nvocabulary = "turned.txt"\n[mechanism]\nname = "pd-nmf"\n')
    return path


def loose(files: Any) -> Path:
    (files.folder / "ada.key").chmod(0o644)
    return files.folder / "ada.key"


def used(files: Any) -> Path:
    (files.folder / "run.json").write_text("{}")
    return files.folder


def overspent(files: Files) -> dict[str, Any]:
    (files.folder / "ada.budget.toml").write_text("[budget]\nunbounded = 0\n")
    return {}


def made_another_way(files: Files) -> Path:
    """A protocol file that says how rows are made, and not as ada's spec makes them."""
    return written(files, 'vocabulary = "words.txt"', f'vocabulary = "words.txt"\nrows = "sha256:{64 * "0"}"')


HERE: dict[str, tuple[Callable[[Files], dict[str, Any]], str]] = {
    "unknown key": (lambda f: {"protocol": written(f, "rank = 2", "ranks = 2")}, "ranks"),
    "party not in the protocol": (lambda f: {"me": "dan", "key": f.folder / "ada.key"}, "must be one of ada, bob"),
    "no key file": (lambda f: {"key": f.folder / "none.key"}, "cannot be read"),
    "key readable by others": (lambda f: {"key": loose(f)}, "chmod"),
    "swapped names": (lambda f: {"key": f.folder / "bob.key"}, "it is that of bob: `--me bob`"),
    "another public key": (lambda f: {"protocol": f.protocol(ada_key="00" * 31 + "01")}, "is not the one"),
    "columns in another order": (lambda f: {"corpus": turned(f)}, "or their order.*ksdp plan SPEC --columns"),
    "rows made another way": (lambda f: {"protocol": made_another_way(f)}, "`features.rows`"),
    "clearance of another party": (lambda f: {"clearance": f.clear(signer="bob")}, "is signed by"),
    "clearance of another mechanism": (
        lambda f: {"clearance": f.clear(mechanism=MechanismIdentity("pd-nmf", 2, {"rank": 3}))},
        "another mechanism.*`ksdp clear SPEC`",
    ),
    "clearance of a run without noise": (
        lambda f: {"protocol": noisy(f), "clearance": f.clear()},
        "it clears name pd-nmf, and this is noisy",
    ),
    "clearance of less than is opened": (
        lambda f: {"clearance": f.clear(coverage=Covered("final", ("T",)))},
        "did not look at",
    ),
    "clearance of another corpus": (lambda f: {"clearance": f.clear(corpus="sha256:11")}, "another corpus"),
    "clearance expired": (lambda f: {"clearance": f.clear(expires=NOW)}, "expired.*`ksdp clear` signs it anew"),
    "result folder in use": (lambda f: {"out": used(f)}, "result of a run already"),
    "beyond the budget": (overspent, "beyond the budget"),
    "port in use": (lambda f: {"listen": taken(f)}, "another process listens there"),
    "no address of this machine": (lambda f: {"listen": "192.0.2.1:7001"}, "--listen 0.0.0.0:PORT"),
}


@pytest.mark.parametrize("case", HERE)
def test_what_a_run_would_refuse_the_check_refuses(files: Files, case: str) -> None:
    plant, said = HERE[case]
    with pytest.raises(InputError, match=f"(?s){said}"):
        typed(*files.command(**plant(files)))
    while BLOCKERS:
        BLOCKERS.pop().close()


@pytest.mark.parametrize(("package", "mechanism"), [("mpyc", "noisy"), ("opendp", "noisy"), ("mpyc", "pd-svd")])
def test_a_package_that_only_the_run_needs_is_missed_before_anybody_is_greeted(
    files: Files, monkeypatch: pytest.MonkeyPatch, package: str, mechanism: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    hidden = '\nreveal_sigma = false\nsolver = "power"'  # its norms are hidden: they are computed on shares
    protocol = noisy(files) if mechanism == "noisy" else written(files, '"pd-nmf"', f'"pd-svd"{hidden}')
    for changes in ({}, {"check": None, "out": files.folder / "out"}):
        with pytest.raises(InputError, match=rf"this run needs {package}: pip install 'ksdp\[parties\]'"):
            typed(*files.command(protocol=protocol, **changes))
    assert not (files.folder / "out").exists()
    typed(*files.command(), code=1)  # secure sums need neither: the others are not there


def test_a_ledger_that_is_new_is_said_so(files: Files) -> None:
    new = "ledger ada.ledger is new: no earlier run counts. If you took part before, restore it first."
    assert new in typed(*files.command(), code=1).stderr
    (files.folder / "ada.ledger").touch()
    assert "is new" not in typed(*files.command(), code=1).stderr
    (files.folder / "ada.ledger").write_text("cut\n")
    with pytest.raises(InputError, match="line 1 was changed or cut"):
        typed(*files.command())


def test_what_is_compared_by_telephone_covers_addresses_by_its_fingerprint_alone(files: Files) -> None:
    first, other = (
        json.loads(typed("run", files.protocol(names=NAMES[:2], **changes), "--json").stdout)
        for changes in ({}, {"bob_address": "127.0.0.1:7"})
    )
    assert first["agreement"] == other["agreement"]
    assert first["fingerprint"] != other["fingerprint"]


BLOCKERS: list[socket.socket] = []


def taken(files: Files) -> str:
    BLOCKERS.append(socket.create_server(("127.0.0.1", 0)))
    return f"127.0.0.1:{BLOCKERS[-1].getsockname()[1]}"


# --- with others


def found(*nodes: Node[Any], wait: float = 1.0) -> dict[str, dict[str, str]]:
    """What each finds at its peers, all at the same time."""
    ends: dict[str, dict[str, str]] = {}
    threads = [
        threading.Thread(target=lambda node=node: ends.update({node.name: check_peers(node, wait)}))
        for node in nodes
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


@contextlib.contextmanager
def answers(port: int, reply: bytes | None) -> Iterator[None]:
    """Something that is no ksdp: says a thing and hangs up."""
    server = socket.create_server(("127.0.0.1", port))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                taken, _ = server.accept()
                with taken:
                    if reply is not None:
                        taken.recv(10)
                        taken.sendall(reply)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def two(files: Files, **changes: str) -> Path:
    return files.protocol(names=("ada", "bob"), **changes)


def test_three_that_are_right_find_nothing(files: Files) -> None:
    ends = found(*(files.node(name, files.protocol()) for name in NAMES), wait=60.0)
    assert ends == {name: {peer: "" for peer in NAMES if peer != name} for name in NAMES}


PEERS: dict[str, tuple[Callable[[Files], tuple[Path, Any]], str]] = {
    "nobody listens": (lambda f: (two(f), None), "it has not come: start it; nothing listens at 127.0.0.1"),
    "not TLS": (
        lambda f: (two(f), answers(f.ports["ada"], b"HTTP/1.1 400 Bad\r\n\r\n")),
        "answers, and not as ksdp",
    ),
    "hangs up": (lambda f: (two(f), answers(f.ports["ada"], None)), "ends it without a word"),
    "wrong pinned key": (
        lambda f: (two(f, ada_key="cyd.pub"), f.node("ada", two(f))),
        "does not have the key that is named for ada: compare keys by telephone",
    ),
    "a key that the other does not know": (
        lambda f: (two(f), f.node("ada", two(f, bob_key="cyd.pub"))),
        "it hung up: its file may name another key for bob",
    ),
    "another line of the protocol": (
        lambda f: (two(f), f.node("ada", f.protocol(rank=3, names=("ada", "bob")))),
        "agreed to something else: `mechanism.rank` is 2 here and 3 there",
    ),
    "another size of noise": (
        lambda f: (noisy(f), f.node("ada", noisy(f, noise=0.2))),
        "`mechanism.noise` is 0.1 here and 0.2 there",
    ),
    "another party": (
        lambda f: (two(f), f.node("ada", f.protocol())),
        "`parties`: there are 1 there that are not named here",
    ),
}


@pytest.mark.parametrize("case", PEERS)
def test_what_is_wrong_with_a_peer_is_said_with_what_mends_it(files: Files, case: str) -> None:
    plant, said = PEERS[case]
    protocol, other = plant(files)
    bob = files.node("bob", protocol)
    if isinstance(other, Node):
        ends = found(bob, other)
    else:
        with other or contextlib.nullcontext():
            ends = found(bob, wait=1.0)
    words = ends["bob"]["ada"]
    assert_matches(words, said)


def assert_matches(words: str, said: str) -> None:
    assert re.search(said, words), words
    assert "\n" not in words


def test_another_version_is_said(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Greeting, "to_bytes", lambda own, old=Greeting.to_bytes: old(replace(own, software="9.9")))
    ends = found(files.node("ada", two(files)), files.node("bob", two(files)), wait=60.0)
    assert_matches(ends["bob"]["ada"], "ada has ksdp 9.9, this is .*: install the same at both")


def test_silence_and_absence_are_said_of_each_that_does_not_come(files: Files) -> None:
    with socket.create_server(("127.0.0.1", files.ports["ada"])):  # nobody takes the connection
        ends = found(files.node("bob", files.protocol()), wait=0.5)
    assert_matches(
        ends["bob"]["ada"], "it has not come: start it; nobody answers at .*: let TCP through the firewalls"
    )
    assert_matches(ends["bob"]["cyd"], f"it has not come: start it; it must reach {files.address('bob')}")


def test_the_command_ends_with_a_line_a_peer(files: Files) -> None:
    done = typed(*files.command("bob", protocol=two(files)), "--json", code=1)
    said = json.loads(done.stdout)
    assert said["fine"] is False
    assert said["peers"]["ada"]["fine"] is False
    text = typed(*files.command("bob", protocol=two(files)), code=1).stdout
    assert text.startswith("FAIL ada ")
    assert text.endswith("1 to mend\n")


def test_a_party_that_waits_in_a_run_is_found_and_its_run_is_not_touched(files: Files) -> None:
    protocol = two(files)
    protocol.write_text(protocol.read_text() + "[timeouts]\npresent = 60\n")
    ends: dict[str, Any] = {}

    def go(name: str) -> None:
        corpus = files.folder / f"{name}.npz"
        said = {"clearance": None, "uncleared": True, "identity": files.key(name), "now": NOW}
        entered = enter_documents(read_run(protocol), corpus, **said)
        ends[name] = run_party(files.node(name, protocol), entered)

    for runs, checks in (("ada", "bob"), ("bob", "ada")):
        waiting = threading.Thread(target=go, args=(runs,))
        waiting.start()
        assert found(files.node(checks, protocol), wait=20.0) == {checks: {runs: ""}}
        assert waiting.is_alive()
        go(checks)
        waiting.join()
        assert ends.pop("ada")["result"] == ends.pop("bob")["result"]
        for name in ("ada", "bob"):
            (files.folder / f"out-{name}").rename(files.folder / f"out-{name}-{runs}")
