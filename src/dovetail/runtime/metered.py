"""The cloud's port, with what its calls take and how they end."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import CloudError
from dovetail.base.metrics import Metric, Metrics
from dovetail.cloud.interruption import Impairment
from dovetail.cloud.provider import Instance, NodeClassResolution, Provider
from dovetail.cloud.repair import RepairPolicy
from dovetail.model import labels
from dovetail.model.offering import InstanceType

T = TypeVar("T")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)
DURATION = Metric(
    "karpenter_cloudprovider_duration_seconds",
    "histogram",
    "How long calls of the cloud provider took.",
    ("method", "provider"),
    _SECONDS,
)
ERRORS = Metric(
    "karpenter_cloudprovider_errors_total",
    "counter",
    "Calls of the cloud provider that ended with an error.",
    ("method", "provider", "error", "nodepool"),
)


class Metered:
    """A Provider over another one. `name` is what it is called in the metrics."""

    node_class_kinds: tuple[tuple[str, str], ...]
    repair_policies: tuple[RepairPolicy, ...]

    def __init__(self, provider: Provider, clock: Clock, metrics: Metrics) -> None:
        self.node_class_kinds = provider.node_class_kinds
        self.repair_policies = provider.repair_policies
        self._provider = provider
        self._clock = clock
        self._metrics = metrics
        self._name = provider.node_class_kinds[0][0] if provider.node_class_kinds else ""

    def instance_types(self, node_class: Any) -> tuple[InstanceType, ...]:
        """See Provider."""
        return self._provider.instance_types(node_class)

    def volume_price(self, node_class: Any) -> int:
        """See Provider."""
        return self._provider.volume_price(node_class)

    def commons(self) -> Mapping[str, int]:
        """See Provider."""
        return self._provider.commons()

    async def create(self, claim: NodeClaim, node_class: Any) -> Instance:
        """See Provider."""
        pool = claim.metadata.labels.get(labels.NODEPOOL, "")
        return await self._timed("Create", self._provider.create(claim, node_class), pool)

    async def delete(self, provider_id: str) -> None:
        """See Provider."""
        await self._timed("Delete", self._provider.delete(provider_id))

    async def get(self, provider_id: str) -> Instance:
        """See Provider."""
        return await self._timed("Get", self._provider.get(provider_id))

    async def list(self) -> Sequence[Instance]:
        """See Provider."""
        return await self._timed("List", self._provider.list())

    async def drifted(self, claim: NodeClaim, node_class: Any) -> str:
        """See Provider."""
        pool = claim.metadata.labels.get(labels.NODEPOOL, "")
        return await self._timed("IsDrifted", self._provider.drifted(claim, node_class), pool)

    async def resolve(self, node_class: Any) -> NodeClassResolution:
        """See Provider."""
        return await self._timed("Resolve", self._provider.resolve(node_class))

    async def release(self, node_class: Any) -> None:
        """See Provider."""
        await self._timed("Release", self._provider.release(node_class))

    async def tidy(self, in_use: frozenset[str]) -> None:
        """See Provider."""
        await self._timed("Tidy", self._provider.tidy(in_use))

    async def mark(self, claim: NodeClaim, node: str) -> Mapping[str, str]:
        """See Provider."""
        return await self._timed("Mark", self._provider.mark(claim, node))

    async def impairments(self) -> Sequence[Impairment]:
        """See Provider."""
        return await self._timed("Impairments", self._provider.impairments())

    def shifted_zones(self) -> Mapping[str, str]:
        """See Provider."""
        return self._provider.shifted_zones()

    def discovered(self, instance_type: str, image: str, memory: int) -> None:
        """See Provider."""
        self._provider.discovered(instance_type, image, memory)

    def out_of_capacity(self, claim: NodeClaim) -> None:
        """See Provider."""
        self._provider.out_of_capacity(claim)

    async def _timed(self, method: str, call: Awaitable[T], pool: str = "") -> T:
        began = self._clock.now()
        try:
            return await call
        except CloudError as error:
            kind = type(error).__name__
            self._metrics.add(ERRORS, method=method, provider=self._name, error=kind, nodepool=pool)
            raise
        finally:
            took = (self._clock.now() - began) / SECOND
            self._metrics.observe(DURATION, took, method=method, provider=self._name)
