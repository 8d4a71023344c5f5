"""What matches what: pods by namespace and labels, taints by tolerations, host ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dovetail.api.core import Taint, Toleration
from dovetail.base.memo import by_weight
from dovetail.model.ports import HostPort, port_error
from dovetail.model.selector import Selector
from dovetail.model.taints import HARD_EFFECTS, tolerates

_REMEMBERED = 65_536  # host ports, 0.2 KiB each with what holds them


@dataclass(frozen=True, slots=True)
class Matcher:
    """Pods of some namespaces that a selector selects; `everywhere` stands for all namespaces."""

    namespaces: tuple[str, ...]
    everywhere: bool
    selector: Selector
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        if self._hash == 0:
            object.__setattr__(self, "_hash", hash((self.namespaces, self.everywhere, self.selector)) or 1)
        return self._hash

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """True iff a pod of that namespace with these labels is meant."""
        return (self.everywhere or namespace in self.namespaces) and self.selector.matches(labels)


def untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...], *, soft: bool) -> Taint | None:
    """The first taint that keeps the pod away; `soft` counts PreferNoSchedule as if it did."""
    for taint in taints:
        counts = soft or taint.effect in HARD_EFFECTS
        if counts and not any(tolerates(item, taint) for item in tolerations):
            return taint
    return None


@by_weight(_REMEMBERED, lambda args, _: len(args[0]) + len(args[1]) + 2, same=True)
def ports_conflict(a: tuple[HostPort, ...], b: tuple[HostPort, ...]) -> bool:
    """True iff two pods with these ports cannot share a node. Time: linear in both."""
    return bool(port_error(a, b))


def port_clashes(many: Sequence[tuple[HostPort, ...]]) -> npt.NDArray[np.bool_]:
    """Which of so many pods cannot share a node, by their ports: shape (K, K); each clashes with its like.

    Time: linear in the ports, and in the pairs of pods that have one in common. A pod may have a thousand.
    """
    users: dict[tuple[int, str], dict[str, list[int]]] = {}
    for index, ports in enumerate(many):
        for each in ports:
            users.setdefault((each.port, each.protocol), {}).setdefault(each.address, []).append(index)
    pairs: dict[tuple[tuple[int, ...], tuple[int, ...]], None] = {}
    for by_address in users.values():
        every = tuple(index for some in by_address.values() for index in some)
        for address, some in by_address.items():
            mates = (*some, *by_address.get("", ())) if address else every
            pairs[tuple(some), mates] = None
    result = np.zeros((len(many), len(many)), dtype=np.bool_)
    for ours, theirs in pairs:
        if len(theirs) == 1:
            result[theirs[0], theirs[0]] = True
            continue
        cells = np.ix_(np.array(ours), np.array(theirs))
        result[cells] = True
        result.T[cells] = True
    return result
