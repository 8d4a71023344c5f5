"""Whoever deletes a CustomResourceDefinition does not mean the nodes. On a control plane of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.controlplane.build import build
from tests.cluster.controlplane.definitions import define
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.running import eventually
from tests.cluster.world import World, apart, deployment, node_class, node_pool

COUNT = 7
POOLS, CLAIMS = "nodepools.karpenter.sh", "nodeclaims.karpenter.sh"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[World]:
    """A fleet's place in a cluster whose definitions may be deleted."""
    with ControlPlane(build()) as plane:
        define(plane)
        world = World(plane, plane.kubeconfig, tmp_path, "fleet")
        plane.run("kubectl", "create", "namespace", world.name)
        plane.run("kubectl", "create", "namespace", "account")
        world.apply(node_class(world.name), node_pool(world))
        yield world


def held(world: World) -> list[str]:
    """What the events of deleted claims say, one for each."""
    names = [one["metadata"]["name"] for one in world.claims() if "deletionTimestamp" in one["metadata"]]
    kept = [text for name in names for text in world.events(name)[-20:] if "are kept, because" in text]
    return kept if len(kept) >= len(names) else []


def touched(world: World) -> list[str]:
    """Nodes whose end has begun."""
    return [
        node["metadata"]["name"]
        for node in world.nodes()
        if "deletionTimestamp" in node["metadata"] or node["spec"].get("taints")
    ]


def test_a_deleted_definition_leaves_the_nodes_until_it_is_confirmed(own: World) -> None:
    with own.controller("--provider", "kwok") as controller:
        own.apply(deployment(own, "web", COUNT, affinity=apart("web")))
        old = {node["metadata"]["name"] for node in own.settled(pods=COUNT, nodes=COUNT)}

        # The garbage collector takes the claims of lost pools, at the latest when it can ask for pools again.
        own.plane.run("kubectl", "delete", "crd", POOLS)
        define(own.plane)
        own.apply(node_pool(own))
        events = eventually(lambda: held(own), lambda found: len(found) >= COUNT)
        assert f"because the CustomResourceDefinition {POOLS} " in events[0]
        assert touched(own) == []

        first = min(old)
        own.plane.run("kubectl", "delete", "node", first, "--timeout=90s")  # one, at the user's pace
        eventually(lambda: len(own.running()), lambda found: found == COUNT, seconds=180)
        left = {node["metadata"]["name"] for node in own.nodes()}
        assert len(left) == COUNT
        assert old - left == {first}
        assert touched(own) == []

        own.plane.run("kubectl", "delete", "crd", CLAIMS, "--wait=false")
        events = eventually(
            lambda: [text for text in held(own) if CLAIMS in text], lambda found: len(found) >= COUNT
        )
        assert touched(own) == []
        token = re.findall(r"--confirm-termination (\w+)", events[-1])[0]
        mark = f"dovetail.dev/confirm-termination={token}"
        own.plane.run("kubectl", "annotate", "nodepool", own.name, mark)
        eventually(own.nodes, lambda found: found == [], seconds=180)
        own.plane.run("kubectl", "wait", "--for=delete", "crd", CLAIMS, "--timeout=60s")
        assert controller.stop() == 0
