"""Gauges about nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dovetail.api.core import Node, Pod
from dovetail.base.clock import SECOND
from dovetail.base.metrics import Metric
from dovetail.controllers.context import Context
from dovetail.model import labels
from dovetail.model.occupancy import is_daemon
from dovetail.model.resources import CPU, Resources, amounts, pod_limits, pod_requests, subtract, total
from dovetail.runtime.figures.text import header, series
from dovetail.units.timestamp import parse_rfc3339

_MARKS = tuple(
    (key.rpartition("/")[2].replace("-", "_").replace(".", "_"), key) for key in sorted(labels.AWS_WELL_KNOWN)
)
_NAMES = ("node_name", "managed", *(name for name, _ in _MARKS))
_OF = (*_NAMES, "resource_type")
ALLOCATABLE = Metric("karpenter_nodes_allocatable", "gauge", "What pods may use of a node.", _OF)
REQUESTS = Metric("karpenter_nodes_total_pod_requests", "gauge", "What the pods of a node request.", _OF)
LIMITS = Metric("karpenter_nodes_total_pod_limits", "gauge", "The limits of the pods of a node.", _OF)
DAEMON_REQUESTS = Metric(
    "karpenter_nodes_total_daemon_requests", "gauge", "What the DaemonSets' pods of a node request.", _OF
)
DAEMON_LIMITS = Metric(
    "karpenter_nodes_total_daemon_limits", "gauge", "The limits of the DaemonSets' pods of a node.", _OF
)
OVERHEAD = Metric(
    "karpenter_nodes_system_overhead", "gauge", "What of a node's capacity pods may not use.", _OF
)
LIFETIME = Metric("karpenter_nodes_current_lifetime_seconds", "gauge", "For how long a node exists.", _NAMES)
UTILIZATION = Metric(
    "karpenter_cluster_utilization_percent",
    "gauge",
    "What all pods request of what all nodes have for them.",
    ("resource_type",),
)
_PER_RESOURCE = (ALLOCATABLE, REQUESTS, LIMITS, DAEMON_REQUESTS, DAEMON_LIMITS, OVERHEAD)
_Asked = tuple[Resources, Resources, bool]  # requests, limits, of a DaemonSet


@dataclass(frozen=True, slots=True)
class _Known:
    node: Node
    pods: tuple[Pod, ...]
    texts: tuple[str, ...]  # the lines of each metric
    lifetime: str  # the line up to its value
    created: int  # ns since the epoch; 0 where that is not known
    allocatable: Resources
    requests: Resources


class NodeFigures:
    """Lines of nodes that did not change, and whose pods did not, are kept."""

    def __init__(self, context: Context) -> None:
        self._panics = context.panics
        self._state = context.state
        self._clock = context.clock
        self._known: dict[str, _Known] = {}

    def text(self) -> Iterator[str]:
        """The lines."""
        found: dict[str, _Known] = {}
        for node in self._state.all(Node):
            name = node.metadata.name
            pods, old = self._state.pods_on(name), self._known.get(name)
            same = old is not None and old.node is node and len(old.pods) == len(pods)
            if (
                old is None
                or not same
                or any(one is not two for one, two in zip(old.pods, pods, strict=True))
            ):
                old = None
                with self._panics.alone("metrics", name, node):
                    old = self._look(node, pods)
            if old is not None:
                found[name] = old
            yield ""
        self._known = found
        for number, metric in enumerate(_PER_RESOURCE):
            yield header(metric)
            yield from (known.texts[number] for known in found.values())
        now = self._clock.now()
        yield header(LIFETIME)
        yield from (f"{known.lifetime}{_age(known.created, now)}\n" for known in found.values())
        yield header(UTILIZATION)
        yield from _utilization(found.values())

    def _look(self, node: Node, pods: tuple[Pod, ...]) -> _Known:
        meta, status = node.metadata, node.status
        allocatable, capacity = amounts(status.allocatable), amounts(status.capacity)
        asked = [_asked(pod) for pod in pods if not pod.terminal]
        daemons = [item for item in asked if item[2]]
        requests = total(item[0] for item in asked)
        values = (
            allocatable,
            requests,
            total(item[1] for item in asked),
            total(item[0] for item in daemons),
            total(item[1] for item in daemons),
            subtract(capacity, allocatable),
        )
        managed = "true" if self._state.claim_of(node) is not None else "false"
        marks = (
            ("node_name", meta.name),
            ("managed", managed),
            *((name, meta.labels.get(key, "")) for name, key in _MARKS),
        )
        texts = tuple(_lines(metric, marks, each) for metric, each in zip(_PER_RESOURCE, values, strict=True))
        created = parse_rfc3339(meta.creation_timestamp) if meta.creation_timestamp else 0
        return _Known(node, pods, texts, series(LIFETIME, marks), created, allocatable, requests)


def _lines(metric: Metric, marks: tuple[tuple[str, str], ...], values: Resources) -> str:
    """One line per resource."""
    start = series(metric, marks)[:-2]
    return "".join(
        f'{start},resource_type="{name}"}} {_value(name, amount)}\n'
        for name, amount in sorted(values.items())
    )


def _asked(pod: Pod) -> _Asked:
    return pod_requests(pod), pod_limits(pod), is_daemon(pod)


def _utilization(known: Iterable[_Known]) -> Iterator[str]:
    room: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for item in known:
        room.update(item.allocatable)
        asked.update(item.requests)
    for name in sorted(room):
        if room[name] > 0:
            yield f"{series(UTILIZATION, (('resource_type', name),))}{100 * asked[name] / room[name]}\n"


def _age(created: int, now: int) -> float:
    return max(0, now - created) / SECOND if created else 0.0


def _value(resource: str, amount: int) -> float:
    """Cores, bytes, numbers."""
    return amount / 1000 if resource == CPU else amount
