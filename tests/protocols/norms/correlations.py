"""Whether everybody's offline material fits together: it shows all masks, so only tests may look."""

from __future__ import annotations

from collections.abc import Sequence

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.norms.normed_macs import scalars_of, vectors_of
from ksdp.protocols.norms.normed_material import NormedMaterial


def check_correlations(materials: Sequence[NormedMaterial]) -> None:
    """Put everybody's material together and check every relation.

    Raises
    ------
    ProtocolError
        If shares do not add up to the product that they are shares of, or belong to different sums.
    """
    p, owns = materials[0].parameters, [m.own for m in materials]
    r, q = p.ring, p.scalar_ring
    if len({(m.batch, m.parameters.digest) for m in materials}) != 1 or len(materials) != p.parties:
        raise ProtocolError("The materials are not those of one sum.")
    total = r.add(*(own.vector for own in owns))
    claims = [("square", r, sum(m.square for m in materials), r.dot(total, total))]
    for k, step in enumerate(p.steps):
        lam, mu = sum(own.t_part(k) for own in owns), sum(own.y_part(k) for own in owns)
        claims += [
            (f"squares[{k}]", q, sum(m.squares[k] for m in materials), lam**2),
            (f"cubes[{k}]", q, sum(m.cubes[k] for m in materials), step.beta**2 * lam**3),
            (f"crosses[{k}]", q, sum(m.crosses[k] for m in materials), step.beta * lam * mu),
        ]
    last = sum(own.t_part(len(p.steps)) for own in owns)
    claims.append(("test", q, sum(m.test for m in materials), sum(own.factor for own in owns) * last))
    for name, ring, left, right in claims:
        if (left - right) % ring.modulus:
            raise ProtocolError(f"The shares of `{name}` do not add up to the product.")
    product = r.multiply(sum(own.output_part() for own in owns), total)
    if (r.add(*(m.product for m in materials)) != product).any():
        raise ProtocolError("The shares of `product` do not add up to the product.")
    for m in materials:
        scalars = scalars_of(m.own, m.square, m.squares, m.cubes, m.crosses, m.test)
        vectors = vectors_of(m.own, m.product)
        for peer, tags in m.macs.tags.items():
            key, betas = materials[peer].own.key, materials[peer].macs.betas[m.party]
            for value, tag, beta in zip(scalars, tags.scalars, betas.scalars, strict=True):
                if (key * value + beta - tag) % p.checked_scalar_ring.modulus:
                    raise ProtocolError("A tag of `scalars` is not that of its share.")
            if (p.checked_ring.add(p.checked_ring.multiply(key, vectors), betas.vectors) != tags.vectors).any():
                raise ProtocolError("A tag of `vectors` is not that of its share.")
