"""Who matches whom: pods by namespace and labels, taints by tolerations, host ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dovetail.api.core import Taint, Toleration
from dovetail.model.ports import HostPort, port_error
from dovetail.model.selector import Selector
from dovetail.model.taints import HARD_EFFECTS, tolerates

_FEW_PORTS = 16  # of a pod or a node
Mask = npt.NDArray[np.bool_]


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
    return next(
        (
            taint
            for taint in taints
            if (soft or taint.effect in HARD_EFFECTS)
            and not any(tolerates(item, taint) for item in tolerations)
        ),
        None,
    )


def ports_conflict(a: tuple[HostPort, ...], b: tuple[HostPort, ...]) -> bool:
    """True iff two pods with these ports cannot share a node. Time: linear in both."""
    # Thousands of ports would fill the memory if they were remembered.
    return _conflict(a, b) if len(a) <= _FEW_PORTS and len(b) <= _FEW_PORTS else bool(port_error(a, b))


@lru_cache(maxsize=16_384)
def _conflict(a: tuple[HostPort, ...], b: tuple[HostPort, ...]) -> bool:
    return bool(port_error(a, b))


def port_clashes(many: Sequence[tuple[HostPort, ...]]) -> Mask:
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
