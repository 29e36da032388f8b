"""The differentially private peers against their papers: figures and tables, as ratios. Needs KSDP_DATA.

Times are seconds of the processor, so that a busy machine distorts them little; BLAS has one thread.
"""

from __future__ import annotations

import secrets
import time
from itertools import count
from pathlib import Path

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg
from papers.data import split

from benchmarks import data_folder
from benchmarks.fastest import best
from ksdp.audit.contract import Database
from ksdp.audit.mechanisms.claims import audit_claim
from ksdp.audit.mechanisms.factorisation.nmf_starts import initial_topics
from ksdp.audit.mechanisms.factorisation.power_iteration import limit_of_power, orthonormalise, start_block
from ksdp.audit.mechanisms.factorisation.rri_nmf import fit_coefficients, objective, pd_nmf_iter
from ksdp.audit.mechanisms.privacy.dp_nmf import DPNMF
from ksdp.audit.mechanisms.privacy.fedpower import FedPower, UtilityFedPower, aligned
from ksdp.audit.mechanisms.privacy.fedpower_private import PrivateFedPower
from ksdp.audit.mechanisms.privacy.hardt_roth import BrokenPower, HardtRoth
from ksdp.audit.mechanisms.privacy.moments import DPdisPCA
from ksdp.extras.fedpower.paillier import FixedBase, Slots, generate
from ksdp.protocols.sums.masks import PairwiseMasks

RANK = 10


def device_round(d: int) -> float:
    """FedPower at a device for one announcement (4 iterations), M_i prepared and dense as in the paper.

    A tenth of the rows of M_i are multiplied, ten times: M_i of the paper's size would be 2.5 GB.
    """
    rng = np.random.default_rng(0)
    tenth = rng.random((-(-d // 10), d))
    Z = np.ascontiguousarray(rng.random((d, RANK)))
    start = start_block(0, d, RANK)
    product = 10 * best(lambda: tenth @ Z)
    steps = 3 * best(lambda: orthonormalise(start, start)) + best(lambda: aligned(start, start) @ start)
    return 4 * product + steps + best(lambda: rng.standard_normal((RANK, d)))


def masking(n: int, entries: int) -> float:
    """Seconds of one device that masks its vector against all others."""
    masks = PairwiseMasks("device", {f"peer {i}": secrets.token_bytes(16) for i in range(n - 1)})
    vector, number = np.zeros(entries, dtype="<u8"), count()
    return best(lambda: masks.add_to(vector, next(number)))


def removal(n: int, entries: int) -> tuple[float, float, float]:
    """Seconds of one device, beforehand and when it is its turn, and of the server; one 3072-bit key."""
    key = generate()
    public, slots = (
        key.public,
        Slots(key.public.bits, 12 * 256, n),
    )  # noise on a grid of sigma / 256, up to 12 sigma
    noise = np.clip(np.rint(np.random.default_rng(0).normal(0, 256, entries)), -3072, 3072).astype(np.int64)
    public.zero()  # the table of this key is made once, not in every round
    begin = time.process_time()
    bits = [public.rerandomise(public.encrypt(1)) for _ in range(n)]
    at_server = time.process_time() - begin
    begin = time.process_time()
    zeros = [public.zero() for _ in range(slots.plaintexts(entries))]
    beforehand = time.process_time() - begin
    begin = time.process_time()
    table = FixedBase(int(bits[0]), int(public.square), public.bits)
    added = [
        table.power(m % public.n) * zero % public.square for m, zero in zip(slots.pack(noise), zeros, strict=True)
    ]
    at_device = time.process_time() - begin
    at_server += best(lambda: key.decrypt(int(added[0])), 5) * len(added)
    return beforehand, at_device, at_server


PRINTED = {
    "FedPower": ((164, 0, 18_768), (37, 0, 127_449)),
    "Utility enhanced": ((15_829, 718_200, 17_259), (20_647, 724_700, 143_145)),
    "Privacy enhanced": ((15_742, 0, 17_291), (20_581, 0, 128_903)),
}
"""Table 3 of Liu, Pejo & Tang: milliseconds of a device, then of the server: aggregation, SMPC, rest."""


def table_3(d: int, devices: int = 100, announcements: int = 23) -> dict[str, tuple[tuple[float, ...], ...]]:
    """The same of our code, for 92 iterations of which every fourth announces; r = 10."""
    entries, start = d * RANK, start_block(0, d, RANK)
    uploads = np.ones((devices, RANK, d))
    masked = np.ones((devices, entries), dtype="<u8")
    rest, masks = device_round(d), masking(devices, entries)
    ready, added, opened = removal(devices, entries)
    mean, total = best(lambda: uploads.mean(axis=0)), best(lambda: masked.sum(axis=0))
    turned, noise = (
        best(lambda: orthonormalise(start, start)),
        best(lambda: np.random.default_rng(0).normal(size=entries)),
    )
    rows = {
        "FedPower": ((0.0, 0.0, rest), (mean, 0.0, turned + noise)),
        "Utility enhanced": ((masks, ready + added, rest), (total, opened, turned)),
        "Privacy enhanced": ((masks, 0.0, rest), (total, 0.0, turned)),
    }
    return {
        name: tuple(tuple(1000 * announcements * part for part in side) for side in both)
        for name, both in rows.items()
    }


def overheads() -> None:
    print("Table 3 of FedPower, ms (aggregation, SMPC, rest): 100 devices, T = 92, p = 4")
    for d in (2474, 17_711):
        ours = table_3(d)
        for name, sides in ours.items():
            for at, side in enumerate(("device", "server")):
                factors = [sum(table[name][at]) / sum(table["FedPower"][at]) for table in (PRINTED, ours)]
                parts = ", ".join(f"{part:,.0f}" for part in sides[at])
                printed = ", ".join(f"{part:,}" for part in PRINTED[name][at])
                print(
                    f"  d = {d:,}, {name}, {side}: {parts} (paper, d = 17,711: {printed}); "
                    f"{factors[1]:.2f} times FedPower (paper: {factors[0]:.2f})",
                    flush=True,
                )


def energies(folder: Path) -> None:
    """Captured energy on MNIST, as a share of the best: with epsilon, with N_s, and one site alone."""
    images = np.load(folder / "mnist" / "mnist.npz")["train_images"].reshape(-1, 784) / 255.0
    rows = images / np.linalg.norm(images, axis=1).max()
    print("DPdisPCA on MNIST (784 features, K = 50, R = 100, 10 sites, delta = 1e-5): together, one site alone")
    for epsilon, size in ((0.5, 2000), (2.0, 2000), (8.0, 2000), (2.0, 500), (2.0, 6000)):
        data = rows[: 10 * size]
        moments = data.T @ data / len(data)
        top = scipy.linalg.eigvalsh(moments, subset_by_index=(734, 783)).sum()
        parts = tuple(sp.csr_array(data[i * size : (i + 1) * size]) for i in range(10))
        mechanism = DPdisPCA(rank=50, intermediate=100, epsilon=epsilon)
        found = [
            np.einsum("id,de,ie->", V, moments, V) / top
            for p in (parts, parts[:1])
            for V in [mechanism.run(Database(p), np.random.default_rng(1))["V"]]
        ]
        print(f"  epsilon {epsilon}, N_s {size}: {found[0]:.3f}, {found[1]:.3f}")


def learning(folder: Path) -> None:
    """What the parties gain: with differential privacy, without, and by themselves; 3 % parties of enron-mail6."""
    counts = sp.load_npz(folder / "enron-mail6" / "counts.npz").astype(float)
    tf = sp.csr_array(counts.multiply(np.log(counts.shape[0] / np.maximum(1, (counts > 0).sum(axis=0)))[None, :]))
    norms = np.sqrt(np.asarray(tf.multiply(tf).sum(axis=1)).ravel())
    unit = sp.csr_array(sp.diags_array(1 / np.maximum(norms, 1e-12)) @ tf)
    unit = unit[np.random.default_rng(0).permutation(unit.shape[0])]
    size = unit.shape[0] * 3 // 100
    parts, held_out = split(unit[: 10 * size], 10), sp.csr_array(unit[10 * size : 12 * size])
    everything = sp.csr_array(unit[: 10 * size])
    data, d, rng = Database(parts), unit.shape[1], np.random.default_rng(1)

    def nmf_error(T: np.ndarray) -> float:
        return float(np.sqrt(2 * objective(held_out, fit_coefficients(held_out, T), T)))

    start = initial_topics("random", parts, 7, seed=0)
    own = nmf_error(pd_nmf_iter([parts[0]], start, sweeps=20).T)
    both = nmf_error(pd_nmf_iter([everything], start, sweeps=20).T)
    private = nmf_error(DPNMF(rank=7, sweeps=10).run(data, rng)["T"])
    print(
        "Figure 4c, enron-mail6, 10 parties of 3 %, k = 7: error on held-out documents against one party's topics"
    )
    print(f"  PD-NMF {1 - both / own:+.2%}, DP-NMF (epsilon 0.25, delta 0.01) {1 - private / own:+.2%}")

    def svd_error(V: np.ndarray) -> float:
        return float(np.sqrt(sp.linalg.norm(held_out) ** 2 - np.linalg.norm(held_out @ V.T) ** 2))

    block = start_block(0, d, 7)
    alone = svd_error(limit_of_power(parts[0], block).block)
    whole = svd_error(limit_of_power(everything, block).block)
    noisy = svd_error(HardtRoth(rank=7, iterations=5, epsilon=0.1, delta=1e-5).run(data, rng)["V"])
    print("Figure 5 (low rank approximation), the same")
    print(f"  PD-SVD {1 - whole / alone:+.2%}, Hardt-Roth (epsilon 0.1, delta 1e-5) {1 - noisy / alone:+.2%}")


def claims() -> None:
    print("Claimed against measured, 2,000 runs an arm, confidence 95 %:")
    for mechanism in (
        HardtRoth(rank=2, iterations=3, epsilon=1.0),
        DPNMF(rank=2, sweeps=2, epsilon=1.0),
        DPdisPCA(rank=2, intermediate=3, epsilon=1.0),
        UtilityFedPower(rank=2, iterations=3, period=1, row_bound=1.0, noise=0.1),
        PrivateFedPower(rank=2, iterations=3, epsilon=1.0),
        FedPower(rank=2, iterations=1, period=1, epsilon=0.5),
        PrivateFedPower(rank=2, iterations=2, unit="entry-printed", noise=0.3),
        BrokenPower(rank=2, iterations=3, epsilon=1.0),
    ):
        found = audit_claim(mechanism, runs=2000, rng=np.random.default_rng(0))
        print(f"  {found.sentence()}")


def run() -> None:
    """Print everything; some five minutes on one core."""
    folder = data_folder()
    overheads()
    energies(folder)
    learning(folder)
    claims()
