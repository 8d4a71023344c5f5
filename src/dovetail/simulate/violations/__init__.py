"""A watchdog over a running simulation: it sees every stored change and says which promises were broken.

It only reads, shares no code with the controllers it watches, and judges each change against the state just
before it, as the API server held it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dovetail.cloud.provider import Instance
from dovetail.simulate.violations.machines import Pairing, finalized, registered
from dovetail.simulate.violations.mirror import Mirror, read_change
from dovetail.simulate.violations.pods import bound, evicted, lost, overcommitted
from dovetail.simulate.violations.pools import within_budget, within_limits
from dovetail.solve.verify import Violation

__all__ = ["Violation", "Watchdog"]

_MINUTE = 60 * 1_000_000_000
_BEFORE = (bound, evicted, finalized, registered, within_budget)
_AFTER = (overcommitted, within_limits)


class Watchdog:
    """Feed it every change and, now and then, the provider's instances; ask for the verdict at the end."""

    def __init__(
        self, clock_now: Callable[[], int], *, pairing: int = 10 * _MINUTE, waiting: int = 6 * _MINUTE
    ) -> None:
        """`pairing`: how long (ns) claim and instance may be without each other; longer than any collection
        takes. `waiting`: how long (ns) a pod may wait beside a node that would take it.
        """
        self._mirror = Mirror(clock_now)
        self._pairing = Pairing(pairing)
        self._waiting = waiting
        self._found: list[Violation] = []

    @property
    def found(self) -> tuple[Violation, ...]:
        """What was found so far, in order of time."""
        return tuple(self._found)

    def change(
        self, verb: str, document: Mapping[str, Any], old: Mapping[str, Any] | None
    ) -> tuple[Violation, ...]:
        """One stored change; `verb` is ADDED, MODIFIED or DELETED. Answers what it broke."""
        mirror = self._mirror
        change = read_change(verb, document, old, mirror.clock_now())
        if change is None:
            return ()
        broken = [item for rule in _BEFORE for item in rule(mirror, change)]
        mirror.apply(change)
        broken += [item for rule in _AFTER for item in rule(mirror, change)]
        self._found += broken
        return tuple(broken)

    def instances(self, instances: Sequence[Instance]) -> tuple[Violation, ...]:
        """What the provider runs at this moment; answers whom nobody has claimed for too long."""
        broken = tuple(self._pairing.look(self._mirror, instances, self._mirror.clock_now()))
        self._found += broken
        return broken

    def finish(self) -> tuple[Violation, ...]:
        """Everything that was found, with the pods that are lost at the end."""
        self._found += lost(self._mirror, self._waiting, self._mirror.clock_now())
        return self.found
