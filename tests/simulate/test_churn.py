"""Scaling, restarts and losses in a drawn order: afterwards every pod runs and nothing is left over."""

from __future__ import annotations

import random
from typing import Any

import pytest
from operated import START, Operated, play, pool, replicas

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.workloads import ReplicaSet
from dovetail.base.clock import MINUTE, SECOND
from dovetail.cloud.inmemory import Limit
from dovetail.model import labels
from dovetail.testing.guests import node_class

pytestmark = pytest.mark.long

SETS = 4
STEPS = 10


def workload(name: str, chance: random.Random) -> dict[str, Any]:
    """A ReplicaSet with one of the rules that bind pods to each other, or none."""
    made = replicas(name, chance.randint(0, 6), chance.choice(["250m", "900m", "1500m", "3"]))
    spec = made["spec"]["template"]["spec"]
    spec["terminationGracePeriodSeconds"] = chance.choice([0, 5, 30])
    selector = {"matchLabels": {"app": name}}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    match chance.randrange(5):
        case 0:
            spec["affinity"] = {
                "podAntiAffinity": {required: [{"labelSelector": selector, "topologyKey": labels.HOSTNAME}]}
            }
        case 1:
            spec["affinity"] = {
                "podAffinity": {required: [{"labelSelector": selector, "topologyKey": labels.ZONE}]}
            }
        case 2:
            rule = {"maxSkew": 1, "topologyKey": labels.ZONE, "labelSelector": selector}
            when = chance.choice(["DoNotSchedule", "ScheduleAnyway"])
            spec["topologySpreadConstraints"] = [{**rule, "whenUnsatisfiable": when}]
    return made


async def step(world: Operated, chance: random.Random) -> None:
    """Something that users, operators or the cloud do."""
    instances = [item for item in await world.cloud.list() if not item.terminating]
    nodes, claims, pods = (world.state.all(kind) for kind in (Node, NodeClaim, Pod))
    match chance.randrange(12):
        case 0 | 1:
            await world.restart()
        case 2 if instances:
            await world.cloud.delete(chance.choice(instances).provider_id)
        case 3 if nodes:
            await world.client.delete(Node, chance.choice(nodes).metadata.name)
        case 4 if claims:
            await world.client.delete(NodeClaim, chance.choice(claims).metadata.name)
        case 5 if pods:
            await world.client.delete(Pod, chance.choice(pods).metadata.name, "default")
        case _:
            name, count = f"set-{chance.randrange(SETS)}", chance.randint(0, 8)
            await world.client.patch(ReplicaSet, name, "default", merge={"spec": {"replicas": count}})


async def settled(world: Operated) -> None:
    """All pods run; claims, nodes and instances are the same ones, and each of them has a pod."""
    sets = (await world.client.list(ReplicaSet)).items
    pods = world.state.all(Pod)
    assert len(pods) == sum(item.spec.replicas for item in sets)
    assert {item.status.phase for item in pods} <= {"Running"}
    launched = {item.provider_id for item in await world.cloud.list()}
    assert {item.status.provider_id for item in world.state.all(NodeClaim)} == launched
    assert {item.spec.provider_id for item in world.state.all(Node)} == launched
    assert {item.metadata.name for item in world.state.all(Node)} == {item.spec.node_name for item in pods}


@pytest.mark.parametrize("seed", range(6))
def test_the_cluster_settles_after_anything(seed: int) -> None:
    chance = random.Random(seed)
    short = Limit(
        since=START + chance.randint(0, 10) * MINUTE,
        until=START + chance.randint(10, 20) * MINUTE,
        capacity_types=chance.choice([("spot",), ("on-demand",), ()]),
        zones=chance.choice([(), ("ap-northeast-2a",)]),
    )

    async def script(world: Operated) -> None:
        made = pool()
        made["spec"]["template"]["spec"]["requirements"][0]["values"] = ["spot", "on-demand"]
        world.create(node_class(), made, *(workload(f"set-{i}", chance) for i in range(SETS)))
        for _ in range(STEPS):
            await world.clock.sleep(chance.randint(1, 90) * SECOND)
            await step(world, chance)
        await world.clock.sleep(25 * MINUTE)
        await settled(world)

    world = play(script, limits=(short,))
    assert world.records("reconcile.failed") == []
