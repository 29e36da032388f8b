"""Shared fixtures."""

import gc
import ipaddress
import os
import signal
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import HealthCheck, settings

from .finished import TRAINING_RUNS, made_again

ROOT = Path(__file__).resolve().parents[1]

STARTERS = frozenset({"server", "browser"})
"""Fixtures that start a Prefect server or a browser: whatever asks for one is an end-to-end test."""


# A busy machine is no fault of what is tested.
PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("any machine", max_examples=50, **PATIENT)  # type: ignore[arg-type]
settings.load_profile("any machine")

# A shell starts what it runs in the background with Ctrl-C ignored, and so would be whatever a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        given = item.callspec.params if hasattr(item, "callspec") else ()  # a parameter may have the same name
        if STARTERS.intersection(getattr(item, "fixturenames", ())).difference(given):
            item.add_marker(pytest.mark.e2e)


QUICK: dict[str, dict[str, object]] = {
    "": {"ksdp.flows.audits.stages._WORST": 3, "os.fsync": lambda descriptor: None},
    "absence": {"ksdp.audit.planning.absence_of": lambda *_: None},
    "repeats": {"ksdp.tasks.repeats._elsewhere": made_again, "ksdp.tasks.repeats.REPEATED": 4},
    "learns": {
        "ksdp.audit.statistics.simulated.TRAINING_RUNS": TRAINING_RUNS,
        "ksdp.audit.statistics.simulated._PRODUCTS": 1e8,
        "ksdp.audit.statistics.further.MOST_RUNS": 0,
    },
}
"""Values that a test without the mark takes instead. Training, new processes and drawing documents are most of a
small audit; in so small a corpus, absence proves nearly everybody, and then nobody is measured. An audit waits for
the disk some sixty times, which only a power cut would show."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with pytest.MonkeyPatch.context() as patch:
        if not any(map(item.get_closest_marker, ("e2e", "validity"))):
            for mark in QUICK.keys() - {marker.name for marker in item.iter_markers()}:
                for name, value in QUICK[mark].items():
                    patch.setattr(name, value)
        return (yield)


def pytest_collection_finish() -> None:
    """What all modules and tests are made of lives to the end: it is not looked through for garbage any more."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The real data sets; on CI their absence is a failure, not a skip."""
    folder = Path(os.environ.get("KSDP_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "README.md").is_file():
        reason = f"the real data sets are not in {folder.name!r} (set KSDP_DATA)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1, with its key beside it."""
    folder, key = tmp_path_factory.mktemp("tls"), ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ksdp review")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").touch(mode=0o600)
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(*pem))
    return folder / "cert.pem"


@pytest.fixture
def many_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if documents were too many for whoever finds who was in from the exact numbers of few."""
    monkeypatch.setattr("ksdp.audit.coverage.found_by_lattice", lambda documents, share, bits: False)
    monkeypatch.setattr("ksdp.audit.coverage.unlearnt", lambda found, runs, who: ())
    monkeypatch.setattr("ksdp.audit.coverage.enumerated", lambda who: ())
