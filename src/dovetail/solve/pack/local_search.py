"""Local search on a packing: nodes merged, one bundle shifted, nodes emptied into others or packed anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.base.streams import stream
from dovetail.model.arrays import TABLE, Amounts, Floats, Mask
from dovetail.solve.budget import ENTRY
from dovetail.solve.instance.limits import Limits
from dovetail.solve.pack.greedy import Packer, Packing, rank
from dovetail.solve.pack.node_candidate import NodeCandidate, counts_of, patterns_of
from dovetail.solve.tolerances import FEW, GOOD, LARGE, MANY, TRIES


def settled(packer: Packer, packing: Packing, start: Limits) -> Packing:
    """The packing, or a cheaper one that no such step makes cheaper still. `start` is not changed."""
    steps = len(packing.candidates) * sum(1 + len(made.counts) for made in packing.candidates)
    work = packer.instance.work
    if len(packing.candidates) < 2 or steps * len(packer.items) > TABLE or not work.left:
        return packing
    return _Steps(packer, packing, start).run()


class _Steps:
    """Invariant: `gain[a, b]` is what the best step from node a to node b saves, as far as prices tell."""

    def __init__(self, packer: Packer, packing: Packing, start: Limits) -> None:
        self._packer, self._packing, self._start = packer, packing, start
        self._candidates: list[NodeCandidate | None] = list(packing.candidates)
        size = len(packing.candidates)
        self._counts = patterns_of([made.counts for made in packing.candidates], len(packer.items))
        # Per node what one step may take out of it, (N, I), and what the node costs without that, (N,).
        self._moves = [self._taken_out(row) for row in range(size)]
        self._gain: Floats = np.full((size, size), -np.inf)
        self._best: Amounts = np.zeros((size, size), dtype=np.int64)  # of the giver's moves
        self._look_at_all()

    def run(self) -> Packing:
        """As many steps as pay; at equal price those that spare a node."""
        for _ in range(MANY):
            giver, taker = divmod(int(np.argmax(self._gain)), len(self._candidates))
            if self._gain[giver, taker] < 0 or not self._packer.instance.work.left:
                break
            if not self._step(giver, taker):
                self._gain[giver, taker] = -np.inf
        return replace(self._packing, candidates=[made for made in self._candidates if made is not None])

    def _step(self, giver: int, taker: int) -> bool:
        """Do it if the rules of both nodes allow it and it saves what it seemed to."""
        moved = self._moves[giver][0][self._best[giver, taker]]
        others = [made for row, made in enumerate(self._candidates) if row not in (giver, taker)]
        limits = self._start.after([made for made in others if made is not None])
        patterns = (self._counts[taker] + moved, self._counts[giver] - moved)
        larger = self._made(patterns[0], limits)
        smaller = self._made(patterns[1], limits) if patterns[1].any() else None
        if larger is None or (smaller is None and patterns[1].any()):
            return False
        saved = self._cost(giver) + self._cost(taker) - larger.price - (smaller.price if smaller else 0)
        if saved < 0 or (saved == 0 and smaller is not None):
            return False
        rows = range(len(self._candidates))
        for row, made, pattern in ((taker, larger, patterns[0]), (giver, smaller, patterns[1])):
            self._candidates[row], self._counts[row] = made, pattern
            self._moves[row] = self._taken_out(row)
        self._look([(row, other) for row in (giver, taker) for other in rows])
        self._look([(other, row) for row in (giver, taker) for other in rows])
        return True

    def _cost(self, row: int) -> int:
        made = self._candidates[row]
        return made.price if made is not None else 0

    def _made(self, pattern: Amounts, limits: Limits) -> NodeCandidate | None:
        column, price = self._packer.cheapest(pattern[None])
        made = self._packer.made(limits, int(column[0]), counts_of(pattern)) if price[0] < np.inf else None
        if made is not None:
            limits.take(made)
        return made

    def _taken_out(self, row: int) -> tuple[Amounts, Floats]:
        pattern = self._counts[row]
        items = np.flatnonzero(pattern)
        moved = np.zeros((len(items) + 1, len(pattern)), dtype=np.int64)
        moved[np.arange(len(items)), items] = 1
        moved[-1] = pattern
        rest = pattern - moved
        return moved, np.where(rest.any(axis=1), self._packer.cheapest(rest)[1], 0.0)

    def _look_at_all(self) -> None:
        """Work out the best step for every two nodes: once for all that are alike."""
        first: dict[tuple[bytes, int], int] = {}
        alike = [
            first.setdefault((pattern.tobytes(), self._cost(row)), row)
            for row, pattern in enumerate(self._counts)
        ]
        rows = np.array(list(first.values()), dtype=np.int64)
        kind = np.searchsorted(rows, alike)
        for index, row in enumerate(rows.tolist()):
            if self._packer.instance.work.time_over:
                break
            gain, best = self._steps([(row, other) for other in rows.tolist()])
            givers = kind == index
            self._gain[givers], self._best[givers] = gain[kind], best[kind]
        np.fill_diagonal(self._gain, -np.inf)

    def _look(self, pairs: list[tuple[int, int]]) -> None:
        """Work out the best step for each (giver, taker)."""
        self._gain[tuple(np.array(pairs).T)] = -np.inf
        there = [made is not None for made in self._candidates]
        fine = [(giver, taker) for giver, taker in pairs if giver != taker and there[giver] and there[taker]]
        if fine:
            at = tuple(np.array(fine).T)
            self._gain[at], self._best[at] = self._steps(fine)

    def _steps(self, pairs: list[tuple[int, int]]) -> tuple[Floats, Amounts]:
        """What the best step of each (giver, taker) saves, and which of the giver's moves it is."""
        patterns = np.concatenate([self._moves[giver][0] + self._counts[taker] for giver, taker in pairs])
        rest = np.concatenate([self._moves[giver][1] for giver, _ in pairs])
        self._packer.instance.work.spend(len(patterns) * ENTRY)
        price = self._packer.cheapest(patterns)[1] + rest
        gain = np.full(len(pairs), -np.inf)
        chosen = np.zeros(len(pairs), dtype=np.int64)
        end = 0
        for index, (giver, taker) in enumerate(pairs):
            start, end = end, end + len(self._moves[giver][0])
            costs = price[start:end]
            # At equal cost a step that spares a node is better than none, one that does not is not.
            saved = self._cost(giver) + self._cost(taker) - costs
            saved[:-1][saved[:-1] <= 0] = -np.inf
            chosen[index] = np.argmax(saved)
            gain[index] = saved[chosen[index]]
        return gain, chosen


def joined(packer: Packer, packing: Packing, start: Limits) -> Packing:
    """The packing, or one of fewer nodes that costs no more. `start` is not changed.

    A little of it is done even once the time is over: fewer nodes are fewer claims to be written.
    """
    time_over = packer.instance.work.time_over
    if len(packing.candidates) < 2 or (time_over and len(packer.items) * len(packer.sold) > LARGE):
        return packing
    candidates = _Groups(packer, packing.candidates, start).run()
    if start.any:
        return _bought(packer, packing, candidates, start)
    return min(packing, replace(packing, candidates=candidates), key=rank)


class _Groups:
    """Invariant: `saved[a, b]` is what one node instead of one of each saves, -inf if it is dearer."""

    def __init__(self, packer: Packer, candidates: list[NodeCandidate], start: Limits) -> None:
        self._packer, self._start = packer, start
        groups: dict[tuple[object, ...], list[NodeCandidate]] = {}
        for made in candidates:
            groups.setdefault((made.counts, made.pool, made.column, made.reservation), []).append(made)
        ordered = sorted(groups.values(), key=lambda group: (bool(group[0].reservation), -len(group)))
        self._time_over = packer.instance.work.time_over
        many = 0 if self._time_over else min(FEW, LARGE // max(1, len(packer.sold)))
        most = max(TRIES, many)
        chosen = [group for group in ordered[:most] if not group[0].reservation]
        self._others = [made for group in ordered[len(chosen) :] for made in group]
        size = len(chosen) + (TRIES if self._time_over else FEW)
        self._made = [group[0] for group in chosen]
        self._number = np.zeros(size, dtype=np.int64)
        self._number[: len(chosen)] = [len(group) for group in chosen]
        self._price = np.zeros(size)
        self._pattern: Amounts = np.zeros((size, len(packer.items)), dtype=np.int64)
        self._saved: Floats = np.full((size, size), -np.inf)
        self._column: Amounts = np.zeros((size, size), dtype=np.int64)
        for row, made in enumerate(self._made):
            self._enter(row, made)
        for row in range(len(self._made)):
            if self._over:
                break
            self._look(row)

    @property
    def _over(self) -> bool:
        """True once the time is over that was not when this began."""
        return not self._time_over and self._packer.instance.work.time_over

    def run(self) -> list[NodeCandidate]:
        """Join what saves most; at equal saving the cheapest nodes, so that many can be joined again."""
        while len(self._made) < len(self._number):
            best = float(self._saved.max(initial=-np.inf))
            if best == -np.inf or self._over:
                break
            one, other = np.nonzero(self._saved >= best - 0.5)
            least = int(np.argmin(self._price[one] + self._price[other]))
            self._join(int(one[least]), int(other[least]))
        left = zip(self._made, self._number.tolist(), strict=False)
        return [*(each for made, number in left for each in [made] * number), *self._others]

    def _enter(self, row: int, made: NodeCandidate) -> None:
        self._price[row] = made.price
        for item, number in made.counts:
            self._pattern[row, item] = number

    def _join(self, one: int, other: int) -> None:
        pattern = self._pattern[one] + self._pattern[other]
        made = self._packer.made(self._start, int(self._column[one, other]), counts_of(pattern))
        if made is None or made.price > self._price[one] + self._price[other]:
            self._saved[one, other] = self._saved[other, one] = -np.inf
            return
        row = len(self._made)
        number = int(self._number[one]) // 2 if one == other else int(self._number[[one, other]].min())
        for each in (one, other):
            self._number[each] -= number
        self._number[row] = number
        self._made.append(made)
        self._enter(row, made)
        for each in (one, other):
            if not self._number[each]:
                self._saved[each] = self._saved[:, each] = -np.inf
            elif self._number[each] == 1:
                self._saved[each, each] = -np.inf
        self._look(row)

    def _look(self, row: int) -> None:
        """Work out what joining with every group up to this one saves."""
        others = np.flatnonzero(self._number[: row + 1])
        others = others[~self._clashing(row, others)]
        if self._number[row] < 2:
            others = others[others != row]
        if not len(others):
            return
        self._packer.instance.work.spend(len(others) * ENTRY)
        most = self._price[row] + float(self._price[others].max())
        column, price = self._packer.cheapest(self._pattern[row] + self._pattern[others], most)
        saved = self._price[row] + self._price[others] - price
        saved[saved < 0] = -np.inf
        self._saved[row, others] = self._saved[others, row] = saved
        self._column[row, others] = self._column[others, row] = column

    def _clashing(self, row: int, others: Amounts) -> Mask:
        """Which groups hold kinds that cannot share a node with those of this one."""
        item_classes = self._packer.item_classes
        mine = np.unique(item_classes.kind[self._pattern[row] > 0])
        closed = item_classes.conflict[mine].any(axis=0)[item_classes.kind]
        clash: Mask = np.asarray((self._pattern[others][:, closed] > 0).any(axis=1), dtype=np.bool_)
        return clash


def _columns(packer: Packer, nodes: list[NodeCandidate]) -> Amounts:
    """The columns that nodes are bought from, (N,)."""
    first = np.cumsum([0, *(len(table.offerings) for table in packer.instance.tables)])
    return first[[made.pool for made in nodes]] + [made.column for made in nodes]


def _bought(packer: Packer, packing: Packing, nodes: list[NodeCandidate], start: Limits) -> Packing:
    """A packing of such nodes, bought one after the other within the limits; the one that is given if that
    is refused or no better.
    """
    limits, candidates = start.copy(), []
    for column, each in zip(_columns(packer, nodes).tolist(), nodes, strict=True):
        made = packer.made(limits, column, each.counts)
        if made is None:
            return packing
        limits.take(made)
        candidates.append(made)
    return min(packing, replace(packing, candidates=candidates), key=rank)


_GROUP = 6  # nodes in a group, at most


class Improver:
    """Works on one packing at a time. Never makes it dearer, never leaves a pod out that had a node."""

    def __init__(self, packer: Packer, start: Limits) -> None:
        self._packer = packer
        self._start = start  # before anything of the packing was bought

    def run(self, packing: Packing, values: Floats, bound: float) -> Packing:
        """The improved packing. `bound`: a price that cannot be beaten."""
        draw = stream(0, "solve", "improve")
        best = joined(self._packer, self._emptied(packing), self._start)
        price = self._packer.columns.price.astype(np.float64)
        for _ in range(TRIES):
            work = self._packer.instance.work
            if len(best.candidates) < 2 or best.price <= bound * GOOD or not work.left:
                break
            size = min(len(best.candidates), draw.randint(2, _GROUP))
            chosen = set(draw.sample(range(len(best.candidates)), size))
            kept = [made for index, made in enumerate(best.candidates) if index not in chosen]
            group = [made for index, made in enumerate(best.candidates) if index in chosen]
            noise = np.array([draw.uniform(0.7, 1.4) for _ in range(len(values))])
            limits = self._start.after(kept)
            trial = self._packer.pack(values * noise, price, limits, self._patterns(group).sum(axis=0))
            if trial.left.any() or trial.price > sum(made.price for made in group):
                continue
            best = self._emptied(replace(best, candidates=[*kept, *trial.candidates]))
        return best

    def _emptied(self, packing: Packing) -> Packing:
        """Nodes whose pods all fit into the capacity of others are not bought; the dearest are tried first.

        Each pod goes where least is left.
        """
        packer, nodes = self._packer, packing.candidates
        if len(nodes) < 2:
            return packing
        columns, counts = _columns(packer, nodes), self._patterns(nodes)
        left = packer.capacity[columns] - counts @ packer.vectors
        for row in sorted(range(len(nodes)), key=lambda row: -nodes[row].price)[:MANY]:
            if packer.instance.work.time_over:
                break
            moved, room = counts.copy(), left.copy()
            moved[row], room[row] = 0, -1  # closed
            for item in np.repeat(np.arange(len(packer.items)), counts[row]).tolist():
                packer.instance.work.spend(1)
                need = packer.vectors[item]
                fits = packer.guests[item, columns] & (room >= need).all(axis=1)
                fits &= ~(moved[:, packer.conflict[item]] > 0).any(axis=1)
                if not fits.any():
                    break
                spare = (room[:, need > 0] / need[need > 0]).min(axis=1)
                taker = int(np.where(fits, spare, np.inf).argmin())
                moved[taker, item] += 1
                room[taker] -= need
            else:
                counts, left = moved, room
        if counts.any(axis=1).all():
            return packing
        pairs = zip(nodes, map(counts_of, counts), strict=True)
        return _bought(packer, packing, [replace(made, counts=of) for made, of in pairs if of], self._start)

    def _patterns(self, candidates: list[NodeCandidate]) -> Amounts:
        return patterns_of([made.counts for made in candidates], len(self._packer.items))
