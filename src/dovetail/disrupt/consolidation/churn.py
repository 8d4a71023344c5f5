"""How often pods are moved: no more moves of a workload's pods within 24 h than it has pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dovetail.api.core import Pod
from dovetail.base.clock import HOUR

WINDOW = 24 * HOUR


def workload(pod: Pod) -> str:
    """What makes the pod anew when it goes: the UID of its controller, or the pod's own if it has none.

    The pod that comes in another's place has another name, so moves are counted by workload.
    """
    owner = pod.metadata.controller()
    return owner.uid if owner is not None else pod.metadata.uid


@dataclass(frozen=True, slots=True)
class Moves:
    """Workload -> how many more of its pods may be moved; any number of those that are not named.

    Nothing is left for replacing nodes once half of all moves were made: it saves little of what deletions
    save when the load falls.
    """

    deleting: Mapping[str, int] = field(default_factory=dict)
    replacing: Mapping[str, int] = field(default_factory=dict)


class Ledger:
    """Which moves were made in the last 24 h. Instants are nanoseconds and never go back."""

    def __init__(self, per_pod: int) -> None:
        self._per_pod = per_pod
        self._moves: list[tuple[int, Counter[str]]] = []

    def record(self, pods: Iterable[Pod], now: int) -> None:
        """These pods are moved now."""
        self._moves.append((now, Counter(map(workload, pods))))

    def left(self, pods: Iterable[Pod], now: int) -> Moves:
        """How many more may be made, given all pods that there are."""
        self._moves = [entry for entry in self._moves if now - entry[0] < WINDOW]
        made: Counter[str] = Counter()
        for _, moved in self._moves:
            made.update(moved)
        present = Counter(map(workload, pods))
        most = {key: self._per_pod * count for key, count in present.items()}
        left = {key: max(0, count - made[key]) for key, count in most.items()}
        half = {key: count if 2 * made[key] <= most[key] else 0 for key, count in left.items()}
        return Moves(left, half)


class Purse:
    """What budgets of pools and the limit on moves still allow, while nodes are put together."""

    def __init__(self, allowed: Mapping[str, int], moves: Mapping[str, int]) -> None:
        self._allowed = dict(allowed)
        self._moves = dict(moves)

    def holds(self, pool: str, pods: Sequence[Pod]) -> bool:
        """True iff a node of the pool with these pods may go as well."""
        if self._allowed.get(pool, 0) < 1:
            return False
        wanted = Counter(map(workload, pods))
        return all(self._moves.get(key, count) >= count for key, count in wanted.items())

    def take(self, pool: str, pods: Sequence[Pod]) -> None:
        """It goes."""
        self._allowed[pool] -= 1
        for key, count in Counter(map(workload, pods)).items():
            if key in self._moves:
                self._moves[key] -= count
