"""The least that a run could have cost, known its load in advance, by how many pods may be moved. Pure.

`frontier` is about moves in all, `once_a_day` about the limit of a move for each pod and day.

For pods that are alike. Nodes are bought before others go, one after the other, so budgets are in the way of
nothing; the minutes in which two run for one are not counted. A node that goes moves its share of the pods,
since the scheduler spreads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from benchmarks.realised.run import Record
from dovetail.api.core import Pod
from dovetail.base.clock import HOUR, MINUTE
from dovetail.model import labels
from dovetail.model.problem import Problem
from dovetail.model.resources import pod_requests, subtract
from dovetail.units.money import NANO_DOLLARS

_BRIEF = 5 * MINUTE  # loads that last no longer are steps on the way to the next one
_SPARE = 0.5  # of the most pods there ever are: sets of nodes with more room than that are not looked at
# Dollars that moving a pod has to save: each gives a point on the front of moves and cost.
_WORTH = (0.0, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5)
_DAY = 24.0  # hours
# Ways to each set of nodes that are followed, those that cost least so far: with 30 the week of seed 1 is the
# same to four digits.
_WAYS = 6

Spell = tuple[float, int]  # hours, pods
_Made = tuple[tuple[float, float], ...]  # when pods were moved (hours), and how many


@dataclass(frozen=True, slots=True)
class Type:
    """How many of the pods a node holds, and what it costs in dollars per hour."""

    name: str
    pods: int
    price: float


def spells(records: Sequence[Record], end: int) -> list[Spell]:
    """How many pods the autoscaler wanted, and for how long."""
    found: list[Spell] = []
    wanted = [(r["t"], r["desired"]) for r in records if r["kind"] == "hpa"]
    since, count, carried = wanted[0][0], wanted[0][1], 0
    for at, new in (*wanted[1:], (end, -1)):
        if new == count:
            continue
        if at - since < _BRIEF and new >= 0:
            carried += at - since
        else:
            found.append(((at - since + carried) / HOUR, count))
            carried = 0
        since, count = at, new
    return found


def types(problem: Problem) -> list[Type]:
    """What its first pool sells for pods as its first one, without what others beat."""
    requests, pool = pod_requests(problem.pods[0]), problem.pools[0]
    daemons = [pod_requests(Pod(spec=one.spec.template.spec)) for one in problem.daemonsets]
    found = []
    for kind in pool.instance_types:
        if not pool.requirements.get(labels.INSTANCE_TYPE).has(kind.name):
            continue
        room: Mapping[str, int] = kind.allocatable()
        for daemon in daemons:
            room = subtract(room, daemon)
        prices = [
            one.price
            for one in kind.offerings
            if one.available and pool.requirements.get(labels.CAPACITY_TYPE).has(one.capacity_type)
        ]
        pods = min(room.get(name, 0) // amount for name, amount in requests.items() if amount)
        if prices and pods > 0:
            found.append(Type(kind.name, pods, (min(prices) + pool.volumes) / NANO_DOLLARS))
    return [one for one in found if not any(_beats(other, one) for other in found)]


def _beats(one: Type, other: Type) -> bool:
    better = one.pods >= other.pods and one.price <= other.price
    return better and (one.pods, -one.price, one.name) > (other.pods, -other.price, other.name)


class _Sets:
    """n sets of nodes that do not have far more room than the most pods need, `price` (n,) per hour."""

    def __init__(self, load: Sequence[Spell], kinds: Sequence[Type]) -> None:
        most = max(pods for _, pods in load) * (1 + _SPARE)
        size = np.array([kind.pods for kind in kinds])
        counts = np.array(list(product(*(range(int(most // kind.pods) + 1) for kind in kinds))))
        counts = counts[counts @ size <= most]
        self.room = counts @ size
        self.price = counts @ np.array([kind.price for kind in kinds])
        # Share of the pods that a change from one set to another moves, from rows to columns.
        fewer = np.maximum(counts[:, None, :] - counts[None, :, :], 0)
        self.gone = fewer @ size / np.maximum(self.room, 1)[:, None]

    def holding(self, pods: int) -> list[int]:
        """Those with room for so many."""
        return [int(one) for one in np.flatnonzero(self.room >= pods)]

    def least(self, load: Sequence[Spell]) -> float:
        """What the cheapest set of each spell costs."""
        return float(sum(hours * self.price[self.room >= pods].min() for hours, pods in load))


def frontier(load: Sequence[Spell], kinds: Sequence[Type]) -> list[tuple[int, float]]:
    """Pods moved, and the cost over that of the cheapest nodes of each spell; the fewest moves first."""
    sets = _Sets(load, kinds)
    room, price = sets.room, sets.price
    fits = [room >= pods for _, pods in load]
    least = sets.least(load)
    found = {}
    for worth in _WORTH:
        cost = np.where(fits[0], price * load[0][0], np.inf)
        value, moved = cost.copy(), np.zeros(len(room))
        for (_, before), (hours, pods), fit in zip(load, load[1:], fits[1:], strict=False):
            moves = sets.gone * min(before, pods)
            came = (value[:, None] + worth * moves).argmin(axis=0)
            to = np.arange(len(room))
            spent = np.where(fit, price * hours, np.inf)
            value = value[came] + worth * moves[came, to] + spent
            cost, moved = cost[came] + spent, moved[came] + moves[came, to]
        best = int(value.argmin())
        found[round(float(moved[best]))] = float(cost[best] / least)
    return sorted(found.items())


def once_a_day(load: Sequence[Spell], kinds: Sequence[Type]) -> float:
    """The cost over that of the cheapest nodes of each spell where moves of any 24 hours are no more than the
    pods that there are: the least that is found.
    """
    sets = _Sets(load, kinds)
    ways: dict[int, list[tuple[float, _Made]]] = {
        one: [(float(sets.price[one] * load[0][0]), ())] for one in sets.holding(load[0][1])
    }
    now = 0.0
    for (last, before), (hours, pods) in pairwise(load):
        now += last
        found: dict[int, list[tuple[float, _Made]]] = {}
        for one, some in ways.items():
            for other in sets.holding(pods):
                moves = float(sets.gone[one, other] * min(before, pods))
                for cost, made in some:
                    day = tuple(entry for entry in made if now - _DAY < entry[0])
                    if moves and moves + _moved(day) > pods:
                        continue
                    day += ((now, moves),) if moves else ()
                    found.setdefault(other, []).append((cost + float(sets.price[other] * hours), day))
        ways = {one: _fewest(some) for one, some in found.items()}
    return min(cost for some in ways.values() for cost, _ in some) / sets.least(load)


def _moved(made: _Made) -> float:
    return sum(count for _, count in made)


def _fewest(ways: Iterable[tuple[float, _Made]]) -> list[tuple[float, _Made]]:
    """The cheapest of them, each next one with fewer moves in the last 24 hours."""
    kept: list[tuple[float, _Made]] = []
    for way in sorted(ways, key=lambda way: (way[0], _moved(way[1]))):
        if not kept or _moved(way[1]) < _moved(kept[-1][1]):
            kept.append(way)
    return kept[:_WAYS]
