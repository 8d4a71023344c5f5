"""The best plan in whole nodes within a scope: what it costs at least, and such a plan if it is come upon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dovetail.solve.bounds.scope import Scope
from dovetail.solve.packing.compact import Free, whole_nodes
from dovetail.solve.packing.generate import Purchase
from dovetail.solve.packing.market import Market
from dovetail.solve.packing.whole import Load, whole
from dovetail.solve.supply.columns import Floats
from dovetail.solve.supply.encode import Amounts, Mask
from dovetail.solve.work import Work

_CLOSE = 0.999  # share of the cost: a bound that near is not worth another search
_FEW = 64  # kinds; with more there are too many patterns to try them all
_OFFERED = 2  # offerings per kind; where there are more, there are few loads of each
_GROUPS = 24  # of free rooms that are told apart


class WholeNumbers:
    """One search. `better` are the loads of a plan for less, by columns of the scope or by its free rooms."""

    def __init__(
        self, scope: Scope, goods: Market, rooms: tuple[Amounts, Amounts], price: int, work: Work
    ) -> None:
        """`rooms`: the free rooms (N, R), and how many of a kind each holds (S, N). `price`: of a plan."""
        self._scope, self._goods, self._work = scope, goods, work
        self._free, copies = rooms
        self._usable: Mask = copies > 0
        self._open = np.flatnonzero(self._usable.any(axis=0))
        self.price = price
        self.better: tuple[Load, ...] = ()

    def run(self, worth: Floats, taken: Amounts, known: int) -> int:
        """A bound in nano-dollars per hour.

        `known` by worths (S,), less what each of the free rooms (N,) can take.
        """
        ways: list[Callable[[], int]] = [
            lambda: self.by_rooms(pods=True),
            lambda: self._by_loads(worth, taken, known),
        ]
        if len(self._scope.pods) * _OFFERED < len(self._goods.price):
            ways.reverse()
        bound = 0
        for way in ways:
            if bound < self.price * _CLOSE:
                bound = max(bound, way())
        return bound

    def offer(self, bought: Sequence[Purchase]) -> None:
        """Keep a plan by column generation if it is complete and costs less."""
        goods = self._goods
        held = sum((item.counts * item.number for item in bought), np.zeros_like(goods.demand))
        taken = sum((goods.takes[item.column] * item.number for item in bought), np.zeros_like(goods.most))
        if (held >= goods.demand).all() and (taken <= goods.most).all():
            self._keep(tuple(Load(item.counts, item.column, item.number, free=False) for item in bought))

    def _small(self) -> bool:
        kinds = len(self._scope.pods)
        return kinds <= _FEW and len(self._open) <= _GROUPS and self._work.left

    def by_rooms(self, *, pods: bool) -> int:
        """By what the nodes of one offering hold as one large node; in whole pods too if `pods`."""
        if len(self._open) > _GROUPS:
            free = grouped(self._usable, self._free)
            return whole_nodes(self._goods, self._work, free, pods=pods, limit=self.price).bound
        free = Free(self._usable[:, self._open], self._free[self._open])
        found = whole_nodes(self._goods, self._work, free, pods=pods, limit=self.price)
        self._keep(found.plan)
        return found.bound

    def _keep(self, loads: tuple[Load, ...]) -> None:
        """Remember a plan by columns of the scope, if it is one and the cheapest so far."""
        price = sum(0 if load.free else load.number * int(self._goods.price[load.column]) for load in loads)
        if loads and price < self.price:
            columns = self._goods.column
            self.price = price
            self.better = tuple(
                replace(load, column=int((self._open if load.free else columns)[load.column]))
                for load in loads
            )

    def _by_loads(self, worth: Floats, taken: Amounts, known: int) -> int:
        """By all patterns that a cheaper plan could use; such a plan is kept as well."""
        if not worth.any() or not self._small():
            return 0
        scope, rooms = self._scope, self._open
        free = replace(
            self._goods,
            column=rooms,
            room=self._free[rooms],
            price=taken[rooms],
            feasible=scope.allowed[:, rooms].T,
            own=scope.allowed[:, rooms].T,
        )
        found = whole(self._goods, worth, (known, self.price), self._work, free=free)
        self._keep(found.plan)
        return found.bound


def grouped(usable: Mask, free: Amounts) -> Free:
    """Rooms that the same kinds can use as one large room, which holds whatever they do together."""
    groups: dict[bytes, list[int]] = {}
    for index in np.flatnonzero(usable.any(axis=0)).tolist():
        groups.setdefault(np.packbits(usable[:, index]).tobytes(), []).append(index)
    members = sorted(groups.values(), key=lambda group: (-len(group), group))
    if len(members) > _GROUPS:
        rest = [index for group in members[_GROUPS:] for index in group]
        members = [*members[:_GROUPS], rest]
    feasible = np.array([usable[:, group].any(axis=1) for group in members], dtype=np.bool_)
    room = np.array([free[group].sum(axis=0) for group in members], dtype=np.int64)
    return Free(feasible.reshape(len(members), len(usable)).T, room.reshape(len(members), free.shape[1]))
