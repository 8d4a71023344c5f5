"""A plan made by following an answer that says which pods share which node.

The answer holds in the end, but rules ask for an order in which pods come: each pod is put into its place by
the rules of that moment, as often as that brings another one in. Where pods remain there is no such plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from dovetail.model.requirement import Requirements
from dovetail.solve.bounds.between.berths import Berth
from dovetail.solve.demand.topology import SPREAD
from dovetail.solve.latecomers import ENDLESS, Attempt, Latecomers
from dovetail.solve.placing.seen import Opened
from dovetail.solve.standing import Site, Standing
from dovetail.solve.supply.columns import Columns
from dovetail.solve.supply.world import Pins, World

_FEW_SHAPES = 4  # all their orders are tried


def turns_of(berths: Sequence[Berth]) -> Iterator[tuple[int, ...]]:
    """Orders of shapes that are worth a try: all where there are few shapes."""
    shapes = sorted({shape for berth in berths for shape, *_ in berth.pods})
    if len(shapes) <= _FEW_SHAPES:
        yield from permutations(shapes)
    else:
        yield from (tuple(shapes), tuple(reversed(shapes)))


def opened_by(world: World, berths: Sequence[Berth]) -> Opened:
    """Domains that new nodes of an answer open for spreads that pods there obey."""
    found: Opened = {}
    for berth in berths:
        domains = dict(berth.domains) if berth.row < 0 else {}
        owned = {index for shape, level, _ in berth.pods for index in world.shapes[shape].levels[level].owned}
        for index in sorted(owned):
            one = world.topology.groups[index].id
            # What turns out not to be opened must not count as one of so many domains.
            if one.kind == SPREAD and one.min_domains < 2 and one.key in domains:
                found[one] = tuple(sorted({*found.get(one, ()), domains[one.key]}))
    return found


class Follower(Latecomers):
    """Starts from no plan at all."""

    def __init__(
        self, standing: Standing, columns: Columns, berths: Sequence[Berth], *, most: int = ENDLESS
    ) -> None:
        """`most`: units of work until it is given up."""
        super().__init__(standing, columns, {})
        self._end = self._world.work.used + most
        self._berths = berths
        self._pools = {
            pod: pools
            for berth in berths
            for (*_, pods), pools in zip(berth.pods, berth.owned, strict=False)
            for pod in pods
        }
        self._sites: dict[int, Site] = {}  # per berth, once it is bought
        self._aim: dict[str, str] | None = None  # labels that the next place must not contradict
        self._patient = True  # nodes are bought for pods of their pool: visitors wait for those

    @property
    def over(self) -> bool:
        """True iff it has taken too long."""
        work = self._world.work
        return work.late or work.used > self._end

    def seated(self, turns: Sequence[int] = ()) -> list[tuple[int, int, int, str]]:
        """Place all pods of the answer; (berth, shape, level, pod) of those who have no place as it wants it.

        `turns`: shapes in the order in which they come, where that is not any.
        """
        waiting = [
            (number, shape, level, pod)
            for number, berth in enumerate(self._berths)
            for shape, level, pods in berth.pods
            for pod in pods
        ]
        place = {shape: index for index, shape in enumerate(turns)}
        # Spreads that look at nodes alone must see the new ones before they let more pods onto the others.
        seen = self._standing.seen
        waiting.sort(key=lambda each: (seen and self._berths[each[0]].row >= 0, place.get(each[1], 0)))
        while waiting and not self.over:
            rest = [each for each in waiting if self.over or not self._seat(*each)]
            if len(rest) == len(waiting) and not self._patient:
                break
            self._patient = self._patient and len(rest) < len(waiting)
            waiting = rest
        self._aim = None
        return waiting

    def _seat(self, number: int, index: int, level: int, pod: str) -> bool:
        berth, shape = self._berths[number], self._world.shapes[index]
        for wanted in shape.levels[level].alternatives:
            attempt = Attempt(shape, level, wanted, pod, self._pools.get(pod, ()))
            if self._at_row(attempt, berth.row) if berth.row >= 0 else self._at_site(attempt, number):
                return True
        return False

    def _at_row(self, attempt: Attempt, row: int) -> bool:
        rules = attempt.shape.levels[attempt.number].rules
        rows = self._world.nodes.candidates(attempt.wanted, rules, attempt.shape.vector)
        return row in rows and self._put(attempt, row)

    def _at_site(self, attempt: Attempt, number: int) -> bool:
        berth, site = self._berths[number], self._sites.get(number)
        self._aim = dict(berth.domains)
        if site is not None:
            offer = self._grown(attempt, site)
            if offer is not None:
                self._grow(attempt, site, offer)
            return offer is not None
        if self._patient and berth.pool not in self._owned(attempt):
            return False
        offer = self._cheapest(attempt, (berth.pool,), (attempt.wanted, None))
        if offer is not None:
            self._sites[number] = self._buy(attempt, offer)
        return offer is not None

    def _places(
        self, attempt: Attempt, pools: tuple[int, ...], both: Requirements, site: Site | None
    ) -> Iterator[tuple[tuple[int, ...], Pins]]:
        """Only those with the labels that the answer has."""
        for place_pools, pins in super()._places(attempt, pools, both, site):
            if self._aim is None or all(self._aim.get(key, value) == value for key, value in pins):
                yield place_pools, pins
