"""Deletion costs on pods: a ReplicaSet that shrinks gives up those of the nodes that are to go next."""

from __future__ import annotations

from collections import Counter

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import ApiError, Conflict, Forbidden, NotFound
from dovetail.base.metrics import Metric
from dovetail.controllers.context import Context
from dovetail.controllers.disruption.views import Views
from dovetail.controllers.reconciler import Failure, failure_log
from dovetail.disrupt.deletion_cost import deletion_costs, managed, stale, taken_back, written
from dovetail.disrupt.pods import budgets_among
from dovetail.kube.client import ChangeType
from dovetail.model import labels

PERIOD = MINUTE
PENDING = Metric(
    "karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes",
    "gauge",
    "Nodes with pods whose deletion cost is not yet as it should be.",
    ("nodepool",),
)
WRITES = Metric(
    "karpenter_pod_deletion_cost_pod_annotation_writes_total",
    "counter",
    "Pods whose deletion cost was to be written, by what came of it.",
    ("result",),
)
ALL = (PENDING, WRITES)


class DeletionCosts:
    """Ranks the nodes every minute, and writes what changed.

    Invariant: `_wanted` has what is still to be written, by the pod's key.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._views = Views(context)
        self._wanted: dict[str, int | None] = {}
        self.queue = context.queue(
            "pod.deletioncost",
            self.reconcile,
            of=Pod,
            concurrency=100,
            on_failure=failure_log(context.log),
        )
        context.state.subscribe(self._notice, Pod)

    def _notice(self, _: type[Object], change: ChangeType, old: Object | None, __: Object | None) -> None:
        if change == "DELETED" and old is not None:
            self._wanted.pop(old.key, None)

    async def run(self) -> None:
        """Rank for ever."""
        clock = self._context.clock
        while True:
            if not self._context.state.synced():
                await clock.sleep(SECOND)
                continue
            self.rank()
            await clock.sleep(PERIOD)

    def rank(self) -> None:
        """Rank once."""
        state = self._context.state
        pools, views = state.all(NodePool), self._views.now(())
        budgets = budgets_among(state.all(PodDisruptionBudget))
        costs = deletion_costs(pools, views, budgets, self._context.clock.now())
        found = stale(state.all(Pod), costs)
        self._wanted = {pod.key: cost for pod, cost in found}
        pool_of = {view.name: view.pool_name for view in views}
        pending = Counter(pool_of[name] for name in {pod.spec.node_name for pod, _ in found})
        for pool in pools:
            self._context.metrics.set(PENDING, pending[pool.metadata.name], nodepool=pool.metadata.name)
        for key in self._wanted:
            self.queue.add(key)

    async def reconcile(self, key: str) -> int | None:
        """Write the cost of one pod. A pod that changed meanwhile waits for the next ranks."""
        if key not in self._wanted:
            return None
        cost, pod = self._wanted[key], self._context.state.get(Pod, key)
        try:
            result = await self._write(pod, written(cost)) if pod is not None else "skipped_notfound"
        except ApiError:
            self._count("error")
            raise
        self._count(result)
        if self._wanted.get(key) == cost:  # it may have another rank by now
            self._wanted.pop(key, None)
        return None

    async def _write(self, pod: Pod, text: str | None) -> str:
        """What came of it. Raises ApiError."""
        meta = pod.metadata
        if meta.annotations.get(labels.POD_DELETION_COST) == text:
            return "skipped_unchanged"
        if not managed(pod):
            return "skipped_conflict"  # others have given it one meanwhile
        annotations = {labels.POD_DELETION_COST: text, labels.WRITTEN_COST: text}
        merge = {"metadata": {"resourceVersion": meta.resource_version, "annotations": annotations}}
        try:
            await self._context.client.patch(Pod, meta.name, meta.namespace, merge=merge)
        except NotFound:
            return "skipped_notfound"
        except Conflict:
            return "skipped_conflict"
        return "updated"

    def _count(self, result: str) -> None:
        self._context.metrics.add(WRITES, result=result)


async def take_back(context: Context) -> None:
    """Take off all costs that were written while the gate was open; it is over once none is left.

    Annotations may be written with the status, which needs no right that only the gate gives.
    """
    failed = failure_log(context.log)
    while True:
        if not context.state.synced():
            await context.clock.sleep(SECOND)
            continue
        found = [(pod, gone) for pod in context.state.all(Pod) if (gone := taken_back(pod))]
        if not found:
            return
        for pod, gone in found:
            meta = pod.metadata
            merge = {"metadata": {"resourceVersion": meta.resource_version, "annotations": gone}}
            try:
                await context.client.patch(Pod, meta.name, meta.namespace, merge=merge, status=True)
            except Forbidden as error:
                failed(Failure("pod.deletioncost", pod.key, error))
                return  # it would be so for all others
            except ApiError as error:
                failed(Failure("pod.deletioncost", pod.key, error))
        await context.clock.sleep(PERIOD)
