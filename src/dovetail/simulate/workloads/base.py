"""What the workload controllers share: their means of acting on the cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from dovetail.api.meta import Object
from dovetail.api.workloads import Deployment, ReplicaSet, StatefulSet
from dovetail.base.clock import Clock
from dovetail.base.errors import AlreadyExists, Conflict, NotFound
from dovetail.base.eventlog import EventLog
from dovetail.kube.client import Client
from dovetail.simulate.workloads.names import Names
from dovetail.simulate.workloads.view import View

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class Means:
    """What a controller works with; one value for all of them."""

    client: Client
    clock: Clock
    log: EventLog
    view: View
    names: Names


class Controller(ABC):
    """Reconciles the objects of one kind, one key at a time."""

    kind: ClassVar[type[Object]]

    def __init__(self, means: Means) -> None:
        self.client = means.client
        self.clock = means.clock
        self.log = means.log
        self.view = means.view
        self.names = means.names

    @abstractmethod
    async def sync(self, key: str) -> None:
        """Bring the object of that key closer to what it asks for. ApiErrors are retried by the caller."""

    async def create(self, obj: T) -> T | None:
        """Create an object; None when the name is taken, which a later sync sees in the view."""
        try:
            made = await self.client.create(obj)
        except AlreadyExists:
            return None
        self.view.learn(made)
        return made

    async def remove(self, obj: Object, grace_period_seconds: int | None = None) -> None:
        """Ask for the deletion of exactly this object; one that is gone already is fine."""
        meta = obj.metadata
        self.view.mark_deleting(obj)
        try:
            await self.client.delete(
                type(obj),
                meta.name,
                meta.namespace,
                uid=meta.uid,
                grace_period_seconds=grace_period_seconds,
            )
        except (NotFound, Conflict):
            self.view.forget(obj)

    async def scale(self, obj: Object, replicas: int) -> None:
        """Set spec.replicas."""
        meta = obj.metadata
        self.view.learn(
            await self.client.patch(
                type(obj), meta.name, meta.namespace, merge={"spec": {"replicas": replicas}}
            )
        )

    async def report(self, obj: ReplicaSet | StatefulSet | Deployment, **counts: int) -> None:
        """Write these fields of the status, and which generation they are of, where they changed."""
        meta = obj.metadata
        counts["observed_generation"] = meta.generation
        if all(getattr(obj.status, name) == count for name, count in counts.items()):
            return
        status = {_WRITTEN[name]: count for name, count in counts.items()}
        self.view.learn(
            await self.client.patch(
                type(obj), meta.name, meta.namespace, merge={"status": status}, status=True
            )
        )


_WRITTEN = {
    "replicas": "replicas",
    "ready_replicas": "readyReplicas",
    "updated_replicas": "updatedReplicas",
    "available_replicas": "availableReplicas",
    "observed_generation": "observedGeneration",
}
