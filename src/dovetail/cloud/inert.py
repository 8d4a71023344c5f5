"""What of the provider's port means nothing to clouds that keep nothing for classes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.cloud.interruption import Impairment
from dovetail.cloud.provider import NodeClassResolution


class Inert:
    """Part of providers for which a class resolves to nothing, and that neither write nor receive anything.

    Each gives what it does know of these its own answer.
    """

    async def look_back(self, owned: Callable[[], Collection[str]]) -> None:
        """See Provider: instances bear the names of their claims from the start."""

    def unheard(self) -> Collection[str]:
        """See Provider."""
        return ()

    async def drifted(self, claim: NodeClaim, node_class: Any) -> str:  # noqa: ARG002 - no difference is known
        """See Provider."""
        return ""

    async def resolve(self, node_class: Any) -> NodeClassResolution:  # noqa: ARG002 - no selectors
        """See Provider."""
        return NodeClassResolution()

    async def release(self, node_class: Any) -> None:
        """See Provider."""

    def forget(self, node_class: str) -> None:
        """See Provider."""

    async def tidy(self, in_use: frozenset[str]) -> None:
        """See Provider."""

    async def mark(self, claim: NodeClaim, node: str) -> Mapping[str, str]:  # noqa: ARG002 - nothing to write
        """See Provider."""
        return {}

    async def impairments(self) -> Sequence[Impairment]:
        """See Provider."""
        return ()

    def shifted_zones(self) -> Mapping[str, str]:
        """See Provider."""
        return {}

    def commons(self) -> Mapping[str, int]:
        """See Provider: nothing is known to end."""
        return {}

    def discovered(self, instance_type: str, image: str, memory: int) -> None:
        """See Provider."""

    def out_of_capacity(self, claim: NodeClaim) -> None:
        """See Provider."""
