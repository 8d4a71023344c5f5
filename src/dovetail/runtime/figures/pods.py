"""Gauges about pods."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.api.core import Node, Pod
from dovetail.api.meta import is_true
from dovetail.base.clock import SECOND
from dovetail.base.metrics import Metric
from dovetail.controllers.context import Context
from dovetail.controllers.lifetimes import dynamic_resources
from dovetail.model import labels
from dovetail.runtime.figures.text import header, series
from dovetail.units.timestamp import parse_rfc3339

_NAMED = ("name", "namespace")
_UNBOUND = (*_NAMED, "dynamic_resources")
STATE = Metric(
    "karpenter_pods_state",
    "gauge",
    "Every pod, and where it is.",
    (
        *_NAMED,
        *("owner", "node", "scheduled", "nodepool", "zone", "arch", "capacity_type", "instance_type"),
        *("phase", "ready", "managed"),
    ),
)
UNBOUND = Metric("karpenter_pods_unbound_time_seconds", "gauge", "For how long a pod has no node.", _UNBOUND)
UNSTARTED = Metric(
    "karpenter_pods_unstarted_time_seconds",
    "gauge",
    "For how long a pod exists that does not run yet.",
    _NAMED,
)
PROMISED_UNBOUND = Metric(
    "karpenter_pods_provisioning_unbound_time_seconds",
    "gauge",
    "For how long a plan has a place for a pod that has no node yet.",
    _UNBOUND,
)
PROMISED_UNSTARTED = Metric(
    "karpenter_pods_provisioning_unstarted_time_seconds",
    "gauge",
    "For how long a plan has a place for a pod that does not run yet.",
    _NAMED,
)
UNDECIDED = Metric(
    "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
    "gauge",
    "How long an unschedulable pod has been waiting for its first plan.",
    _NAMED,
)
_Known = tuple[Pod, Node | None, str]


class PodFigures:
    """Lines of pods that did not change are kept."""

    def __init__(self, context: Context) -> None:
        self._state = context.state
        self._clock = context.clock
        self._waits = context.waits
        self._panics = context.panics
        self._known: dict[str, _Known] = {}

    def text(self) -> Iterator[str]:
        """The lines."""
        nodes = {node.metadata.name: node for node in self._state.all(Node)}
        pods, known = self._state.all(Pod), dict[str, _Known]()
        yield header(STATE)
        for pod in pods:
            node, old = nodes.get(pod.spec.node_name), self._known.get(pod.metadata.uid)
            if old is None or old[0] is not pod or old[1] is not node:
                old = pod, node, ""
                with self._panics.alone("metrics", pod.key, pod):
                    old = pod, node, self._line(pod, node)
            known[pod.metadata.uid] = old
            yield old[2]
        self._known = known
        now = self._clock.now()
        waiting = [pod for pod in pods if pod.status.phase == "Pending"]
        unbound = [pod for pod in waiting if not pod.spec.node_name]
        for metric, some in ((UNBOUND, unbound), (UNSTARTED, waiting)):
            yield header(metric)
            for pod in some:
                with self._panics.alone("metrics", pod.key, pod):
                    yield _age(metric, pod, now)
        yield from self._provisioning(waiting, now)

    def _provisioning(self, waiting: list[Pod], now: int) -> Iterator[str]:
        promised = self._waits.promised
        unbound = [pod for pod in waiting if not pod.spec.node_name]
        for metric, pods, since in (
            (PROMISED_UNBOUND, unbound, promised),
            (PROMISED_UNSTARTED, waiting, promised),
            (UNDECIDED, unbound, self._waits.undecided),
        ):
            yield header(metric)
            for pod in pods:
                if (began := since.get(pod.metadata.uid)) is not None:
                    yield _seconds(metric, pod, now - began)

    def _line(self, pod: Pod, node: Node | None) -> str:
        meta, status = pod.metadata, pod.status
        marks = node.metadata.labels if node is not None else {}
        managed = node is not None and self._state.claim_of(node) is not None
        found = (
            ("name", meta.name),
            ("namespace", meta.namespace),
            ("owner", owner(pod)),
            ("node", pod.spec.node_name),
            ("scheduled", _yes(is_true(status.conditions, "PodScheduled") or bool(pod.spec.node_name))),
            ("nodepool", marks.get(labels.NODEPOOL, "")),
            ("zone", marks.get(labels.ZONE, "")),
            ("arch", marks.get(labels.ARCH, "")),
            ("capacity_type", marks.get(labels.CAPACITY_TYPE, "")),
            ("instance_type", marks.get(labels.INSTANCE_TYPE, "")),
            ("phase", status.phase),
            ("ready", _yes(is_true(status.conditions, "Ready"))),
            ("managed", _yes(managed)),
        )
        return f"{series(STATE, found)}1\n"


def owner(pod: Pod) -> str:
    """The path of what made the pod."""
    found = pod.metadata.controller()
    if found is None:
        return ""
    place = f"/apis/{found.api_version}/namespaces/{pod.metadata.namespace}"
    return f"{place}/{found.kind.lower()}s/{found.name}"


def _age(metric: Metric, pod: Pod, now: int) -> str:
    created = pod.metadata.creation_timestamp
    return _seconds(metric, pod, now - parse_rfc3339(created) if created else 0)


def _seconds(metric: Metric, pod: Pod, waited: int) -> str:
    meta = pod.metadata
    found = {"name": meta.name, "namespace": meta.namespace}
    if "dynamic_resources" in metric.labels:
        found["dynamic_resources"] = dynamic_resources(pod)
    return f"{series(metric, tuple(found.items()))}{max(0, waited) / SECOND}\n"


def _yes(value: bool) -> str:
    return "true" if value else "false"
