"""Instances of the simulated cloud as Node objects that kwok plays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from dovetail.api.codec import encode
from dovetail.api.core import Node, NodeSpec, NodeStatus, Taint
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Meta
from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import AlreadyExists, ApiError, Conflict, NotFound
from dovetail.cloud.kwok.machine import PLAYED
from dovetail.cloud.provider import Instance
from dovetail.kube.client import Client
from dovetail.model.resources import quantities
from dovetail.simulate.kubelet.machine import Machine, NodeNames, from_claim
from dovetail.simulate.scenario.latency import Distribution

_COMING = Taint(key="node.cloudprovider.kubernetes.io/uninitialized", value="true", effect="NoSchedule")


class Machines:
    """Each instance becomes a Node after `boot`, and takes pods after `ready`.

    kwok's nodes are Ready as soon as they exist. What holds pods off until then is the taint that the
    machines of a cloud have until its node controller has seen them.
    """

    def __init__(
        self, client: Client, clock: Clock, latencies: Mapping[str, Distribution], names: NodeNames, seed: int
    ) -> None:
        self._client = client
        self._clock = clock
        self._latencies = latencies
        self._names = names
        self._seed = seed
        self._boots: dict[str, asyncio.Task[None]] = {}  # by provider id

    def switch_on(self, instance: Instance, claim: NodeClaim) -> None:
        """The instance has started."""
        name = self._names.draw(instance.provider_id)
        machine = from_claim(instance, claim, name=name, seed=self._seed)
        boot = self._boot(machine)
        self._boots[instance.provider_id] = asyncio.get_running_loop().create_task(boot, name=f"boot {name}")

    def switch_off(self, instance: Instance) -> None:
        """The instance is gone, perhaps before it was a node."""
        boot = self._boots.pop(instance.provider_id, None)
        if boot is not None:
            boot.cancel()

    async def join(self, machine: Machine) -> None:
        """A machine that was on long before: its node is Ready at once. Raises ApiError."""
        await self._client.create(_node(machine))

    async def _boot(self, machine: Machine) -> None:
        await self._wait("boot", machine)
        await self._insist(lambda: self._create(machine))
        await self._wait("ready", machine)
        await self._insist(lambda: self._untaint(machine.node))

    async def _wait(self, purpose: str, machine: Machine) -> None:
        latency = self._latencies[purpose]
        await self._clock.sleep(latency.draw(self._seed, machine.provider_id, purpose))

    async def _insist(self, write: Callable[[], Awaitable[None]]) -> None:
        """Until it succeeds, or there is nothing to write to any more."""
        while True:
            try:
                return await write()
            except (AlreadyExists, NotFound):
                return None
            except Conflict:
                continue
            except ApiError:
                await self._clock.sleep(SECOND)

    async def _create(self, machine: Machine) -> None:
        await self._client.create(_node(machine, _COMING))

    async def _untaint(self, name: str) -> None:
        node = await self._client.get(Node, name)
        taints = [encode(taint) for taint in node.spec.taints if taint.key != _COMING.key]
        version = {"resourceVersion": node.metadata.resource_version}
        await self._client.patch(Node, name, merge={"metadata": version, "spec": {"taints": taints}})


def _node(machine: Machine, *taints: Taint) -> Node:
    return Node(
        metadata=Meta(
            name=machine.node, labels={**machine.labels, PLAYED: "fake"}, annotations={PLAYED: "fake"}
        ),
        spec=NodeSpec(provider_id=machine.provider_id, taints=(*machine.taints, *taints)),
        status=NodeStatus(capacity=quantities(machine.capacity), allocatable=quantities(machine.allocatable)),
    )
