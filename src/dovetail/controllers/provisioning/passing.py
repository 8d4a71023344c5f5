"""Places passed on over several machines, so that none lacks room for those that wait for it. Pure.

Where a pod took room that others wait for, as much is free elsewhere, but often in pieces: of two machines
alone none has a place that suits. So one pod after the other is moved from where room is lacking, and the
ways that lack least are followed further.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.api.core import Pod
from dovetail.model.resources import CPU, MEMORY, Resources, pod_requests

# With 12 ways and six moves a way was found wherever an exact search needed no more moves.
MOVES = 6  # that places are passed on at most
BEST = 12  # of the ways after each move that are followed further
FEW = 4  # machines that lack most, of which one is looked at next
BYTES = 2**32 // 1_000  # of memory that weigh as much as a thousandth of a CPU: types have 2 to 8 GiB to one
_WEIGHTS = {CPU: 1.0, MEMORY: 1.0 / BYTES}
_NOTHING = 1e-3  # less than this is not lacking: sums of fractions

Amounts = NDArray[np.float64]  # a row of resources by machine, or by kind of pods
_Move = tuple[int, int, int]  # a pod of that kind, from a machine to another, all by number


@dataclass(frozen=True, slots=True)
class Crowd:
    """A machine: what is free there beside all that run or have a place there, below 0 where it lacks that;
    those with a place there that may have another, and in which zone.
    """

    name: str
    zone: str
    free: Resources
    waiting: tuple[Candidate, ...]

    @property
    def question(self) -> object:
        """All of it that a way depends on: the pods of one kind are the same."""
        pods = [(one.kind, one.machines, one.stays) for one in self.waiting]
        return self.name, self.zone, self.free, pods


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that may have another place: on the `machines`, by number, in its own zone alone if it `stays`.

    Those of one `kind` are the same to any rule.
    """

    pod: Pod
    kind: str
    machines: frozenset[int]
    stays: bool


@dataclass(frozen=True, slots=True)
class _Way:
    """Places that pods would have instead of their own; what would be free then on each machine."""

    moves: tuple[_Move, ...]
    free: Amounts
    lacks: NDArray[np.float64]


def passed_on(crowds: Sequence[Crowd]) -> list[tuple[Pod, str]]:
    """Pods, each with the machine on which it is to have its place: so that less is lacking in all, and
    nowhere more than before; by few moves. Empty if there is no way.
    """
    search = _Search(crowds)
    if not len(search.asked):
        return []
    ways = [search.begun()]
    before, best = ways[0].lacks, ways[0]
    for _ in range(MOVES):
        ways = search.further(ways)
        for way in ways:
            if (way.lacks <= before + _NOTHING).all() and way.lacks.sum() < best.lacks.sum() - _NOTHING:
                best = way
        if not ways or best.lacks.sum() < _NOTHING:
            break
    return search.written(best)


class _Search:
    """The crowds as arrays."""

    def __init__(self, crowds: Sequence[Crowd]) -> None:
        self._crowds = crowds
        self._pods = defaultdict[tuple[int, int], list[Pod]](list)  # by machine and kind
        kinds: dict[str, int] = {}
        examples: list[Candidate] = []
        for number, crowd in enumerate(crowds):
            for one in crowd.waiting:
                kind = kinds.setdefault(one.kind, len(kinds))
                if kind == len(examples):
                    examples.append(one)
                self._pods[number, kind].append(one.pod)
        self._kinds: list[list[int]] = [[] for _ in crowds]  # by machine, in order
        for number, kind in sorted(self._pods):
            self._kinds[number].append(kind)
        requests = [pod_requests(one.pod) for one in examples]
        names = sorted({name for asked in requests for name in asked})
        self._weights = np.array([_WEIGHTS.get(name, 1_000.0) for name in names])
        self.asked = _table(requests, names)
        self._free = _table([crowd.free for crowd in crowds], names)
        zones = np.array([crowd.zone for crowd in crowds])
        self._suits = np.array([[n in one.machines for n in range(len(crowds))] for one in examples], bool)
        self._stays = np.array([one.stays for one in examples], bool)
        self._same = zones[:, None] == zones[None, :]

    def _lack(self, free: Amounts) -> NDArray[np.float64]:
        """How much is lacking, in thousandths of CPUs; one of what is neither CPU nor memory weighs as much
        as a CPU.
        """
        lacking: NDArray[np.float64] = np.minimum(free, 0) @ self._weights
        return -lacking

    def begun(self) -> _Way:
        return _Way((), self._free, self._lack(self._free))

    def further(self, ways: Sequence[_Way]) -> list[_Way]:
        """The best of those that one more move makes of them, each once."""
        found: dict[tuple[_Move, ...], tuple[float, float, _Way, _Move]] = {}
        for way in ways:
            order = np.argsort(-way.lacks, kind="stable")[:FEW]
            for source in map(int, order[way.lacks[order] > _NOTHING]):
                for lacking, move in self._moves(way, source):
                    mark = tuple(sorted((*way.moves, move)))
                    size = float(self.asked[move[0]] @ self._weights)
                    found.setdefault(mark, (round(lacking), size, way, move))
        best = sorted(found.values(), key=lambda item: (item[0], item[1], item[3]))
        return [self._after(way, move) for _, _, way, move in best[:BEST]]

    def _moves(self, way: _Way, source: int) -> list[tuple[float, _Move]]:
        """Those of one pod from that machine after which least is lacking, with how much that is."""
        kinds = [kind for kind in self._kinds[source] if self._may_go(way, source, kind)]
        if not kinds:
            return []
        asked = self.asked[kinds]
        left = self._lack(way.free[source] + asked) - way.lacks[source]
        there = self._lack(way.free - asked[:, None]) - way.lacks
        lacking = way.lacks.sum() + left[:, None] + there
        able = self._suits[kinds] & (~self._stays[kinds][:, None] | self._same[source])
        able[:, source] = False
        lacking[~able] = np.inf
        best = np.argsort(lacking, axis=None, kind="stable")[:BEST]
        rows = [divmod(int(place), len(self._crowds)) for place in best]
        return [
            (float(lacking[row, to]), (kinds[row], source, to))
            for row, to in rows
            if np.isfinite(lacking[row, to])
        ]

    def _may_go(self, way: _Way, machine: int, kind: int) -> bool:
        """True iff a pod of the kind has a place there still, and none was given one."""
        gone = sum(move[:2] == (kind, machine) for move in way.moves)
        came = any((move[0], move[2]) == (kind, machine) for move in way.moves)
        return not came and gone < len(self._pods[machine, kind])

    def _after(self, way: _Way, move: _Move) -> _Way:
        kind, source, to = move
        free = way.free.copy()
        free[source] += self.asked[kind]
        free[to] -= self.asked[kind]
        lacks = way.lacks.copy()
        lacks[[source, to]] = self._lack(free[[source, to]])
        return _Way((*way.moves, move), free, lacks)

    def written(self, way: _Way) -> list[tuple[Pod, str]]:
        """The moves, by the pods and the machines' names."""
        taken, found = Counter[tuple[int, int]](), []
        for kind, source, to in way.moves:
            found.append((self._pods[source, kind][taken[source, kind]], self._crowds[to].name))
            taken[source, kind] += 1
        return found


def _table(rows: Sequence[Resources], names: Sequence[str]) -> Amounts:
    found = [[row.get(name, 0) for name in names] for row in rows]
    return np.array(found, float).reshape(len(rows), len(names))
