"""Which nodes an attempt looks at: in a large cluster only until enough of them may take the pod.

The scheduler keeps one list of nodes, in which zones take turns, and goes through it from where the previous
attempt ended; so each node is looked at as often as any other. A real one looks at sixteen parts of the list
at once, so that it may pass over a few nodes that come back later; here it is one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest

from dovetail.model import labels

_ALL_BELOW = 100
_LEAST_PERCENT = 5


def enough(nodes: int) -> int:
    """How many nodes that may take the pod end the search in a list of that many.

    Without percentageOfNodesToScore that is all of less than 100; else 50 %, and one per cent less for each
    125 nodes, but 5 % and 100 nodes at least.
    """
    if nodes < _ALL_BELOW:
        return nodes
    percent = max(_LEAST_PERCENT, 50 - nodes // 125)
    return max(_ALL_BELOW, nodes * percent // 100)


class NodeList:
    """The scheduler's list of nodes: of each zone the first that came, then of each the second, and so on.

    A zone is a region's: nodes without either label are a zone of their own. Zones come in the order in
    which their first nodes came.
    """

    def __init__(self) -> None:
        self._zones: dict[tuple[str, str], dict[str, None]] = {}  # Invariant: none is empty.
        self._zone_of: dict[str, tuple[str, str]] = {}
        self._names: tuple[str, ...] | None = ()  # None: to be made anew

    def set(self, name: str, tags: Mapping[str, str]) -> None:
        """Add a node; one that is there goes to the end of another zone's if it is in another one now."""
        zone = tags.get(labels.REGION, ""), tags.get(labels.ZONE, "")
        if self._zone_of.get(name) == zone:
            return
        self.drop(name)
        self._zone_of[name] = zone
        self._zones.setdefault(zone, {})[name] = None
        self._names = None

    def drop(self, name: str) -> None:
        """Take a node out; unknown ones are no error."""
        zone = self._zone_of.pop(name, None)
        if zone is None:
            return
        del self._zones[zone][name]
        if not self._zones[zone]:
            del self._zones[zone]
        self._names = None

    @property
    def names(self) -> Sequence[str]:
        """All of them, in order. Takes time linear in the nodes once after each change, else none."""
        if self._names is None:
            turns = chain.from_iterable(zip_longest(*self._zones.values()))
            self._names = tuple(name for name in turns if name is not None)
        return self._names
