"""Acceptance: which capacity is bought, shown with the pools of a travel site and of two teams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from operated import START, Operated, play, pod
from stories import (
    ASKED,
    OFFERED,
    POOL,
    ZONES,
    condition_of,
    inflate,
    keeping,
    price,
    sold,
    travel_class,
    travel_pool,
)

from dovetail.api.core import Node
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import MINUTE
from dovetail.cli.main import run
from dovetail.cloud.inmemory import Limit
from dovetail.model import labels
from dovetail.model.resources import amounts

pytestmark = pytest.mark.usefixtures("every_cloud")
GIB = 1024**3


def test_a_mistyped_discovery_tag_is_named_and_mending_it_helps() -> None:
    mistyped = [{"tags": {"karpenter.sh/discovert": "demo"}}]

    async def script(world: Operated) -> None:
        world.create(
            travel_class(subnetSelectorTerms=mistyped, securityGroupSelectorTerms=mistyped),
            travel_pool(),
            pod("a"),
        )
        await world.clock.sleep(2 * MINUTE)
        name = "karpenter-node-template"
        found = world.state.get(EC2NodeClass, name)
        hint = "(found key 'karpenter.sh/discovery', but the selector asks for 'karpenter.sh/discovert')"
        subnets = condition_of(found, "SubnetsReady")
        assert (subnets.status, subnets.reason) == ("False", "SubnetsNotFound")
        assert subnets.message == f"SubnetSelector did not match any Subnets {hint}"
        groups = condition_of(found, "SecurityGroupsReady")
        assert (groups.status, groups.reason) == ("False", "SecurityGroupsNotFound")
        assert groups.message == f"SecurityGroupSelector did not match any SecurityGroups {hint}"
        assert condition_of(found, "Ready").status == "False"
        stored = world.state.get(NodePool, POOL)
        assert (
            condition_of(stored, "NodeClassReady").status == condition_of(stored, "Ready").status == "False"
        )
        assert world.records("claim.created") == []
        assert world.records("pod.unschedulable", pod="default/a")
        ours = [text for text in world.messages("FailedScheduling") if text.startswith("Failed to")]
        assert ours == [
            f"Failed to schedule pod, no nodepools found ({POOL}: {groups.message}, {subnets.message})"
        ]

        right = travel_class()["spec"]
        terms = {key: right[key] for key in ("subnetSelectorTerms", "securityGroupSelectorTerms")}
        await world.client.patch(EC2NodeClass, name, merge={"spec": terms})
        await world.clock.sleep(3 * MINUTE)
        assert condition_of(world.state.get(NodePool, POOL), "Ready").status == "True"

    assert len(play(script).records("pod.running")) == 1


def test_a_pool_whose_rules_do_not_hold_buys_nothing_and_the_pods_events_say_which() -> None:
    mistyped = travel_pool()
    mistyped["spec"]["template"]["spec"]["requirements"] = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["ondemand"]}
    ]

    async def script(world: Operated) -> None:
        world.create(travel_class(), mistyped, pod("a"))
        await world.clock.sleep(2 * MINUTE)
        why = condition_of(world.state.get(NodePool, POOL), "ValidationSucceeded").message
        assert why.startswith("no valid values found in [ondemand] for karpenter.sh/capacity-type")
        assert world.records("claim.created") == []
        ours = [text for text in world.messages("FailedScheduling") if text.startswith("Failed to")]
        assert ours == [f"Failed to schedule pod, no nodepools found ({POOL}: {why})"]

    play(script)


def test_what_the_pool_leaves_out_is_filled_in() -> None:
    async def script(world: Operated) -> None:
        world.create(travel_class(), travel_pool())

    stored = play(script).server.get(NodePool, POOL)["spec"]
    assert stored["disruption"] == {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "0s",
        "budgets": [{"nodes": "10%"}],
    }


def capacity_and_overrides(request: dict[str, Any]) -> tuple[str, int]:
    """What a fleet may be of, and of how many offerings."""
    strategies = {"SpotOptions": "price-capacity-optimized", "OnDemandOptions": "lowest-price"}
    (options,) = set(strategies) & set(request)
    assert request[options]["AllocationStrategy"] == strategies[options]
    found = [override for item in request["LaunchTemplateConfigs"] for override in item["Overrides"]]
    return request["TargetCapacitySpecification"]["DefaultTargetCapacityType"], len(found)


def test_spot_first_on_demand_while_it_is_short_then_spot_again() -> None:
    async def script(world: Operated) -> None:
        only_empty = {"consolidateAfter": "0s", "consolidationPolicy": "WhenEmpty"}
        bought = travel_pool()
        bought["spec"]["disruption"] = only_empty
        world.create(travel_class(), bought)
        for name in ("before", "short", "avoided", "after"):
            world.create(pod(name, "5"))
            await world.clock.sleep({"short": MINUTE, "avoided": 3 * MINUTE}.get(name, 2 * MINUTE))

    # No spot from the second minute for one minute; what refused is avoided for three minutes more.
    spot = Limit(capacity_types=("spot",), since=START + 2 * MINUTE, until=START + 3 * MINUTE)
    world = play(script, limits=(spot,))
    bought = [record["capacityType"] for record in world.records("instance.started")]
    assert bought == ["spot", "on-demand", "on-demand", "spot"]
    (failed,) = world.records("instance.launchFailed")
    # Ten spot offerings were asked, five types in two zones, and no on-demand one with them.
    if world.fleets is not None:
        assert failed["message"].startswith("with fleet error(s), InsufficientInstanceCapacity")
        asked = [capacity_and_overrides(request) for request in world.fleets.asked]
        assert asked == [("spot", 10), ("spot", 10), ("on-demand", 10), ("on-demand", 10), ("spot", 10)]
    else:
        assert failed["message"].count("(spot)") == 5
        assert failed["message"].endswith("; and 5 more")
        assert "on-demand" not in failed["message"]
    assert len(world.records("pod.running")) == 4


def test_five_of_the_six_types_are_sold_here_at_the_catalogue_s_prices() -> None:
    async def script(world: Operated) -> None:
        world.create(travel_class(), travel_pool(capacity=("on-demand",)), pod("a", "5"))
        await world.clock.sleep(2 * MINUTE)

    world = play(script)
    types = sold()
    assert set(ASKED) & set(types) == set(OFFERED)
    (claim,) = world.state.all(NodeClaim)
    lists = {item.key: item.values for item in claim.spec.requirements}
    assert tuple(sorted(lists[labels.INSTANCE_TYPE])) == OFFERED
    assert tuple(sorted(lists[labels.ZONE])) == ZONES
    for name in OFFERED:
        assert types[name].capacity["cpu"] == 8_000
        assert types[name].capacity["pods"] == 58  # 4 network interfaces x 14 addresses + 2
        assert types[name].capacity["memory"] == 30_310 * 1024**2  # 32 GiB less 7.5 % of the hypervisor's
    (started,) = world.records("instance.started")
    cheapest = min(OFFERED, key=lambda name: price(types[name]))
    paid = started["price"] - started["volumes"]
    assert (started["instanceType"], paid) == (cheapest, price(types[cheapest]))
    # A terabyte of gp3 at $0.0912 a gigabyte and month costs a third of the instance.
    assert started["volumes"] == round(1_000 * 0.0912 / 730 * 1e9)


def test_a_pod_for_another_zone_waits_and_learns_why() -> None:
    async def script(world: Operated) -> None:
        elsewhere = pod("elsewhere", nodeSelector={labels.ZONE: "ap-northeast-2b"})
        world.create(travel_class(), travel_pool(), elsewhere, *(pod(f"p{i}", "5") for i in range(4)))
        await world.clock.sleep(3 * MINUTE)

    world = play(script)
    ours = [text for text in world.messages("FailedScheduling") if text.startswith("Failed to")]
    assert ours == [
        "Failed to schedule pod, incompatible requirements, key topology.kubernetes.io/zone, "
        "topology.kubernetes.io/zone In [ap-northeast-2b] not in "
        "topology.kubernetes.io/zone In [ap-northeast-2a ap-northeast-2c]"
    ]
    assert {record["zone"] for record in world.records("instance.started")} <= set(ZONES)
    assert len(world.records("pod.running")) == 4


@pytest.mark.long
def test_memory_binds_before_cpu_and_limits_hold() -> None:
    limits = {"cpu": "1000", "memory": "1000Gi"}

    async def script(world: Operated) -> None:
        wanted = travel_pool(capacity=("on-demand",))
        assert wanted["spec"]["limits"] == limits
        world.create(travel_class(), keeping(wanted), inflate(40, "5"))
        await world.clock.sleep(2 * MINUTE)

    world = play(script)
    stored = world.state.get(NodePool, POOL)
    assert stored is not None
    assert 31 <= stored.status.nodes <= 33
    used = amounts(stored.status.resources)
    assert used["memory"] <= 1000 * GIB
    assert used["cpu"] < 300_000
    text = (
        "Failed to schedule pod, all available instance types exceed limits for nodepool "
        "(NodePool=karpenter-node-pool)"
    )
    assert text in world.messages("FailedScheduling")


def test_role_and_instance_profile_exclude_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = travel_class(instanceProfile="travel-node")
    for number, document in enumerate((travel_pool(), both, inflate(1))):
        (tmp_path / f"{number}.json").write_text(json.dumps(document))
    assert run(["plan", "-f", str(tmp_path), "--region", "ap-northeast-2"]) == 2
    shown = capsys.readouterr()
    assert "must specify exactly one of ['role', 'instanceProfile']" in shown.err
    assert "1.json" in shown.err
    assert shown.out == ""


def test_nodes_that_may_not_join_are_given_up_and_the_pool_says_so() -> None:
    async def script(world: Operated) -> None:
        world.kubelets.switch_on = lambda _: None  # the role lets no node join
        world.create(travel_class(role="controller"), travel_pool(), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        (claim,) = world.state.all(NodeClaim)
        assert (condition_of(claim, "Launched").status, condition_of(claim, "Registered").status) == (
            "True",
            "Unknown",
        )
        await world.clock.sleep(14 * MINUTE)
        assert condition_of(world.state.get(NodePool, POOL), "NodeRegistrationHealthy").status == "Unknown"
        await world.clock.sleep(16 * MINUTE)
        assert condition_of(world.state.get(NodePool, POOL), "NodeRegistrationHealthy").status == "False"

    world = play(script)
    first, second = (record["t"] for record in world.records("claim.created")[:2])
    assert 15 * MINUTE <= second - first <= 16 * MINUTE


def test_the_root_volume_is_the_node_s_ephemeral_storage() -> None:
    async def script(world: Operated) -> None:
        world.create(travel_class(), travel_pool(), pod("a"))
        await world.clock.sleep(2 * MINUTE)
        (node,) = world.state.all(Node)
        assert amounts(node.status.capacity)["ephemeral-storage"] == 1000 * GIB
        # A tenth is kept free for evictions, and a gibibyte for the kubelet.
        assert amounts(node.status.allocatable)["ephemeral-storage"] == 899 * GIB

    play(script)
