"""Nobody but whoever started a cluster runs code in it."""

import pytest

from ksdp.audit.errors import InputError
from ksdp.tasks.cluster import credentials, dask_address, open_workers


def test_the_key_is_forgotten_with_its_cluster() -> None:
    assert credentials("tls://127.0.0.1:1").tls_client_key is None


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:8786", "10.0.0.1:8786", "ws://10.0.0.1:8786"])
def test_an_address_without_tls_is_refused_unless_it_is_meant(address: str) -> None:
    with pytest.raises(InputError, match="must be an address with TLS"):
        dask_address(address)
    assert dask_address(address, insecure=True) == dask_address(f"insecure+{address}") == f"insecure+{address}"
    with pytest.raises(InputError, match="must be an address with TLS"), open_workers(address=address):
        pass


def test_an_address_with_tls_is_taken_as_it_is() -> None:
    assert dask_address("tls://10.0.0.1:8786") == "tls://10.0.0.1:8786"
    assert dask_address(None, insecure=True) is None
