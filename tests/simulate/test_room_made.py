"""A pod that lost its room gets it from pods that have not started, before another node is bought."""

from __future__ import annotations

from typing import Any

import pytest
from operated import Operated, play, pod, pool, replicas

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE, SECOND
from dovetail.controllers.node.evict import EVICTIONS
from dovetail.controllers.provisioning.makeroom import LONGEST_NAMING, RoomMaker, Swap
from dovetail.model import labels
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import Problem
from dovetail.model.requirement import Requirements
from dovetail.simulate.kubelet.pods import STARTUP
from dovetail.testing.guests import node_class


def slow(name: str, count: int, cpu: str, **annotations: str) -> dict[str, Any]:
    """A ReplicaSet whose pods take minutes to start."""
    made = replicas(name, count, cpu)
    made["spec"]["template"]["metadata"]["annotations"] = {STARTUP: "3m", **annotations}
    return made


def two_nodes(**spec: Any) -> dict[str, Any]:
    """A pool of nodes of 2 CPUs."""
    one = pool(**spec)
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}
    one["spec"]["template"]["spec"]["requirements"].append(requirement)
    return one


async def burst(world: Operated, times: int = 1, **annotations: str) -> None:
    """So many times two small ones are bound to one of two nodes before these open: for each a large pod fits
    nowhere.
    """
    # A scheduler without any node does not try pods when one comes.
    world.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "full"}})
    world.create(slow("small", 2 * times, "350m", **annotations), slow("large", 2 * times, "1400m"))
    while len(world.state.all(Node)) < 1 + 2 * times:
        await world.clock.sleep(SECOND)
    crowded = sorted(node.metadata.name for node in world.state.all(Node) if node.metadata.name != "full")
    small = [one for one in world.state.all(Pod) if one.metadata.name.startswith("small")]
    for n, one in enumerate(small):
        await world.client.bind(one.metadata.name, "default", crowded[-1 - n // 2])


def test_no_node_is_bought_for_what_fits_once_a_pod_that_has_not_started_goes_elsewhere() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), two_nodes())
        await burst(world)
        await world.clock.sleep(2 * MINUTE)
        assert len(world.state.all(NodeClaim)) == 2
        assert all(one.spec.node_name for one in world.state.all(Pod))

    world = play(script)
    assert len(world.records("batch")) == 1  # nothing more was planned
    (made,) = world.records("room.made")
    assert [key.split("/")[1].split("-")[0] for key in made["pods"]] == ["large"]
    assert [key.split("/")[1].split("-")[0] for key in made["leaving"]] == ["small"]
    assert world.metrics.value(EVICTIONS, code="200") == 1


def test_what_else_a_node_was_for_that_is_not_bought_is_planned_anew_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def no_haste(_: RoomMaker, __: str) -> None:
        """Room is made once a node would be bought, not as soon as a pod is refused."""

    monkeypatch.setattr(RoomMaker, "reconcile", no_haste)

    async def script(world: Operated) -> None:
        beside = two_nodes()
        beside["metadata"]["name"] = "beside"
        beside["spec"]["template"]["metadata"] = {"labels": {"tier": "beside"}}
        world.create(node_class(), two_nodes())
        await burst(world)
        while sum(bool(one.spec.node_name) for one in world.state.all(Pod)) < 3:
            await world.clock.sleep(SECOND // 100)
        world.create(beside, pod("other", "400m", nodeSelector={"tier": "beside"}))
        await world.clock.sleep(2 * MINUTE)
        assert len(world.state.all(NodeClaim)) == 3
        assert all(one.spec.node_name for one in world.state.all(Pod))

    world = play(script)
    first, both, anew = world.records("solve")[:3]
    assert [first["pods"], both["pods"], anew["pods"]] == [4, 2, 1]
    (_, bought) = world.records("decision")
    assert [one["pods"] for one in bought["claims"]] == [["default/other"]]
    assert len(world.records("batch")) == 2


@pytest.mark.parametrize(
    ("spec", "annotations"),
    [
        ({"disruption": {"consolidateAfter": "30s", "budgets": [{"nodes": "0"}]}}, {}),
        ({}, {labels.DO_NOT_DISRUPT: "true"}),
    ],
)
def test_what_is_protected_stays(spec: dict[str, Any], annotations: dict[str, str]) -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), two_nodes(**spec))
        await burst(world, **annotations)
        await world.clock.sleep(2 * MINUTE)
        assert len(world.records("decision")) == 2

    world = play(script)
    assert not world.records("room.made")


def test_several_leave_for_one_where_none_is_enough_alone() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), two_nodes())
        world.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "full"}})
        world.create(slow("small", 4, "250m"), slow("large", 2, "1400m"))
        while len(world.state.all(Node)) < 3:
            await world.clock.sleep(SECOND)
        crowded = max(node.metadata.name for node in world.state.all(Node) if node.metadata.name != "full")
        for one in world.state.all(Pod):
            if one.metadata.name.startswith("small"):
                await world.client.bind(one.metadata.name, "default", crowded)
                await world.clock.sleep(SECOND)
        await world.clock.sleep(2 * MINUTE)
        assert len(world.state.all(NodeClaim)) == 2

    assert len(play(script).records("pod.evicted")) == 2


def test_a_pod_that_waits_for_its_nomination_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two lack room, and one of them is never seen to be nominated: the other has its own before that one is
    given up, as what could leave starts within seconds.
    """
    asked, names = list[tuple[str, int]](), RoomMaker._names

    def not_the_first(self: RoomMaker, swap: Swap) -> bool:
        asked.append((swap.pod.key, self._context.clock.now()))
        return swap.pod.key != asked[0][0] and names(self, swap)

    monkeypatch.setattr(RoomMaker, "_names", not_the_first)

    async def script(world: Operated) -> None:
        world.create(node_class(), two_nodes())
        await burst(world, times=2)
        await world.clock.sleep(MINUTE)

    made = play(script).records("room.made")[0]
    first, since = asked[0]
    assert first not in made["pods"]
    assert made["t"] - since < LONGEST_NAMING


def test_a_pod_that_room_was_just_made_for_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that was made before would void it, give the room to another, and wait in vain."""
    reconcile, found = RoomMaker.reconcile, list[tuple[frozenset[str], str, str]]()

    async def planned_meanwhile(self: RoomMaker, key: str) -> int | None:
        left = await reconcile(self, key)
        state = self._state
        pod = state.get(Pod, key)
        if pod is not None and pod.metadata.uid in self._helped and not pod.spec.node_name:
            before = state.promised(pod)
            claim = PlannedClaim("n", "general", (key,), Requirements(), (), {}, "", "", "", 0, 0)
            helped = await self.make_room(Problem((pod,), ()), Plan(claims=(claim,)))
            after = state.promised(pod)
            assert before is not None
            assert after is not None
            found.append((helped, before.name, after.name))
        return left

    monkeypatch.setattr(RoomMaker, "reconcile", planned_meanwhile)

    async def script(world: Operated) -> None:
        world.create(node_class(), two_nodes())
        await burst(world)
        await world.clock.sleep(MINUTE)

    play(script)
    assert found
    assert all(helped and before == after for helped, before, after in found)
