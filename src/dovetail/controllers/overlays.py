"""What NodeOverlays make of the types that pools may buy, as it was evaluated last."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.errors import CreateFailed
from dovetail.cloud.provider import Instance, Overlay, as_sold
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.overlays import Overlaid


class Overlays:
    """Shared by all controllers; nothing changes a type while the gate is shut.

    With the gate open a pool has no types until it was evaluated: at prices that an overlay is about to
    change the wrong ones would be bought.
    """

    def __init__(self, *, enabled: bool = False) -> None:
        self._enabled = enabled
        self.found = Overlaid()
        # By pool: its types as they are sold, and with the overlays. Callers cache by identity.
        self._known: dict[str, tuple[tuple[InstanceType, ...], tuple[InstanceType, ...]]] = {}

    def swap(self, found: Overlaid) -> None:
        """From now on this counts."""
        self.found = found
        self._known.clear()

    def types(self, pool: str, sold: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
        """The pool's types with the overlays; the same tuple until something changed."""
        if not self._enabled:
            return sold
        if pool not in self.found.changes:
            return ()
        known = self._known.get(pool)
        if known is None or known[0] is not sold:
            known = self._known[pool] = sold, self.found.types(pool, sold)
        return known[1]

    def of(self, claim: NodeClaim) -> Overlay:
        """What a launch for the claim makes of types. Raises CreateFailed before its pool was evaluated."""
        pool = claim.metadata.labels.get(labels.NODEPOOL, "")
        if not self._enabled or not pool:
            return as_sold
        if pool not in self.found.changes:
            raise CreateFailed(
                f"NodePool {pool} was not evaluated for NodeOverlays yet", "InstanceTypeResolutionFailed"
            )
        return partial(self.types, pool)

    def sized(self, claim: NodeClaim, instance: Instance) -> Instance:
        """An instance of the claim as the cloud lists it, with what overlays add, which no cloud knows of."""
        change = self.found.changes.get(claim.metadata.labels.get(labels.NODEPOOL, ""), {}).get(
            instance.instance_type
        )
        if not self._enabled or change is None:
            return instance
        return replace(
            instance,
            capacity={**instance.capacity, **change.capacity},
            allocatable={**instance.allocatable, **change.capacity},
        )

    def marks(self, pool: str, names: Iterable[str]) -> dict[str, str]:
        """Annotations of a claim that may become one of these types: which overlays it may come by."""
        listed = tuple(names) if self._enabled else ()
        return {
            **({labels.PRICE_OVERLAID: "true"} if self.found.repriced(pool, listed) else {}),
            **({labels.CAPACITY_OVERLAID: "true"} if self.found.resized(pool, listed) else {}),
        }
