"""The command `pem`, as a person runs it: results, refusals before anything starts, an interruption."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.pem.algorithm import run_ideal
from ksdp.audit.mechanisms.pem.functions import PemKMeans
from ksdp.audit.mechanisms.pem.noise import Budget, Vetted, tight_epsilon
from ksdp.extras.pem.local import prepare_pem, read_pem_spec

from ...typed import typed
from .own_functions import OWN

RNG = np.random.default_rng(5)
ROWS = 80
COLOURS = RNG.choice(["red", "green", "blue"], ROWS)
SIZES = RNG.integers(0, 100, ROWS)
SITES = RNG.choice(["north", "south"], ROWS)

TABLE = {"data": ['path = "records.csv"', 'client = "site"', "edges = { size = [20, 60] }"]}
COLOUR = 'categories = { colour = ["red", "green", "blue"] }'
KMEANS = ['name = "k-means"', "clusters = 2", "iterations = 3", "bound = 2.0", "fraction_bits = 0"]
LOGISTIC = ['name = "logistic"', "iterations = 4", "bound = 2.0"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [
        f"{c},{s},{site},{'yes' if s > 50 else 'no'}" for c, s, site in zip(COLOURS, SIZES, SITES, strict=True)
    ]
    (tmp_path / "records.csv").write_text("colour,size,site,big\n" + "\n".join(lines) + "\n")
    return tmp_path


def write(folder: Path, **sections: list[str]) -> Path:
    spec = folder / "spec.toml"
    told = {"data": [*TABLE["data"], COLOUR], "algorithm": KMEANS, "budget": ["epsilon = 1.0"]} | sections
    spec.write_text("\n".join(f"[{name}]\n" + "\n".join(lines) for name, lines in told.items()))
    return spec


def run(spec: Path, *arguments: str) -> tuple[int, str, str]:
    done = typed("pem", spec, *arguments)
    return done.exit_code, done.stdout, done.stderr


def test_it_finds_what_there_is_and_says_what_it_cost(folder: Path) -> None:
    """Epsilon so large that noise is 0 but with probability 1e-20."""
    out = folder / "out"
    spec = write(folder, budget=["epsilon = 1e4"], run=["servers = 3"])
    code, text, _ = run(spec, "--out", str(out))
    assert code == 0
    assert "3 of 3 iterations" in text
    assert "epsilon 1e+04 at delta 0" in text
    told = json.loads((out / "run.json").read_text())
    assert told["columns"] == [
        "size < 20",
        "20 <= size < 60",
        "size >= 60",
        *(f"colour = {c}" for c in ("red", "green", "blue")),
    ]
    rows = np.column_stack(
        [SIZES < 20, (SIZES >= 20) & (SIZES < 60), SIZES >= 60, *(c == COLOURS for c in ("red", "green", "blue"))]
    )
    ideal = run_ideal(
        PemKMeans(2, 6, 2.0, fraction_bits=0), [sp.csr_array(rows.astype(float))], Budget(1e4, 3), Vetted()
    )
    model = np.load(out / "result.npz")
    np.testing.assert_array_equal(model["centres"], ideal.final.arrays["centres"])
    assert told["records"] == [ROWS] * 3
    assert (told["clients"], told["servers"]) == (2, 3)
    assert "OpenDP" in told["sampler"]
    assert told["tight"]["epsilon"] == pytest.approx(tight_epsilon(Budget(1e4, 3), 1e-5))
    assert told["arrays"] == {"centres": [2, 6]}
    # Three servers, three iterations, 14 entries of 8 bytes each; the rest is heads of messages.
    assert 3 * 3 * 14 * 8 < told["bytes_sent"]["clients"] < 3 * 3 * 14 * 8 * 12
    assert told["started"] <= told["finished"]
    assert sorted(path.name for path in folder.iterdir()) == ["out", "records.csv", "spec.toml"]


def test_a_stream_takes_each_record_once_and_sparse_vectors_are_sent(folder: Path) -> None:
    label = ['label = "big"', 'positive = "yes"']
    spec = write(
        folder,
        data=['path = "records.csv"', "clients = 4", COLOUR, 'columns = ["size"]', *label],
        algorithm=LOGISTIC,
        budget=["epsilon = 2.0", "batch = 6", "sparse = { threshold = 0.5, most = 2 }"],
    )
    code, text, _ = run(spec, "--out", str(folder / "out"), "--json")
    told = json.loads(text)
    assert code == 0
    assert told["records"] == [24, 24, 24, 8]  # 20 records a client
    assert told["claimed"]["epsilon"] == 2.0
    assert told["columns"][-1] == "big"


NUMBERS = ['path = "records.csv"', "clients = 2", 'columns = ["size"]']


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"run": ["servers = 1"]}, "`run.servers`"),
        ({"run": ["least_clients = 3"]}, "number of clients, 2"),
        ({"budget": ["epsilon = inf"]}, "`budget.epsilon`"),
        ({"budget": ["epsilon = 1.0", "sparse = { threshold = 1.0, most = 2 }"]}, "those of k-means have 2"),
        ({"budget": ["epsilon = 1e-17"]}, "bits; there are 64"),
        ({"run": ["processes = 2"]}, "`run.processes`"),
        ({"algorithm": ['name = "means"']}, "`algorithm`"),
        ({"algorithm": LOGISTIC}, "go with logistic"),
        ({"data": [*NUMBERS, 'label = "big"']}, "go together"),
        ({"data": [*NUMBERS, 'client = "site"']}, "one of `client` and `clients`"),
        ({"data": ['path = "records.csv"', "clients = 2"]}, "must say what the columns"),
        ({"data": ['path = "records.csv"', "clients = 81", COLOUR]}, "records.csv: has 80 records, which cannot"),
        ({"data": ['path = "records.csv"', "clients = 2", "edges = { size = [3, 1] }"]}, "must ascend"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_before_anything_starts(sections: dict, message: str, folder: Path) -> None:
    spec = write(folder, **sections)
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        run(spec, "--out", str(folder / "out"))
    assert not (folder / "out").exists()


def test_a_value_that_the_spec_does_not_list_is_named_by_its_place_and_never_shown(folder: Path) -> None:
    spec = write(
        folder, data=['path = "records.csv"', "clients = 2", 'categories = { colour = ["red", "green"] }']
    )
    row = int((COLOURS == "blue").argmax()) + 1
    with pytest.raises(
        InputError, match=f"records.csv, row {row}, column `colour`: is not one of the categories"
    ) as seen:
        prepare_pem(*read_pem_spec(spec))
    assert "blue" not in str(seen.value)


def test_a_label_of_a_matrix_must_be_a_bit_and_clients_may_be_named_beside_it(folder: Path) -> None:
    counts = np.zeros((80, 3), dtype=np.int64)
    counts[:, 0] = 1
    counts[7, 2] = 2
    sp.save_npz(folder / "counts.npz", sp.csr_matrix(counts))
    data = ['path = "counts.npz"', 'labels = "records.csv"', 'client = "site"']
    spec = write(folder, data=data, algorithm=[*LOGISTIC, "label = 2"])
    with pytest.raises(InputError, match="counts.npz, row 8, column `3`: is not 0 or 1"):
        prepare_pem(*read_pem_spec(spec))
    spec = write(folder, data=data, algorithm=[*LOGISTIC, "label = 1"])
    prepared = prepare_pem(*read_pem_spec(spec))
    assert prepared.records.clients == ("north", "south")
    assert [part.shape[0] for part in prepared.records.parts()] == [
        (SITES == "north").sum(),
        (SITES == "south").sum(),
    ]


def test_a_folder_with_a_result_is_left_alone(folder: Path) -> None:
    (folder / "run.json").write_text("{}")
    with pytest.raises(InputError, match="holds the result of a run already"):
        run(write(folder), "--out", str(folder))
    (folder / "locked").mkdir(mode=0o500)
    if not os.access(folder / "locked", os.W_OK):  # root may write anywhere
        with pytest.raises(InputError, match="may not be written to"):
            run(write(folder), "--out", str(folder / "locked" / "out"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--key", "ada.key"), "go with `--me`"),
        (("--me", "ada"), "`--key` must be given"),
        (("--functions", "sums.py"), "must be module:object"),
        (("--functions", "no_such_module:Sums"), "cannot be used: ModuleNotFoundError"),
        (("--functions", "json:JSONDecoder"), "must have `name`, `init`"),
    ],
)
def test_options_of_hosts_and_own_functions_are_refused_where_they_do_not_fit(
    folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        run(write(folder), "--out", str(folder / "out"), *arguments)
    assert not (folder / "out").exists()


def test_functions_of_ones_own_on_one_machine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sums_of_one_machine.py").write_text(OWN)
    monkeypatch.chdir(folder)
    spec = write(folder, algorithm=['name = "own"', "iterations = 1"], budget=["epsilon = 1e5"])
    with pytest.raises(InputError, match="go together"):
        run(spec, "--out", "out")
    code, _, told = run(spec, "--out", "out", "--functions", "sums_of_one_machine:ColumnSums")
    assert code == 0, told
    found = np.load(folder / "out" / "result.npz")["sums"]
    assert found.sum() == 2 * ROWS


def test_what_is_stopped_leaves_no_result(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sums_that_stop.py").write_text(OWN.replace("return records", "raise KeyboardInterrupt"))
    monkeypatch.chdir(folder)
    spec = write(folder, algorithm=['name = "own"', "iterations = 1"], budget=["epsilon = 1e5"])
    assert run(spec, "--out", "out", "--functions", "sums_that_stop:ColumnSums")[0] == 130
    assert not (folder / "out").exists()
