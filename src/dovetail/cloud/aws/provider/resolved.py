"""What the classes stood for when they were last asked about."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.base.clock import SECOND, Clock
from dovetail.cloud.provider import NodeClassResolution

# How old an answer may be that all nodes of a class share.
RECENT = 10 * SECOND


@dataclass(frozen=True, slots=True)
class _Resolved:
    node_class: EC2NodeClass
    found: NodeClassResolution
    at: int


class Resolved:
    """By name of the class; of each the last answer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, _Resolved] = {}

    def note(self, node_class: EC2NodeClass, found: NodeClassResolution) -> None:
        """It stands for this now."""
        self._known[node_class.metadata.name] = _Resolved(node_class, found, self._clock.monotonic())

    def forget(self, name: str) -> None:
        """The class is gone."""
        self._known.pop(name, None)

    def last(self, name: str) -> NodeClassResolution | None:
        """What it stood for when it was last asked about, however long ago and whatever its spec was."""
        known = self._known.get(name)
        return known.found if known is not None else None

    def node_class(self, name: str) -> EC2NodeClass | None:
        """The class as it was then."""
        known = self._known.get(name)
        return known.node_class if known is not None else None

    def recent(self, node_class: EC2NodeClass) -> NodeClassResolution | None:
        """What this very class stood for a moment ago; None if it has changed or nobody asked."""
        known = self._known.get(node_class.metadata.name)
        if (
            known is None
            or known.node_class is not node_class
            or self._clock.monotonic() - known.at >= RECENT
        ):
            return None
        return known.found
