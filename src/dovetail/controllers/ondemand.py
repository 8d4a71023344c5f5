"""Shares of on-demand capacity: pods are told at their gate whether they stay off spot.

All that was decided stands on the pods; what is remembered besides only bridges the time until the watch
shows it.
"""

from __future__ import annotations

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object, is_true
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.base.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, TooManyRequests
from dovetail.base.metrics import Metric
from dovetail.controllers.context import Context
from dovetail.controllers.reconciler import failure_log
from dovetail.disrupt.pods import do_not_disrupt, evictable
from dovetail.kube.client import ChangeType
from dovetail.model.labels import NODEPOOL, ON_DEMAND_SHARE
from dovetail.model.on_demand import (
    Siblings,
    asks,
    counts,
    gated,
    held,
    maker_of,
    patch,
    share_of,
    tell_one,
    to_give_up,
)

NAME = "pod.ondemand"
WANTED = Metric(
    "dovetail_on_demand_share_pods_wanted",
    "gauge",
    "Pods that are to stay off spot by the shares that pods ask for.",
    ("namespace",),
)
LACKING = Metric(
    "dovetail_on_demand_share_pods_lacking",
    "gauge",
    "How many of those do not run yet, or run where spot could be.",
    ("namespace",),
)
REPAIRS = Metric(
    "dovetail_on_demand_share_repairs_total",
    "counter",
    "Pods evicted from where they were, so that what comes in their place stays off spot.",
)
ALL = (WANTED, LACKING, REPAIRS)
# A workload whose pods lack some held ones is left alone for so long after it last changed: of a rollout that
# goes on pods come and go all the time. It is the pace of repairs as well.
QUIET = MINUTE
_SAID = HOUR  # for so long it is not said again what is wrong with a share
OFF = (
    f"the pod waits at its scheduling gate {ON_DEMAND_SHARE}: --on-demand-shares is off"
    " (in the chart: settings.onDemandShares)"
)


class OnDemandShares:
    """Tells gated pods, of one controller one after the other, and mends shares that were broken.

    Invariant: `_members` has the keys of all known pods with a share, by what made them, and `_told` those
    pods (by UID) that the watch shows at their gate still.
    """

    def __init__(self, context: Context, *, enabled: bool) -> None:
        self._context = context
        self._enabled = enabled
        self._members: dict[str, dict[str, None]] = {}
        self._told: dict[str, Pod] = {}
        self._changed: dict[str, int] = {}  # when any pod of it did
        self._figures: dict[str, tuple[int, int]] = {}  # by what made them: pods wanted, and lacking
        self._sums: dict[str, list[int]] = {}  # the same by namespace
        self.queue = context.queue(
            NAME, self.reconcile, of=self._first, concurrency=100, on_failure=failure_log(context.log)
        )
        context.state.subscribe(self._notice, Pod)

    def _first(self, maker: str) -> Pod | None:
        return next(iter(self._pods(maker)), None)

    def _notice(self, _: type[Object], __: ChangeType, old: Object | None, new: Object | None) -> None:
        before, after = (pod if isinstance(pod, Pod) and asks(pod) else None for pod in (old, new))
        if before is not None and (after is None or maker_of(before) != maker_of(after)):
            self._members.get(maker_of(before), {}).pop(before.key, None)
        if after is not None:
            self._members.setdefault(maker_of(after), {})[after.key] = None
        if before is not None and (after is None or not gated(after)):
            self._told.pop(before.metadata.uid, None)
        if before is not None and after is not None and _facts(before) == _facts(after):
            return
        for pod in (before, after):
            if pod is not None:
                maker = maker_of(pod)
                self._changed[maker] = self._context.clock.now()
                if pod is after and gated(pod):
                    self.queue.add(maker)
                else:
                    self.queue.add_after(maker, SECOND)

    def _pods(self, maker: str) -> list[Pod]:
        """As they are, or will be once the watch shows what they were told."""
        found = (self._context.state.get(Pod, key) for key in self._members.get(maker, ()))
        return [self._told.get(pod.metadata.uid, pod) for pod in found if pod is not None]

    async def reconcile(self, maker: str) -> int | None:
        """Tell the pods at the gate; if none is there, look whether the share holds."""
        pods = self._pods(maker)
        waiting = [pod for pod in pods if gated(pod) and not pod.deleting]
        if waiting:
            await self._tell(pods, waiting)
            pods = self._pods(maker)
        lacking = self._measure(maker, pods)
        if not pods:
            for known in (self._members, self._changed):
                known.pop(maker, None)
            self.queue.forget(maker)
            return None
        return await self._mend(maker, pods) if lacking and self._enabled else None

    async def _tell(self, pods: list[Pod], waiting: list[Pod]) -> None:
        """Raises ApiError. A pod that is refused keeps the others from nothing.

        Where it is not known whether one was told, these wait until it is: what they are told depends on it.
        """
        publish = self._context.recorder.publish
        failed: ApiError | None = None
        siblings = Siblings(pods)
        for pod in sorted(waiting, key=lambda pod: (pod.metadata.creation_timestamp, pod.key)):
            uid = pod.metadata.uid
            if not self._enabled:
                await publish(pod, "Warning", "OnDemandShareOff", OFF, ttl=_SAID)
                continue
            try:
                after = tell_one(pod, siblings)
            except ValueError as error:
                text = f"{error}. The pod waits at its scheduling gate {ON_DEMAND_SHARE} until it is replaced"
                await publish(pod, "Warning", "InvalidOnDemandShare", text, ttl=_SAID)
                continue
            try:
                made = await self._context.client.patch(
                    Pod, pod.metadata.name, pod.metadata.namespace, merge=patch(pod, after)
                )
            except NotFound:
                continue
            except (Forbidden, Invalid) as error:
                failed = error
                continue
            if (known := self._context.state.get(Pod, pod.key)) is not None and gated(known):
                self._told[uid] = made
            siblings.add(made)
        if failed is not None:
            raise failed

    def _measure(self, maker: str, pods: list[Pod]) -> int:
        """How many held pods its share lacks; those that have no node yet are counted as lacking as well."""
        own = [pod for pod in pods if counts(pod)]
        wanted = there = 0
        try:
            share = share_of(own[0]) if own else None
        except ValueError:
            share = None
        if share is not None:
            wanted, there = share.of(len(own)), sum(held(pod) for pod in own)
        running = sum(held(pod) and bool(pod.spec.node_name) for pod in own)
        before = self._figures.pop(maker, (0, 0))
        now = wanted, max(0, wanted - running)
        if any(now):
            self._figures[maker] = now
        namespace = maker.partition("/")[0]
        sums = self._sums.setdefault(namespace, [0, 0])
        for place, metric in enumerate((WANTED, LACKING)):
            sums[place] += now[place] - before[place]
            self._context.metrics.set(metric, sums[place], namespace=namespace)
        if not any(sums):
            del self._sums[namespace]
            for metric in (WANTED, LACKING):
                self._context.metrics.drop(metric, namespace=namespace)
        return max(0, wanted - there)

    async def _mend(self, maker: str, pods: list[Pod]) -> int | None:
        """Evict one pod, in whose place one comes that is held; answers when to look again."""
        quiet = self._context.clock.now() - self._changed.get(maker, 0)
        if quiet < QUIET:
            return QUIET - quiet
        pod = to_give_up(pods, self._may_go)
        if pod is None or self._context.brakes.move_refused(1):
            return QUIET
        self._changed[maker] = self._context.clock.now()
        try:
            await self._context.client.evict(pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid)
        except (NotFound, Conflict, TooManyRequests):
            return QUIET
        self._context.brakes.moved(1)
        self._context.metrics.add(REPAIRS)
        self._context.log.record("share.mended", pod=pod.key, node=pod.spec.node_name)
        text = (
            f"Evicted pod: its workload has too few pods off spot ({ON_DEMAND_SHARE}); the next one will be"
        )
        await self._context.recorder.publish(pod, "Normal", "OnDemandShareMended", text)
        return QUIET

    def _may_go(self, pod: Pod) -> bool:
        node = self._context.state.get(Node, pod.spec.node_name)
        pool = self._context.state.get(NodePool, node.metadata.labels.get(NODEPOOL, "")) if node else None
        paused = self._context.brakes.disruption_paused(pool)
        return not paused and evictable(pod) and not do_not_disrupt(pod, self._context.clock.now())


def _facts(pod: Pod) -> tuple[object, ...]:
    """What of a pod shares depend on."""
    ready = is_true(pod.status.conditions, "Ready")
    return gated(pod), counts(pod), held(pod), bool(pod.spec.node_name), ready
