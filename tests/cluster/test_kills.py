"""The controller killed in the middle of things, and the next one: nothing leaks, nothing is lost."""

from __future__ import annotations

import json
import signal
from datetime import datetime
from typing import Any

from tests.cluster.running import Controller, eventually
from tests.cluster.world import ACCOUNT_SPACE, Document, World, apart, budget, deployment, node_pool, tainted


def killed_at(controller: Controller, message: str) -> None:
    """End it without a chance to tidy up, as soon as it has said that."""
    eventually(lambda: controller.lines(message), bool, seconds=120)
    controller.stop(signal.SIGKILL)


def test_killed_while_nodes_come(world: World) -> None:
    """At every step of a scale-up: claims made, instances there, nodes registered."""
    world.apply(node_pool(world), deployment(world, "inflate", 12, affinity=apart("inflate")))
    for message in ("created nodeclaim", "launched nodeclaim", "registered nodeclaim"):
        with world.controller() as controller:
            killed_at(controller, message)
        world.kubectl("scale", "deployment/inflate", f"--replicas={len(world.claims()) + 4}")
    with world.controller() as controller:
        wanted = len(world.claims()) + 4
        world.kubectl("scale", "deployment/inflate", f"--replicas={wanted}")
        nodes = world.settled(pods=wanted, nodes=wanted)
        assert len({node["spec"]["providerID"] for node in nodes}) == wanted
        assert controller.stop() == 0


def test_killed_while_nodes_go(world: World) -> None:
    """With a drain that a budget holds up, and again while nodes vanish."""
    world.apply(
        node_pool(world),
        deployment(world, "held", 1),
        budget("held", minAvailable=1),
        deployment(world, "free", 4, affinity=apart("free")),
    )
    with world.controller() as first:
        nodes = world.settled(pods=5)
        (held,) = world.running("held")
        world.kubectl("delete", "nodes", "-l", f"world={world.name}", "--wait=false")
        killed_at(first, "deleted node")
    old = {node["metadata"]["uid"] for node in nodes}

    def remaining() -> list[Document]:
        return [node for node in world.nodes() if node["metadata"]["uid"] in old]

    with world.controller() as second:
        left = eventually(remaining, lambda found: len(found) == 1)
        second.stop(signal.SIGKILL)
    with world.controller() as third:
        assert left[0]["metadata"]["name"] == held["spec"]["nodeName"]
        assert tainted(left[0])
        assert [pod["metadata"]["uid"] for pod in world.running("held")] == [held["metadata"]["uid"]]
        world.kubectl("delete", "pdb", "held")
        eventually(remaining, lambda found: not found)
        world.settled(pods=5)
        world.kubectl("scale", "deployment/held", "deployment/free", "--replicas=0")
        world.kubectl("delete", "nodepool", world.name, "--wait=false")
        eventually(lambda: [*world.claims(), *world.nodes()], lambda found: not found)
        assert third.stop() == 0


STARTING = "example.com/starting"  # a startup taint: nodes that have it are not initialized


def started(world: World) -> int:
    """Nodes that are up, after those that wait for it were let go."""
    found = world.nodes()
    for node in found:
        if tainted(node, STARTING):
            world.kubectl("taint", "node", node["metadata"]["name"], f"{STARTING}-")
    return len([node for node in found if not tainted(node, STARTING)])


def test_killed_while_a_node_is_replaced(world: World) -> None:
    """The replacement is there and not up: the pod keeps its node, and ends on the cheaper one."""
    starting = {"key": STARTING, "effect": "NoSchedule"}
    pool = node_pool(world, disruption={"consolidateAfter": "1s"}, startupTaints=[starting])
    world.apply(pool, deployment(world, "stays", 1), deployment(world, "goes", 1, cpu="6"))
    with world.controller() as first:
        eventually(lambda: (started(world), len(world.running())), lambda found: found == (1, 2))
        (old,) = world.settled(pods=2)
        (pod,) = world.running("stays")
        world.kubectl("scale", "deployment/goes", "--replicas=0")
        eventually(lambda: len(world.claims()), lambda found: found == 2)
        assert first.lines("disrupting node(s)")
        first.stop(signal.SIGKILL)
        assert [one["metadata"]["uid"] for one in world.running()] == [pod["metadata"]["uid"]]
    with world.controller() as second:
        name = old["metadata"]["name"]

        def moved() -> list[str]:
            started(world)
            return [node["metadata"]["name"] for node in world.nodes()]

        eventually(moved, lambda found: len(found) == 1 and name not in found, seconds=240)
        (node,) = world.settled(pods=1)
        assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "c-1x-amd64-linux"
        assert not tainted(node)
        assert second.stop() == 0


ELECTING = {"DISABLE_LEADER_ELECTION": "false"}


def lease(world: World) -> dict[str, Any]:
    where = ("--namespace", ACCOUNT_SPACE, "karpenter-leader-election")
    found: dict[str, Any] = json.loads(world.plane.run("kubectl", "get", "lease", *where, "-o", "json"))[
        "spec"
    ]
    return {"holderIdentity": "", "leaseTransitions": 0, **found}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_the_leader_killed(world: World) -> None:
    """The other replica takes over within 20 s, and goes on with what was begun."""
    world.apply(node_pool(world), deployment(world, "inflate", 3, affinity=apart("inflate")))
    with world.controller(**ELECTING) as first:
        eventually(lambda: first.lines("leading"), bool)
        with world.controller(**ELECTING) as second:
            message = "another controller leads, waiting for its lease"
            (line,) = eventually(lambda: second.lines(message), bool)
            assert line["lease"] == f"{ACCOUNT_SPACE}/karpenter-leader-election"
            eventually(lambda: first.lines("created nodeclaim"), bool)
            before = lease(world)
            first.stop(signal.SIGKILL)
            eventually(lambda: second.lines("leading"), bool)
            after = lease(world)
            assert after["leaseTransitions"] == before["leaseTransitions"] + 1
            without_leader = moment(after["acquireTime"]) - moment(before["renewTime"])
            assert without_leader.total_seconds() <= 20
            world.kubectl("scale", "deployment/inflate", "--replicas=5")
            world.settled(pods=5, nodes=5)
            assert second.stop() == 0
    assert lease(world)["holderIdentity"] == ""
