"""A provider whose machines are Node objects: no cloud is asked for anything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodeclass import KWOKNodeClass
from dovetail.base.clock import MINUTE, SECOND, Clock
from dovetail.base.errors import (
    AlreadyExists,
    ApiError,
    CloudError,
    CreateFailed,
    InstanceNotFound,
    NotFound,
)
from dovetail.cloud.choice import Request, choose
from dovetail.cloud.inert import Inert, PlainMachines
from dovetail.cloud.kwok import machine
from dovetail.cloud.provider import Instance, Machines, Overlay, as_sold, check_ready
from dovetail.model.offering import InstanceType
from dovetail.model.repair import REBOOT, RepairPolicies, RepairPolicy
from dovetail.model.requirement import Requirements
from dovetail.model.resources import amounts
from dovetail.units.duration import parse_duration

_RETRY = 2 * SECOND  # before a node that could not be created is tried again


class NodeObjects(Protocol):
    """The Node objects of the cluster; every method may raise ApiError."""

    async def all(self) -> Sequence[Node]:
        """Every one that kwok plays, as the API server has it now."""

    async def create(self, node: Node) -> None:
        """Raises AlreadyExists."""

    async def delete(self, name: str) -> None:
        """Raises NotFound."""

    async def set_boot(self, name: str, boot: str) -> None:
        """Write the boot id into its status. Raises NotFound."""


class _Machines(PlainMachines):
    """Implements Machines."""

    def __init__(self, nodes: NodeObjects) -> None:
        self._nodes = nodes

    async def reboot(self, provider_id: str, operation: str) -> None:
        """See Machines: it has rebooted at once. Raises CloudError."""
        name = provider_id.removeprefix(machine.SCHEME)
        try:
            await self._nodes.set_boot(name, f"kwok-{operation}")
        except NotFound:
            raise InstanceNotFound(f"there is no instance {provider_id}") from None
        except ApiError as error:
            raise CloudError(str(error)) from error


class KwokCloud(Inert):
    """Implements `cloud.provider.Provider`. One that joins after a delay is in memory alone until then."""

    node_class_kinds: tuple[tuple[str, str], ...] = (
        (KWOKNodeClass.API_VERSION.partition("/")[0], KWOKNodeClass.KIND),
    )
    repair_policies: RepairPolicies = RepairPolicies(
        current=(
            RepairPolicy("Ready", "False", 10 * MINUTE, grace=0),
            RepairPolicy("Ready", "Unknown", 10 * MINUTE, ".*", grace=0),
            RepairPolicy("KWOKUnhealthy", "True", 30 * SECOND, ".*", grace=45 * SECOND),
            RepairPolicy("KWOKRebootRequired", "True", 30 * SECOND, ".*", grace=MINUTE, action=REBOOT),
        ),
        legacy=(
            RepairPolicy("Ready", "False", 10 * MINUTE, ".*"),
            RepairPolicy("Ready", "Unknown", 10 * MINUTE, ".*"),
            RepairPolicy("KWOKUnhealthy", "True", 30 * SECOND, ".*"),
        ),
    )

    def __init__(self, clock: Clock, nodes: NodeObjects, types: tuple[InstanceType, ...]) -> None:
        self._clock = clock
        self._nodes = nodes
        self._types = types
        self.machines: Machines = _Machines(nodes)
        self._joining: dict[str, tuple[Instance, asyncio.Task[None]]] = {}  # by provider id

    def instance_types(self, node_class: KWOKNodeClass | None) -> tuple[InstanceType, ...]:  # noqa: ARG002 - alike for all
        """See Provider; all classes have the same."""
        return self._types

    def volume_price(self, node_class: KWOKNodeClass | None) -> int:  # noqa: ARG002 - nodes have no volumes
        """See Provider."""
        return 0

    async def create(
        self, claim: NodeClaim, node_class: KWOKNodeClass, overlay: Overlay = as_sold
    ) -> Instance:
        """See Provider. The cheapest offering is taken; the node joins after the class's delay."""
        check_ready(node_class)
        request = Request(Requirements.read(claim.spec.requirements), amounts(claim.spec.resources.requests))
        chosen = min(
            choose(overlay(self._types), request).candidates(),
            key=lambda one: (one.offering.price, one.instance_type.name, one.offering.zone),
        )
        made = machine.instance(chosen, claim, self._clock.now())
        made = replace(made, price=chosen.offering.asked)
        delay = parse_duration(node_class.spec.node_registration_delay)
        node = machine.node(made, claim)
        if delay:
            joining = self._join(node, delay)
            task = asyncio.get_running_loop().create_task(joining, name=f"kwok: join {made.provider_id}")
            self._joining[made.provider_id] = made, task
        else:  # before the answer, so that an instance is never in memory alone
            await self._add(node)
        return made

    async def delete(self, provider_id: str) -> None:
        """See Provider. A node on its way out has no machine any more."""
        joining = self._joining.pop(provider_id, None)
        if joining is not None:
            joining[1].cancel()
        found = await self._find(provider_id)
        if found is None or found.deleting:
            raise InstanceNotFound(f"there is no instance {provider_id}")
        try:
            await self._nodes.delete(found.metadata.name)
        except NotFound:
            raise InstanceNotFound(f"there is no instance {provider_id}") from None

    async def get(self, provider_id: str) -> Instance:
        """See Provider."""
        if provider_id in self._joining:
            return self._joining[provider_id][0]
        found = await self._find(provider_id)
        made = machine.read(found) if found is not None else None
        if made is None:
            raise InstanceNotFound(f"there is no instance {provider_id}")
        return made

    async def list(self) -> Sequence[Instance]:
        """See Provider."""
        there = {
            made.provider_id: made
            for node in await self._nodes.all()
            if (made := machine.read(node)) is not None
        }
        return [*there.values(), *(made for key, (made, _) in self._joining.items() if key not in there)]

    async def _join(self, node: Node, delay: int) -> None:
        await self._clock.sleep(delay)
        while True:
            try:
                await self._add(node)
            except CreateFailed:
                await self._clock.sleep(_RETRY)
                continue
            self._joining.pop(node.spec.provider_id, None)
            return

    async def _add(self, node: Node) -> None:
        """Raises CreateFailed."""
        try:
            await self._nodes.create(node)
        except AlreadyExists:
            return
        except ApiError as error:
            raise CreateFailed(str(error)) from error

    async def _find(self, provider_id: str) -> Node | None:
        found = await self._nodes.all()
        return next((node for node in found if node.spec.provider_id == provider_id), None)
