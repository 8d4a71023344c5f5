"""NodeOverlays behind their gate: what is bought and kept by other prices, and with other resources."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from operated import Operated, play, pod, pool, replicas
from test_observation import Watched, observed

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodeoverlay import NodeOverlay
from dovetail.api.meta import Meta, condition
from dovetail.base.clock import HOUR, MINUTE
from dovetail.base.errors import Forbidden
from dovetail.controllers.lifetimes import OVERLAY_CHANGES
from dovetail.model import labels
from dovetail.runtime.settings import FeatureGates
from dovetail.testing.guests import node_class

GATE = FeatureGates(node_overlay=True)
LARGE, XLARGE = "m5.large", "m5.xlarge"
FUSE = "smarter-devices/fuse"


def overlay(name: str, *types: str, **spec: Any) -> dict[str, Any]:
    requirements = [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": list(types)}]
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": name},
        "spec": {"requirements": requirements, **spec},
    }


def bought(world: Operated) -> list[str]:
    return [one.metadata.labels[labels.INSTANCE_TYPE] for one in world.state.all(NodeClaim)]


async def told(world: Operated, name: str) -> tuple[str, str, str, str]:
    found = (await world.client.get(NodeOverlay, name)).status.conditions
    verdict, ready = condition(found, "ValidationSucceeded"), condition(found, "Ready")
    assert verdict is not None and ready is not None
    return verdict.status, verdict.reason, verdict.message, ready.status


def test_the_type_that_an_overlay_makes_cheaper_is_bought_at_what_it_costs() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), overlay("a", XLARGE, price="0.01"), pod("web"))
        await world.clock.sleep(HOUR)
        assert bought(world) == [XLARGE]
        assert await told(world, "a") == ("True", "ValidationSucceeded", "", "True")
        (claim,) = world.state.all(NodeClaim)
        assert claim.metadata.annotations[labels.PRICE_OVERLAID] == "true"
        assert labels.CAPACITY_OVERLAID not in claim.metadata.annotations

    world = play(script, gates=GATE)
    (started,) = world.records("instance.started")
    assert started["price"] - started["volumes"] == 236_000_000  # the list price


def test_an_overlay_that_comes_later_wakes_consolidation_and_drifts_nothing() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), replicas("web", 1))
        await world.clock.sleep(HOUR)
        assert bought(world) == [LARGE]
        world.create(overlay("a", LARGE, priceAdjustment="+900%"))
        await world.clock.sleep(10 * MINUTE)
        assert bought(world) == [XLARGE]

    world = play(script, gates=GATE)
    assert {record["reason"] for record in world.records("disruption.begun")} == {"Underutilized"}


def test_a_resource_of_an_overlay_is_bought_for_pods_that_ask_for_it() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), asking("a"))
        await world.clock.sleep(MINUTE)
        assert bought(world) == []
        world.create(overlay("fuses", LARGE, capacity={FUSE: "5"}))
        await world.clock.sleep(5 * MINUTE)
        (claim,), (node,) = world.state.all(NodeClaim), world.state.all(Node)
        assert claim.metadata.annotations[labels.CAPACITY_OVERLAID] == "true"
        assert str(claim.spec.resources.requests[FUSE]) == "1"
        assert str(claim.status.capacity[FUSE]) == "5"
        assert bought(world) == [LARGE]
        assert (await world.client.get(Pod, "a", "default")).spec.node_name == node.metadata.name

    play(script, gates=GATE)


def test_an_instance_that_is_adopted_has_what_overlays_add() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), overlay("fuses", LARGE, capacity={FUSE: "5"}), asking("a"))
        await world.clock.sleep(5 * MINUTE)
        (first,) = world.state.all(NodeClaim)
        await world.stop()
        meta = Meta(name="interrupted", labels=first.metadata.labels)
        # Its cloud, which lists the instance, knows nothing of overlays.
        spec = structs.replace(first.spec, resources=type(first.spec.resources)())
        made = await world.client.create(NodeClaim(metadata=meta, spec=spec))
        chosen = await world.client.get(EC2NodeClass, first.spec.node_class_ref.name)
        instance = await world.cloud.provider.create(made, chosen)
        await world.restart()
        await world.clock.sleep(MINUTE)
        adopted = await world.client.get(NodeClaim, "interrupted")
        assert adopted.status.provider_id == instance.provider_id
        assert {str(found[FUSE]) for found in (adopted.status.capacity, adopted.status.allocatable)} == {"5"}

    play(script, gates=GATE)


@pytest.mark.parametrize(("seen", "kind"), [(GATE, XLARGE), (FeatureGates(), LARGE)])
def test_an_observer_counts_them_where_it_has_the_gate(seen: FeatureGates, kind: str) -> None:
    async def script(world: Operated, _: Watched) -> None:
        world.create(node_class(), pool(), overlay("a", XLARGE, price="0.01"))
        await world.clock.sleep(MINUTE)
        world.create(pod("web"))
        await world.clock.sleep(5 * MINUTE)

    world, watched = observed(script, seen, gates=GATE)
    (launch,) = world.records("observed.launch")
    assert [node["instance-type"] for node in launch["nodes"]] == [kind]
    here, acting = watched.observation.tally.here, watched.observation.tally.acting
    assert (here.hourly == acting.hourly) == (seen == GATE)


def asking(name: str) -> dict[str, Any]:
    made = pod(name)
    resources = made["spec"]["containers"][0]["resources"]
    resources["limits"] = {FUSE: "1"}
    resources["requests"][FUSE] = "1"
    return made


def test_overlays_that_stand_against_each_other_and_wrong_ones_say_so() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), overlay("b", LARGE, price="1"))
        await world.clock.sleep(MINUTE)
        world.create(overlay("a", LARGE, price="2"))
        world.create(overlay("c", LARGE, capacity={"vpc.amazonaws.com/efa": "1"}))
        await world.clock.sleep(5 * MINUTE)
        assert (await told(world, "b"))[0] == "True"
        assert await told(world, "a") == ("False", "Conflict", "conflict with another overlay", "False")
        text = "invalid capacity: vpc.amazonaws.com/efa in resource, restricted"
        assert await told(world, "c") == ("False", "RuntimeValidation", text, "False")
        figures = b"".join(await world.operator.figures.text()).decode()
        series = 'operator_nodeoverlay_status_condition_count{name="a",type="Ready",status="False"'
        assert series in figures
        await world.client.delete(NodeOverlay, "b")
        await world.clock.sleep(MINUTE)
        assert (await told(world, "a"))[0] == "True"
        changes = {"type": "ValidationSucceeded", "status": "True", "reason": "ValidationSucceeded"}
        assert world.metrics.value(OVERLAY_CHANGES, **changes) == 2

    world = play(script, gates=GATE)
    start = "Status condition transitioned, Type: ValidationSucceeded, Status: "
    events = [one["message"] for one in world.records("event", object="NodeOverlay/a")]
    assert [text for text in events if text.startswith(start)] == [
        f"{start}Unknown -> False, Reason: Conflict, Message: conflict with another overlay",
        f"{start}False -> True, Reason: ValidationSucceeded",
    ]


def test_verdicts_wait_for_pools_that_are_about_to_have_types() -> None:
    """Right after a start an overlay in conflict would be told that it is in none."""

    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), overlay("b", LARGE, price="1"), overlay("a", LARGE, price="2"))
        lost = pool("lost")
        lost["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "none"
        world.create(lost)
        await world.clock.sleep(5 * MINUTE)
        assert await told(world, "a") == ("False", "Conflict", "conflict with another overlay", "False")
        await world.restart()
        await world.clock.sleep(5 * MINUTE)

    world = play(script, gates=GATE)
    start = "Status condition transitioned, Type: ValidationSucceeded, Status: "
    events = [one["message"] for one in world.records("event", object="NodeOverlay/a")]
    assert [text for text in events if text.startswith(start)] == [
        f"{start}Unknown -> False, Reason: Conflict, Message: conflict with another overlay"
    ]


def test_a_verdict_that_may_not_be_written_keeps_no_other_back() -> None:
    async def script(world: Operated) -> None:
        patch = world.client.patch

        async def guarded(kind: type[Any], name: str, *rest: Any, **merge: Any) -> Any:
            if name == "a":
                raise Forbidden("a webhook says no")
            return await patch(kind, name, *rest, **merge)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(world.client, "patch", guarded)
            world.create(
                node_class(), pool(), overlay("a", LARGE, price="1"), overlay("b", XLARGE, price="1")
            )
            await world.clock.sleep(MINUTE)
        assert (await told(world, "b"))[0] == "True"
        assert (await world.client.get(NodeOverlay, "a")).status.conditions == ()
        await world.clock.sleep(HOUR)
        assert (await told(world, "a"))[0] == "True"

    play(script, gates=GATE)


def test_with_the_gate_shut_overlays_do_nothing_and_are_told_nothing() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), overlay("a", XLARGE, price="0.01"), pod("web"))
        await world.clock.sleep(HOUR)
        assert bought(world) == [LARGE]
        assert (await world.client.get(NodeOverlay, "a")).status.conditions == ()

    play(script)
