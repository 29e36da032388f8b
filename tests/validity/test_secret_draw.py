"""What a run of secret draws gives away of who is held: the share drawn of what it gives away of who is in it."""

import numpy as np
import pytest
import scipy.sparse as sp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy.stats import ks_2samp

from ksdp.audit.contract import Database
from ksdp.audit.registry import make_mechanism
from ksdp.protocols.programs.secret_draw import secret_draw

pytestmark = pytest.mark.validity

DOCUMENTS, HELD, TERMS, RUNS = 60, 30, 8, 4000


@pytest.mark.parametrize("share", [0.25, 0.5])
@pytest.mark.parametrize("target", [0, 1, 2])
def test_who_is_held_is_told_by_the_share_of_who_is_in(share: float, target: int) -> None:
    """Holdings drawn with and without x, every party's key its own; the energy of x in what is announced."""
    rng = np.random.default_rng(11 + target)
    rows = rng.poisson(0.4, (DOCUMENTS, TERMS)) + 3.0 * np.eye(DOCUMENTS, TERMS)[:, ::-1]
    mechanism = make_mechanism("pd-svd", {"rank": 2, "opens": "final"})
    others = np.delete(np.arange(DOCUMENTS), target)

    def energy(entering: np.ndarray) -> float:
        V = mechanism.run(Database((sp.csr_array(rows[entering]),)), rng)["V"]
        return float(np.square(np.atleast_2d(V) @ rows[target] if V.shape[1] == TERMS else rows[target] @ V).sum())

    held, inside = {True: [], False: []}, {True: [], False: []}
    for _run in range(RUNS):
        for with_x in (True, False):
            mine = rng.choice(others, HELD - with_x, replace=False)
            mine = np.append(mine, target) if with_x else mine
            key = Ed25519PrivateKey.from_private_bytes(rng.bytes(32))
            drawn = mine[secret_draw(key, map(str, mine), share)]
            if len(drawn) > 2:
                held[with_x].append(energy(drawn))
            # An audit's databases: of the size that enters, x in them or not.
            size = round(share * HELD)
            part = rng.choice(others, size - with_x, replace=False)
            inside[with_x].append(energy(np.append(part, target) if with_x else part))
    of_held = ks_2samp(held[True], held[False]).statistic
    of_inside = ks_2samp(inside[True], inside[False]).statistic
    print(f"share {share:g}: D of who is in {of_inside:.3f}, of who is held {of_held:.3f}")
    chance = 1.95 * np.sqrt(2 / RUNS)  # one in a thousand
    assert of_held <= share + chance
    assert abs(of_held - share * of_inside) <= (1 + share) * chance
