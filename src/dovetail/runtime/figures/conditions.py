"""Gauges about status conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodeclass import NodeClass
from dovetail.api.karpenter.nodeoverlay import NodeOverlay
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Condition
from dovetail.api.scheme import NODE_CLASSES
from dovetail.base.clock import SECOND
from dovetail.base.metrics import Metric
from dovetail.controllers.context import Context
from dovetail.runtime.figures.text import header, series
from dovetail.units.timestamp import parse_rfc3339

_LABELS = ("name", "namespace", "type", "status", "reason")


def _count(kind: str) -> Metric:
    name = f"operator_{kind.lower()}_status_condition_count"
    return Metric(name, "gauge", f"Every status condition of every {kind}.", _LABELS)


def _since(kind: str) -> Metric:
    name = f"operator_{kind.lower()}_status_condition_current_status_seconds"
    return Metric(name, "gauge", f"For how long a status condition of a {kind} is as it is.", _LABELS)


def _ending(kind: str) -> Metric:
    name = f"operator_{kind.lower()}_termination_current_time_seconds"
    return Metric(name, "gauge", f"For how long a {kind} is being deleted.", ("name", "namespace"))


CLAIM_COUNT, CLAIM_SINCE, CLAIM_ENDING = _count("NodeClaim"), _since("NodeClaim"), _ending("NodeClaim")
POOL_COUNT, POOL_SINCE, POOL_ENDING = _count("NodePool"), _since("NodePool"), _ending("NodePool")
NODE_COUNT, NODE_SINCE, NODE_ENDING = _count("Node"), _since("Node"), _ending("Node")
OVERLAY_COUNT, OVERLAY_SINCE = _count("NodeOverlay"), _since("NodeOverlay")
OVERLAY_ENDING = _ending("NodeOverlay")
EC2_COUNT, EC2_SINCE, EC2_ENDING = _count("EC2NodeClass"), _since("EC2NodeClass"), _ending("EC2NodeClass")
KWOK_COUNT, KWOK_SINCE = _count("KWOKNodeClass"), _since("KWOKNodeClass")
KWOK_ENDING = _ending("KWOKNodeClass")
_OF = {
    NodeClaim.KIND: (CLAIM_COUNT, CLAIM_SINCE, CLAIM_ENDING),
    NodePool.KIND: (POOL_COUNT, POOL_SINCE, POOL_ENDING),
    Node.KIND: (NODE_COUNT, NODE_SINCE, NODE_ENDING),
    NodeOverlay.KIND: (OVERLAY_COUNT, OVERLAY_SINCE, OVERLAY_ENDING),
    "EC2NodeClass": (EC2_COUNT, EC2_SINCE, EC2_ENDING),
    "KWOKNodeClass": (KWOK_COUNT, KWOK_SINCE, KWOK_ENDING),
}
_WithConditions = NodeClaim | NodePool | NodeOverlay | Node | NodeClass


@dataclass(frozen=True, slots=True)
class _Known:
    item: _WithConditions
    counted: str  # whole lines
    since: tuple[tuple[str, int], ...]  # lines up to their values, and the instants


class ConditionFigures:
    """Lines of objects that did not change are kept."""

    def __init__(self, context: Context) -> None:
        self._panics = context.panics
        self._state = state = context.state
        self._clock = context.clock
        classes = [
            kind for key, kind in NODE_CLASSES.items() if key in (state.node_class_kinds or NODE_CLASSES)
        ]
        overlays = (NodeOverlay,) if NodeOverlay in state.kinds else ()
        self._kinds: tuple[type[_WithConditions], ...] = (NodeClaim, NodePool, *overlays, Node, *classes)
        self._known: dict[str, _Known] = {}

    def text(self) -> Iterator[str]:
        """The lines."""
        found: dict[str, _Known] = {}
        for kind in self._kinds:
            count, since, ending = _OF[kind.KIND]
            mine: list[_Known] = []
            for item in self._state.all(kind):
                key = f"{kind.KIND}/{item.key}"
                old = self._known.get(key)
                if old is None or old.item is not item:
                    old = None
                    with self._panics.alone("metrics", key, item):
                        old = _look(item, count, since)
                if old is not None:
                    found[key] = old
                    mine.append(old)
                yield ""
            yield header(count)
            yield from (known.counted for known in mine)
            now = self._clock.now()
            yield header(since)
            for known in mine:
                yield "".join(f"{start}{max(0, now - at) / SECOND}\n" for start, at in known.since)
            yield header(ending)
            for known in mine:
                with self._panics.alone("metrics", known.item.key, known.item):
                    yield _age(ending, known.item, now) if known.item.deleting else ""
        self._known = found


def _look(item: _WithConditions, count: Metric, since: Metric) -> _Known:
    counted, ages = [], []
    for each in item.status.conditions:
        named = _named(item, each)
        counted.append(f"{series(count, named)}1\n")
        if each.last_transition_time:
            ages.append((series(since, named), parse_rfc3339(each.last_transition_time)))
    return _Known(item, "".join(counted), tuple(ages))


def _named(item: _WithConditions, each: Condition) -> tuple[tuple[str, str], ...]:
    meta = item.metadata
    return (
        ("name", meta.name),
        ("namespace", meta.namespace),
        ("type", each.type),
        ("status", each.status),
        ("reason", each.reason),
    )


def _age(metric: Metric, item: _WithConditions, now: int) -> str:
    meta = item.metadata
    named = series(metric, (("name", meta.name), ("namespace", meta.namespace)))
    return f"{named}{max(0, now - parse_rfc3339(meta.deletion_timestamp)) / SECOND}\n"
