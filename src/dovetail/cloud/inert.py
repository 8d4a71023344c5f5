"""What of the provider's port means nothing to clouds that keep nothing for classes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.errors import RebootRefused
from dovetail.cloud.interruption import Impairment
from dovetail.cloud.provider import Machines, NodeClasses, NodeClassResolution, Supply


class NoSelectors:
    """Implements NodeClasses: a class resolves to nothing, and nothing is made for it."""

    async def resolve(self, node_class: Any) -> NodeClassResolution:  # noqa: ARG002 - no selectors
        """See NodeClasses."""
        return NodeClassResolution()

    async def release(self, node_class: Any) -> None:
        """See NodeClasses."""

    def forget(self, node_class: str) -> None:
        """See NodeClasses."""

    async def tidy(self, in_use: frozenset[str]) -> None:
        """See NodeClasses."""


class EndlessSupply:
    """Implements Supply: nothing is known to end."""

    def left(self) -> Mapping[str, int]:
        """See Supply."""
        return {}

    def shifted_zones(self) -> Mapping[str, str]:
        """See Supply."""
        return {}

    def discovered(self, instance_type: str, image: str, memory: int) -> None:
        """See Supply."""

    def out_of_capacity(self, claim: NodeClaim) -> None:
        """See Supply."""

    def lacks_spot_role(self, claim: NodeClaim) -> bool:  # noqa: ARG002 - there is no such role
        """See Supply."""
        return False


class PlainMachines:
    """Implements Machines: instances bear the names of their claims from the start, and nothing fails."""

    async def recover_orphans(self, owned: Callable[[], Collection[str]]) -> None:
        """See Machines."""

    def orphans(self) -> Collection[str]:
        """See Machines."""
        return ()

    async def mark(self, claim: NodeClaim, node: str) -> Mapping[str, str]:  # noqa: ARG002 - nothing to write
        """See Machines."""
        return {}

    async def impairments(self) -> Sequence[Impairment]:
        """See Machines."""
        return ()

    async def reboot(self, provider_id: str, operation: str) -> None:  # noqa: ARG002 - none reboots
        """Raises RebootRefused."""
        raise RebootRefused("reboot not implemented by the cloud provider")


class Inert:
    """Base of providers for which a class resolves to nothing, and that neither write nor hear anything."""

    classes: NodeClasses = NoSelectors()
    supply: Supply = EndlessSupply()
    machines: Machines = PlainMachines()

    async def drifted(self, claim: NodeClaim, node_class: Any) -> str:  # noqa: ARG002 - no difference is known
        """See Provider."""
        return ""

    def known_drift(self, claim: NodeClaim, node_class: Any) -> str | None:  # noqa: ARG002 - none is
        """See Provider."""
        return ""
