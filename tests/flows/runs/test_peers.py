"""Mechanisms with noise over real TLS, with a server where they need one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ksdp.audit.contract import guarantee_of
from ksdp.audit.errors import ClearanceError, InputError
from ksdp.audit.mechanisms.factorisation.power_iteration import subspace_sine
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.mechanisms.schema import opened
from ksdp.audit.screening.clearance import Covered, MechanismIdentity
from ksdp.flows.runs.party import claimed, guarantee_words
from ksdp.flows.runs.protocol_files import read_run
from ksdp.storage.keys import make_identity

from ...typed import typed
from .test_protocol import Organisations, organisations

SERVER = "hub"
DISCRETE = '\nsampler = "discrete"'
POWER = f'name = "hardt-roth"\nrank = 2\niterations = 2\nepsilon = 50.0{DISCRETE}'
PCA = f'name = "dpdispca"\nrank = 2\nintermediate = 4\nepsilon = 50.0\nrow_bound = 4.0{DISCRETE}'
FEDPOWER = f'name = "fedpower"\nrank = 2\niterations = 2\nperiod = 1{DISCRETE}'
UTILITY = (
    f'name = "fedpower-utility"\nrank = 2\niterations = 2\nperiod = 1\nnoise = 2.0\nrow_bound = 4.0{DISCRETE}'
)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Organisations:
    """Three parties and the key of a server."""
    folder = tmp_path_factory.mktemp("peers")
    make_identity(folder, SERVER)
    return organisations(folder, 3)


def run_all(org: Organisations, protocol: Path) -> dict[str, dict[str, Any]]:
    """`run.json` of every node, after a run without a fault; the result is the same everywhere."""
    ends, out = org.run(protocol), protocol.with_suffix("")
    assert all(isinstance(end, dict) for end in ends.values()), ends
    first = np.load(out / "ada" / "result.npz")
    for node in ends:
        found = np.load(out / node / "result.npz")
        assert all(found[name].tobytes() == first[name].tobytes() for name in first)
    return {node: json.loads((out / node / "run.json").read_text()) for node in ends}


def without_noise(org: Organisations, protocol: Path, bound: float) -> np.ndarray[Any, Any]:
    rows = np.vstack([matrix.toarray() for matrix in org.database(protocol).parties])
    rows *= np.minimum(1.0, bound / np.maximum(np.linalg.norm(rows, axis=1), 1e-12))[:, None]
    return np.linalg.svd(rows)[2][:2]


def test_sums_with_noise_need_no_server(four: Organisations) -> None:
    protocol = four.protocol(POWER)
    abouts = run_all(four, protocol)
    assert set(abouts) == {"ada", "bob", "cyd"}
    about = abouts["bob"]
    assert about["guarantee"]["protects"] is True
    assert about["guarantee"]["sampler"]["name"] == "discrete"
    assert about["claimed"] == {"epsilon": 50.0, "delta": 1e-5}
    assert (about["server"], about["sizes"], about["asked"]) == (None, None, {"sum": 2})
    assert about["reveals"].endswith("Nobody is told how many documents another party entered.")
    assert guarantee_words(about).startswith("guarantee: epsilon 50 at delta 1e-05; unit: one record")
    V = np.load(protocol.with_suffix("") / "ada" / "result.npz")["V"]
    assert subspace_sine(V[:1], without_noise(four, protocol, 1.0)) < 0.5, "noise, not nonsense"
    together = 'name = "pd-pca"\nrank = 1\nsolver = "power"\niterations = 3'
    about = run_all(four, four.protocol(together))["ada"]
    assert about["reveals"].endswith("Everybody is told how many documents all parties entered together.")


def test_a_server_decomposes_what_the_sites_send(four: Organisations) -> None:
    protocol = four.protocol(PCA, SERVER)
    abouts = run_all(four, protocol)
    assert {about["session"] for about in abouts.values()} == {abouts["ada"]["session"]}
    assert abouts["ada"]["sizes"] == abouts[SERVER]["sizes"] == {"ada": 12, "bob": 12, "cyd": 12}
    assert abouts[SERVER]["collects"] is True
    assert abouts["ada"]["server"] == SERVER
    assert set(abouts["ada"]["parties"]) == {"ada", "bob", "cyd"}
    lines = [
        json.loads(line)
        for line in (protocol.with_suffix("") / SERVER / "transcript.jsonl").read_text().splitlines()
    ]
    assert lines[0]["collects"] is True
    assert lines[-1]["grounds"] == {
        **{name: {"cleared": False, "clearance": None} for name in ("ada", "bob", "cyd")},
        SERVER: {"collects": True},
    }
    assert not (protocol.with_suffix("") / SERVER / "own.npz").exists()
    assert set(np.load(protocol.with_suffix("") / "ada" / "own.npz").files) == {"ids"}


def test_documents_are_for_parties_only(four: Organisations) -> None:
    protocol = four.protocol(PCA, SERVER)
    key, out, corpus = four.folder / f"{SERVER}.key", protocol.with_suffix("") / SERVER, four.folder / "ada.npz"
    entering = ["party", protocol, "--me", SERVER, "--key", key, "--out", out, "--corpus", corpus]
    with pytest.raises(InputError, match="hub is the server, which enters nothing"):
        typed(*map(str, entering))
    _, _, _, *command = four.command(protocol, "ada")
    with pytest.raises(InputError, match="`--corpus` must be given for ada"):
        typed(*(word for word in command if not word.endswith(".npz") and word != "--corpus"))
    assert not (protocol.with_suffix("")).exists(), "nothing was begun"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[server]", "[[parties]]", "`server` must be given for dpdispca: it collects"),
        ('name = "hub"', 'name = "ada"', "and from the server's"),
        ('key = "hub.pub"', 'key = "ada.pub"', "same identity key"),
        ('key = "hub.pub"', 'key = "hub.pub"\nport = 7', "server.port"),
    ],
)
def test_a_protocol_file_is_refused_with_its_fault(four: Organisations, old: str, new: str, message: str) -> None:
    path = four.protocol(PCA, SERVER)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError, match=message):
        read_run(path)


def test_an_audit_may_have_simulated_with_another_sampler_and_with_nothing_else(four: Organisations) -> None:
    read = read_run(four.protocol(f"{POWER}\ncolluders = 1"))
    mechanism: Any = read.terms.mechanism
    fast = replace(mechanism, sampler="fast")
    assert parameters_of(fast) != parameters_of(mechanism)
    audited = MechanismIdentity(fast.name, fast.version, parameters_of(fast))
    entered = four.enter(read, "ada", clearance=four.clear(read, "ada", ["1", "2"], mechanism=audited))
    assert len(entered.corpus) == 2
    assert "mechanism (but for sampler)" in entered.clearance["checked"]
    for other in (replace(fast, epsilon=49.0), replace(mechanism, iterations=3)):
        wrong = MechanismIdentity(other.name, other.version, parameters_of(other))
        path = four.clear(read, "ada", ["1", "2"], mechanism=wrong)
        with pytest.raises(ClearanceError, match="parameter (epsilon|iterations) differs"):
            four.enter(read, "ada", clearance=path)


def test_no_clearance_is_taken_whose_audit_has_not_looked_at_what_a_server_sees(four: Organisations) -> None:
    read = read_run(four.protocol(FEDPOWER, SERVER))
    shown = opened(read.terms.mechanism, read.terms.features)
    assert {"uploads", "scales"} <= set(shown)
    less = Covered("every round", tuple(name for name in shown if name not in ("uploads", "scales")))
    with pytest.raises(ClearanceError, match="a run shows (uploads, scales|scales, uploads), which"):
        four.enter(read, "ada", clearance=four.clear(read, "ada", ["1", "2"], coverage=less))
    assert len(four.enter(read, "ada", clearance=four.clear(read, "ada", ["1", "2"])).corpus) == 2


@pytest.mark.parametrize(
    ("mechanism", "server", "words"),
    [
        (UTILITY.replace("noise = 2.0", "noise = 1e-6"), SERVER, "e+12 at delta 1e-05; unit: one record"),
        (UTILITY.replace("period = 1", "period = 2"), SERVER, "guarantee: none. Needs `row_bound` and `period` 1"),
        (FEDPOWER + "\nnoise = 0.0\ncentral_noise = 0.0", SERVER, "no epsilon; unit: as printed"),
        ('name = "pd-nmf"\nrank = 2', "", "guarantee: measured, not promised. A measurement"),
        (FEDPOWER, SERVER, "guarantee: epsilon 2 at delta 2e-05; unit: as printed"),
        (FEDPOWER, SERVER, "UNSOUND as printed: Local and central noise"),
    ],
)
def test_a_claim_that_says_nothing_is_told_as_such(
    four: Organisations, mechanism: str, server: str, words: str
) -> None:
    terms = read_run(four.protocol(mechanism, server)).terms
    said = {"guarantee": guarantee_of(terms.mechanism).as_json()}
    said["claimed"] = claimed(terms.mechanism, (12, 12, 12), 14)
    assert words in guarantee_words(said)
    known = "taken as known: the weight of each term, from the party's own rows"
    promised = said["guarantee"]["kind"] == "(epsilon, delta)"
    assert (f"; {known}" in guarantee_words(said | {"taken_as_known": known})) == promised
