"""Unhealthy nodes on a real API server, with the chart's rights: replaced first, rebooted, ended by force."""

from __future__ import annotations

import json
from typing import Any

from tests.cluster.running import eventually
from tests.cluster.world import World, apart, deployment, node_pool

GATES = {"FEATURE_GATES": "NodeRepair=true"}


def falls_ill(world: World, name: str, kind: str = "KWOKUnhealthy", status: str = "True") -> None:
    """As a monitor reports it that kwok knows of."""
    stamp = "2026-01-01T00:00:00Z"  # it counts from the node's creation at the earliest
    sick = {"type": kind, "status": status, "reason": "Broken", "lastTransitionTime": stamp}
    patch = json.dumps({"status": {"conditions": [sick]}})
    world.kubectl("patch", "node", name, "--subresource=status", "--type=strategic", "-p", patch)


def names(found: list[dict[str, Any]]) -> set[str]:
    return {one["metadata"]["name"] for one in found}


def ended(world: World) -> list[str]:
    """When the pods of claims on their way out must be gone."""
    mark = "karpenter.sh/nodeclaim-termination-timestamp"
    return [
        one["metadata"]["annotations"].get(mark, "")
        for one in world.claims()
        if "deletionTimestamp" in one["metadata"]
    ]


def sick_one(world: World) -> str:
    pods = deployment(
        world, "web", 6, affinity=apart("web"), annotations={"karpenter.sh/do-not-disrupt": "true"}
    )
    world.apply(node_pool(world), pods)
    name = sorted(names(world.settled(pods=6, nodes=6)))[0]
    falls_ill(world, name)
    return str(name)


def test_it_is_replaced_before_it_goes(world: World) -> None:
    with world.controller(**GATES) as controller:
        name = sick_one(world)
        eventually(lambda: names(world.nodes()), lambda found: len(found) == 7 and name in found)
        eventually(lambda: ended(world), lambda found: len(found) == 1 and bool(found[0]))
        assert len(world.running("web")) == 6  # what may not be evicted has 45 s
        eventually(lambda: names(world.nodes()), lambda found: name not in found, seconds=180)
        world.settled(pods=6, nodes=6)
        (line,) = controller.lines("selected repair policy")
        assert (line["condition"], line["reason"], line["Node"]["name"]) == ("KWOKUnhealthy", "Broken", name)
        assert controller.stop() == 0


def test_the_repair_of_old_ends_it_at_once(world: World) -> None:
    with world.controller(**GATES, LEGACY_NODE_REPAIR="true") as controller:
        name = sick_one(world)
        eventually(lambda: names(world.nodes()), lambda found: name not in found, seconds=180)
        world.settled(pods=6, nodes=6)
        assert not controller.lines("selected repair policy")
        assert controller.stop() == 0


def test_it_is_rebooted_where_that_is_asked_for(world: World) -> None:
    with world.controller(**GATES) as controller:
        pods = deployment(world, "web", 6, affinity=apart("web"))
        world.apply(node_pool(world), pods)
        name = sorted(names(world.settled(pods=6, nodes=6)))[0]
        falls_ill(world, name, "KWOKRebootRequired")

        def claim() -> dict[str, Any]:
            return next(one for one in world.claims() if one["status"].get("nodeName") == name)

        def rebooting() -> tuple[str, str]:
            found = [one for one in claim()["status"]["conditions"] if one["type"] == "Rebooting"]
            return (found[0]["status"], found[0]["reason"]) if found else ("", "")

        eventually(rebooting, lambda found: found[0] == "True")
        falls_ill(world, name, "KWOKRebootRequired", "False")
        eventually(rebooting, lambda found: found == ("False", "RebootSucceeded"), seconds=180)
        node = next(one for one in world.nodes() if one["metadata"]["name"] == name)
        assert node["status"]["nodeInfo"]["bootID"].startswith(f"kwok-{claim()['metadata']['uid']}-")
        assert not node["spec"].get("taints")
        assert len(names(world.settled(pods=6, nodes=6))) == 6
        assert controller.lines("committed node reboot")
        assert controller.stop() == 0
