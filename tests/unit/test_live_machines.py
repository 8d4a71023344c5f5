"""Machines of a scenario that is played on a real cluster: none boots on once the play is over."""

from __future__ import annotations

import asyncio

import pytest

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim, NodeClaimSpec
from dovetail.api.karpenter.nodepool import NodeClassRef
from dovetail.api.meta import Meta
from dovetail.base.clock import SECOND
from dovetail.cloud.provider import Instance
from dovetail.kube.memory.client import MemoryClient
from dovetail.kube.memory.server import MemoryServer
from dovetail.runtime.process.clock import WallClock
from dovetail.simulate.kubelet.machine import NodeNames
from dovetail.simulate.live.play import Machines
from dovetail.simulate.scenario.latency import Distribution

HOUR_LONG = Distribution(3600 * SECOND, 0.0)
AT_ONCE = Distribution(0, 0.0)


def instance(number: int) -> Instance:
    return Instance(
        provider_id=f"aws:///us-east-1a/i-{number}",
        instance_type="m5.large",
        zone="us-east-1a",
        capacity_type="on-demand",
        price=1,
        image_id="ami-1",
        created=0,
    )


def claim(name: str) -> NodeClaim:
    reference = NodeClassRef(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default")
    return NodeClaim(metadata=Meta(name=name), spec=NodeClaimSpec(node_class_ref=reference))


@pytest.mark.parametrize(
    ("boot", "ready", "nodes"),
    [(HOUR_LONG, AT_ONCE, 0), (AT_ONCE, HOUR_LONG, 2), (AT_ONCE, AT_ONCE, 2)],
    ids=["before they are nodes", "before they are ready", "done"],
)
def test_a_play_ends_while_machines_boot(boot: Distribution, ready: Distribution, nodes: int) -> None:
    async def main() -> None:
        client = MemoryClient(server := MemoryServer(WallClock()))
        machines = Machines(
            client, WallClock(), {"boot": boot, "ready": ready}, NodeNames("us-east-1", 1), seed=1
        )
        for number in range(2):
            machines.switch_on(instance(number), claim(f"general-{number}"))
        while len(server.list(Node)) < nodes:
            await asyncio.sleep(0)
        await machines.stop()
        # Whatever it still wrote to would be closed by now.
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert len(server.list(Node)) == nodes
        await machines.stop()

    asyncio.run(main())
