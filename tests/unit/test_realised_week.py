"""What the benchmark of a week says: how long loads lasted, what is for sale, the least in hindsight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.realised.hindsight import Spell, Type, frontier, once_a_day, spells, types
from benchmarks.realised.week import Proofs, lived
from dovetail.base.clock import HOUR, MINUTE
from dovetail.testing.problems import daemon_set, instance_types, pod, pool, scenario
from dovetail.testing.scenarios import to_problem

LARGE, SMALL = Type("large", 15, 0.4), Type("small", 7, 0.2)


def wanted(minute: float, pods: int) -> dict[str, Any]:
    return {"t": round(minute * MINUTE), "kind": "hpa", "desired": pods}


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ([wanted(0, 4), wanted(60, 4)], [(2.0, 4)]),
        ([wanted(0, 4), wanted(60, 6)], [(1.0, 4), (1.0, 6)]),
        # Steps that last no five minutes are on the way to what follows.
        ([wanted(0, 4), wanted(60, 5), wanted(61, 6), wanted(63, 8)], [(1.0, 4), (1.0, 8)]),
    ],
)
def test_how_long_loads_lasted(records: list[dict[str, Any]], found: list[Spell]) -> None:
    assert spells(records, 2 * HOUR) == found


def test_what_is_for_sale_without_what_others_beat() -> None:
    pods = [pod("a", "web", (500, 512), {})]
    document = scenario(pods, [pool("general", capacity=("on-demand",))], instance_types())
    found = {one.name: one for one in types(to_problem(document))}
    document["daemonSets"] = [daemon_set("agent", (400, 256))]
    fewer = {one.name: one for one in types(to_problem(document))}
    assert found
    for name in found.keys() & fewer.keys():
        assert fewer[name].pods <= found[name].pods
    kinds = sorted(found.values(), key=lambda one: one.pods)
    assert [one.price for one in kinds] == sorted({one.price for one in kinds})


@pytest.mark.parametrize(
    ("load", "least", "none"),
    [
        ([(10.0, 15)], 1.0, 1.0),
        # A night of seven: the large node stays, or its seven pods move to a small one.
        ([(1.0, 15), (10.0, 7)], 1.0, (0.4 + 4.0) / (0.4 + 2.0)),
        # Another small node by day moves nothing, and neither does it go before the end of it.
        ([(1.0, 7), (1.0, 14)], 1.0, 1.0),
    ],
)
def test_the_least_in_hindsight(load: list[Spell], least: float, none: float) -> None:
    found = dict(frontier(load, [LARGE, SMALL]))
    assert found[0] == pytest.approx(none)
    assert min(found.values()) == pytest.approx(least)
    in_order = [ratio for _, ratio in sorted(found.items())]
    assert in_order == sorted(in_order, reverse=True)


@pytest.mark.parametrize(
    ("load", "least"),
    [
        # Seven pods move to a small node for the night, and back for the day.
        ([(1.0, 15), (10.0, 7), (30.0, 15), (10.0, 7)], 1.0),
        # Those that come back may not move again within a day: the next night is spent on the large node.
        ([(1.0, 15), (10.0, 7), (1.0, 15), (10.0, 7)], (0.4 + 2.0 + 0.4 + 4.0) / (0.4 + 2.0 + 0.4 + 2.0)),
    ],
)
def test_the_least_in_hindsight_with_a_move_a_day(load: list[Spell], least: float) -> None:
    assert once_a_day(load, [LARGE, SMALL]) == pytest.approx(least)


def test_what_a_week_came_to(tmp_path: Path) -> None:
    proofs = Proofs(tmp_path / "now.json", "us-east-1")
    proofs.least = [100, 50]
    records: list[dict[str, Any]] = [
        {"t": 0, "kind": "instance.started", "instance": "i", "claim": "a", "price": 120},
        {"t": HOUR, "kind": "efficiency", "cost": 120, "lowerBound": 80},
        {"t": 2 * HOUR, "kind": "efficiency", "cost": 60, "lowerBound": 40},
        {
            "t": 2 * HOUR,
            "kind": "disruption",
            "reason": "Underutilized",
            "claims": ["a"],
            "replacements": [],
            "snapshot": "s",
        },
        {"t": 2 * HOUR + 3 * MINUTE, "kind": "instance.terminated", "instance": "i"},
    ]
    found = lived(records, 3 * HOUR, proofs)
    assert found.cost == pytest.approx(1.5, abs=0.001)
    assert found.anew == pytest.approx(180 / 150)
    assert found.overlap == pytest.approx(120 * 3 / 60 / 180)
    assert found.commands == {"Underutilized": 1}
