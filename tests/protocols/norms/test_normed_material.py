"""What the dealer hands out, and that it serves once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.norms.normed_material import deal
from ksdp.protocols.norms.normed_parameters import NormedSumParameters
from ksdp.protocols.norms.own_masks import OwnMasks

from .correlations import check_correlations

TERMS = NormedSumParameters(3, 4, 20, 2)


def test_shares_of_a_dealer_add_up_and_say_who_made_them() -> None:
    materials = deal(TERMS)
    check_correlations(materials)
    assert {material.offline for material in materials} == {"dealer"}
    assert [material.party for material in materials] == [0, 1, 2]
    assert len({material.batch for material in materials}) == 1


@pytest.mark.parametrize("name", ["square", "squares", "cubes", "crosses", "test", "product"])
def test_a_share_that_is_off_by_one_is_found(name: str) -> None:
    first, *others = deal(TERMS)
    value = getattr(first, name)
    if isinstance(value, tuple):
        wrong = (*value[:-1], value[-1] + 1)
    else:
        wrong = value ^ 1 if isinstance(value, np.ndarray) else value + 1
    with pytest.raises(ProtocolError, match=f"`{name}"):
        check_correlations([replace(first, **{name: wrong}), *others])


def test_material_of_two_sums_does_not_mix() -> None:
    with pytest.raises(ProtocolError, match="one sum"):
        check_correlations([*deal(TERMS)[:2], deal(TERMS)[2]])


def test_material_serves_once() -> None:
    material = deal(TERMS)[0]
    material.spend()
    with pytest.raises(ProtocolError, match="used"):
        material.spend()


def test_no_secret_is_printed() -> None:
    material = deal(TERMS)[0]
    assert str(material.square) not in repr(material) + str(material)
    assert str(material.own.square) not in repr(material.own)


def test_own_masks_fill_their_ranges() -> None:
    terms = NormedSumParameters(2, 4000, 20, 2)
    own = OwnMasks.draw(terms, np.random.default_rng(1).bytes)
    values = np.array(terms.ring.ints(own.vector), dtype=object) / terms.ring.modulus
    noise = np.array(terms.ring.ints(own.noise), dtype=object) / (1 << terms.noise_bits)
    for sample in (values.astype(float), noise.astype(float)):
        assert sample.min() >= 0
        assert sample.max() < 1
        assert np.histogram(sample, bins=8, range=(0, 1))[0] == pytest.approx(np.full(8, 500), abs=110)
    assert 1 << terms.factor_bits <= own.factor < 1 << (terms.factor_bits + 1)
    assert max(value.bit_length() for value in own.t) in range(terms.t_mask_bits - 8, terms.t_mask_bits + 1)
    assert max(value.bit_length() for value in own.y) in range(terms.y_mask_bits - 8, terms.y_mask_bits + 1)
    assert own.y_part(0) == 0
