"""A pod that no new node is right for, whatever the plan says, does not have nodes bought without end."""

from __future__ import annotations

from operated import Operated, daemonset, play, pod, pool, replicas

from dovetail.base.clock import HOUR, MINUTE
from dovetail.controllers.provisioning.metrics import ASIDE
from dovetail.testing.guests import node_class

ALONE = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "guard"}}}
            ]
        }
    }
}


def test_a_pod_that_daemons_keep_from_every_node_rests_longer_each_time() -> None:
    async def script(world: Operated) -> None:
        never = {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}
        world.create(node_class(), pool(disruption=never), daemonset("guard", "50m"))
        await world.clock.sleep(MINUTE)
        world.create(pod("lonely", "100m", **ALONE))
        await world.clock.sleep(HOUR)
        world.create(replicas("ordinary", 3))
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    bought = [r["t"] for r in world.records("decision") if "default/lonely" in str(r["claims"])]
    assert 4 <= len(bought) <= 9
    messages = [r["message"] for r in world.records("event", reason="FailedScheduling")]
    assert any("nodes came up for it and the scheduler put it on none of them" in text for text in messages)
    assert world.metrics.value(ASIDE, reason="resting") == 1
    bound = {r["pod"] for r in world.records("pod.bound")}
    assert sum("ordinary" in name for name in bound) == 3, "others do not wait for it"


def test_a_pod_that_is_served_in_the_end_is_forgotten() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), *(pod(f"p{number}") for number in range(6)))
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    assert len(world.records("pod.running")) == 6
    assert not [r for r in world.records("event") if "came up for it" in str(r["message"])]
