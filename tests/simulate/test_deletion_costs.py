"""With the gate PodDeletionCostManagement a ReplicaSet that shrinks empties nodes that are to go next."""

from __future__ import annotations

from collections import Counter

from operated import Operated, play, pod, pool, replicas

from dovetail.api.core import Node, Pod
from dovetail.api.workloads import ReplicaSet
from dovetail.base.clock import MINUTE
from dovetail.controllers.disruption.deletioncosts import PENDING, WRITES
from dovetail.model import labels
from dovetail.runtime.settings import FeatureGates
from dovetail.testing.guests import node_class

ON = FeatureGates(pod_deletion_cost_management=True)
LASTING = {"disruption": {"consolidateAfter": "24h", "budgets": [{"nodes": "100%"}]}}


async def _costs(world: Operated) -> dict[str, set[str]]:
    """The deletion costs of the pods of each node; "" for none."""
    found: dict[str, set[str]] = {}
    for item in (await world.client.list(Pod)).items:
        cost = item.metadata.annotations.get(labels.POD_DELETION_COST, "")
        found.setdefault(item.spec.node_name, set()).add(cost)
    return found


def _scale(world: Operated, count: int) -> None:
    world.server.patch(ReplicaSet, "web", "default", merge_patch={"spec": {"replicas": count}})


async def _three_nodes(world: Operated) -> None:
    """Fourteen pods of 500m on nodes of 2 and 4 vCPUs, which nothing takes for a day."""
    world.create(node_class(), pool(**LASTING), replicas("web", 7))
    await world.clock.sleep(3 * MINUTE)
    _scale(world, 14)
    await world.clock.sleep(4 * MINUTE)


def test_a_shrinking_replica_set_leaves_whole_nodes() -> None:
    left: list[Counter[str]] = []

    async def script(world: Operated) -> None:
        await _three_nodes(world)
        costs = await _costs(world)
        assert len(costs) > 1
        order = sorted(costs, key=lambda node: int(next(iter(costs[node]))))
        assert [costs[node] for node in order] == [{str(place - len(order))} for place in range(len(order))]
        first = sum(item.spec.node_name == order[0] for item in (await world.client.list(Pod)).items)
        _scale(world, 14 - first)
        await world.clock.sleep(2 * MINUTE)
        left.append(Counter(item.spec.node_name for item in (await world.client.list(Pod)).items))
        assert left[0][order[0]] == 0

    world = play(script, gates=ON)
    assert world.metrics.value(WRITES, result="updated") >= 14
    assert world.metrics.value(PENDING, nodepool="general") == 0


def test_pods_keep_their_costs_without_the_gate() -> None:
    async def script(world: Operated) -> None:
        await _three_nodes(world)
        assert {cost: 1 for costs in (await _costs(world)).values() for cost in costs} == {"": 1}

    play(script)


def test_a_node_that_may_not_go_takes_the_cost_off_its_pods() -> None:
    async def script(world: Operated) -> None:
        await _three_nodes(world)
        kept = next(iter(await _costs(world)))
        mark = {"metadata": {"annotations": {labels.DO_NOT_DISRUPT: "true"}}}
        await world.client.patch(Node, kept, merge=mark)
        await world.clock.sleep(2 * MINUTE)
        assert (await _costs(world))[kept] == {""}

    play(script, gates=ON)


def test_pods_that_no_replica_set_made_are_left_alone() -> None:
    async def script(world: Operated) -> None:
        own = {labels.POD_DELETION_COST: "7"}
        world.create(node_class(), pool(**LASTING), pod("own", annotations=own), replicas("web", 2))
        await world.clock.sleep(4 * MINUTE)
        found = await world.client.get(Pod, "own", "default")
        assert found.metadata.annotations[labels.POD_DELETION_COST] == "7"

    play(script, gates=ON)


def test_a_cost_that_somebody_gave_a_pod_of_a_replica_set_stays() -> None:
    async def script(world: Operated) -> None:
        web = replicas("web", 7)
        web["spec"]["template"]["metadata"]["annotations"] = {labels.POD_DELETION_COST: "7"}
        world.create(node_class(), pool(**LASTING), web, replicas("free", 2))
        await world.clock.sleep(4 * MINUTE)
        found = (await world.client.list(Pod)).items
        costs = {item.metadata.labels["app"]: set() for item in found}  # type: ignore[var-annotated]
        for item in found:
            costs[item.metadata.labels["app"]].add(item.metadata.annotations.get(labels.POD_DELETION_COST))
        assert costs["web"] == {"7"}
        assert None not in costs["free"]
        # What is given later counts as well.
        changed = next(item for item in found if item.metadata.labels["app"] == "free")
        given = {"metadata": {"annotations": {labels.POD_DELETION_COST: "70"}}}
        await world.client.patch(Pod, changed.metadata.name, "default", merge=given)
        await world.clock.sleep(5 * MINUTE)
        now = await world.client.get(Pod, changed.metadata.name, "default")
        assert now.metadata.annotations[labels.POD_DELETION_COST] == "70"

    play(script, gates=ON)


def test_nothing_is_left_of_them_once_the_gate_is_shut() -> None:
    async def script(world: Operated) -> None:
        await _three_nodes(world)
        own, *_ = (await world.client.list(Pod)).items
        given = {"metadata": {"annotations": {labels.POD_DELETION_COST: "70"}}}
        await world.client.patch(Pod, own.metadata.name, "default", merge=given)
        await world.restart(gates=FeatureGates())
        await world.clock.sleep(2 * MINUTE)
        left = {
            item.metadata.name: item.metadata.annotations
            for item in (await world.client.list(Pod)).items
            if labels.POD_DELETION_COST in item.metadata.annotations
        }
        assert left.keys() == {own.metadata.name}
        assert labels.WRITTEN_COST not in str(await world.client.list(Pod))

    play(script, gates=ON)
