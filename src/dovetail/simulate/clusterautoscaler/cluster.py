"""What Cluster Autoscaler sees of the cluster, and the events by which it speaks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from dovetail.api.core import Node, Pod
from dovetail.api.meta import Meta, Object
from dovetail.api.workloads import DaemonSet, Job, PodDisruptionBudget, ReplicaSet, StatefulSet
from dovetail.base.clock import MINUTE, Clock
from dovetail.kube.client import Client
from dovetail.kube.recorder import DEDUPE_TIME, Recorder


class _StatusMap(Object, frozen=True, kw_only=True):
    """The ConfigMap that events about the cluster as a whole are written at."""

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "ConfigMap"
    PLURAL: ClassVar[str] = "configmaps"


_STATUS = _StatusMap(metadata=Meta(name="cluster-autoscaler-status", namespace="kube-system"))


@dataclass(slots=True)
class Cluster:
    """What the API server says, by kind and key."""

    objects: dict[str, dict[str, Object]] = field(default_factory=dict)

    def of(self, kind: type[Object]) -> Iterable[Object]:
        return self.objects.get(kind.KIND, {}).values()

    def nodes(self) -> list[Node]:
        return [node for node in self.of(Node) if isinstance(node, Node)]

    def pods(self) -> list[Pod]:
        return [pod for pod in self.of(Pod) if isinstance(pod, Pod) and not pod.terminal]

    def budgets(self) -> list[tuple[PodDisruptionBudget, int]]:
        found = (item for item in self.of(PodDisruptionBudget) if isinstance(item, PodDisruptionBudget))
        return [(item, item.status.disruptions_allowed) for item in found]

    def controllers(self) -> dict[tuple[str, str, str], int | None]:
        kinds = (DaemonSet, Job, ReplicaSet, StatefulSet)
        return {
            (kind.KIND, item.metadata.namespace, item.metadata.name): getattr(
                getattr(item, "spec", None), "replicas", None
            )
            for kind in kinds
            for item in self.of(kind)
        }

    def movable(self, name: str) -> list[Pod]:
        """The pods of a node that have to go before it: no daemons."""
        pods = (pod for pod in self.pods() if pod.spec.node_name == name)
        return [
            pod for pod in pods if (owner := pod.metadata.controller()) is None or owner.kind != "DaemonSet"
        ]


class Events:
    """At pods, at nodes, and about the cluster as a whole."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._recorder = Recorder(client, clock, component="cluster-autoscaler", verbatim=True)

    async def report(self, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """About the cluster as a whole."""
        await self._recorder.publish(_STATUS, type_, reason, message, dedupe=(message,), ttl=MINUTE)

    async def at(self, pod: Pod, reason: str, message: str, *, ttl: int = DEDUPE_TIME) -> None:
        """At a pod that waits; the same is said again after `ttl` (ns)."""
        await self._recorder.publish(pod, "Normal", reason, message, ttl=ttl)

    async def tell(self, item: Node | Pod, message: str, *, failed: bool = False) -> None:
        """At a node that goes, or at a pod that has to."""
        about = (item.metadata.uid, message)
        if failed:
            await self._recorder.publish(item, "Warning", "ScaleDownFailed", message, dedupe=about)
        else:
            await self._recorder.publish(item, "Normal", "ScaleDown", message, dedupe=about)
