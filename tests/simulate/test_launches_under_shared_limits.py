"""Limits that several NodePools share, in resources, nodes and dollars per hour, whoever launches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from operated import Operated, play, pod, pool, replicas

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import is_true
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.cluster.shared_limits import read_shared_limits
from dovetail.controllers.nodeclaim.status import DISRUPTION_REASON
from dovetail.controllers.prices import offer_of
from dovetail.model import labels
from dovetail.runtime.settings import FeatureGates
from dovetail.testing.guests import node_class
from dovetail.units.money import NANO_DOLLARS

TEAM = "{name: team, nodePools: [one, two], limits: {cpu: 8}}"
MONEY = "{name: cluster, limits: {hourly-cost: 0.5}}"
PRICES = {"m5.large": 0.096, "m5.xlarge": 0.192}  # on demand, in Virginia
SPOT = [
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
    {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
]


def limits(*texts: str) -> Any:
    return read_shared_limits(f"limits: [{', '.join(texts)}]", "test")


def of_pool(name: str, **spec: Any) -> dict[str, Any]:
    return {"nodeSelector": {labels.NODEPOOL: name}, **spec}


def varied(name: str, **spec: Any) -> dict[str, Any]:
    """A pool of any type of three families, as spot or on demand."""
    found = pool(name, **spec)
    found["spec"]["template"]["spec"]["requirements"] = SPOT
    return found


def running(world: Operated, *, going: bool = False) -> Mapping[str, float]:
    """What nodes have now that stay, or all that the cloud runs, counted without the code that is tested. As
    with limits of one pool, a node that another has been bought for stays no more.
    """
    found = {"cpu": 0.0, "cost": 0.0, "nodes": 0.0}
    for claim in world.state.all(NodeClaim):
        leaves = claim.deleting or is_true(claim.status.conditions, DISRUPTION_REASON)
        if not claim.status.provider_id or (leaves and not going):
            continue
        of = world.state.get(NodePool, claim.metadata.labels[labels.NODEPOOL])
        assert of is not None
        context = world.operator._context
        found["cpu"] += claim.status.capacity["cpu"].nanos / NANO_DOLLARS
        found["cost"] += context.prices.of(of.key, context.instance_types(of))[offer_of(claim)] / NANO_DOLLARS
        found["nodes"] += 1
    return found


async def watched(world: Operated, seconds: int, **most: float) -> Mapping[str, float]:
    """Let time pass; what nodes have is never more than that. Answers the most that they had."""
    peak: dict[str, float] = {}
    for _ in range(seconds):
        await world.clock.sleep(SECOND)
        now = running(world)
        assert all(now[name] <= amount + 1e-9 for name, amount in most.items()), (now, most)
        peak = {name: max(amount, peak.get(name, 0)) for name, amount in now.items()}
    return peak


def bound(world: Operated) -> set[str]:
    return {one.metadata.name for one in world.state.all(Pod) if one.spec.node_name}


def test_two_pools_stay_within_one_limit_and_a_third_is_free() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool("one"), pool("two"), pool("three"))
        for name in ("one", "two", "three"):
            world.create(*(pod(f"{name}-{at}", "1500m", **of_pool(name)) for at in range(4)))
        await world.clock.sleep(3 * MINUTE)
        cpus: dict[str, float] = {}
        for claim in world.state.all(NodeClaim):
            of = claim.metadata.labels[labels.NODEPOOL]
            cpus[of] = cpus.get(of, 0) + claim.status.capacity["cpu"].nanos / NANO_DOLLARS
        assert cpus.get("one", 0) + cpus.get("two", 0) == 8
        assert cpus["three"] >= 8
        assert len(bound(world)) == 8
        waiting = [one for one in world.state.all(Pod) if not one.spec.node_name]
        assert {one.metadata.name.split("-")[0] for one in waiting} <= {"one", "two"}
        # What goes makes room for what waits, of whichever pool.
        for name in ("one", "two"):
            for one in [
                one for one in world.state.all(Pod) if one.spec.node_name and name in one.metadata.name
            ]:
                await world.client.delete(Pod, one.metadata.name, "default")
        await watched(world, 300)
        assert {one.metadata.name for one in waiting} <= bound(world)

    world = play(script, shared_limits=limits(TEAM))
    assert any(
        "not enough is left of the shared limit team (cpu)" in text
        for text in world.messages("FailedScheduling")
    )


@pytest.mark.parametrize("wait", [1, 4])
def test_bursts_of_batches_never_spend_more(wait: int) -> None:
    """Each batch is planned while what was bought for the one before is coming up, of whatever types."""

    async def script(world: Operated) -> None:
        world.create(node_class(), varied("one"), varied("two"))
        for burst in range(12):
            world.create(
                *(pod(f"p{burst}-{at}", "1700m", **of_pool("one" if at % 2 else "two")) for at in range(5))
            )
            await watched(world, wait, cost=0.5)
        peak = await watched(world, 240, cost=0.5)
        assert peak["cost"] > 0.4
        assert len(bound(world)) > 10

    play(script, shared_limits=limits(MONEY))


def test_nodes_that_drift_at_the_limit_are_replaced() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool("one"), pool("two"))
        world.create(*(pod(f"p{at}", "1500m", **of_pool("one")) for at in range(4)))
        await world.clock.sleep(3 * MINUTE)
        before = {node.metadata.name for node in world.state.all(Node)}
        template = {"metadata": {"labels": {"generation": "new"}}}
        await world.client.patch(NodePool, "one", merge={"spec": {"template": template}})
        await watched(world, 20 * 60, cpu=8)
        assert not before & {node.metadata.name for node in world.state.all(Node)}

    world = play(script, shared_limits=limits(TEAM))
    assert world.records("disruption", reason="Drifted")


def test_above_a_limit_nothing_is_added_and_what_there_is_gets_cheaper_and_newer() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool("one"), pool("two"), replicas("web", 6, "1500m"))
        await world.clock.sleep(4 * MINUTE)
        had = running(world)["cpu"]
        assert had >= 12
        await world.restart(shared_limits=limits("{name: all, limits: {cpu: 4}}"))
        world.create(pod("late", "1500m"))
        await watched(world, 120, cpu=had)
        assert "late" not in bound(world)
        template = {"metadata": {"labels": {"generation": "new"}}}
        before = {node.metadata.name for node in world.state.all(Node)}
        for name in ("one", "two"):
            await world.client.patch(NodePool, name, merge={"spec": {"template": template}})
        await watched(world, 20 * 60, cpu=had)
        assert not before & {node.metadata.name for node in world.state.all(Node)}

    play(script)


def test_static_pools_and_least_numbers_stay_within_it() -> None:
    async def script(world: Operated) -> None:
        keeping = pool("two")
        keeping["metadata"]["annotations"] = {labels.MINIMUM_NODES: "5"}
        world.create(node_class(), pool("one", replicas=3), keeping)
        peak = await watched(world, 600, cpu=8)
        assert peak["cpu"] == 8

    world = play(script, shared_limits=limits(TEAM), gates=FeatureGates(static_capacity=True))
    assert any("shared limit team (cpu)" in text for text in world.messages("SharedLimitReached"))


def test_nodes_that_may_not_go_count_till_they_are_gone() -> None:
    """A tenant whose pods may never be evicted has no second set of nodes once the first one expires."""

    async def script(world: Operated) -> None:
        guard = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "never", "namespace": "default"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
        }
        expiring = pool("one")
        expiring["spec"]["template"]["spec"]["expireAfter"] = "10m"
        world.create(node_class(), expiring, guard, replicas("web", 4, "1500m"))
        await world.clock.sleep(5 * MINUTE)
        assert running(world)["cpu"] == 8
        await world.clock.sleep(10 * MINUTE)
        assert all(claim.deleting for claim in world.state.all(NodeClaim))
        world.create(*(pod(f"late-{at}", "1500m") for at in range(3)))
        for _ in range(600):
            await world.clock.sleep(SECOND)
            assert running(world, going=True)["cpu"] <= 8
        assert not any(name.startswith("late") for name in bound(world))

    play(script, shared_limits=limits(TEAM))


def test_a_run_with_limits_that_never_bind_is_the_same() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), varied("one"), replicas("web", 12, "900m"))
        await world.clock.sleep(HOUR // 4)

    def bought(**settings: Any) -> list[object]:
        found = play(script, **settings).records("instance.started")
        return [(one["instanceType"], one["zone"], one["capacityType"]) for one in found]

    assert bought() == bought(shared_limits=limits("{name: all, limits: {hourly-cost: 1000, cpu: 100000}}"))
