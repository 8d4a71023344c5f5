"""Nodes in the partitions of a placement group: pods spread over them, and nodes say which EC2 chose."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import operated
import pytest
from aws_cloud import REGION, account, cloud_on_aws
from operated import Operated, play, pod, pool

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE, SECOND, Clock
from dovetail.base.eventlog import EventLog
from dovetail.cloud.aws.api import PlacementGroup
from dovetail.cloud.inmemory import Limit
from dovetail.model import labels
from dovetail.simulate.environment.aws import CloudOnAws
from dovetail.testing.guests import node_class

BROKERS = PlacementGroup("pg-1", "brokers", "partition", "available", 3)


@pytest.fixture(autouse=True)
def _on_an_account_with_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    known = replace(account(REGION), placement_groups=(BROKERS,))

    def made(clock: Clock, log: EventLog, limits: tuple[Limit, ...], *, reboots: bool) -> CloudOnAws:
        return cloud_on_aws(clock, log, limits, known=known, reboots=reboots)

    monkeypatch.setitem(operated.CLOUDS, "aws", made)


def spread(name: str) -> dict[str, Any]:
    """A pod that may share its partition with no more of its kind than the emptiest one has, and one."""
    found = pod(
        name,
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": labels.PARTITION,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "kafka"}},
            }
        ],
    )
    found["metadata"]["labels"] = {"app": "kafka"}
    return found


async def brokers(world: Operated, *pods: dict[str, Any]) -> tuple[Counter[str], list[Node]]:
    """How many pods run in which partition once these have come, and the nodes."""
    placed = node_class()
    placed["spec"]["placementGroupSelector"] = {"name": "brokers"}
    world.create(placed, pool())
    await world.clock.sleep(10 * SECOND)
    world.create(*pods)
    await world.clock.sleep(5 * MINUTE)
    nodes = list((await world.client.list(Node)).items)
    where = {node.metadata.name: node.metadata.labels[labels.PARTITION] for node in nodes}
    running = (await world.client.list(Pod)).items
    return Counter(where.get(one.spec.node_name, "nowhere") for one in running), nodes


def test_pods_spread_over_partitions() -> None:
    async def script(world: Operated) -> None:
        found, nodes = await brokers(world, *(spread(f"kafka-{number}") for number in range(6)))
        assert found == {"1": 2, "2": 2, "3": 2}
        assert {node.metadata.labels[labels.PLACEMENT_GROUP] for node in nodes} == {"pg-1"}

    play(script)


def test_a_node_says_which_partition_ec2_chose() -> None:
    async def script(world: Operated) -> None:
        found, (node,) = await brokers(world, pod("web"))
        (claim,) = world.state.all(NodeClaim)
        (instance,) = (one.instance for one in world.aws.machines.running())
        assert claim.metadata.labels[labels.PARTITION] == str(instance.partition) == "1"
        assert node.metadata.labels[labels.PARTITION] == "1"
        assert found == {"1": 1}
        assert world.fleets is not None and len(world.fleets.asked) == 1

    play(script)


def test_a_pod_asks_for_a_partition() -> None:
    async def script(world: Operated) -> None:
        found, _ = await brokers(world, pod("web", nodeSelector={labels.PARTITION: "3"}))
        assert found == {"3": 1}

    play(script)
