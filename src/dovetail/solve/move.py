"""A plan in which some pods leave their places and look for others, while all the rest stay where they are.

Everybody is put into place anew, in an order that all rules allow, so whatever comes of it is legal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dovetail.solve.bounds.between.berths import Berth
from dovetail.solve.case import Answer
from dovetail.solve.follow import Follower
from dovetail.solve.latecomers import ENDLESS, Attempt, Offer
from dovetail.solve.placing.items import Unit
from dovetail.solve.purchase import Purchase
from dovetail.solve.standing import Site, Standing
from dovetail.solve.supply.columns import Columns


@dataclass(frozen=True, slots=True)
class Move:
    """Nodes with the pods that stay, and (shape, pod) pairs that look for places, in their order."""

    berths: tuple[Berth, ...]
    loose: tuple[tuple[int, str], ...] = ()
    turns: tuple[int, ...] = ()  # shapes in the order in which those who stay are seated, where it matters
    # (berth, pod) and (row, pod): where pods do not go back to unless there is no other place.
    left: frozenset[tuple[int, str]] = frozenset()
    left_rows: frozenset[tuple[int, str]] = frozenset()
    most: int = ENDLESS  # units of work; one that takes more is given up


@dataclass(frozen=True, slots=True)
class Moved:
    """What comes of a move: pods left over, preferences given up, nano-dollars per hour, nodes."""

    rank: tuple[int, int, int, int]
    written: Callable[[], Answer]


def berths_of(existing: Mapping[int, Sequence[Unit]], bought: Sequence[Purchase]) -> Iterator[Berth]:
    """The nodes of a plan that it puts pods on."""
    for row, units in existing.items():
        yield Berth(_grouped(units), row=row)
    for purchase in bought:
        pins = {pin for item, _ in purchase.parts for pin in item.pins}
        units = [unit for _, unit in purchase.units()]
        yield Berth(_grouped(units), pool=purchase.made.pool, domains=tuple(sorted(pins)))


def _grouped(units: Sequence[Unit]) -> tuple[tuple[int, int, tuple[str, ...]], ...]:
    """Pods of a node by shape and level."""
    found: dict[tuple[int, int], list[str]] = {}
    for unit in units:
        found.setdefault((unit.shape, unit.level), []).append(unit.pod)
    return tuple((shape, level, tuple(pods)) for (shape, level), pods in found.items())


class Mover(Follower):
    """Makes one move; pods that look for places go where they cost least."""

    def __init__(self, standing: Standing, columns: Columns, move: Move) -> None:
        super().__init__(standing, columns, move.berths, most=move.most)
        self._move = move
        self._barred = False
        self._numbers: dict[str, int] = {}  # site -> berth

    def run_all(self, others: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
        """Put everybody in a place, these last; who found none."""
        driven_out = [(index, pod) for _, index, _, pod in self.seated(self._move.turns)]
        if self.over:
            return [*self._move.loose, *driven_out, *others]
        self._numbers = {site.name: number for number, site in self._sites.items()}
        self._barred = True
        waiting = self.run([*self._move.loose, *driven_out])
        self._barred = False
        return self.run([*waiting, *others])

    def _place_at(self, attempt: Attempt) -> bool:
        """On an existing node, or where a bought or a new one becomes the least dearer."""
        if self._on_node(attempt):
            return True
        grown, new = self._best_site(attempt), self._best_new(attempt)
        if grown is not None and (new is None or grown[0].dearer <= new.dearer):
            self._grow(attempt, grown[1], grown[0])
        elif new is not None:
            self._buy(attempt, new)
        return grown is not None or new is not None

    def _put(self, attempt: Attempt, row: int) -> bool:
        barred = self._barred and (row, attempt.pod) in self._move.left_rows
        return not barred and super()._put(attempt, row)

    def _grown(self, attempt: Attempt, site: Site) -> Offer | None:
        number = self._numbers.get(site.name, -1)
        barred = self._barred and (number, attempt.pod) in self._move.left
        return None if barred else super()._grown(attempt, site)
