"""A provider that passes everything on to another one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.cloud.interruption import Impairment
from dovetail.cloud.provider import Instance, NodeClassResolution, Provider, RepairPolicy
from dovetail.model.offering import InstanceType

T = TypeVar("T")


class Over:
    """A Provider over another one. Every call that waits goes through `call`, which others add to."""

    node_class_kinds: tuple[tuple[str, str], ...]
    repair_policies: tuple[RepairPolicy, ...]

    def __init__(self, provider: Provider) -> None:
        self.node_class_kinds = provider.node_class_kinds
        self.repair_policies = provider.repair_policies
        self.provider = provider

    async def call(self, name: str, about: Any, made: Callable[[], Awaitable[T]]) -> T:  # noqa: ARG002 - for others
        """Make one call, called `name`; `about` is its claim, its class, or says it in words."""
        return await made()

    async def look_back(self, owned: Callable[[], Collection[str]]) -> None:
        """See Provider."""
        await self.call("look_back", "instances", lambda: self.provider.look_back(owned))

    def unheard(self) -> Collection[str]:
        """See Provider."""
        return self.provider.unheard()

    async def create(self, claim: NodeClaim, node_class: Any) -> Instance:
        """See Provider."""
        return await self.call("create", claim, lambda: self.provider.create(claim, node_class))

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

    async def resolve(self, node_class: Any) -> NodeClassResolution:
        """See Provider."""
        return await self.call("resolve", node_class, lambda: self.provider.resolve(node_class))

    async def release(self, node_class: Any) -> None:
        """See Provider."""
        await self.call("release", node_class, lambda: self.provider.release(node_class))

    def forget(self, node_class: str) -> None:
        """See Provider."""
        self.provider.forget(node_class)

    async def tidy(self, in_use: frozenset[str]) -> None:
        """See Provider."""
        await self.call("tidy", "instance profiles", lambda: self.provider.tidy(in_use))

    async def mark(self, claim: NodeClaim, node: str) -> Mapping[str, str]:
        """See Provider."""
        return await self.call("mark", claim, lambda: self.provider.mark(claim, node))

    async def impairments(self) -> Sequence[Impairment]:
        """See Provider."""
        return await self.call("impairments", "instances", self.provider.impairments)

    def instance_types(self, node_class: Any) -> tuple[InstanceType, ...]:
        """See Provider."""
        return self.provider.instance_types(node_class)

    def volume_price(self, node_class: Any) -> int:
        """See Provider."""
        return self.provider.volume_price(node_class)

    def commons(self) -> Mapping[str, int]:
        """See Provider."""
        return self.provider.commons()

    def shifted_zones(self) -> Mapping[str, str]:
        """See Provider."""
        return self.provider.shifted_zones()

    def discovered(self, instance_type: str, image: str, memory: int) -> None:
        """See Provider."""
        self.provider.discovered(instance_type, image, memory)

    def out_of_capacity(self, claim: NodeClaim) -> None:
        """See Provider."""
        self.provider.out_of_capacity(claim)
