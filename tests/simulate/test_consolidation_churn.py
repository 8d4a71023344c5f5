"""A daily wave of load for a week: few moves, none of them twice, and rest once the load is constant."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

import pytest
from operated import Operated, play, replicas
from test_consolidation import only, scale, sizes, types_of

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.disrupt.consolidation.churn import MOVED_PODS
from dovetail.simulate.analysis.summary import efficiency_figures
from dovetail.testing.guests import node_class

_TYPES = ("m5.large", "m5.xlarge", "c5.large", "c5.xlarge")
_APPS = {"web": ("700m", 3, 12)}  # request, least and most replicas
_STEP = 6 * HOUR
_WEEK = 7 * 24 * HOUR
_NEEDED = 0.97  # of what a week costs
_DEAREST = 40  # pods moved for each dollar an hour that is saved: 2.5 cents an hour for a move


async def wave(world: Operated, constant_from: int, until: int) -> None:
    """Load that is lowest at midnight and highest at noon, until it is constant; a restart every day."""
    apps = (replicas(name, least, cpu) for name, (cpu, least, _) in _APPS.items())
    world.create(node_class(), sizes(*_TYPES, budgets=[{"nodes": "100%"}]), *apps)
    for instant in range(0, until, _STEP):
        phase = min(instant, constant_from) / (24 * HOUR) * 2 * math.pi
        for name, (_, least, most) in _APPS.items():
            await scale(world, name, round(least + (most - least) * (1 - math.cos(phase)) / 2))
        await world.clock.sleep(_STEP)
        if instant % (24 * HOUR) == 18 * HOUR:
            await world.restart()


def busiest_day(instants: Iterable[int]) -> int:
    """The most of them within any 24 h."""
    known = sorted(instants)
    return max((sum(first <= each < first + 24 * HOUR for each in known) for first in known), default=0)


@pytest.mark.long
def test_a_week_of_waves_moves_each_pod_once_a_day_and_constant_load_none() -> None:
    constant = _WEEK - 12 * HOUR

    async def script(world: Operated) -> None:
        await wave(world, constant, _WEEK)

    world = play(script)
    commands = world.records("disruption", reason="Underutilized")
    start = world.log.records[0]["t"]
    assert len({(command["t"] - start) // (24 * HOUR) for command in commands}) >= 6  # nearly every day
    assert all(command["t"] - start <= constant + 30 * MINUTE for command in commands)
    moves = defaultdict(list)
    for record in world.records("pod.evicted"):
        moves[str(record["pod"]).split("/")[1].split("-")[0]].append(record["t"])
    for name, (_, _, most) in _APPS.items():
        assert busiest_day(moves[name]) <= most
    saved = sum(command["savings"] for command in commands) / 1e9
    moved = sum(map(len, moves.values()))
    records = world.log.records
    needed = efficiency_figures(records, records[-1]["t"]).mean
    print(
        f"{moved} pods moved by {len(commands)} commands, {moved / saved:.1f} for each $/h saved;"
        f" {needed:.2%} of what the week cost is proven to be needed"
    )
    assert moved <= _DEAREST * saved
    assert needed is not None and needed >= _NEEDED
    assert not world.records("disruption.failed")


def test_what_was_moved_stays_for_a_day_after_a_replacement_too() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), sizes("m5.xlarge", "m5.large"), replicas("small", 6))
        await world.clock.sleep(3 * MINUTE)
        for count in (3, 6, 3, 6, 3):  # each ebb would be worth another move
            await scale(world, "small", count)
            await world.clock.sleep(40 * MINUTE)
            await world.restart()
            await world.clock.sleep(MINUTE)

    world = play(script)
    assert 0 < len(world.records("pod.evicted")) <= 6
    assert MOVED_PODS in world.state.all(NodePool)[0].metadata.annotations


def test_a_move_that_a_restart_undid_is_made_by_the_next_controller() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), sizes("m5.xlarge"), replicas("a", 6))
        await world.clock.sleep(3 * MINUTE)
        await only(world, "m5.xlarge", "m5.large")
        await scale(world, "a", 1)
        while not world.records("disruption"):
            await world.clock.sleep(SECOND)
        await world.clock.sleep(10 * SECOND)  # the replacement is not up yet
        await world.restart()
        await world.clock.sleep(20 * MINUTE)

    world = play(script)
    assert types_of(world) == ["m5.large"]
    assert len(world.records("pod.evicted")) == 1


def test_a_cluster_that_was_renewed_shrinks_an_hour_later_when_the_load_fell() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), sizes("m5.large"), replicas("small", 12))
        await world.clock.sleep(3 * MINUTE)
        renewed = {"spec": {"template": {"metadata": {"labels": {"generation": "2"}}}}}
        await world.client.patch(NodePool, "general", merge=renewed)
        await world.clock.sleep(20 * MINUTE)
        await scale(world, "small", 6)
        await world.clock.sleep(2 * HOUR)

    world = play(script)
    renewals = [record["t"] for record in world.records("disruption", reason="Drifted")]
    savings = [record["t"] for record in world.records("disruption", reason="Underutilized")]
    assert len(renewals) == 4
    assert len(types_of(world)) == 2  # three of its pods fit a node
    assert all(at >= renewals[-1] + HOUR for at in savings)
