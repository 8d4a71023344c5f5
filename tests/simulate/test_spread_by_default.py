"""Pods without spread constraints get those of the cluster's scheduler, when nodes are bought and moved."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from operated import Operated, play, pod, pool, replicas

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import MINUTE
from dovetail.cluster.scheduler_config import read_default_constraints
from dovetail.model import labels
from dovetail.testing.guests import node_class

ZONES = """
podTopologySpread:
  defaultConstraints:
  - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}
"""
SPREAD = {"default_constraints": read_default_constraints(ZONES, "test")}
ALONE = "2500m"  # one pod of that size on an m5.xlarge, three on an m5.2xlarge


def requirements(*types: str) -> list[dict[str, Any]]:
    return [
        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
        {"key": labels.INSTANCE_TYPE, "operator": "In", "values": list(types)},
    ]


def only(*types: str) -> dict[str, Any]:
    """A pool of these types."""
    made = pool()
    made["spec"]["template"]["spec"]["requirements"] = requirements(*types)
    return made


def per_zone(world: Operated) -> list[int]:
    """How many pods run in each zone that has any."""
    zones = {node.metadata.name: node.metadata.labels[labels.ZONE] for node in world.state.all(Node)}
    return sorted(Counter(zones[one.spec.node_name] for one in world.state.all(Pod)).values())


@pytest.mark.parametrize(
    ("settings", "zones", "nodes"), [({}, [3], 1), (SPREAD, [1, 1, 1], 3)], ids=["without", "with"]
)
def test_replicas_are_spread_and_consolidation_does_not_pack_them(
    settings: dict[str, Any], zones: list[int], nodes: int
) -> None:
    seen: list[list[int]] = []

    async def script(world: Operated) -> None:
        world.create(node_class(), only("m5.xlarge"), replicas("web", 3, ALONE))
        await world.clock.sleep(2 * MINUTE)
        seen.append(per_zone(world))
        larger = {"spec": {"template": {"spec": {"requirements": requirements("m5.xlarge", "m5.2xlarge")}}}}
        await world.client.patch(NodePool, "general", merge=larger)
        await world.clock.sleep(10 * MINUTE)

    world = play(script, **settings)
    assert [*seen, per_zone(world)] == [zones, zones]
    assert len(world.state.all(Node)) == nodes, "one larger node is cheaper than three"
    assert not any(one.spec.topology_spread_constraints for one in world.state.all(Pod)), "copies have them"


def test_bare_pods_are_spread_behind_a_service() -> None:
    def behind(name: str) -> dict[str, Any]:
        made = pod(name, ALONE)
        made["metadata"]["labels"] = {"app": "web"}
        return made

    async def script(world: Operated) -> None:
        service = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}
        world.create(node_class(), only("m5.xlarge"), {"apiVersion": "v1", "kind": "Service", **service})
        world.create(*(behind(f"web-{index}") for index in range(3)))
        await world.clock.sleep(3 * MINUTE)

    assert per_zone(play(script, **SPREAD)) == [1, 1, 1]
