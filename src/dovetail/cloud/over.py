"""A provider that passes everything on to another one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.cloud.interruption import Impairment
from dovetail.cloud.provider import (
    Instance,
    Machines,
    NodeClasses,
    NodeClassResolution,
    Overlay,
    Provider,
    Supply,
    as_sold,
)
from dovetail.model.offering import InstanceType
from dovetail.model.repair import RepairPolicies

T = TypeVar("T")


class Over:
    """A Provider over another one. Every call that waits goes through `call`, which others add to."""

    node_class_kinds: tuple[tuple[str, str], ...]
    repair_policies: RepairPolicies

    def __init__(self, provider: Provider) -> None:
        self.node_class_kinds = provider.node_class_kinds
        self.repair_policies = provider.repair_policies
        self.provider = provider
        self.classes: NodeClasses = _OverClasses(self, provider.classes)
        self.supply: Supply = provider.supply
        self.machines: Machines = _OverMachines(self, provider.machines)

    async def call(self, name: str, about: Any, made: Callable[[], Awaitable[T]]) -> T:  # noqa: ARG002 - for others
        """Make one call, called `name`; `about` is its claim, its class, or says it in words."""
        return await made()

    async def create(self, claim: NodeClaim, node_class: Any, overlay: Overlay = as_sold) -> Instance:
        """See Provider."""
        return await self.call("create", claim, lambda: self.provider.create(claim, node_class, overlay))

    async def delete(self, provider_id: str) -> None:
        """See Provider."""
        await self.call("delete", provider_id, lambda: self.provider.delete(provider_id))

    async def get(self, provider_id: str) -> Instance:
        """See Provider."""
        return await self.call("get", provider_id, lambda: self.provider.get(provider_id))

    async def list(self) -> Sequence[Instance]:
        """See Provider."""
        return await self.call("list", "instances", self.provider.list)

    async def drifted(self, claim: NodeClaim, node_class: Any) -> str:
        """See Provider."""
        return await self.call("drifted", claim, lambda: self.provider.drifted(claim, node_class))

    def known_drift(self, claim: NodeClaim, node_class: Any) -> str | None:
        """See Provider."""
        return self.provider.known_drift(claim, node_class)

    def instance_types(self, node_class: Any) -> tuple[InstanceType, ...]:
        """See Provider."""
        return self.provider.instance_types(node_class)

    def volume_price(self, node_class: Any) -> int:
        """See Provider."""
        return self.provider.volume_price(node_class)


class _OverClasses:
    def __init__(self, over: Over, classes: NodeClasses) -> None:
        self._over = over
        self._classes = classes

    async def resolve(self, node_class: Any) -> NodeClassResolution:
        return await self._over.call("resolve", node_class, lambda: self._classes.resolve(node_class))

    async def release(self, node_class: Any) -> None:
        await self._over.call("release", node_class, lambda: self._classes.release(node_class))

    def forget(self, node_class: str) -> None:
        self._classes.forget(node_class)

    async def tidy(self, in_use: frozenset[str]) -> None:
        await self._over.call("tidy", "instance profiles", lambda: self._classes.tidy(in_use))


class _OverMachines:
    def __init__(self, over: Over, machines: Machines) -> None:
        self._over = over
        self._machines = machines

    async def recover_orphans(self, owned: Callable[[], Collection[str]]) -> None:
        await self._over.call("recover_orphans", "instances", lambda: self._machines.recover_orphans(owned))

    def orphans(self) -> Collection[str]:
        return self._machines.orphans()

    async def mark(self, claim: NodeClaim, node: str) -> Mapping[str, str]:
        return await self._over.call("mark", claim, lambda: self._machines.mark(claim, node))

    async def impairments(self) -> Sequence[Impairment]:
        return await self._over.call("impairments", "instances", self._machines.impairments)

    async def reboot(self, provider_id: str, operation: str) -> None:
        await self._over.call("reboot", provider_id, lambda: self._machines.reboot(provider_id, operation))
