"""A node's last minutes under Cluster Autoscaler: it is tainted, and its pods are evicted."""

from __future__ import annotations

from dovetail.api.codec import encode
from dovetail.api.core import Node
from dovetail.base.clock import MINUTE, SECOND, Clock
from dovetail.base.errors import ApiError, NotFound
from dovetail.kube.client import Client
from dovetail.simulate.clusterautoscaler.cluster import Cluster, Events
from dovetail.simulate.clusterautoscaler.scaledown import TO_BE_DELETED, utilization

_SETTLE = 5 * SECOND  # between the taint and the first eviction
_EVICTING = 2 * MINUTE  # how long refused evictions are tried again
_GRACE = 600 * SECOND  # how long pods may take to end


class Drain:
    """Empties nodes, one after the other or side by side."""

    def __init__(self, client: Client, clock: Clock, cluster: Cluster, events: Events) -> None:
        self._client = client
        self._clock = clock
        self._cluster = cluster
        self._events = events

    async def undo(self, name: str) -> None:
        """The node stays after all: pods may go to it again."""
        await self._taint(name, on=False)

    async def _announce(self, node: Node, *, drained: bool) -> None:
        """That the node is about to go."""
        name = node.metadata.name
        if not drained:
            await self._events.report("Normal", "ScaleDownEmpty", f'Scale-down: removing empty node "{name}"')
            return
        on_it = [pod for pod in self._cluster.pods() if pod.spec.node_name == name]
        used = utilization(node, on_it, self._clock.now())
        # As Go writes the struct, with devices of claims in the fourth place.
        shares = f"{{{used.cpu:g} {used.memory:g} {used.gpu:g} 0 {used.resource} {used.share:g}}}"
        moved = ",".join(pod.metadata.name for pod in self._cluster.movable(name))
        text = f"removing node {name}, utilization: {shares}, pods to reschedule: {moved}"
        await self._events.report("Normal", "ScaleDown", f"Scale-down: {text}")

    async def empty(self, node: Node, *, drained: bool) -> str:
        """Taint the node and evict its pods; why it failed when some would not go, "" when all did."""
        name = node.metadata.name
        await self._taint(name, on=True)
        await self._events.tell(node, "marked the node as toBeDeleted/unschedulable")
        await self._announce(node, drained=drained)
        await self._clock.sleep(_SETTLE)
        begun = self._clock.now()
        for pod in self._cluster.movable(name):
            if not pod.deleting:
                await self._events.tell(pod, "deleting pod for node scale down")
        while left := [pod for pod in self._cluster.movable(name) if not pod.deleting]:
            refused = []
            for pod in left:
                try:
                    await self._client.evict(pod.metadata.name, pod.metadata.namespace)
                except NotFound:
                    continue
                except ApiError as error:  # a budget refuses: tried again
                    why = f"within allowed timeout (last error: {error})"
                    refused.append(f"failed to evict pod {pod.key} {why}")
            if refused and self._clock.now() - begun > _EVICTING:
                return f"Failed to drain node /{name}, due to following errors: [{' '.join(refused)}]"
            await self._clock.sleep(_SETTLE)
        while self._cluster.movable(name):
            if self._clock.now() - begun > _EVICTING + _GRACE:
                return f"Failed to drain node /{name}: pods remaining after timeout"
            await self._clock.sleep(SECOND)
        return ""

    async def _taint(self, name: str, *, on: bool) -> None:
        node = await self._client.get(Node, name)
        others = [taint for taint in node.spec.taints if taint.key != TO_BE_DELETED.key]
        taints = [*others, TO_BE_DELETED] if on else others
        await self._client.patch(Node, name, merge={"spec": {"taints": [encode(taint) for taint in taints]}})
