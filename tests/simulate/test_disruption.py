"""Quiet time, blockers and restarts of emptiness, on an embedded cluster."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from operated import Operated, play, pod, pool, replicas

from dovetail.api.codec import encode
from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import condition
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import Unavailable
from dovetail.model import labels
from dovetail.testing.guests import node_class
from dovetail.units.timestamp import to_rfc3339


def quiet(seconds: int, **more: Any) -> dict[str, Any]:
    return {"disruption": {"consolidateAfter": f"{seconds}s", "budgets": [{"nodes": "100%"}], **more}}


def test_a_restart_does_not_begin_the_quiet_time_anew() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(**quiet(300)), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        await world.client.delete(Pod, "a", "default")
        world.log.record("test.deleted")
        await world.clock.sleep(4 * MINUTE)
        await world.restart()
        await world.clock.sleep(3 * MINUTE)

    world = play(script)
    waited = world.records("disruption")[0]["t"] - world.records("test.deleted")[0]["t"]
    assert 315 * SECOND <= waited <= 330 * SECOND


def test_a_restart_buys_nothing_twice() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), *(pod(f"p{i}") for i in range(4)))
        # Claims are created after a batching window of a second, their instances start seconds later.
        for _ in range(3):
            await world.clock.sleep(2 * SECOND)
            await world.restart()
        await world.clock.sleep(4 * MINUTE)

    world = play(script)
    assert len(world.records("pod.running")) == 4
    assert len(world.records("instance.started")) == len(world.state.all(NodeClaim))
    assert len(world.records("claim.created")) == len(world.state.all(NodeClaim))


def test_never_keeps_empty_nodes_and_says_why() -> None:
    async def script(world: Operated) -> None:
        never = {"disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}}
        world.create(node_class(), pool(**never), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        await world.client.delete(Pod, "a", "default")
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    assert world.records("disruption") == []
    assert 'NodePool "general" has consolidation disabled' in world.messages("Unconsolidatable")


def test_budgets_of_zero_are_reported_on_the_pool() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(**quiet(10, budgets=[{"nodes": "0"}])), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        await world.client.delete(Pod, "a", "default")
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    assert world.records("disruption") == []
    text = "No allowed disruptions for disruption reason Empty due to blocking budget"
    events = world.records("event", message=text)
    assert {record["object"] for record in events} == {"NodePool/general"}
    # At most one a minute.
    assert 2 <= len(events) <= 5


@pytest.mark.parametrize(("zone", "goes"), [("Asia/Seoul", False), ("", True), ("Asia/Soul", False)])
def test_windows_of_budgets_are_in_the_time_zone_of_their_pool(zone: str, goes: bool) -> None:
    async def script(world: Operated) -> None:
        hour = datetime.fromtimestamp(world.clock.now() // SECOND, ZoneInfo("Asia/Seoul")).hour
        shut = {"nodes": "0", "schedule": f"0 {hour} * * *", "duration": "2h"}
        made = pool(**quiet(10, budgets=[{"nodes": "100%"}, shut]))
        made["metadata"]["annotations"] = {"dovetail.dev/time-zone": zone}
        world.create(node_class(), made, pod("a"))
        await world.clock.sleep(2 * MINUTE)
        await world.client.delete(Pod, "a", "default")
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    assert bool(world.records("disruption")) == goes
    told = world.messages("InvalidAnnotation")
    assert [("Asia/Soul" in text, "no node is disrupted" in text) for text in told] == (
        [(True, True)] if zone == "Asia/Soul" else []
    )


def test_an_unreadable_budget_forbids_and_is_reported_while_launches_go_on() -> None:
    budgets = [{"nodes": "100%"}, {"nodes": "50%", "schedule": "61 * * * *", "duration": "1h"}]

    async def script(world: Operated) -> None:
        world.create(node_class(), pool(disruption={"consolidateAfter": "10s", "budgets": budgets}), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        await world.client.delete(Pod, "a", "default")
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    assert len(world.records("node.created")) == 1
    assert world.records("disruption") == []
    (events,) = world.messages("InvalidBudget")
    assert events.startswith("Until budget 2 of the NodePool is mended, no node of it is disrupted: ")
    assert "61" in events
    blocked = "No allowed disruptions for disruption reason Empty due to blocking budget"
    assert blocked in world.messages("DisruptionBlocked")


def test_unreadable_annotations_of_a_pool_are_reported_again_and_again() -> None:
    marks = {
        "dovetail.dev/pause": "weekends",
        "dovetail.dev/expiration": "replace",
        "dovetail.dev/minimum-saving": "5 percent",
    }

    async def script(world: Operated) -> None:
        made = pool()
        made["metadata"]["annotations"] = marks
        world.create(node_class(), made)
        await world.clock.sleep(50 * MINUTE)

    events = play(script).records("event", reason="InvalidAnnotation")
    assert {record["object"] for record in events} == {"NodePool/general"}
    first = [str(record["message"]) for record in events[:3]]
    assert first == [
        "The annotation dovetail.dev/pause pauses all, for 'weekends' is none of all, launches, disruption",
        "The annotation dovetail.dev/expiration is ignored: 'replace' is not replace-first",
        "The annotation dovetail.dev/minimum-saving is ignored: '5 percent' is neither a percentage such as "
        '"2%" nor an amount such as "$0.005"',
    ]
    assert len(events) > 3


def test_a_pod_event_that_could_not_be_written_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(**quiet(300)), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        patch, left = world.client.patch, 2

        async def failing(kind: type[Any], *args: Any, **named: Any) -> Any:
            nonlocal left
            if left and "lastPodEventTime" in named["merge"].get("status", {}):
                left -= 1
                raise Unavailable("the server cannot handle the request now")
            return await patch(kind, *args, **named)

        monkeypatch.setattr(world.client, "patch", failing)
        now = world.clock.now()
        await world.client.delete(Pod, "a", "default")
        await world.clock.sleep(5 * SECOND)
        (claim,) = world.state.all(NodeClaim)
        assert claim.status.last_pod_event_time == to_rfc3339(now)

    play(script)


def test_a_taint_that_a_dead_process_left_is_taken_off() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        name = world.state.all(Node)[0].metadata.name
        taint = {"key": labels.DISRUPTED_TAINT, "effect": "NoSchedule"}
        await world.client.patch(Node, name, merge={"spec": {"taints": [taint]}})
        await world.clock.sleep(15 * SECOND)

    world = play(script)
    assert world.state.all(Node)[0].spec.taints == ()


def test_a_mark_that_a_dead_process_left_uses_no_budget() -> None:
    async def script(world: Operated) -> None:
        one_at_a_time = quiet(30, budgets=[{"nodes": "1"}])
        world.create(node_class(), pool(**one_at_a_time), pod("a", "1500m"), pod("b", "3500m"))
        await world.clock.sleep(2 * MINUTE)
        left = {item.spec.node_name for item in world.state.all(Pod) if item.metadata.name == "b"}
        (marked,) = [item for item in world.state.all(NodeClaim) if item.status.node_name in left]
        await world.stop()
        begun = {"type": "DisruptionReason", "status": "True", "reason": "Empty"}
        conditions = [*encode(marked)["status"]["conditions"], begun]
        merge = {"status": {"conditions": conditions}}
        await world.client.patch(NodeClaim, marked.metadata.name, merge=merge, status=True)
        await world.client.delete(Pod, "a", "default")
        await world.restart()
        await world.clock.sleep(3 * MINUTE)
        (kept,) = world.state.all(NodeClaim)
        assert kept.metadata.name == marked.metadata.name
        assert condition(kept.status.conditions, "DisruptionReason") is None

    play(script)


def test_a_pod_that_comes_during_validation_saves_its_node() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(**quiet(30)), pod("a", "1500m"))
        await world.clock.sleep(2 * MINUTE)
        await world.client.delete(Pod, "a", "default")
        # Quiet for 30 s, proposed within 10 s, validated 15 s later.
        await world.clock.sleep(42 * SECOND)
        world.create(pod("b", "1500m"))
        await world.clock.sleep(4 * MINUTE)

    world = play(script)
    assert world.records("disruption") == []
    assert len(world.records("node.created")) == 1


def test_do_not_disrupt_on_a_node_keeps_it() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(**quiet(10)), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        name = world.state.all(Node)[0].metadata.name
        await world.client.patch(
            Node, name, merge={"metadata": {"annotations": {labels.DO_NOT_DISRUPT: "true"}}}
        )
        await world.client.delete(Pod, "a", "default")
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    assert world.records("disruption") == []
    text = 'Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation'
    assert text in world.messages("DisruptionBlocked")


def test_a_do_not_disrupt_that_a_node_does_not_know_is_reported_and_ignored() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(**quiet(10)), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        for kind in (Node, NodeClaim):
            name = world.state.all(kind)[0].metadata.name
            merge = {"metadata": {"annotations": {labels.DO_NOT_DISRUPT: "30m"}}}
            await world.client.patch(kind, name, merge=merge)
        await world.client.delete(Pod, "a", "default")
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    text = "nodes take nothing but \"true\", got '30m', ignoring annotation"
    events = world.records("event", reason="InvalidDoNotDisruptAnnotation")
    assert sorted(event["object"].partition("/")[0] for event in events) == ["Node", "NodeClaim"]
    assert all(event["message"].endswith(text) for event in events)
    assert len(world.records("disruption")) == 1


def test_do_not_disrupt_annotations_are_reported() -> None:
    async def script(world: Operated) -> None:
        key = labels.DO_NOT_DISRUPT
        world.create(
            node_class(), pool(), pod("a", annotations={key: "2m"}), pod("b", annotations={key: "soon"})
        )
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    (invalid,) = world.messages("InvalidDoNotDisruptAnnotation")
    assert invalid.startswith("Invalid karpenter.sh/do-not-disrupt annotation: 'soon' is not a duration")
    assert invalid.endswith(", ignoring annotation")
    (begun,) = world.records("event", reason="DoNotDisruptUntil")
    (ended,) = world.records("event", reason="DoNotDisruptGracePeriodElapsed")
    assert begun["message"].endswith(f"will elapse at {to_rfc3339(ended['t'])}")


def test_pods_of_a_deleted_node_get_a_new_one_before_they_go() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), replicas("web", 2))
        await world.clock.sleep(2 * MINUTE)
        await world.client.delete(Node, world.state.all(Node)[0].metadata.name)
        world.log.record("test.deleted")
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    deleted = world.records("test.deleted")[0]["t"]
    (again,) = [record for record in world.records("claim.created") if record["t"] > deleted]
    # The taint opens a batching window; the instance is on its way while the drain goes on.
    assert again["t"] - deleted <= 15 * SECOND
    assert len(world.records("pod.evicted")) == 2
    running = [item for item in world.state.all(Pod) if item.status.phase == "Running"]
    assert len(running) == 2
    assert len(world.state.all(Node)) == 1


def test_pools_and_claims_of_others_are_left_alone() -> None:
    async def script(world: Operated) -> None:
        theirs = pool("theirs")
        reference = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}
        theirs["spec"]["template"]["spec"]["nodeClassRef"] = reference
        world.create(node_class(), theirs, pod("a"))
        await world.clock.sleep(MINUTE)

    world = play(script)
    assert world.records("claim.created") == []
    assert "conditions" not in world.server.get(NodePool, "theirs").get("status", {})


def test_a_class_in_use_stays_until_its_claims_are_gone() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(**quiet(30)), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        await world.client.delete(EC2NodeClass, "default")
        await world.clock.sleep(MINUTE)
        assert world.state.get(EC2NodeClass, "default") is not None
        general = world.state.get(NodePool, "general")
        assert general is not None
        ready = condition(general.status.conditions, "NodeClassReady")
        assert ready is not None
        assert ready.reason == "NodeClassTerminating"
        await world.client.delete(NodeClaim, world.state.all(NodeClaim)[0].metadata.name)
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    (waiting,) = world.messages("WaitingOnNodeClaimTermination")
    assert waiting.startswith("Waiting on NodeClaim termination for general-")
    assert world.state.get(EC2NodeClass, "default") is None
