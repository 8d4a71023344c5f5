"""What happens in the cluster while a plan is made: nodes are bought for pods that still need one."""

from __future__ import annotations

import pytest
from operated import Operated, play, pod, pool, replicas

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE, SECOND
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.runtime.planning.inline import InlinePlanner
from dovetail.testing.guests import node_class


@pytest.fixture(autouse=True)
def _plans_take_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = InlinePlanner.plan

    async def slowly(self: InlinePlanner, problem: Problem, deadline: int) -> Plan:
        found = await plan(self, problem, deadline)
        await self._clock.sleep(5 * SECOND)
        return found

    monkeypatch.setattr(InlinePlanner, "plan", slowly)


def only_large() -> dict[str, object]:
    """Nodes of 2 CPUs that stay."""
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}
    one = pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]})
    one["spec"]["template"]["spec"]["requirements"].append(requirement)
    return one


async def until_planned(world: Operated, batches: int) -> None:
    """Until so many batches were closed: the plan for the last one is being made."""
    while len(world.records("batch")) < batches:
        await world.clock.sleep(SECOND // 10)


async def full_node(world: Operated) -> None:
    """One node, and a pod on it that leaves room for no other."""
    world.create(node_class(), only_large(), pod("first", "1500m"))
    await world.clock.sleep(2 * MINUTE)
    assert len(world.records("node.ready")) == 1


def test_no_node_is_bought_for_a_pod_that_was_bound_while_the_plan_was_made() -> None:
    async def script(world: Operated) -> None:
        await full_node(world)
        world.create(pod("second", "1500m"), pod("third", "1500m"))
        await until_planned(world, 2)
        await world.client.delete(Pod, "first", "default")
        await world.clock.sleep(3 * MINUTE)
        assert all(one.spec.node_name for one in world.state.all(Pod))

    world = play(script)
    overtaken, (_, bought) = world.records("plan.overtaken"), world.records("decision")
    assert [(one["claims"], len(one["pods"])) for one in overtaken] == [(1, 1)]
    assert [len(one["pods"]) for one in bought["claims"]] == [1]
    assert bought["hourly"] == bought["claims"][0]["price"] >= bought["lowerBound"]
    assert len(world.state.all(NodeClaim)) == 2
    assert len(world.records("plan.realised")) == 2, "neither waits for a pod that was bound before"


def test_nothing_is_bought_where_no_pod_needs_a_node_any_more() -> None:
    async def script(world: Operated) -> None:
        await full_node(world)
        world.create(pod("second", "1500m"))
        await until_planned(world, 2)
        await world.client.delete(Pod, "second", "default")
        await world.clock.sleep(3 * MINUTE)

    world = play(script)
    assert len(world.state.all(NodeClaim)) == len(world.records("decision")) == 1
    assert len(world.records("plan.overtaken")) == 1


def test_pods_of_a_node_that_goes_get_their_place_although_they_are_bound() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }

    async def script(world: Operated) -> None:
        world.create(node_class(), only_large(), budget, replicas("web", 1, "1500m"))
        await world.clock.sleep(2 * MINUTE)
        await world.client.delete(Node, world.state.all(Node)[0].metadata.name)
        await world.clock.sleep(20 * SECOND)

    first, second = play(script).records("decision")
    assert first["claims"][0]["pods"] == second["claims"][0]["pods"]
