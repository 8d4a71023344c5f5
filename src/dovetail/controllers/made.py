"""Which claims this process made itself: it may launch those at once."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.api.karpenter.nodeclaim import NodeClaim


class Made:
    """The claims that this process made, until they are gone; it begins anew with each process."""

    def __init__(self) -> None:
        self._uids: set[str] = set()
        self._callbacks: list[Callable[[NodeClaim], None]] = []

    def subscribe(self, callback: Callable[[NodeClaim], None]) -> None:
        """Be told of every claim that this process makes."""
        self._callbacks.append(callback)

    def add(self, claim: NodeClaim) -> None:
        """The API server has answered that the claim is there."""
        self._uids.add(claim.metadata.uid)
        for callback in self._callbacks:
            callback(claim)

    def forget(self, claim: NodeClaim) -> None:
        """The claim is gone."""
        self._uids.discard(claim.metadata.uid)

    def __contains__(self, claim: NodeClaim) -> bool:
        return claim.metadata.uid in self._uids
