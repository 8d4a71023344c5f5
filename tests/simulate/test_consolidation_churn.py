"""A daily wave of load: few moves, none of them twice, and rest once the load is constant."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from operated import Operated, node_class, play, replicas
from test_consolidation import scale, sizes

from dovetail.base.clock import HOUR, MINUTE

_TYPES = ("m5.large", "m5.xlarge", "m5.2xlarge", "c5.large", "c5.xlarge", "c5.2xlarge", "r5.large")
_APPS = {"small": ("500m", 3, 12), "large": ("1300m", 2, 8)}  # request, least and most replicas


async def wave(world: Operated, hours: int, constant_from: int) -> None:
    """Load that is lowest at midnight and highest at noon, until it is constant."""
    apps = (replicas(name, least, cpu) for name, (cpu, least, _) in _APPS.items())
    world.create(node_class(), sizes(*_TYPES, budgets=[{"nodes": "100%"}]), *apps)
    for step in range(2 * hours):
        phase = min(step, 2 * constant_from) / 48 * 2 * math.pi
        for name, (_, least, most) in _APPS.items():
            await scale(world, name, round(least + (most - least) * (1 - math.cos(phase)) / 2))
        await world.clock.sleep(30 * MINUTE)


def busiest_day(instants: Iterable[int]) -> int:
    """The most of them within any 24 h."""
    known = sorted(instants)
    return max((sum(first <= each < first + 24 * HOUR for each in known) for first in known), default=0)


def test_a_wave_moves_each_pod_once_a_day_and_constant_load_none() -> None:
    async def script(world: Operated) -> None:
        await wave(world, 30, 22)

    world = play(script)
    commands = world.records("disruption", reason="Underutilized")
    start = world.log.records[0]["t"]
    assert commands
    assert all(command["t"] - start <= 22 * HOUR + 30 * MINUTE for command in commands)
    moves = defaultdict(list)
    for record in world.records("pod.evicted"):
        moves[str(record["pod"]).split("/")[1].split("-")[0]].append(record["t"])
    for name, (_, _, most) in _APPS.items():
        assert busiest_day(moves[name]) <= most
    saved = sum(command["savings"] for command in commands) / 1e9
    assert sum(map(len, moves.values())) <= 100 * saved  # pods moved per dollar an hour


def test_what_was_moved_stays_for_a_day_after_a_replacement_too() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), sizes("m5.xlarge", "m5.large"), replicas("small", 6))
        await world.clock.sleep(3 * MINUTE)
        for count in (3, 6, 3, 6, 3):  # each ebb would be worth another move
            await scale(world, "small", count)
            await world.clock.sleep(40 * MINUTE)

    assert len(play(script).records("pod.evicted")) <= 6
