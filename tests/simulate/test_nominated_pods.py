"""Pods are nominated for the nodes of their plan, and the scheduler heeds it."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cloud import REGION
from msgspec.structs import replace
from operated import LATENCIES, Operated, daemonset, play, pod, pool, replicas
from stories import inflate

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import ApiError, Forbidden
from dovetail.controllers.provisioning import nominate
from dovetail.controllers.provisioning.nominate import LONGEST_SHOW, NOMINATIONS
from dovetail.controllers.provisioning.openings import FEW_PODS
from dovetail.model import labels
from dovetail.simulate.scenario.latency import Distribution
from dovetail.testing.guests import node_class

MARK = labels.NOMINATED


async def until_bound(world: Operated) -> None:
    for _ in range(180):
        pods = world.state.all(Pod)
        if pods and all(one.spec.node_name for one in pods):
            return
        await world.clock.sleep(SECOND)
    raise AssertionError("pods are not bound")


def held(world: Operated) -> bool:
    keys = [taint.key for node in world.state.all(Node) for taint in node.spec.taints]
    return labels.OPENING_TAINT in keys


def spread(app: str, key: str = labels.ZONE) -> dict[str, Any]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {"topologySpreadConstraints": [constraint]}


def test_pods_get_the_nodes_that_were_bought_for_them() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), inflate(9, **spread("inflate")))
        await world.clock.sleep(MINUTE)
        for one in world.state.all(Pod):
            assert MARK in one.metadata.annotations
            assert not one.status.nominated_node_name
        assert not [node for node in world.state.all(Node) if node.spec.taints]

    world = play(script)
    (realised,) = world.records("plan.realised")
    assert realised["pods"]["replanned"] == 0
    assert (world.metrics.value(NOMINATIONS, outcome="set") or 0) >= 9
    assert len(world.records("decision")) == 1


def test_what_daemonsets_bring_is_nominated_as_its_node_opens_and_no_more_once_that_has_been_up() -> None:
    """The plan leaves room for it: a pod whose own node is still closed would take that."""

    async def script(world: Operated) -> None:
        def marks(app: str) -> list[str]:
            pods = [one for one in world.state.all(Pod) if one.metadata.labels.get("app") == app]
            return [one.metadata.annotations.get(MARK, "") for one in pods]

        gates = [{"name": "example.com/image"}]  # so the scheduler does not bind it before the node opens
        world.create(node_class(), pool(), inflate(3), daemonset("agent", "100m", schedulingGates=gates))
        while not held(world):
            await world.clock.sleep(SECOND // 10)
        await world.clock.sleep(SECOND // 10)
        assert marks("agent") == [""]
        while held(world):
            await world.clock.sleep(SECOND // 10)
        (node,) = world.state.all(Node)
        assert marks("agent") == [node.metadata.name]

        world.create(daemonset("huge", "1000"))  # refused for good: it is not nominated for ever
        await world.clock.sleep(SECOND)
        assert marks("huge") == [node.metadata.name]
        await world.clock.sleep(MINUTE)
        assert marks("huge") == [""]

    play(script)


def test_what_daemonsets_bring_keeps_no_planned_pod_away_that_must_be_apart_from_it() -> None:
    """No plan knows of that: were the other one first, nodes would be bought in vain."""
    term = {"labelSelector": {"matchLabels": {"app": "agent"}}, "topologyKey": labels.HOSTNAME}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    async def script(world: Operated) -> None:
        gates = [{"name": "example.com/image"}]
        daemons = [daemonset(name, "100m", schedulingGates=gates) for name in ("agent", "other")]
        world.create(node_class(), pool(), inflate(3, affinity=apart), *daemons)
        while not held(world):
            await world.clock.sleep(SECOND // 10)
        while held(world):
            await world.clock.sleep(SECOND // 10)
        for one in world.state.all(Pod):
            assert (MARK in one.metadata.annotations) is not one.metadata.name.startswith("agent")

    play(script)


def test_nodes_of_one_spread_open_together() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), inflate(9, **spread("inflate")))
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    (opened,) = world.records("nodes.opened")
    assert opened["nominated"] == 9
    assert len(opened["nodes"]) == len(world.records("node.ready")) > 1


def test_nodes_of_pods_that_others_keep_away_open_before_those_of_the_others(monkeypatch: Any) -> None:
    """Until one of these runs the scheduler does not look at rules of theirs for pods without any."""
    monkeypatch.setitem(LATENCIES, "boot", Distribution(30 * SECOND, 0.2))
    term = {"topologyKey": labels.HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    async def script(world: Operated) -> None:
        meta = {"labels": {"app": "web"}}
        world.create(node_class(), pool())
        world.create(*({**one, "metadata": {**one["metadata"], **meta}} for one in map(web, range(3))))
        world.create(inflate(3, affinity=apart))
        await until_bound(world)

    def web(number: int) -> dict[str, Any]:
        return pod(f"web-{number}", "1", nodeSelector={labels.ZONE: f"{REGION}{'abc'[number]}"})

    world = play(script)
    (decision,) = world.records("decision")
    claims = {one["node"]: one["claim"] for one in world.records("node.created")}
    others = {one["claim"] for one in decision["claims"] if any("inflate" in key for key in one["pods"])}
    opened = [claims[node] in others for one in world.records("nodes.opened") for node in one["nodes"]]
    last = [claims[node] in others for node in world.records("nodes.opened")[-1]["nodes"]]
    assert sorted(opened) == [False, False, False, True]
    assert True in last


def test_of_pods_that_must_be_near_each_other_the_first_has_its_place_before_others_open() -> None:
    """The other node has room for one of three, and is in another zone."""
    term = {"topologyKey": labels.ZONE, "labelSelector": {"matchLabels": {"app": "inflate"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    def in_zone(zone: str, **more: Any) -> dict[str, Any]:
        found = pool(zone, **more)
        requirement = {"key": labels.ZONE, "operator": "In", "values": [f"{REGION}{zone}"]}
        found["spec"]["template"]["spec"]["requirements"].append(requirement)
        return found

    async def script(world: Operated) -> None:
        web = pod("web", "500m", nodeSelector={labels.NODEPOOL: "b"})
        small = in_zone("b", limits={"cpu": "2"})
        world.create(node_class(), in_zone("a"), small, web, inflate(3, affinity=near))
        await until_bound(world)

    world = play(script)
    (decision,) = world.records("decision")
    assert sorted((one["pool"], len(one["pods"])) for one in decision["claims"]) == [("a", 3), ("b", 1)]
    claims = {one["node"]: one["claim"] for one in world.records("node.created")}
    pools = {one["claim"]: one["pool"] for one in decision["claims"]}
    opened = [[pools[claims[node]] for node in one["nodes"]] for one in world.records("nodes.opened")]
    assert opened == [["a"], ["b"]]


@pytest.mark.parametrize("must", [True, False])
def test_where_no_pod_is_nominated_nodes_open_one_after_the_other_once_all_are_up(must: bool) -> None:
    rules = spread("inflate") if must else {}

    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), inflate(9, **rules))
        await world.clock.sleep(5 * MINUTE)
        assert not any(MARK in one.metadata.annotations for one in world.state.all(Pod))

    world = play(script, nominate_pods=False)
    opened = world.records("nodes.opened")
    up = {one["node"]: one["t"] for one in world.records("node.created")}
    assert sorted(name for one in opened for name in one["nodes"]) == sorted(up)
    assert len(up) > len(opened[0]["nodes"]) == 1
    assert max(up.values()) < opened[0]["t"]
    assert len(world.records("decision")) == 1
    assert not world.metrics.value(NOMINATIONS, outcome="set")


def test_where_no_pod_is_nominated_a_large_pod_whose_turn_is_last_finds_room() -> None:
    """Nodes that open together are filled evenly by the small ones."""

    async def script(world: Operated) -> None:
        world.create(
            node_class(), pool(), replicas("a-small", 9, cpu="900m"), replicas("b-large", 2, cpu="3")
        )
        await until_bound(world)

    world = play(script, nominate_pods=False)
    assert len(world.records("decision")) == 1


def test_where_no_pod_is_nominated_claims_say_in_which_order_their_nodes_open() -> None:
    turns: dict[str, int] = {}

    async def script(world: Operated) -> None:
        world.create(
            node_class(), pool(), replicas("a-small", 9, cpu="900m"), replicas("b-large", 2, cpu="3")
        )
        await until_bound(world)
        for claim in world.state.all(NodeClaim):
            node = world.state.node_of(claim)
            assert node is not None
            turns[node.metadata.name] = int(claim.metadata.annotations[labels.OPENS])

    opened = play(script, nominate_pods=False).records("nodes.opened")
    assert len(opened) > 1
    found = [turns[name] for one in opened for name in one["nodes"]]
    assert found == sorted(found)


def test_where_no_pod_is_nominated_nodes_of_many_pods_open_in_turn_if_they_were_bought_for_that() -> None:
    turns: dict[str, int] = {}

    async def script(world: Operated) -> None:
        small = replicas("a-small", FEW_PODS, cpu="100m")
        world.create(node_class(), pool(), small, replicas("b-large", 4, cpu="3"))
        await until_bound(world)
        for claim in world.state.all(NodeClaim):
            node = world.state.node_of(claim)
            assert node is not None
            turns[node.metadata.name] = int(claim.metadata.annotations[labels.OPENS])

    world = play(script, nominate_pods=False)
    found = [turns[name] for one in world.records("nodes.opened") for name in one["nodes"]]
    assert found == sorted(found)
    assert len(found) > 1
    assert len(world.records("decision")) == 1


def test_where_no_pod_is_nominated_nodes_that_were_planned_to_open_first_do_so_at_once() -> None:
    """In turn the first nodes would be full of the small pods, and the others hold one spread pod each."""

    async def script(world: Operated) -> None:
        few = inflate(40, **spread("inflate", labels.HOSTNAME))
        world.create(node_class(), pool(), replicas("a-small", FEW_PODS, cpu="900m"), few)
        await until_bound(world)

    world = play(script, nominate_pods=False)
    (decision,) = world.records("decision")
    opened = [len(one["nodes"]) for one in world.records("nodes.opened")]
    assert opened[0] > 30
    assert sum(opened) == len(decision["claims"])


def test_with_the_first_node_that_was_held_for_long_enough_all_that_are_up_open(monkeypatch: Any) -> None:
    """Alone it would be filled with the pods that come first, and the others from the middle of the queue."""
    monkeypatch.setattr(nominate, "LONGEST_HOLD", 20 * SECOND)
    monkeypatch.setitem(LATENCIES, "boot", Distribution(30 * SECOND, 0.5))

    async def script(world: Operated) -> None:
        few = inflate(40, **spread("inflate", labels.HOSTNAME))
        world.create(node_class(), pool(), replicas("a-small", FEW_PODS, cpu="900m"), few)
        await until_bound(world)

    world = play(script, nominate_pods=False)
    up = [one["t"] for one in world.records("node.ready")]
    first = world.records("nodes.opened")[0]
    assert max(up) > first["t"]
    assert len(first["nodes"]) > 10


def test_a_rival_that_carries_plans_out_as_they_come_holds_no_node() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), inflate(9, **spread("inflate")))
        await world.clock.sleep(5 * MINUTE)

    assert not play(script, nominate_pods=False, plain_plans=True).records("nodes.opened")


def test_without_the_right_nodes_open_all_the_same(monkeypatch: Any) -> None:
    async def script(world: Operated) -> None:
        patch = world.client.patch

        async def refused(kind: Any, *names: str, **how: Any) -> Any:
            if kind is Pod and how.get("json"):
                raise Forbidden('pods "web" is forbidden')
            return await patch(kind, *names, **how)

        monkeypatch.setattr(world.client, "patch", refused)
        world.create(node_class(), pool(), replicas("web", 4))
        await until_bound(world)
        assert not [node for node in world.state.all(Node) if node.spec.taints]

    world = play(script)
    assert len(world.records("nominations.forbidden")) == 1


def test_a_later_process_opens_nodes_and_takes_up_the_places() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("web"))
        while not any(
            labels.OPENING_TAINT in [t.key for t in one.spec.taints] for one in world.state.all(Node)
        ):
            await world.clock.sleep(SECOND)
        await world.restart()
        await until_bound(world)
        await world.clock.sleep(MINUTE)
        assert len(world.state.all(NodeClaim)) == 1
        assert world.state.all(Node)[0].spec.taints == ()

    play(script)


def test_a_process_that_nominates_nothing_opens_what_another_held() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), pod("web"))
        while not any(
            labels.OPENING_TAINT in [t.key for t in one.spec.taints] for one in world.state.all(Node)
        ):
            await world.clock.sleep(SECOND)
        await world.restart(nominate_pods=False)
        await until_bound(world)
        assert world.state.all(Node)[0].spec.taints == ()

    play(script)


def test_a_node_whose_registration_was_written_twice_opens(monkeypatch: Any) -> None:
    """The answer to the first write was lost, and the second comes while the node is being opened."""

    async def script(world: Operated) -> None:
        patch = world.client.patch
        lost: list[tuple[str, ...]] = []
        opening: list[tuple[str, ...]] = []

        async def slow(kind: Any, *names: str, **how: Any) -> Any:
            written = await patch(kind, *names, **how)
            if kind is Node and how.get("json"):  # the watch shows it before the answer does
                opening.append(names)
                await world.clock.sleep(5 * SECOND)
            elif kind is Node and "finalizers" in how["merge"].get("metadata", {}) and names not in lost:
                lost.append(names)
                while not opening:
                    await world.clock.sleep(SECOND)
                raise ApiError("the connection was closed")
            return written

        monkeypatch.setattr(world.client, "patch", slow)
        world.create(node_class(), pool(), pod("web"))
        await until_bound(world)
        assert lost
        assert not held(world)

    play(script)


def test_nodes_open_once_the_watch_shows_the_nominations_and_do_not_wait_for_ever(monkeypatch: Any) -> None:
    nominated: list[int] = []

    async def script(world: Operated) -> None:
        patch = world.client.patch

        async def ahead(kind: Any, *names: str, **how: Any) -> Any:
            written = await patch(kind, *names, **how)
            if kind is Pod and how.get("json"):  # the watch is never as far as this answer
                nominated.append(world.clock.now())
                meta = replace(written.metadata, resource_version=str(10**9))
                return replace(written, metadata=meta)
            return written

        monkeypatch.setattr(world.client, "patch", ahead)
        world.create(node_class(), pool(), replicas("web", 2))
        await until_bound(world)
        assert not held(world)

    (opened,) = play(script).records("nodes.opened")
    assert opened["t"] - nominated[0] == LONGEST_SHOW


def test_all_pods_are_nominated_when_their_nodes_open_though_the_scheduler_tries_them(
    monkeypatch: Any,
) -> None:
    """On a closed node each attempt takes a nomination away, and it takes a while to write them all."""
    missing: list[int] = []
    written: list[str] = []

    async def script(world: Operated) -> None:
        patch = world.client.patch

        async def late(kind: Any, *names: str, **how: Any) -> Any:
            if kind is Pod and how.get("json"):
                written.append(names[0])
                await world.clock.sleep(len(written) % 5 * SECOND // 50)
            elif kind is Node and how.get("json"):
                missing.append(sum(not one.status.nominated_node_name for one in world.state.all(Pod)))
            return await patch(kind, *names, **how)

        monkeypatch.setattr(world.client, "patch", late)
        # A scheduler without any node does not try pods when one comes.
        world.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "full"}})
        world.create(node_class(), pool(), inflate(40, **spread("inflate")))
        await until_bound(world)

    world = play(script)
    assert len(world.records("nodes.opened")) == 1
    assert not any(missing)
