"""Acceptance: which nodes go, when, and what holds them: age, emptiness, budgets, annotations, garbage."""

from __future__ import annotations

from typing import Any

import pytest
from operated import START, Operated, play, pod, pool
from stories import apart, inflate, scale, travel_class, travel_pool

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import Invalid
from dovetail.model import labels
from dovetail.testing.guests import node_class
from dovetail.units.timestamp import parse_rfc3339

pytestmark = pytest.mark.usefixtures("every_cloud")

HOUR = 60 * MINUTE
ON_POD = 'Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=default/a)'
ON_NODE = 'Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation'
# Evicting such a pod costs less than nothing, so that a node with no others counts as empty.
CHEAP = {labels.POD_DELETION_COST: "-2147483648"}


def quick(*budgets: dict[str, str], **template: Any) -> dict[str, Any]:
    """A pool whose empty nodes go after ten seconds, within these budgets."""
    made = pool(disruption={"consolidateAfter": "10s", "budgets": list(budgets) or [{"nodes": "100%"}]})
    made["spec"]["template"]["spec"].update(template)
    return made


async def annotate(world: Operated, value: str | None) -> None:
    """kubectl annotate node NODE karpenter.sh/do-not-disrupt=VALUE, or - for None."""
    (node,) = world.state.all(Node)
    merge = {"metadata": {"annotations": {labels.DO_NOT_DISRUPT: value}}}
    await world.client.patch(Node, node.metadata.name, merge=merge)


def test_age_ends_a_claim_to_the_second_whatever_budgets_say() -> None:
    async def script(world: Operated) -> None:
        made = travel_pool(expireAfter="60m")
        made["spec"]["disruption"] = {"consolidateAfter": "0s", "budgets": [{"nodes": "0"}]}
        world.create(travel_class(), made, inflate(2))
        await world.clock.sleep(2 * MINUTE)
        (claim,) = world.state.all(NodeClaim)
        end = parse_rfc3339(claim.metadata.creation_timestamp) + HOUR
        await world.clock.sleep(end - 1 - world.clock.now())
        assert not (await world.client.get(NodeClaim, claim.metadata.name)).deleting
        await world.clock.sleep(SECOND // 100)
        assert (await world.client.get(NodeClaim, claim.metadata.name)).deleting
        world.log.record("test.expired")
        await world.clock.sleep(3 * MINUTE)
        assert {item.status.phase for item in world.state.all(Pod)} == {"Running"}

    world = play(script)
    (expired,) = world.records("test.expired")
    first, second = world.records("claim.created")
    # No replacement was prepared; the pods waited while the new node came up.
    assert second["t"] > expired["t"]
    assert set(world.messages("Evicted")) == {"Evicted pod: Forceful Termination"}
    since = expired["t"] - SECOND // 100
    waiting = {item["pod"] for item in world.records("pod.unschedulable") if item["t"] >= since}
    assert len(waiting) == 2
    assert [record["claim"] for record in world.records("claim.deleted")] == [first["claim"]]


def test_scaled_back_nodes_go_one_at_a_time() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), quick({"nodes": "10%"}), inflate(6, affinity=apart()))
        await world.clock.sleep(2 * MINUTE)
        assert len(world.state.all(Node)) == 6
        await scale(world, 1)
        world.log.record("test.scaled")
        await world.clock.sleep(10 * MINUTE)

    world = play(script)
    commands = world.records("disruption")
    assert [(item["reason"], len(item["nodes"])) for item in commands] == [("Empty", 1)] * 5
    # Ten per cent of six nodes, rounded up, is one: the next goes when the one before is on its way out.
    ends = [record["t"] for record in world.records("claim.condition", type="InstanceTerminating")]
    assert all(later["t"] >= end for later, end in zip(commands[1:], ends, strict=False))
    assert world.records("pod.evicted") == []
    assert len(world.state.all(Node)) == 1


@pytest.mark.parametrize("held", [True, False])
def test_a_do_not_disrupt_pod_holds_a_node_that_counts_as_empty(held: bool) -> None:
    async def script(world: Operated) -> None:
        more = {labels.DO_NOT_DISRUPT: "true"} if held else {}
        world.create(node_class(), quick(), pod("a", annotations={**CHEAP, **more}))
        await world.clock.sleep(6 * MINUTE)

    world = play(script)
    assert (world.records("disruption") == []) is held
    assert (world.records("pod.evicted") == []) is held
    events = world.records("event", reason="DisruptionBlocked", message=ON_POD)
    subjects = {str(item["object"]).partition("/")[0] for item in events}
    assert subjects == ({"Node", "NodeClaim"} if held else set())
    assert {item["type"] for item in events} <= {"Normal"}
    # Reported anew every two minutes at most.
    assert len(events) <= 2 * 3


def test_a_do_not_disrupt_pod_outlives_the_age_of_its_node() -> None:
    async def script(world: Operated) -> None:
        annotations = {labels.DO_NOT_DISRUPT: "true"}
        world.create(node_class(), quick(expireAfter="5m"), pod("a", annotations=annotations), pod("b"))
        await world.clock.sleep(30 * MINUTE)
        (node,) = (item for item in world.state.all(Node) if item.deleting)
        assert [taint.key for taint in node.spec.taints] == [labels.DISRUPTED_TAINT]
        kept = await world.client.get(Pod, "a", "default")
        assert (kept.status.phase, kept.spec.node_name) == ("Running", node.metadata.name)
        # It leaves of its own accord, and then the node goes.
        await world.client.delete(Pod, "a", "default")
        await world.clock.sleep(2 * MINUTE)
        assert world.state.all(Node) == ()

    assert [item["pod"] for item in play(script).records("pod.evicted")] == ["default/b"]


@pytest.mark.parametrize("value", [True, 1])
def test_an_annotation_is_a_text(value: object) -> None:
    async def script(world: Operated) -> None:
        with pytest.raises(Invalid):
            world.create(pod("a", annotations={labels.DO_NOT_DISRUPT: value}))

    play(script)


@pytest.mark.parametrize("value", ["true", "True"])
def test_a_node_annotation_holds_iff_it_is_true_and_until_it_is_taken_off(value: str) -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), quick(), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        await annotate(world, value)
        await world.client.delete(Pod, "a", "default")
        await world.clock.sleep(3 * MINUTE)
        if value != "true":
            assert world.records("disruption")
            return
        assert world.records("disruption") == []
        assert ON_NODE in world.messages("DisruptionBlocked")
        await annotate(world, None)
        world.log.record("test.removed")
        await world.clock.sleep(MINUTE)
        # The next look is within ten seconds, the validation takes fifteen more.
        (command,), (removed,) = world.records("disruption"), world.records("test.removed")
        assert 15 * SECOND <= command["t"] - removed["t"] <= 26 * SECOND

    play(script)


def test_a_budget_of_zero_for_ten_minutes_from_midnight() -> None:
    nightly = {"nodes": "0", "schedule": "@daily", "duration": "10m"}

    async def script(world: Operated) -> None:
        world.create(node_class(), quick({"nodes": "10%"}, nightly), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        await world.client.delete(Pod, "a", "default")
        await world.clock.sleep(13 * MINUTE)

    world = play(script)  # begins at 00:00 UTC, which is 09:00 in Seoul
    text = "No allowed disruptions for disruption reason Empty due to blocking budget"
    events = world.records("event", reason="DisruptionBlocked", message=text)
    assert {item["object"] for item in events} == {"NodePool/general"}
    assert all(item["t"] < START + 10 * MINUTE for item in events)
    (command,) = world.records("disruption")
    assert START + 10 * MINUTE <= command["t"] <= START + 11 * MINUTE


def test_an_instance_that_lost_its_claim_is_terminated_after_thirty_seconds() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("a"))
        await world.clock.sleep(8 * SECOND)
        (claim,) = world.state.all(NodeClaim)
        # A user takes the finalizer off, and the instance is left behind while it boots.
        await world.client.patch(NodeClaim, claim.metadata.name, merge={"metadata": {"finalizers": []}})
        await world.client.delete(NodeClaim, claim.metadata.name)
        await world.clock.sleep(4 * MINUTE)
        left = [item.claim for item in await world.cloud.list()]
        assert claim.metadata.name not in left
        assert len(left) == 1

    world = play(script)
    lost, again = world.records("instance.started")
    assert world.records("claim.deleted")[0]["t"] - START < 10 * SECOND
    (ended,) = world.records("instance.terminated")
    assert ended["instance"] == lost["instance"]
    assert again["claim"] != lost["claim"]
    # Thirty seconds of grace, the next look ten seconds later at most, and then the termination itself.
    assert 30 * SECOND <= ended["t"] - lost["t"] <= 2 * MINUTE


def test_a_claim_that_lost_its_instance_is_collected() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), inflate(1))
        await world.clock.sleep(2 * MINUTE)
        (claim,) = world.state.all(NodeClaim)
        await world.cloud.delete(claim.status.provider_id)
        await world.clock.sleep(6 * MINUTE)
        assert claim.metadata.name not in {item.metadata.name for item in world.state.all(NodeClaim)}
        assert {item.status.phase for item in world.state.all(Pod)} == {"Running"}

    play(script)


def test_deleting_a_node_takes_exactly_that_one() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), quick({"nodes": "0"}), pod("a", "1500m"), pod("b", "1500m"))
        await world.clock.sleep(2 * MINUTE)
        nodes = {item.metadata.name: item.spec.provider_id for item in world.state.all(Node)}
        victim = min(nodes)
        await world.client.delete(Node, victim)
        assert victim in {item.metadata.name for item in world.state.all(Node)}  # drained first
        await world.clock.sleep(2 * MINUTE)
        (ended,) = world.records("instance.terminated")
        assert ended["instance"] == nodes[victim]
        assert set(nodes) - {victim} == {item.metadata.name for item in world.state.all(Node)}

    assert len(play(script).records("pod.evicted")) >= 1
