"""A clearance to change, and what it says where a test says nothing else."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.screening.clearance import Attempts, AuditedSizes, Clearance, Covered, Evidence, MechanismIdentity
from ksdp.storage.clearances import clearance_at, content_hash, write_clearance
from ksdp.storage.store import Store

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MECHANISM = MechanismIdentity("pd-svd", 2, {"rank": 7, "tolerance": 1e-6, "at": ["last"]})
SIZES = AuditedSizes("document", 1, 0, 0, 1, every_size=False)
EVIDENCE = Evidence(2400, 190, 0.17, Attempts(3, 5, 3, (0.1, 0.2), 1, 5, 0.15))


def clearance(ids: Iterable[str] = ("b", "a", "ü", "d\udc80"), **changes: Any) -> Clearance:
    values: dict[str, Any] = {
        "corpus": "sha256:aa",
        "mechanism": MECHANISM,
        "spec": "sha256:bb",
        "audits": ("one", "two"),
        "verdicts": {"sensitive": 0, "clear": 4, "undecided": 1},
        "documents": Clearance.entries(ids),
        "sensitive": 2,
        "excluded": 0,
        "sizes": SIZES,
        "reviewer": "Ana Lytic",
        "created": NOW,
        "expires": NOW + timedelta(days=90),
        "statement": "It promises little.",
        "evidence": EVIDENCE,
        "coverage": Covered("every round", ("V",)),
    }
    return Clearance(**values | changes)


def signed_copy(store: Store, **changes: Any) -> str:
    """The hash of a clearance whose copy a store keeps."""
    made = clearance(**changes)
    path = clearance_at(store, content_hash(made))
    path.parent.mkdir(exist_ok=True)
    write_clearance(path, made, Ed25519PrivateKey.generate())
    return path.stem
