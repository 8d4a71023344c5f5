"""When a claim is marked as drifted, with each reason, and when it is not any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from operated import Operated, play, pod, pool

from dovetail.api.core import Node
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.fingerprint import CLASS_HASH_VERSION, HASH_VERSION
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import condition
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.controllers.disruption.drifted import AVOIDED
from dovetail.model import labels
from dovetail.testing.guests import node_class

Change = dict[str, Any]
# No node goes while it is looked at.
STILL = {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}


def drift(world: Operated) -> str:
    """The reason of the only claim's Drifted condition; "" without one."""
    (claim,) = world.state.all(NodeClaim)
    found = condition(claim.status.conditions, "Drifted")
    return found.reason if found is not None else ""


def pool_change(**spec: Any) -> Callable[[Operated], Any]:
    return lambda world: world.client.patch(NodePool, "general", merge={"spec": spec})


def class_change(**spec: Any) -> Callable[[Operated], Any]:
    return lambda world: world.client.patch(EC2NodeClass, "default", merge={"spec": spec})


def only(*types: str) -> Callable[[Operated], Any]:
    line = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": list(types)}
    return pool_change(template={"spec": {"requirements": [line]}})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (pool_change(template={"metadata": {"labels": {"team": "a"}}}), "NodePoolDrifted"),
        (pool_change(template={"spec": {"expireAfter": "48h"}}), "NodePoolDrifted"),
        (pool_change(template={"spec": {"terminationGracePeriod": "1h"}}), "NodePoolDrifted"),
        (pool_change(weight=7, limits={"cpu": "100"}), ""),
        (pool_change(disruption={**STILL, "budgets": [{"nodes": "1%"}]}), ""),
        (only("c5.4xlarge"), "RequirementsDrifted"),
        (only("m5.large", "c5.4xlarge"), ""),
        (class_change(userData="echo hello"), "NodeClassDrift"),
        (class_change(metadataOptions={"httpPutResponseHopLimit": 2}), "NodeClassDrift"),
        (class_change(amiSelectorTerms=[{"alias": "al2023@v20250403"}]), "AMIDrift"),
        (class_change(securityGroupSelectorTerms=[{"tags": {"nobody": "has"}}]), ""),
    ],
)
def test_what_makes_a_node_drift(change: Callable[[Operated], Any], reason: str) -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(disruption=STILL), pod("a"))
        await world.clock.sleep(6 * MINUTE)
        assert drift(world) == ""
        await change(world)
        await world.clock.sleep(MINUTE)
        assert drift(world) == reason

    play(script)


def test_a_change_that_is_taken_back_ends_the_drift() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(disruption=STILL), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        await only("c5.4xlarge")(world)
        await world.clock.sleep(MINUTE)
        assert drift(world) == "RequirementsDrifted"
        await only("m5.large", "m5.xlarge")(world)
        await world.clock.sleep(MINUTE)
        assert drift(world) == ""

    world = play(script)
    assert world.messages("Drifted") == [
        "Status condition transitioned, Type: Drifted, Status: Unknown -> True, Reason: RequirementsDrifted, "
        "Message: RequirementsDrifted"
    ]


def test_a_restart_drifts_nothing() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(disruption=STILL), pod("a"))
        await world.clock.sleep(2 * HOUR)
        await world.restart()
        await world.clock.sleep(HOUR)
        assert drift(world) == ""

    play(script)


def test_nodes_of_another_controller_are_stamped_anew_however_late_their_claims_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its versions of hashes say nothing here; with ours, a template that changes later has drifted."""
    theirs = {
        **dict.fromkeys((labels.NODEPOOL_HASH, labels.NODECLASS_HASH), "1"),
        labels.NODEPOOL_HASH_VERSION: "v3",
        labels.NODECLASS_HASH_VERSION: "v6",
    }

    async def script(world: Operated) -> None:
        world.create(node_class(), pool(disruption=STILL), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        await world.stop()
        client = world.client
        for kind, name in ((NodePool, "general"), (EC2NodeClass, "default"), (NodeClaim, claim(world))):
            await client.patch(kind, name, merge={"metadata": {"annotations": theirs}})
        listed = type(client).list

        async def late(self: Any, kind: Any, *place: Any, **chosen: Any) -> Any:
            if kind is NodeClaim:
                await world.clock.sleep(5 * SECOND)
            return await listed(self, kind, *place, **chosen)

        monkeypatch.setattr(type(client), "list", late)
        await world.restart()
        await world.clock.sleep(MINUTE)
        stamped = (await client.get(NodeClaim, claim(world))).metadata.annotations
        assert [stamped[name] for name in VERSIONS] == [HASH_VERSION, CLASS_HASH_VERSION]
        assert drift(world) == ""
        await pool_change(template={"metadata": {"labels": {"new": "label"}}})(world)
        await world.clock.sleep(MINUTE)
        assert drift(world) == "NodePoolDrifted"

    play(script)


VERSIONS = (labels.NODEPOOL_HASH_VERSION, labels.NODECLASS_HASH_VERSION)


def claim(world: Operated) -> str:
    (found,) = world.state.all(NodeClaim)
    return found.metadata.name


@pytest.mark.parametrize(
    ("disruption", "asked"),
    [
        ({"consolidateAfter": "Never", "budgets": [{"nodes": "10%"}]}, True),
        ({"consolidateAfter": "Never", "budgets": [{"nodes": "0", "reasons": ["Empty"]}]}, True),
        (STILL, False),
        ({"consolidateAfter": "Never", "budgets": [{"nodes": "0%", "reasons": ["Drifted"]}]}, False),
    ],
)
def test_pods_are_asked_not_to_come_to_a_drifted_node_that_may_go(disruption: Change, asked: bool) -> None:
    """A pod that may not be disturbed keeps the node from being replaced meanwhile."""
    stays = {labels.DO_NOT_DISRUPT: "true"}

    async def script(world: Operated) -> None:
        world.create(node_class(), pool(disruption=disruption), pod("web", annotations=stays))
        await world.clock.sleep(3 * MINUTE)
        await only("c5.4xlarge")(world)
        await world.clock.sleep(MINUTE)
        (node,) = world.state.all(Node)
        assert drift(world) == "RequirementsDrifted"
        assert (AVOIDED in node.spec.taints) is asked
        await only("m5.large", "m5.xlarge")(world)
        await world.clock.sleep(MINUTE)
        (node,) = world.state.all(Node)
        assert drift(world) == ""
        assert AVOIDED not in node.spec.taints

    play(script)
