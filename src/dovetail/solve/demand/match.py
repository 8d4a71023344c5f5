"""Who matches whom: pods by namespace and labels, taints by tolerations, host ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from dovetail.api.core import Taint, Toleration
from dovetail.model.ports import HostPort
from dovetail.model.selector import Selector
from dovetail.model.taints import HARD_EFFECTS, tolerates


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


@lru_cache(maxsize=65_536)
def ports_conflict(a: tuple[HostPort, ...], b: tuple[HostPort, ...]) -> bool:
    """True iff two pods with these ports cannot share a node."""
    return any(left.conflicts(right) for left in a for right in b)
