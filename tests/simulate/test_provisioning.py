"""Pods that fit nowhere get nodes, and nodes that nothing needs go: the operator on an embedded cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from operated import START, Operated, play, pod, pool

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import condition
from dovetail.base.clock import MINUTE, SECOND, Clock
from dovetail.cloud.inmemory import Limit
from dovetail.cloud.provider import NodeClassResolution
from dovetail.model.plan import OUT_OF_TIME, Plan, Unschedulable
from dovetail.model.problem import Problem
from dovetail.runtime.operator import Ports
from dovetail.runtime.planning.inline import InlinePlanner
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.testing.guests import node_class

TYPE = "node.kubernetes.io/instance-type"


def test_pending_pods_get_one_node_that_holds_them() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("a"), pod("b"))
        await world.clock.sleep(2 * MINUTE)

    world = play(script)
    assert len(world.records("claim.created")) == 1
    assert [record["pod"] for record in world.records("pod.running")] == ["default/a", "default/b"]
    claim = world.state.all(NodeClaim)[0]
    assert claim.metadata.name.startswith("general-")
    assert claim.metadata.owner_references[0].kind == "NodePool"
    for kind in ("Launched", "Registered", "Initialized", "Ready"):
        found = condition(claim.status.conditions, kind)
        assert found is not None
        assert found.status == "True"
    name = claim.metadata.name
    assert f"Pod should schedule on: nodeclaim/{name}" in world.messages("Nominated")
    batch = world.records("batch")[0]
    assert batch["pods"] == ["default/a", "default/b"]
    assert SECOND <= batch["closed"] - batch["opened"] <= SECOND + SECOND // 10
    stored = world.state.get(NodePool, "general")
    assert stored is not None
    assert stored.status.nodes == 1
    assert set(stored.status.resources) >= {"cpu", "memory", "pods", "ephemeral-storage", "nodes"}


def test_the_same_pods_are_not_bought_for_twice() -> None:
    async def script(world: Operated) -> None:
        quiet = {"consolidateAfter": "30s", "consolidationPolicy": "WhenEmpty"}
        world.create(node_class(), pool(disruption=quiet))
        for index in range(5):
            world.create(pod(f"early-{index}"))
            await world.clock.sleep(4 * SECOND)
        await world.clock.sleep(3 * MINUTE)

    world = play(script)
    assert len(world.records("pod.running")) == 5
    bought = world.records("node.created")
    cpus = sum(2 if item["instanceType"] == "m5.large" else 4 for item in bought)
    assert cpus <= 10


def test_limits_hold_and_are_reported() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(limits={"cpu": "2"}), *(pod(f"p{i}", "1500m") for i in range(3)))
        await world.clock.sleep(3 * MINUTE)

    world = play(script)
    assert len(world.records("claim.created")) == 1
    assert len(world.records("pod.running")) == 1
    assert any("limit" in text for text in world.messages("FailedScheduling"))


def test_limits_leave_over_whose_priority_is_low() -> None:
    """Each wants a node of its own, and the one that there may be is for the last of them."""

    async def script(world: Operated) -> None:
        high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
        low = [pod(f"a{i}", nodeSelector={TYPE: "m5.large"}) for i in range(3)]
        last = pod("last", priorityClassName="high", nodeSelector={TYPE: "m5.xlarge"})
        world.create({**high, "value": 1000}, node_class(), pool(limits={"cpu": "4"}), *low, last)
        await world.clock.sleep(3 * MINUTE)

    world = play(script)
    assert [record["pod"] for record in world.records("pod.bound")] == ["default/last"]
    assert [item["instanceType"] for item in world.records("instance.started")] == ["m5.xlarge"]
    assert any("limit" in text for text in world.messages("FailedScheduling"))


def test_a_shortage_of_one_type_buys_another() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("a"))
        await world.clock.sleep(3 * MINUTE)

    world = play(script, limits=(Limit(instance_types=("m5.large",)),))
    assert [item["instanceType"] for item in world.records("instance.started")] == ["m5.xlarge"]
    assert len(world.records("pod.running")) == 1


def test_claims_without_capacity_are_given_up_and_bought_again() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("a"))
        await world.clock.sleep(6 * MINUTE)

    world = play(script, limits=(Limit(until=START + MINUTE),))
    failed = world.records("instance.launchFailed")
    assert len(failed) == 1
    assert [item["claim"] for item in world.records("claim.deleted")] == [failed[0]["claim"]]
    of_claim, of_pod = world.messages("InsufficientCapacityError")
    name = failed[0]["claim"]
    assert of_claim.startswith(f"NodeClaim {name} event: ")
    why = of_claim.partition(" event: ")[2]
    assert of_pod == f"NodeClaim {name} nominated for this pod failed to launch: {why}"
    # The offerings that refused are left alone for three minutes.
    started = world.records("instance.started")
    assert len(started) == 1
    assert 3 * MINUTE <= started[0]["t"] - failed[0]["t"] <= 3 * MINUTE + 30 * SECOND
    assert len(world.records("pod.running")) == 1
    assert any("available instance types" in text for text in world.messages("FailedScheduling"))
    assert world.messages("NoCompatibleInstanceTypes")


def test_empty_nodes_go_after_the_quiet_time_within_budgets() -> None:
    spread: dict[str, Any] = {
        "disruption": {"consolidateAfter": "30s", "budgets": [{"nodes": "1"}]},
    }

    async def script(world: Operated) -> None:
        world.create(node_class(), pool(**spread), *(pod(f"p{i}", "3") for i in range(2)))
        await world.clock.sleep(2 * MINUTE)
        assert len(world.state.all(Node)) == 2
        for index in range(2):
            await world.client.delete(Pod, f"p{index}", "default")
        world.log.record("test.deleted")
        await world.clock.sleep(10 * MINUTE)

    world = play(script)
    deleted = world.records("test.deleted")[0]["t"]
    commands = world.records("disruption")
    assert [len(item["nodes"]) for item in commands] == [1, 1]
    assert [item["reason"] for item in commands] == ["Empty", "Empty"]
    # 30 s of quiet, up to 10 s until the loop looks, 15 s of validation.
    assert 45 * SECOND <= commands[0]["t"] - deleted <= 60 * SECOND
    # The budget of one holds until the first instance is on its way out.
    ended = world.records("claim.condition", type="InstanceTerminating", status="True")
    assert commands[1]["t"] >= ended[0]["t"]
    assert len(world.records("instance.terminated")) == 2
    assert world.state.all(NodeClaim) == ()
    assert "Disrupting Node: Empty" in world.messages("DisruptionTerminating")


def test_a_pod_that_comes_back_in_time_keeps_its_node() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("a", "1500m"))
        await world.clock.sleep(2 * MINUTE)
        await world.client.delete(Pod, "a", "default")
        await world.clock.sleep(25 * SECOND)
        world.create(pod("b", "1500m"))
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    assert world.records("disruption") == []
    assert len(world.records("node.created")) == 1


def test_a_mistyped_tag_is_named() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(tag="karpenter.sh/discovert"), pool(), pod("a"))
        await world.clock.sleep(2 * MINUTE)

    world = play(script)
    found = world.state.get(EC2NodeClass, "default")
    assert found is not None
    subnets = condition(found.status.conditions, "SubnetsReady")
    assert subnets is not None
    assert (subnets.status, subnets.reason) == ("False", "SubnetsNotFound")
    assert subnets.message.startswith("SubnetSelector did not match any Subnets")
    assert "karpenter.sh/discovery" in subnets.message
    groups = condition(found.status.conditions, "SecurityGroupsReady")
    assert groups is not None
    assert groups.reason == "SecurityGroupsNotFound"
    general = world.state.get(NodePool, "general")
    assert general is not None
    ready = condition(general.status.conditions, "Ready")
    assert ready is not None
    assert ready.status == "False"
    assert world.records("claim.created") == []


class Hurried(InlinePlanner):
    """Has time for one pod and one more with every plan."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.asked: list[int] = []

    async def plan(self, problem: Problem, deadline: int) -> Plan:
        self.asked.append(len(problem.pods))
        some, rest = problem.pods[: len(self.asked)], problem.pods[len(self.asked) :]
        plan = await super().plan(replace(problem, pods=some), deadline)
        unheard = tuple(Unschedulable(pod.key, OUT_OF_TIME, {}) for pod in rest)
        return replace(plan, unschedulable=(*plan.unschedulable, *unheard))


def test_pods_that_a_plan_had_no_time_for_are_planned_at_once_without_an_event() -> None:
    planners: list[Hurried] = []

    class InAHurry(Operated):
        def ports(self) -> Ports:
            planners.append(Hurried(self.clock))
            return replace(super().ports(), planner=planners[0])

    async def main(clock: VirtualClock) -> Operated:
        world = InAHurry(clock)
        world.start()
        world.create(node_class(), pool(), *(pod(f"web-{number}") for number in range(6)))
        await clock.sleep(9 * SECOND)
        assert planners[0].asked == [6, 5, 3]
        await clock.sleep(2 * MINUTE)
        return world

    world = run_virtual(main, start=START)
    assert len({record["pod"] for record in world.records("pod.bound")}) == 6
    assert not [text for text in world.messages("FailedScheduling") if OUT_OF_TIME in text]


@pytest.mark.parametrize(
    ("seconds", "bought"),
    [
        pytest.param(0, "m5.large", id="at once"),
        (4, "m5.large"),
        pytest.param(60, "m5.xlarge", id="too long"),
    ],
)
def test_pools_that_come_with_their_pods_are_waited_for(seconds: int, bought: str) -> None:
    """The class of the dear pool is found at once, that of the cheap one takes its time."""

    def only(name: str, instance_type: str) -> dict[str, Any]:
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name}
        wanted = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [instance_type]}
        return pool(name, template={"spec": {"nodeClassRef": reference, "requirements": [wanted]}})

    async def script(world: Operated) -> None:
        resolve = world.cloud.provider.classes.resolve

        async def slowly(node_class: EC2NodeClass) -> NodeClassResolution:
            if node_class.metadata.name == "cheap":
                await world.clock.sleep(seconds * SECOND)
            return await resolve(node_class)

        world.cloud.provider.classes.resolve = slowly  # type: ignore[method-assign]
        classes = [node_class() | {"metadata": {"name": name}} for name in ("dear", "cheap")]
        world.create(*classes, only("dear", "m5.xlarge"), only("cheap", "m5.large"), pod("a"))
        await world.clock.sleep(2 * MINUTE)

    world = play(script)
    assert [item["instanceType"] for item in world.records("instance.started")] == [bought]
    assert world.records("claim.created")[0]["t"] - START < 13 * SECOND
