"""Nodes that a reboot may mend are drained for a while and rebooted; replaced where that does not help."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pytest
from operated import Operated, play, pod
from stories import falls_ill, six_nodes

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import condition, is_true
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.base.errors import CloudError, RebootRefused
from dovetail.controllers.disruption.metrics import DECISIONS
from dovetail.controllers.nodeclaim.disrupted import UNHEALTHY
from dovetail.controllers.nodeclaim.reboot import NOT_ISSUED, NOT_RECOVERED, REBOOTS, RECOVERY
from dovetail.model import labels
from dovetail.runtime.process.clock import WallClock
from dovetail.runtime.process.logs import JsonLines
from dovetail.runtime.settings import FeatureGates
from dovetail.views.history import LogLines, decisions, history

ON: dict[str, Any] = {"gates": FeatureGates(node_repair=True), "reboots": True}
KEPT = {labels.DO_NOT_DISRUPT: "true"}


def rebooting(world: Operated, name: str) -> tuple[str, str]:
    """Status and reason of the claim's condition."""
    claim = world.state.get(NodeClaim, name)
    found = condition(claim.status.conditions, "Rebooting") if claim is not None else None
    return ("", "") if found is None else (found.status, found.reason)


def claim_of(world: Operated, node: Node) -> NodeClaim:
    claim = world.state.claim_of(node)
    assert claim is not None
    return claim


@pytest.mark.usefixtures("every_cloud")
def test_a_node_is_drained_rebooted_and_takes_pods_again() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world)
        (pod,) = world.state.pods_on(sick.metadata.name)
        claim = claim_of(world, sick)
        await falls_ill(world, sick, reason="XID46")
        await world.clock.sleep(10 * MINUTE + 15 * SECOND)
        node = world.state.get(Node, sick.metadata.name)
        assert node is not None
        # Its pod has left, and is waited for: for a node that comes back none is bought.
        assert labels.INITIALIZED not in node.metadata.labels
        assert any(taint.key == labels.REBOOTING_TAINT for taint in node.spec.taints)
        assert world.state.get(Pod, pod.key) is None
        assert rebooting(world, claim.metadata.name) == ("True", "RebootIssued")
        now = claim_of(world, node)
        initialized = condition(now.status.conditions, "Initialized")
        assert initialized is not None
        assert (initialized.status, initialized.reason) == ("Unknown", "Rebooting")
        await world.clock.sleep(2 * MINUTE)
        node = world.state.get(Node, sick.metadata.name)
        assert node is not None
        assert node.metadata.labels[labels.INITIALIZED] == "true"
        assert not any(taint.key == labels.REBOOTING_TAINT for taint in node.spec.taints)
        assert len(world.state.pods_on(sick.metadata.name)) == 1
        assert rebooting(world, claim.metadata.name) == ("False", "RebootSucceeded")
        known = claim_of(world, node)
        assert condition(known.status.conditions, "DisruptionReason") is None
        await world.clock.sleep(HOUR)

    world = play(script, **ON)
    assert len(world.records("claim.created")) == 6
    assert not world.records("claim.deleted")
    assert len(world.records("instance.rebooted")) == 1
    assert world.messages("RebootObserved") == ["New boot observed (bootID changed); awaiting node readiness"]
    assert world.metrics.value(REBOOTS, result="succeeded") == 1
    decided = {"decision": "reboot", "reason": "unhealthy", "consolidation_type": ""}
    assert world.metrics.value(DECISIONS, **decided) == 1


def test_pods_that_must_not_be_disrupted_ride_through_once_their_time_is_over() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world, annotations=KEPT)
        (pod,) = world.state.pods_on(sick.metadata.name)
        await falls_ill(world, sick, reason="XID46")
        await world.clock.sleep(15 * MINUTE)
        assert not world.records("instance.rebooted")
        await world.clock.sleep(MINUTE)
        assert len(world.records("instance.rebooted")) == 1
        await world.clock.sleep(5 * MINUTE)
        assert [one.key for one in world.state.pods_on(sick.metadata.name)] == [pod.key]

    assert not play(script, **ON).records("claim.deleted")


def test_what_two_reboots_do_not_mend_is_replaced() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world)
        for _ in range(3):
            await falls_ill(world, sick, reason="XID46")
            await world.clock.sleep(20 * MINUTE)

    world = play(script, **ON)
    assert len(world.records("instance.rebooted")) == 2
    assert len(world.records("claim.deleted")) == 1
    actions = [(one["action"], one["escalated"]) for one in world.records("repair.selected")]
    assert actions == [("RebootNode", False), ("RebootNode", False), ("ReplaceNode", True)]


def test_two_reboots_long_ago_do_not_count() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world)
        for pause in (20 * MINUTE, 25 * HOUR, 20 * MINUTE):
            await falls_ill(world, sick, reason="XID46")
            await world.clock.sleep(pause)

    world = play(script, **ON)
    assert len(world.records("instance.rebooted")) == 3
    assert not world.records("claim.deleted")


def test_one_that_does_not_come_back_is_replaced() -> None:
    async def script(world: Operated) -> None:
        world.kubelets.reboot = lambda _: None  # type: ignore[method-assign]  # it stays as it is
        sick, *_ = await six_nodes(world)
        await falls_ill(world, sick, reason="XID46")
        await world.clock.sleep(10 * MINUTE + 20 * SECOND)
        await world.clock.sleep(20 * MINUTE)
        assert world.messages("RebootFailed") == [NOT_RECOVERED.capitalize()]
        await world.clock.sleep(5 * MINUTE)
        assert sick.metadata.name not in {node.metadata.name for node in world.state.all(Node)}

    world = play(script, **ON)
    assert len(world.records("claim.created")) == 7
    assert world.metrics.value(REBOOTS, result="recovery_timeout") == 1


class Refusing:
    """A cloud's machines that refuse reboots with these errors, one after the other."""

    def __init__(self, machines: Any, *errors: Exception) -> None:
        self._machines = machines
        self.errors = list(errors)
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machines, name)

    async def reboot(self, provider_id: str, operation: str) -> None:
        self.asked.append(operation)
        if self.errors:
            raise self.errors.pop(0)
        await self._machines.reboot(provider_id, operation)


def refusing(world: Operated, *errors: Exception) -> Refusing:
    machines = world.operator._context.provider.machines  # type: ignore[attr-defined]
    machines._machines = made = Refusing(machines._machines, *errors)
    return made


@pytest.mark.parametrize("error", [RebootRefused("no"), CloudError("RequestLimitExceeded")])
def test_one_that_the_cloud_does_not_reboot_is_replaced(error: Exception) -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world)
        refusing(world, *[error] * 100)
        await falls_ill(world, sick, reason="XID46")
        await world.clock.sleep(20 * MINUTE)
        assert sick.metadata.name not in {node.metadata.name for node in world.state.all(Node)}

    world = play(script, **ON)
    refused = isinstance(error, RebootRefused)
    assert world.messages("RebootFailed") == ["No" if refused else NOT_ISSUED.capitalize()]
    assert world.metrics.value(REBOOTS, result="provider_error") == 1
    (image,) = {claim.status.image_id for claim in world.state.all(NodeClaim)}
    series = {"nodepool": "general", "capacity_type": "on-demand", "image_id": image}
    mode = {"termination_mode": "eventual"}
    assert world.metrics.value(UNHEALTHY, condition="AcceleratedHardwareReady", **series, **mode) == 1


def test_the_cloud_is_asked_again_for_the_same_reboot() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world)
        machines = refusing(world, *[CloudError("InternalError")] * 3)
        await falls_ill(world, sick, reason="XID46")
        await world.clock.sleep(15 * MINUTE)
        assert len(machines.asked) == 4
        assert len(set(machines.asked)) == 1

    world = play(script, **ON)
    assert len(world.records("instance.rebooted")) == 1
    assert not world.records("claim.deleted")


def test_a_request_that_cannot_be_read_is_void() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world, annotations=KEPT)
        await falls_ill(world, sick, reason="XID46")
        await world.clock.sleep(11 * MINUTE)
        name = claim_of(world, sick).metadata.name
        merge = {"metadata": {"annotations": {labels.REBOOT_GRACE: "soon"}}}
        await world.client.patch(NodeClaim, name, merge=merge)
        await world.clock.sleep(MINUTE)
        assert rebooting(world, name) == ("False", "RebootFailed")
        node = world.state.get(Node, sick.metadata.name)
        assert node is not None and not node.spec.taints
        assert condition(claim_of(world, node).status.conditions, "DisruptionReason") is None

    world = play(script, **ON)
    assert not world.records("instance.rebooted")
    assert world.metrics.value(REBOOTS, result="invalid_request") == 1


@pytest.mark.parametrize("seconds", [605, 615, 630, 645, 660])
def test_a_restart_in_the_midst_of_it_reboots_once(seconds: int) -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world)
        await falls_ill(world, sick, reason="XID46")
        await world.clock.sleep(seconds * SECOND)
        await world.restart()
        await world.clock.sleep(20 * MINUTE)
        assert rebooting(world, claim_of(world, sick).metadata.name) == ("False", "RebootSucceeded")

    world = play(script, **ON)
    assert len(world.records("instance.rebooted")) == 1
    assert not world.records("claim.deleted")


def test_it_uses_up_the_budgets_of_all_others() -> None:
    async def script(world: Operated) -> None:
        sick, other, *_ = await six_nodes(world, {"nodes": "1"}, annotations=KEPT)
        await falls_ill(world, sick, reason="XID46")
        await falls_ill(world, other, reason="XID46")
        await world.clock.sleep(14 * MINUTE)
        conditions = [rebooting(world, claim.metadata.name)[0] for claim in world.state.all(NodeClaim)]
        assert sorted(conditions) == ["", "", "", "", "", "True"]
        await world.clock.sleep(10 * MINUTE)

    world = play(script, **ON)
    assert len(world.records("instance.rebooted")) == 2  # one after the other
    assert not world.records("claim.deleted")
    text = "No allowed disruptions for disruption reason Unhealthy due to blocking budget"
    assert text in world.messages("DisruptionBlocked")


def test_without_the_gate_it_is_replaced() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world)
        await falls_ill(world, sick, reason="XID46")
        await world.clock.sleep(20 * MINUTE)

    world = play(script, gates=FeatureGates(node_repair=True))
    assert not world.records("instance.rebooted")
    assert len(world.records("claim.deleted")) == 1
    assert not world.metrics.observed(RECOVERY)


def test_kubelets_of_nodes_that_are_gone_keep_nothing_of_them() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world)
        await falls_ill(world, sick, reason="XID46")
        await world.clock.sleep(15 * MINUTE)
        await world.kubelets.report(sick.metadata.name, "KernelReady", "False", "Oops")
        await world.client.delete(NodeClaim, claim_of(world, sick).metadata.name)
        await world.clock.sleep(5 * MINUTE)
        nodes = world.kubelets._nodes
        assert not nodes._reported and not nodes._reboots[sick.metadata.name]

    play(script, **ON)


def seen(world: Operated, key: str) -> tuple[str, bool]:
    """Phase of the pod, and whether it is ready."""
    found = world.state.get(Pod, key)
    assert found is not None
    return found.status.phase, is_true(found.status.conditions, "Ready")


def test_pods_that_ride_through_are_not_ready_until_their_containers_run_again() -> None:
    """As on a real node: its controller makes them unready after 40 s, containers are started anew."""

    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world, annotations=KEPT)
        (pod,) = world.state.pods_on(sick.metadata.name)
        begun = pod.status.start_time
        states: list[tuple[str, bool]] = []
        world.kubelets.reboot(sick.spec.provider_id)
        for _ in range(180):
            await world.clock.sleep(SECOND)
            now = seen(world, pod.key)
            if now != (states[-1] if states else None):
                states.append(now)
        assert states == [("Running", True), ("Running", False), ("Running", True)]
        after = world.state.get(Pod, pod.key)
        assert after is not None and after.status.start_time == begun

    play(script)


def test_what_is_never_started_anew_has_failed_with_the_reboot() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world)
        once = {"nodeName": sick.metadata.name, "restartPolicy": "Never"}
        world.create(pod("once", "10m", **once))
        await world.clock.sleep(MINUTE)
        assert seen(world, "default/once") == ("Running", True)
        world.kubelets.reboot(sick.spec.provider_id)
        await world.clock.sleep(2 * MINUTE)
        assert seen(world, "default/once") == ("Failed", False)

    play(script)


def test_pods_of_a_node_that_is_silent_for_a_while_are_ready_again_and_end_when_they_would() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world)
        marks = {"simulation.dovetail.dev/duration": "5m"}
        world.create(pod("work", "10m", annotations=marks, nodeName=sick.metadata.name))
        await world.clock.sleep(MINUTE)
        await world.kubelets.silence(sick.metadata.name, 39 * SECOND)
        assert seen(world, "default/work") == ("Running", True)
        silent = asyncio.create_task(world.kubelets.silence(sick.metadata.name, 2 * MINUTE))
        await world.clock.sleep(MINUTE)
        assert seen(world, "default/work") == ("Running", False)
        await silent
        await world.clock.sleep(SECOND)
        assert seen(world, "default/work") == ("Running", True)
        await world.clock.sleep(2 * MINUTE)
        assert seen(world, "default/work") == ("Succeeded", False)

    play(script)


def test_the_history_of_a_node_has_its_reboots_whoever_wrote_the_log() -> None:
    sick: list[str] = []

    async def script(world: Operated) -> None:
        node, *_ = await six_nodes(world)
        sick.append(node.metadata.name)
        await falls_ill(world, node, reason="XID46")
        await world.clock.sleep(20 * MINUTE)

    log = play(script, **ON).log.records
    kinds = ("repair.selected", "reboot.requested", "reboot.issued", "reboot.ended")
    told = [one.text for one in history(log, *sick) if one.record["kind"] in kinds]
    assert told[:3] == [
        "past help, to be rebooted: AcceleratedHardwareReady (XID46)",
        "chosen to be rebooted (AcceleratedHardwareReady/XID46): its pods leave first",
        "the cloud reboots it",
    ]
    assert told[3].startswith("rebooted and ready again, ")
    out, reader = io.StringIO(), LogLines("log")
    for one in log:
        if one["kind"] in kinds:
            fields = {key: value for key, value in one.items() if key not in ("kind", "t")}
            JsonLines(WallClock(), "info", out).record(one["kind"], **fields)
        elif one["kind"] == "node.created":
            out.write(json.dumps(one) + "\n")
    lines = [found for line in out.getvalue().splitlines() if (found := reader.read(line.encode()))]
    assert [one.text for one in history(lines, *sick) if one.record["kind"] in kinds] == told
    assert [one["what"] for one in decisions(lines)] == ["reboot", "reboot"]


def test_that_a_node_meets_a_policy_is_said_once_and_so_is_its_end() -> None:
    async def script(world: Operated) -> None:
        sick, *_ = await six_nodes(world)
        before = len(world.records("repair.matched"))
        await falls_ill(world, sick, reason="XID46")
        await world.clock.sleep(5 * MINUTE)
        assert [one["node"] for one in world.records("repair.matched")[before:]] == [sick.metadata.name]
        ended = len(world.records("repair.recovered"))
        await world.kubelets.report(sick.metadata.name, "AcceleratedHardwareReady", "True", "")
        await world.clock.sleep(5 * MINUTE)
        assert [one["node"] for one in world.records("repair.recovered")[ended:]] == [sick.metadata.name]

    play(script, **ON)
