"""What every mechanism keeps: it announces what it says, by its seed alone, and refuses what it cannot do."""

import pickle
from math import inf, nan
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database, Mechanism, guarantee_of, traits_of
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.factorisation.nmf_starts import STARTS
from ksdp.audit.mechanisms.schema import recorded
from ksdp.audit.registry import installed_parameters, make_mechanism, mechanism_names

PRINTED = {"unit": "entry-printed", "noise": 0.1}
KINDS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in mechanism_names()),
    *(("pd-nmf", {"start": start, "weighted": weighted}) for start in STARTS for weighted in (False, True)),
    *((name, {"solver": "power"}) for name in ("pd-svd", "sigma-svd", "pd-pca")),
    ("pd-pca", {"reveal_sigma": True}),
    ("noisy", {"mechanism": "pd-nmf"}),
    ("fedpower", {"period": 2}),
    ("fedpower-private", PRINTED),
    ("hardt-roth", {"unit": "entry-printed"}),
    ("moments", {"colluders": 1}),
    ("planted-leak", {"strength": 0.4}),
]
ORDERED = ("null", "planted-leak")


@pytest.mark.parametrize(("name", "parameters"), KINDS)
def test_a_run_announces_what_it_says_by_its_seed_and_whatever_the_order_of_documents(
    name: str, parameters: dict[str, Any]
) -> None:
    mechanism = make_mechanism(name, parameters)
    assert isinstance(mechanism, Mechanism)
    assert mechanism.name == name
    rng = np.random.default_rng(3)
    dense = [rng.random((n, 24)) * (rng.random((n, 24)) < 0.5) for n in (60, 30)]
    if name.startswith("pem"):
        dense = [(part > 0).astype(float) for part in dense]
    parts = Database(tuple(sp.csr_array(part) for part in dense))
    mixed = Database(tuple(sp.csr_array(part[rng.permutation(len(part))]) for part in dense))
    seen, other = (mechanism.run(rows, np.random.default_rng(1)) for rows in (parts, mixed))
    again = pickle.loads(pickle.dumps(mechanism)).run(parts, np.random.default_rng(1))
    assert {a.name: a.shape for a in recorded(mechanism, 24)} == {array: seen[array].shape for array in seen}
    assert mechanism.traits.order_free == (name not in ORDERED)
    for array in seen:
        assert np.isfinite(seen[array]).all()
        np.testing.assert_array_equal(again[array], seen[array])
        if mechanism.traits.order_free:
            np.testing.assert_allclose(other[array], seen[array], rtol=1e-6, atol=1e-9, err_msg=array)
    later = mechanism.run(parts, np.random.default_rng(2))
    assert any((later[array] != seen[array]).any() for array in seen) != mechanism.traits.noise_free


WRONG: dict[str, dict[str, tuple[Any, ...]]] = {
    "pd-svd": {"solver": ("qr",), "tolerance": (-1e-9, nan)},
    "pd-nmf": {
        "tolerance": (-1e-3,),
        "alpha": (nan,),
        "delta": ("1",),
        "start": ("svd",),
        "weighted": (1,),
        "opens": ("all",),
    },
    "hardt-roth": {
        "epsilon": (-1.0,),
        "delta": (0.0,),
        "row_bound": (0.0,),
        "unit": ("row",),
        "adjacency": ("swap",),
        "sampler": ("numpy",),
    },
    "dp-nmf": {"contribution": (0.0,), "row_bound": (inf,), "epsilon": (0.0,)},
    "fedpower": {"target": (0, 9), "noise": (0.1,), "reference": ("last",), "epsilon": (0.0,)},
    "fedpower-utility": {"noise": (0.0,), "row_bound": (-1.0,)},
    "fedpower-private": {"unit": ("entry-printed", "row"), "clip": (0.0,)},
    "moments": {"advantage": (0.0, 1.0), "noise": (0.0,), "colluders": (0,), "shrink": (-1.0,)},
    "dpdispca": {"rank": (30,), "row_bound": (0.0,), "calibration": ("x",)},
    "planted-leak": {"strength": (-0.1, 1.1, nan)},
    "pem-kmeans": {"servers": (1,), "colluding": (2,), "epsilon": (0.0,), "sampler": ("numpy",)},
    "pem-logistic": {"epsilon": (inf,), "bound": (-1.0,)},
    "pem-apriori": {"support": (2.0,)},
}


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [(name, key, value) for name, many in WRONG.items() for key, values in many.items() for value in values],
)
def test_a_parameter_that_means_nothing_is_refused_by_its_name(name: str, parameter: str, value: Any) -> None:
    with pytest.raises(SpecError, match=parameter):
        make_mechanism(name, {parameter: value})


def test_a_mechanism_that_tells_sizes_does_not_promise_to_hide_that_a_document_is_there() -> None:
    names = [name for name in mechanism_names() if "adjacency" in installed_parameters(name)]
    every = (make_mechanism(name, {"adjacency": "add-remove"}) for name in names)
    units = {made.name: guarantee_of(made).unit for made in every if traits_of(made).tells_rows}
    assert {"dpdispca", "fedpower-private", "term-counts"} <= units.keys()
    assert [name for name, unit in units.items() if "sizes public" not in unit] == []
