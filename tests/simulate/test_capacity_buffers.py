"""CapacityBuffers behind their gate: the room that they keep, who may take it, and what it costs others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from operated import Operated, play, pod, pool, replicas

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.capacitybuffer import CapacityBuffer
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import condition
from dovetail.api.workloads import ReplicaSet
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.base.errors import PlannerFailed
from dovetail.model import labels
from dovetail.runtime.settings import FeatureGates
from dovetail.testing.guests import node_class

GATE = FeatureGates(capacity_buffer=True)


def buffer(name: str = "room", namespace: str = "default", **spec: Any) -> dict[str, Any]:
    wanted = spec or {"podTemplateRef": {"name": "unit"}, "replicas": 2}
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": name, "namespace": namespace},
        "spec": wanted,
    }


def template(cpu: str = "1", namespace: str = "default", **spec: Any) -> dict[str, Any]:
    made = pod("unit", cpu, **spec)
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "unit", "namespace": namespace},
        "template": {"metadata": {"labels": {"app": "unit"}}, "spec": made["spec"]},
    }


async def told(
    world: Operated, kind: str, name: str = "room", namespace: str = "default"
) -> tuple[str, str, str] | None:
    found = (await world.client.get(CapacityBuffer, name, namespace)).status
    one = condition(found.conditions, kind)
    return None if one is None else (one.status, one.reason, one.message)


def nodes(world: Operated) -> int:
    return len(world.state.all(Node))


def test_a_buffer_keeps_nodes_that_nothing_runs_on() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), template(), buffer())
        said = []
        for _ in range(100):
            await world.clock.sleep(SECOND // 20)
            said.append(await told(world, "Provisioning"))
        text = "2/2 virtual pods required new capacity, 0 failed"
        assert ("False", "RequiresNewCapacity", text) in said
        await world.clock.sleep(HOUR)
        assert nodes(world) == 1
        text = "All 2 virtual pods fit on existing capacity"
        assert await told(world, "Provisioning") == ("True", "FitsExistingCapacity", text)
        text = "Pod template resolved successfully"
        assert await told(world, "ReadyForProvisioning") == ("True", "Resolved", text)
        status = (await world.client.get(CapacityBuffer, "room", "default")).status
        assert (status.replicas, status.pod_template_generation) == (2, 1)
        assert not world.state.all(Pod)
        (claim,) = world.state.all(NodeClaim)
        assert str(claim.spec.resources.requests["cpu"]) == "2"
        await world.client.delete(CapacityBuffer, "room", "default")
        await world.clock.sleep(5 * MINUTE)
        assert nodes(world) == 0

    world = play(script, gates=GATE)
    name = world.records("node.ready")[0]["node"]
    assert f'Node "{name}" has buffer pods' in world.messages("Unconsolidatable")
    assert len(world.records("claim.created")) == 1
    assert [one["buffers"] for one in world.records("buffer.launched")] == [["default/room"]]
    assert not world.records("nominated")


def test_with_the_gate_shut_a_buffer_does_nothing_and_is_told_nothing() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), template(), buffer())
        await world.clock.sleep(HOUR)
        assert nodes(world) == 0
        assert (await world.client.get(CapacityBuffer, "room", "default")).status.conditions == ()

    play(script)


def test_pods_take_the_room_at_once_and_the_buffer_moves() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), template(), buffer())
        await world.clock.sleep(10 * MINUTE)
        assert nodes(world) == 1
        world.create(replicas("web", 2, "1"))
        await world.clock.sleep(5 * SECOND)
        assert all(one.spec.node_name for one in world.state.all(Pod))
        await world.clock.sleep(10 * MINUTE)
        assert nodes(world) == 2
        assert (await told(world, "Provisioning") or ("",))[0] == "True"

    world = play(script, gates=GATE)
    assert len(world.records("claim.created")) == 2
    assert not world.records("batch")  # no pod had to wait for a plan


def test_the_room_that_pods_leave_is_the_buffers_again() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), template(), buffer(), replicas("web", 6, "1"))
        await world.clock.sleep(10 * MINUTE)
        before = nodes(world)
        await world.client.patch(ReplicaSet, "web", "default", merge={"spec": {"replicas": 2}})
        await world.clock.sleep(HOUR)
        assert nodes(world) < before
        assert (await told(world, "Provisioning") or ("",))[0] == "True"
        settled = nodes(world)
        await world.clock.sleep(HOUR)
        assert nodes(world) == settled

    world = play(script, gates=GATE)
    last = world.records("claim.created")[-1]["t"]
    late = [one for one in world.records("claim.created") if one["t"] > last]
    assert not late  # consolidation and the buffer agree on where there is room


def test_a_buffer_follows_its_workload_and_its_template() -> None:
    async def script(world: Operated) -> None:
        ref = {"kind": "ReplicaSet", "name": "web"}
        world.create(node_class(), pool(), buffer(scalableRef=ref, percentage=50))
        await world.clock.sleep(10 * SECOND)
        text = 'replicasets.apps "web" not found'
        assert await told(world, "ReadyForProvisioning") == ("False", "ScalableRefNotFound", text)
        text = "Buffer is not ReadyForProvisioning"
        assert await told(world, "Provisioning") == ("False", "NotReadyForProvisioning", text)
        world.create(replicas("web", 4, "1"))
        await world.clock.sleep(5 * MINUTE)
        assert (await world.client.get(CapacityBuffer, "room", "default")).status.replicas == 2
        await world.client.patch(ReplicaSet, "web", "default", merge={"spec": {"replicas": 0}})
        await world.clock.sleep(5 * SECOND)
        text = "Buffer has zero desired replicas"
        assert await told(world, "Provisioning") == ("False", "BufferEmpty", text)
        await world.clock.sleep(5 * MINUTE)
        assert nodes(world) == 0

    play(script, gates=GATE)


def test_pods_come_before_buffers_where_a_limit_binds() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(limits={"cpu": "4"}), template(), buffer())
        await world.clock.sleep(5 * MINUTE)
        assert nodes(world) == 1
        # It does not fit beside the node of the buffer into the limit, and not onto that node.
        world.create(pod("large", "3"))
        await world.clock.sleep(5 * MINUTE)
        assert (await world.client.get(Pod, "large", "default")).spec.node_name
        reason = await told(world, "Provisioning")
        assert reason == ("False", "RequiresNewCapacity", "0/2 virtual pods required new capacity, 2 failed")

    play(script, gates=GATE)


def test_what_a_tenant_writes_into_a_buffer_costs_no_one_else() -> None:
    async def script(world: Operated) -> None:
        selector = {"labelSelector": {"matchLabels": {"app": "web"}}, "namespaceSelector": {}}
        apart = {"requiredDuringSchedulingIgnoredDuringExecution": [{**selector, "topologyKey": labels.ZONE}]}
        world.create(node_class(), pool(limits={"cpu": "8"}))
        world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "evil"}})
        world.create(template("1", "evil", affinity={"podAntiAffinity": apart}))
        unit = {"podTemplateRef": {"name": "unit"}}
        world.create(buffer("many", "evil", **unit, replicas=2**31 - 1))
        world.create(buffer("much", "evil", **unit, limits={"cpu": "9" * 18, "memory": "8Ei"}))
        world.create(
            buffer("odd", "evil", scalableRef={"apiGroup": "x", "kind": "y", "name": "z"}, replicas=1)
        )
        await world.clock.sleep(MINUTE)
        world.create(replicas("web", 3, "1"))
        await world.clock.sleep(5 * MINUTE)
        assert [bool(one.spec.node_name) for one in world.state.all(Pod)] == [True] * 3
        status = (await world.client.get(CapacityBuffer, "many", "evil")).status
        assert status.replicas == 2**31 - 1
        text = 'unsupported scalableRef API group "x"'
        assert await told(world, "ReadyForProvisioning", "odd", "evil") == ("False", "ResolutionFailed", text)

    play(script, gates=GATE)


def test_nothing_is_bought_over_and_over_for_pods_that_it_does_not_hold() -> None:
    """A node that comes up with less than was expected of it is not followed by another one."""

    async def script(world: Operated) -> None:
        world.create(node_class(), pool(disruption={"consolidateAfter": "Never"}), template(), buffer())
        await world.clock.sleep(20 * SECOND)
        plan = world.operator._planner.plan

        async def never_there(problem: Any, deadline: int) -> Any:
            full = tuple(node.without_room() if node.initialized else node for node in problem.nodes)
            return await plan(replace(problem, nodes=full), deadline)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(world.operator._planner, "plan", never_there)
            await world.clock.sleep(HOUR)
        assert len(world.state.all(NodeClaim)) <= 3

    play(script, gates=GATE, on_plan=None)


def test_a_plan_that_cannot_be_made_leaves_buffers_as_they_were() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), template(), buffer())
        await world.clock.sleep(5 * MINUTE)

        async def fails(_: Any, __: int) -> Any:
            raise PlannerFailed("out of order")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(world.operator._planner, "plan", fails)
            await world.clock.sleep(HOUR)
            assert nodes(world) == 1
        world.create(replicas("web", 2, "1"))
        await world.clock.sleep(5 * MINUTE)
        assert nodes(world) == 2

    play(script, gates=GATE)


def test_a_new_process_takes_no_node_of_a_buffer_for_empty() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), template(), buffer())
        await world.clock.sleep(10 * MINUTE)
        (before,) = world.state.all(NodeClaim)
        await world.restart()
        await world.clock.sleep(10 * MINUTE)
        (after,) = world.state.all(NodeClaim)
        assert before.metadata.uid == after.metadata.uid

    play(script, gates=GATE)


def test_units_are_as_the_api_server_would_make_their_pods() -> None:
    """Of a template without requests, in a namespace with defaults, under a runtime with overhead."""

    async def script(world: Operated) -> None:
        world.create(node_class(), pool())
        ranges = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}, "default": {"cpu": "1"}}]}
        world.create(
            {
                "apiVersion": "v1",
                "kind": "LimitRange",
                "metadata": {"name": "defaults", "namespace": "default"},
                "spec": ranges,
            },
            {
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "metadata": {"name": "sandbox"},
                "handler": "sandbox",
                "overhead": {"podFixed": {"cpu": "500m"}},
            },
        )
        made = template(runtimeClassName="sandbox")
        made["template"]["spec"]["containers"] = [{"name": "a", "image": "a"}]
        world.create(made, buffer())
        await world.clock.sleep(5 * MINUTE)
        (claim,) = world.state.all(NodeClaim)
        assert str(claim.spec.resources.requests["cpu"]) == "3"

    play(script, gates=GATE)


def test_no_node_is_bought_for_what_units_only_prefer() -> None:
    async def script(world: Operated) -> None:
        spread = {
            "maxSkew": 1,
            "topologyKey": labels.HOSTNAME,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "unit"}},
        }
        world.create(node_class(), pool(), template("500m", topologySpreadConstraints=[spread]))
        world.create(buffer(podTemplateRef={"name": "unit"}, replicas=6))
        await world.clock.sleep(5 * MINUTE)
        assert len(world.state.all(NodeClaim)) == 1

    play(script, gates=GATE)
