"""What /metrics shows of a cluster: its pods, nodes, pools, conditions and offers, and what came and went."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from aws_cloud import REGION
from operated import Operated, play, pod, pool, replicas

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE, SECOND
from dovetail.controllers import lifetimes
from dovetail.controllers.node import evict
from dovetail.runtime import metered
from dovetail.testing.guests import node_class

NAMED = re.compile(r"([a-z_0-9]+)(?:\{(.*)\})? (\S+)")


def read(text: bytes) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Metric -> its series: labels and value."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for line in text.decode().splitlines():
        if line.startswith("#"):
            continue
        match = NAMED.fullmatch(line)
        assert match is not None, line
        marks = dict(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
        found.setdefault(match[1], []).append((marks, float(match[3])))
    return found


async def figures(world: Operated) -> dict[str, list[tuple[dict[str, str], float]]]:
    return read(b"".join(await world.operator.figures.text()))


def of(found: list[tuple[dict[str, str], float]], **wanted: str) -> list[float]:
    return [value for marks, value in found if wanted.items() <= marks.items()]


def test_the_cluster_as_it_is() -> None:
    async def script(world: Operated) -> None:
        limited = pool(limits={"cpu": "100"})
        world.create(node_class(), limited, replicas("web", 2, "1"), pod("huge", "90"))
        await world.clock.sleep(3 * MINUTE)
        found = await figures(world)
        where = {"nodepool": "general", "capacity_type": "on-demand", "managed": "true", "scheduled": "true"}
        owner = "/apis/apps/v1/namespaces/default/replicasets/web"
        assert of(found["karpenter_pods_state"], owner=owner, phase="Running", **where) == [1.0, 1.0]
        waits = 3 * MINUTE / SECOND
        assert of(found["karpenter_pods_unbound_time_seconds"], name="huge") == [pytest.approx(waits, abs=1)]
        assert of(found["karpenter_nodes_total_pod_requests"], resource_type="cpu") == [2.0]
        (room,) = of(found["karpenter_nodes_allocatable"], resource_type="cpu")
        assert 2 < room < 4
        (part,) = of(found["karpenter_cluster_utilization_percent"], resource_type="cpu")
        assert part == pytest.approx(100 * 2 / room)
        assert of(found["karpenter_nodepools_limit"], nodepool="general", resource_type="cpu") == [100.0]
        assert of(found["karpenter_nodepools_usage"], nodepool="general", resource_type="nodes") == [1.0]
        (cost,) = of(found["karpenter_nodepools_cost_total"], nodepool="general")
        assert 0.1 < cost < 0.5
        assert found["karpenter_cluster_state_synced"] == [({}, 1.0)]
        assert found["karpenter_cluster_state_node_count"] == [({}, 1.0)]
        ready = found["operator_nodeclaim_status_condition_count"]
        assert of(ready, type="Ready", status="True") == [1.0]
        assert of(found["operator_nodepool_status_condition_current_status_seconds"], type="Ready")
        sold = found["karpenter_cloudprovider_instance_type_offering_available"]
        assert of(sold, instance_type="m5.large", capacity_type="on-demand")
        assert of(found["karpenter_cloudprovider_instance_type_cpu_cores"], instance_type="m5.large") == [2.0]

    play(script)


def test_pods_that_wait_and_those_that_were_promised_a_node() -> None:
    async def script(world: Operated) -> None:
        where = {"topology.kubernetes.io/zone": f"{REGION}a"}
        nowhere = {"topology.kubernetes.io/zone": "elsewhere"}
        world.create(node_class(), pool(), pod("a", nodeSelector=where), pod("huge", "900"))
        world.create(pod("lost", nodeSelector=nowhere))
        await world.clock.sleep(20 * SECOND)
        found = await figures(world)
        (waits,) = of(found["karpenter_pods_provisioning_unbound_time_seconds"])
        assert found["karpenter_pods_provisioning_unbound_time_seconds"][0][0]["name"] == "a"
        assert found["karpenter_pods_provisioning_unstarted_time_seconds"] == [
            ({"name": "a", "namespace": "default"}, waits)
        ]
        assert 10 < waits < 20
        assert "karpenter_pods_provisioning_scheduling_undecided_time_seconds" not in found
        await world.clock.sleep(2 * MINUTE)
        zones = (await figures(world))["karpenter_scheduler_pending_pods_by_effective_zone_count"]
        assert zones == [
            ({"controller": "provisioner", "zone": "flexible"}, 1.0),
            ({"controller": "provisioner", "zone": "none"}, 1.0),
        ]

    metrics = play(script).metrics
    (bound,), (started,) = (
        metrics.observed(lifetimes.PROMISED_BOUND, dynamic_resources="false"),
        metrics.observed(lifetimes.PROMISED_STARTED),
    )
    assert 10 < bound <= started < 120


def test_queues_report_their_turns() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("a"))
        await world.clock.sleep(3 * MINUTE)
        found = await figures(world)
        by = {"controller": "nodeclaim.lifecycle"}
        ended = {
            marks["result"]: value
            for marks, value in found["controller_runtime_reconcile_total"]
            if marks["controller"] == by["controller"]
        }
        assert ended.keys() == {"success", "requeue_after", "error"}
        (turns,) = of(found["controller_runtime_reconcile_time_seconds_count"], **by)
        assert turns == sum(ended.values()) > 2
        assert of(found["controller_runtime_reconcile_time_seconds_bucket"], le="+Inf", **by) == [turns]
        assert of(found["workqueue_work_duration_seconds_count"], name="nodeclaim.lifecycle") == [turns]
        assert of(found["workqueue_adds_total"], **by) >= [turns]
        assert of(found["workqueue_depth"], **by) == [0.0]
        assert of(found["controller_runtime_active_workers"], **by) == [0.0]
        assert of(found["controller_runtime_max_concurrent_reconciles"], **by) == [100.0]

    play(script)


def test_it_is_made_anew_after_five_seconds_and_only_for_what_changed() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("a"))
        await world.clock.sleep(3 * MINUTE)
        before = await world.operator.figures.text()
        world.create(pod("late"))
        await world.clock.sleep(SECOND)
        assert await world.operator.figures.text() is before
        await world.clock.sleep(5 * SECOND)
        assert of((await figures(world))["karpenter_pods_state"], name="late")
        await world.client.delete(Pod, "a", "default")
        await world.clock.sleep(MINUTE)
        assert not of((await figures(world))["karpenter_pods_state"], name="a")

    play(script)


def test_without_single_pods_and_nodes() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("a"))
        await world.clock.sleep(MINUTE)
        found = await figures(world)
        assert "karpenter_nodepools_usage" in found
        assert not {"karpenter_pods_state", "karpenter_nodes_allocatable"} & found.keys()

    play(script, cluster_figures=False)


def test_what_came_and_went() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("a"))
        await world.clock.sleep(3 * MINUTE)
        await world.client.delete(Pod, "a", "default")
        await world.clock.sleep(10 * MINUTE)

    world = play(script)
    metrics = world.metrics
    (zone,) = {item["zone"] for item in world.records("instance.started")}
    place = {"nodepool": "general", "zone": str(zone)}
    assert metrics.value(lifetimes.NODES_CREATED, **place) == 1
    assert metrics.value(lifetimes.NODES_TERMINATED, **place) == 1
    assert metrics.value(lifetimes.CLAIMS, **place, capacity_type="on-demand") == 1
    assert metrics.value(lifetimes.NODES_DRAINED, nodepool="general") == 1
    for metric in (lifetimes.NODE_END, lifetimes.CLAIM_END, lifetimes.INSTANCE_END, lifetimes.NODE_LIFE):
        (seconds,) = metrics.observed(metric, nodepool="general")
        assert 0 < seconds < 700
    (bound,) = metrics.observed(lifetimes.POD_BOUND, dynamic_resources="false")
    (started,) = metrics.observed(lifetimes.POD_STARTED)
    assert 30 < bound <= started < 180
    named = {"type": "Ready", "status": "True", "reason": "Ready"}
    assert metrics.value(lifetimes.CLAIM_CHANGES, **named) == 1
    assert metrics.observed(lifetimes.CLAIM_LASTED, type="Ready", status="True")
    assert metrics.observed(
        metered.DURATION, controller="nodeclaim.lifecycle", method="Create", provider="karpenter.k8s.aws"
    )


def test_evictions_are_counted_by_their_answer() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("a"))
        await world.clock.sleep(3 * MINUTE)
        (claim,) = world.records("instance.started")
        await world.client.delete(NodeClaim, str(claim["claim"]))
        await world.clock.sleep(5 * MINUTE)

    metrics = play(script).metrics
    assert metrics.value(evict.PODS, reason="Forceful Termination") == 1
    assert (metrics.value(evict.EVICTIONS, code="200") or 0) >= 1


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_reads_all_of_it() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(limits={"cpu": "100"}), pod("a"))
        await world.clock.sleep(3 * MINUTE)
        text = b"".join(await world.operator.figures.text())
        done = subprocess.run(("promtool", "check", "metrics"), input=text, capture_output=True, check=False)
        assert b"error while linting" not in done.stderr, done.stderr
        assert b"parsing" not in done.stderr

    play(script)
