"""The eviction queue: asks again for each pod, ever more slowly, until the API server lets it go."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.api.core import Node, Pod
from dovetail.api.meta import Object
from dovetail.base.clock import SECOND
from dovetail.base.errors import ApiError, Conflict, NotFound, TooManyRequests
from dovetail.base.metrics import Metric
from dovetail.controllers.context import Context
from dovetail.controllers.reconciler import failure_log
from dovetail.kube.client import ChangeType

EVICTIONS = Metric(
    "karpenter_pods_eviction_requests_total",
    "counter",
    "Requests to evict a pod, by what the API server answered.",
    ("code",),
)
PODS = Metric(
    "karpenter_pods_drained_total",
    "counter",
    "Pods that were evicted or deleted by force, by why their node goes.",
    ("reason",),
)
FIRST_DELAY = SECOND // 10
LONGEST_DELAY = 10 * SECOND
_DONE, _SERVER_ERROR = 200, 500  # as HTTP has them
# The API server has no status of its own for a pod that several budgets select.
_SEVERAL = "more than one PodDisruptionBudget"
_REMEMBERED = 10_000  # of those whose end was seen before the answer came


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that shall go, why, and how often the API server refused so far."""

    pod: Pod
    node: Node
    reason: str
    refused: int = 0


class EvictionQueue:
    """Holds nothing that matters: after a restart the nodes' termination adds their pods again."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._wanted: dict[str, Eviction] = {}  # by pod uid
        self._gone: dict[str, None] = {}  # pods that were evicted and are still there, by uid
        self._queue = context.queue(
            "eviction-queue",
            self.reconcile,
            of=lambda uid: self._wanted[uid].pod if uid in self._wanted else None,
            concurrency=100,
            on_failure=failure_log(context.log),
        )
        context.state.subscribe(self._notice, Pod)

    def _notice(self, _: type[Object], __: ChangeType, old: Object | None, new: Object | None) -> None:
        if new is None and isinstance(old, Pod):
            self._gone.pop(old.metadata.uid, None)

    async def run(self) -> None:
        """Work for ever."""
        await self._queue.run()

    def add(self, pod: Pod, node: Node, reason: str) -> None:
        """Evict the pod; one that is in the queue already keeps its pace."""
        uid = pod.metadata.uid
        if uid not in self._wanted:
            self._wanted[uid] = Eviction(pod, node, reason)
            self._queue.add(uid)

    def keep_only(self, node: str, uids: frozenset[str]) -> None:
        """Stop asking for pods of the node that shall not be evicted (any more)."""
        self._wanted = {
            uid: item for uid, item in self._wanted.items() if item.node.metadata.name != node or uid in uids
        }

    async def reconcile(self, uid: str) -> int | None:
        """Ask once; answers when to ask again."""
        wanted = self._wanted.get(uid)
        if wanted is None:
            return None
        meta = wanted.pod.metadata
        try:
            await self._context.client.evict(meta.name, meta.namespace, uid=uid)
        except (NotFound, Conflict) as error:
            self._count(error.status)
            self._wanted.pop(uid, None)  # it is gone, or another one has its name
            return None
        except TooManyRequests as error:
            self._count(error.status)
            return await self._refused(wanted, f"evicting pod violates a PDB (Pod={wanted.pod.key})")
        except ApiError as error:
            self._count(error.status)
            if error.status != _SERVER_ERROR or _SEVERAL not in str(error):
                raise
            text = f"eviction does not support multiple PDBs (Pod={wanted.pod.key})"
            return await self._refused(wanted, text)
        self._wanted.pop(uid, None)
        self._count(_DONE)
        self.drained(uid, wanted.reason)
        await self._context.recorder.publish(
            wanted.pod, "Normal", "Evicted", f"Evicted pod: {wanted.reason}", dedupe=(uid,)
        )
        return None

    def drained(self, uid: str, reason: str) -> None:
        """The pod was evicted, or deleted by force. It counts once, though it may be asked for again until
        the watch shows that it goes.
        """
        if uid not in self._gone:
            self._context.metrics.add(PODS, reason=reason)
            self._gone[uid] = None
            if len(self._gone) > _REMEMBERED:
                del self._gone[next(iter(self._gone))]

    def _count(self, code: int) -> None:
        self._context.metrics.add(EVICTIONS, code=str(code))

    async def _refused(self, wanted: Eviction, why: str) -> int:
        uid = wanted.pod.metadata.uid
        if uid in self._wanted:
            self._wanted[uid] = Eviction(wanted.pod, wanted.node, wanted.reason, wanted.refused + 1)
        await self._context.recorder.publish(
            wanted.node,
            "Warning",
            "FailedDraining",
            f"Failed to drain node, {why}",
            # Named by pod as well, so that the count of waiting pods does not hide which budget holds them.
            dedupe=(wanted.node.metadata.name, wanted.pod.key),
        )
        return min(FIRST_DELAY << min(wanted.refused, 10), LONGEST_DELAY)
