"""Work queues and who works through them, by the names of the libraries that Karpenter is made with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate

from dovetail.base.metrics import Metric
from dovetail.controllers.context import Context
from dovetail.controllers.reconciler import Reconciler
from dovetail.controllers.tally import ERROR, TURN, WORK, Durations
from dovetail.runtime.figures.text import header, series

_QUEUE, _BY = ("name", "controller"), ("controller",)
DEPTH = Metric("workqueue_depth", "gauge", "Keys that wait for their turn.", _QUEUE)
ADDED = Metric("workqueue_adds_total", "counter", "Keys that were added.", _QUEUE)
RETRIED = Metric("workqueue_retries_total", "counter", "Keys that were added for later.", _QUEUE)
WAITED = Metric(
    "workqueue_queue_duration_seconds", "histogram", "How long keys waited for their turn.", _QUEUE, WORK
)
WORKED = Metric("workqueue_work_duration_seconds", "histogram", "How long turns took.", _QUEUE, WORK)
UNFINISHED = Metric(
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
    (UNFINISHED, lambda queue: sum(queue.running())),
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
