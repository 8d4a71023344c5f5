"""Acceptance: what an account has little of is planned with, instead of coming back as refused launches."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Any

import operated
import pytest
from aws_cloud import account, cloud_on_aws
from operated import REGION, Operated, play, pod, pool

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE
from dovetail.base.eventlog import EventLog
from dovetail.cloud.aws.fake import Account
from dovetail.cloud.aws.fake.gate import GateOptions
from dovetail.cloud.aws.quota.quotas import Quotas
from dovetail.cloud.inmemory import Limit
from dovetail.model import labels
from dovetail.simulate.environment.aws import CloudOnAws
from dovetail.simulate.time.clock import VirtualClock
from dovetail.testing.guests import node_class

USUAL = account(REGION)
RUNNING: list[asyncio.Task[None]] = []  # or they might be collected
SCARCE = USUAL.subnets[0].zone


def on(
    monkeypatch: pytest.MonkeyPatch,
    known: Account = USUAL,
    quotas: Quotas | None = None,
    denied: frozenset[str] = frozenset(),
) -> None:
    """Whatever is played from now on is on such an account."""

    def made(clock: VirtualClock, log: EventLog, limits: tuple[Limit, ...], *, reboots: bool) -> CloudOnAws:
        cloud = cloud_on_aws(clock, log, limits, known=known, quotas=quotas, reboots=reboots)
        cloud.aws.gate.options = GateOptions(denied=denied)
        return cloud

    monkeypatch.setitem(operated.CLOUDS, "aws", made)


def few_addresses(left: int) -> Account:
    """The first zone's subnet has so many left, the others have thousands."""
    subnets = tuple(
        replace(item, free_addresses=left) if item.zone == SCARCE else item for item in USUAL.subnets
    )
    return replace(USUAL, subnets=subnets)


def rather_in(zone: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": labels.ZONE, "operator": "In", "values": [zone]}]}
    preferred = [{"weight": 1, "preference": term}]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


def refused(world: Operated) -> list[str]:
    assert world.fleets is not None
    return world.fleets.refused


def zones(world: Operated) -> list[str]:
    return [node.document["metadata"]["labels"][labels.ZONE] for node in world.server.list(Node)]


def waiting(world: Operated) -> list[str]:
    found = [item.document for item in world.server.list(Pod)]
    return [item["metadata"]["name"] for item in found if not item["spec"].get("nodeName")]


async def bought(world: Operated, *documents: dict[str, Any]) -> None:
    """The provider runs as it does in production; ten minutes after these were created."""
    await world.cloud.start()
    RUNNING.extend(asyncio.create_task(part) for _, part in world.cloud.upkeep())
    world.create(*documents)
    await world.clock.sleep(10 * MINUTE)


async def ask(world: Operated, count: int) -> None:
    """As many pods, one to a node of four vCPUs."""
    await bought(world, node_class(), pool(), *(pod(f"web-{number}", "3") for number in range(count)))


def test_a_quota_is_planned_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred pods, and vCPUs for ten nodes: ten are launched, and not one launch is refused."""
    on(monkeypatch, quotas={("on-demand", "standard"): 40, ("spot", "standard"): 0})

    async def script(world: Operated) -> None:
        await ask(world, 100)

    world = play(script)
    assert refused(world) == []
    assert not world.records("instance.launchFailed")
    assert len(world.server.list(NodeClaim)) == len(zones(world)) == 10
    assert len(waiting(world)) == 90
    reasons = {item.reason for plan in world.plans for item in plan.unschedulable}
    assert reasons == {"not enough is left of the quota of on-demand vCPUs (standard types)"}


def test_room_in_a_quota_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, quotas={("on-demand", "standard"): 8})

    async def script(world: Operated) -> None:
        await ask(world, 3)
        assert len(zones(world)) == 2
        await world.client.delete(Pod, "web-0", "default")
        await world.clock.sleep(15 * MINUTE)

    world = play(script)
    assert refused(world) == []
    assert not waiting(world)


def test_quotas_that_may_not_be_read_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = frozenset({"servicequotas:ListServiceQuotas"})
    on(monkeypatch, quotas={("on-demand", "standard"): 8}, denied=denied)

    async def script(world: Operated) -> None:
        await ask(world, 3)

    world = play(script)
    assert set(refused(world)) == {"VcpuLimitExceeded"}
    assert not [item for item in world.records("reconcile.failed") if item["controller"] == "aws"]
    assert len(zones(world)) == 2


@pytest.mark.parametrize(("left", "prefixes", "nodes"), [(3, 0, 3), (40, 1, 2), (16, 1, 0)])
def test_a_subnet_with_few_addresses_gets_few_nodes(
    monkeypatch: pytest.MonkeyPatch, left: int, prefixes: int, nodes: int
) -> None:
    """All pods would rather be in that zone; those that find no room go to the others."""
    on(monkeypatch, few_addresses(left))

    async def script(world: Operated) -> None:
        known = node_class()
        if prefixes:
            known["spec"]["ipPrefixCount"] = prefixes
        wanted = rather_in(SCARCE)
        pods = (pod(f"web-{number}", "3", **wanted) for number in range(8))
        await bought(world, known, pool(), *pods)

    world = play(script)
    assert refused(world) == []
    assert zones(world).count(SCARCE) == nodes
    assert len(zones(world)) == 8


def test_what_is_left_of_each_subnet_is_a_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a zone has two: whoever adds addresses wants to know where."""
    first = USUAL.subnets[0]
    second = replace(first, id="subnet-second", free_addresses=7)
    on(monkeypatch, replace(USUAL, subnets=(*few_addresses(40).subnets, second)))

    async def script(world: Operated) -> None:
        wanted = rather_in(SCARCE)
        await bought(
            world, node_class(), pool(), *(pod(f"web-{number}", "3", **wanted) for number in range(8))
        )
        text = b"".join(await world.operator.figures.text()).decode()
        room = dict(re.findall(r'^dovetail_launch_room\{of="(addresses[^"]+)"\} (\d+)$', text, re.MULTILINE))
        assert zones(world).count(SCARCE) == 8
        pair = (first.id, second.id)
        free = world.aws.ec2.free_addresses
        assert all(room[f"addresses of {one}"] == str(free(one)) for one in pair)
        assert room[f"addresses in {SCARCE} ({', '.join(sorted(pair))})"] == str(sum(map(free, pair))) == "39"
        assert all(f'dovetail_launch_room_lasts_seconds{{of="addresses of {one}"}}' in text for one in pair)

    play(script)
