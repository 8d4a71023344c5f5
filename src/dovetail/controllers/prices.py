"""What nodes cost now, by the offering that their claims are labelled with."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.model import labels
from dovetail.model.offering import InstanceType

Offer = tuple[str, str, str]  # instance type, zone, capacity type


class Prices:
    """Instance prices by (type, zone, capacity type), for all controllers; of a pool until that is gone.

    Rebuilt for a pool only when the types changed.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[InstanceType, ...], dict[Offer, int]]] = {}

    def of(self, pool: str, types: tuple[InstanceType, ...]) -> Mapping[Offer, int]:
        """All prices of these types; those of offerings that are unavailable now included."""
        known = self._known.get(pool)
        if known is None or known[0] is not types:
            known = self._known[pool] = (types, _prices(types))
        return known[1]

    def forget(self, pool: str) -> None:
        """The pool is gone."""
        self._known.pop(pool, None)


def _prices(types: tuple[InstanceType, ...]) -> dict[Offer, int]:
    return {
        (item.name, offering.zone, offering.capacity_type): offering.price
        for item in types
        for offering in item.offerings
    }


def offer_of(claim: NodeClaim) -> Offer:
    """What the claim's instance was bought as."""
    stamped = claim.metadata.labels
    return (
        stamped.get(labels.INSTANCE_TYPE, ""),
        stamped.get(labels.ZONE, ""),
        stamped.get(labels.CAPACITY_TYPE, ""),
    )
