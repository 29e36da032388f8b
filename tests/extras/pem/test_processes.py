"""PEM on one machine: what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.pem.functions import PemKMeans
from ksdp.audit.mechanisms.pem.noise import Budget
from ksdp.extras.pem.processes import run_pem
from ksdp.extras.pem.spec import PemRunSpec

ALGORITHM = PemKMeans(2, 6, bound=6.0, fraction_bits=0)
RECORDS = sp.csr_array((np.random.default_rng(0).random((60, 6)) < 0.5).astype(float))
CLIENTS = {f"ward {i}": RECORDS[10 * i : 10 * i + 10] for i in range(6)}


def test_refused_before_any_process_starts() -> None:
    with pytest.raises(InputError, match="at least one client"):
        run_pem(ALGORITHM, {}, Budget(1.0, 1))
    with pytest.raises(InputError, match="6 clients are there; `least_clients` asks for 7"):
        run_pem(ALGORITHM, CLIENTS, Budget(1.0, 1), PemRunSpec(least_clients=7))
