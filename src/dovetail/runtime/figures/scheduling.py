"""Gauges about plans that are being made, about pods that wait for one, and about work queues.

Work queues and workers go by the names of the libraries that Karpenter is made with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import accumulate

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import SECOND
from dovetail.base.metrics import Metric
from dovetail.controllers.context import Context
from dovetail.controllers.provisioning.metrics import CONTROLLER
from dovetail.controllers.provisioning.pods import provisionable
from dovetail.controllers.reconciler import ERROR, TURN, WORK, Durations, Reconciler
from dovetail.model import labels
from dovetail.model.requirement import pod_requirements
from dovetail.model.volumes import VolumeIndex, volume_alternatives
from dovetail.runtime.figures.text import header, series

UNFINISHED = Metric(
    "karpenter_scheduler_unfinished_work_seconds",
    "gauge",
    "For how long a plan is being made.",
    ("controller", "scheduling_id"),
)
ZONES = Metric(
    "karpenter_scheduler_pending_pods_by_effective_zone_count",
    "gauge",
    "Pods that wait for a plan, by the zone that they must be in; flexible: any of several, none: nowhere.",
    ("controller", "zone"),
)
FLEXIBLE, NONE = "flexible", "none"


class SchedulingFigures:
    """Made anew each time."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def text(self) -> Iterator[str]:
        """The lines."""
        now = self._context.clock.now()
        yield header(UNFINISHED)
        for number, since in self._context.waits.plans.items():
            named = series(UNFINISHED, (("controller", CONTROLLER), ("scheduling_id", number)))
            yield f"{named}{(now - since) / SECOND}\n"
        yield header(ZONES)
        yield from self._zones()

    def _zones(self) -> Iterator[str]:
        state = self._context.state
        waiting = [pod for pod in state.pods_on("") if provisionable(pod)]
        if not waiting:
            return
        volumes = state.volumes()
        offered, found = self._offered(), Counter[str]()
        for pod in waiting:
            with self._context.panics.alone("metrics", pod.key, pod):
                found[effective_zone(pod, volumes, offered)] += 1
            yield ""  # a place for others to go on
        for zone in sorted(found):
            yield f"{series(ZONES, (('controller', CONTROLLER), ('zone', zone)))}{found[zone]}\n"

    def _offered(self) -> tuple[str, ...]:
        """The zones in which some pool may launch something now."""
        return tuple(
            sorted(
                {
                    offering.zone
                    for pool in self._context.state.all(NodePool)
                    for item in self._context.instance_types(pool)
                    for offering in item.offerings
                    if offering.launchable
                }
            )
        )


def effective_zone(pod: Pod, volumes: VolumeIndex, offered: tuple[str, ...]) -> str:
    """The only one of the zones that the pod's node may be in; FLEXIBLE for several, NONE for none. Pure.

    What counts are its node selector, its required node affinity and its volumes.
    """
    spec = pod.spec
    asks = [pod_requirements(pod)] if spec.node_selector or spec.affinity is not None else []
    if spec.volumes and (places := volume_alternatives(pod, volumes)):
        asks.append(places)
    left = [
        zone
        for zone in offered
        if all(any(one.get(labels.ZONE).has(zone) for one in choices) for choices in asks)
    ]
    return left[0] if len(left) == 1 else FLEXIBLE if left else NONE


_QUEUE, _BY = ("name", "controller"), ("controller",)
DEPTH = Metric("workqueue_depth", "gauge", "Keys that wait for their turn.", _QUEUE)
ADDED = Metric("workqueue_adds_total", "counter", "Keys that were added.", _QUEUE)
RETRIED = Metric("workqueue_retries_total", "counter", "Keys that were added for later.", _QUEUE)
WAITED = Metric(
    "workqueue_queue_duration_seconds", "histogram", "How long keys waited for their turn.", _QUEUE, WORK
)
WORKED = Metric("workqueue_work_duration_seconds", "histogram", "How long turns took.", _QUEUE, WORK)
QUEUE_UNFINISHED = Metric(
    "workqueue_unfinished_work_seconds", "gauge", "For how long turns go on by now, added up.", _QUEUE
)
LONGEST = Metric(
    "workqueue_longest_running_processor_seconds", "gauge", "For how long the longest turn goes on.", _QUEUE
)
TURNS = Metric(
    "controller_runtime_reconcile_total", "counter", "Turns by how they ended.", ("controller", "result")
)
ERRORS = Metric("controller_runtime_reconcile_errors_total", "counter", "Turns that failed.", _BY)
TOOK = Metric("controller_runtime_reconcile_time_seconds", "histogram", "How long turns took.", _BY, TURN)
AT_MOST = Metric(
    "controller_runtime_max_concurrent_reconciles", "gauge", "Turns that there may be at once.", _BY
)
ACTIVE = Metric("controller_runtime_active_workers", "gauge", "Turns that go on now.", _BY)
_Labels = tuple[tuple[str, str], ...]
_VALUES: tuple[tuple[Metric, Callable[[Reconciler], float]], ...] = (
    (DEPTH, lambda queue: queue.depth),
    (ADDED, lambda queue: queue.tally.added),
    (RETRIED, lambda queue: queue.tally.retried),
    (QUEUE_UNFINISHED, lambda queue: sum(queue.running())),
    (LONGEST, lambda queue: max(queue.running(), default=0)),
    (ERRORS, lambda queue: queue.tally.results[ERROR]),
    (AT_MOST, lambda queue: queue.concurrency),
    (ACTIVE, lambda queue: len(queue.running())),
)
_HISTOGRAMS: tuple[tuple[Metric, Callable[[Reconciler], Durations]], ...] = (
    (WAITED, lambda queue: queue.tally.waited),
    (WORKED, lambda queue: queue.tally.worked),
    (TOOK, lambda queue: queue.tally.turns),
)


class QueueFigures:
    """Read from the queues themselves, which count as they go."""

    def __init__(self, context: Context) -> None:
        self._queues = context.queues

    def text(self) -> Iterator[str]:
        """The lines."""
        for metric, value in _VALUES:
            yield header(metric)
            yield from (f"{series(metric, _named(metric, queue))}{value(queue)}\n" for queue in self._queues)
        for metric, durations in _HISTOGRAMS:
            yield header(metric)
            for queue in self._queues:
                yield from _buckets(metric, _named(metric, queue), durations(queue))
        yield header(TURNS)
        for queue in self._queues:
            for result, count in queue.tally.results.items():
                named = (("controller", queue.name), ("result", result))
                yield f"{series(TURNS, named)}{count}\n"


def _named(metric: Metric, queue: Reconciler) -> _Labels:
    return tuple((label, queue.name) for label in metric.labels)


def _buckets(metric: Metric, named: _Labels, found: Durations) -> Iterator[str]:
    inner = "".join(f'{key}="{value}",' for key, value in named)
    bounds = (*(repr(bound) for bound in found.bounds), "+Inf")
    total = 0
    for bound, total in zip(bounds, accumulate(found.counts), strict=True):
        yield f'{metric.name}_bucket{{{inner}le="{bound}"}} {total}\n'
    yield f"{metric.name}_sum{{{inner}}} {found.total}\n"
    yield f"{metric.name}_count{{{inner}}} {total}\n"
