"""What every controller works with."""

from __future__ import annotations

from asyncio import Lock
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodeclass import NodeClass
from dovetail.api.karpenter.nodepool import NodeClassRef, NodePool
from dovetail.api.meta import Object
from dovetail.base.clock import Clock
from dovetail.base.errors import Conflict, NotFound
from dovetail.base.eventlog import EventLog
from dovetail.base.metrics import Metrics
from dovetail.cloud.provider import Provider
from dovetail.cluster.state import State
from dovetail.controllers.brakes.brakes import Brakes
from dovetail.controllers.buffers import Buffers
from dovetail.controllers.gangs import RunningGangs
from dovetail.controllers.overlays import Overlays
from dovetail.controllers.panics import Panics
from dovetail.controllers.prices import Offer, Prices
from dovetail.controllers.reconciler import Failure, Reconcile, Reconciler, Rest
from dovetail.controllers.surges import Surges
from dovetail.controllers.waits import Waits
from dovetail.kube.client import ChangeType, Client
from dovetail.kube.recorder import Recorder
from dovetail.model.offering import InstanceType
from dovetail.model.shared_limits import SharedLimit


class Made:
    """The claims that this process made, until they are gone; it begins anew with each process."""

    def __init__(self) -> None:
        self._uids: set[str] = set()
        self._callbacks: list[Callable[[NodeClaim], None]] = []

    def subscribe(self, callback: Callable[[NodeClaim], None]) -> None:
        """Called with every claim that this process makes."""
        self._callbacks.append(callback)

    def add(self, claim: NodeClaim) -> None:
        """The API server has answered that the claim is there."""
        self._uids.add(claim.metadata.uid)
        for callback in self._callbacks:
            callback(claim)

    def forget(self, claim: NodeClaim) -> None:
        """The claim is gone."""
        self._uids.discard(claim.metadata.uid)

    def __contains__(self, claim: NodeClaim) -> bool:
        return claim.metadata.uid in self._uids


T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class Context:
    """The ports, the state and the tools that controllers share."""

    client: Client
    provider: Provider
    clock: Clock
    log: EventLog
    state: State
    recorder: Recorder
    metrics: Metrics
    brakes: Brakes
    panics: Panics
    waits: Waits = field(default_factory=Waits)
    made: Made = field(default_factory=Made)
    prices: Prices = field(default_factory=Prices)
    list_prices: Prices = field(default_factory=Prices)  # of pools where NodeOverlays change something
    buffers: Buffers = field(default_factory=Buffers)
    overlays: Overlays = field(default_factory=Overlays)
    # UIDs of claims whose end was counted, until they are gone: one whose deletion fails is ended once more,
    # and counts once.
    ended: dict[str, None] = field(default_factory=dict)
    surges: Surges | None = None  # None or not enabled: pods are evicted, and nothing comes first
    gangs: RunningGangs | None = None  # None: each pod is on its own
    writes_costs: bool = False  # the gate PodDeletionCostManagement is open
    shared_limits: tuple[SharedLimit, ...] = ()  # of several NodePools together
    launching: Lock = field(default_factory=Lock)  # held by who launches under such limits
    queues: list[Reconciler] = field(default_factory=list)  # every one that was made, for their figures

    def queue(
        self,
        name: str,
        reconcile: Reconcile,
        *,
        of: type[Object] | Callable[[str], Object | None] | None = None,
        concurrency: int = 10,
        on_failure: Callable[[Failure], None] | None = None,
        rests: Rest | None = None,
    ) -> Reconciler:
        """A work queue of a controller.

        `of` is the kind whose keys these are, or finds the object of a key: unexpected errors show there.
        With a kind, what was planned for an object is forgotten when that is gone.
        """

        def about(key: str) -> Object | None:
            return self.state.get(of, key) if isinstance(of, type) else of(key) if of is not None else None

        def panicked(key: str, error: Exception) -> None:
            self.panics.caught(name, key, error, about(key))

        made = Reconciler(
            name,
            self.clock,
            reconcile,
            concurrency=concurrency,
            on_failure=on_failure,
            on_panic=panicked,
            rests=rests,
        )

        def gone(_: type[Object], change: ChangeType, old: Object | None, __: Object | None) -> None:
            if change == "DELETED" and old is not None:
                made.forget(old.key)

        if isinstance(of, type):
            self.state.subscribe(gone, of)
        self.panics.expect(name)
        self.queues.append(made)
        return made

    def created(self, claim: NodeClaim) -> None:
        """The API server has answered that a claim of this process is there; watches may show it later."""
        self.state.expect(claim)
        self.made.add(claim)

    async def read(self, kind: type[T], name: str) -> T:
        """The object as the API server has it now.

        Raises NotFound, and Conflict when the watches have shown more than the answer: then it comes from a
        server that lags behind, and what one would do about it may be long done.
        """
        try:
            found = await self.client.get(kind, name)
        except NotFound:
            if self.state.get(kind, name) is None:
                raise
            raise Conflict(f"{kind.KIND} {name} is not there, but was seen") from None
        known = self.state.get(kind, name)
        if known is not None and int(known.metadata.resource_version) > int(found.metadata.resource_version):
            raise Conflict(f"{kind.KIND} {name} was seen in a later version than the one that was read")
        return found

    def node_class(self, reference: NodeClassRef) -> NodeClass | None:
        """The class that a pool or claim refers to, if it exists."""
        return self.state.node_class(reference.name)

    def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        """What the pool may launch, with all that NodeOverlays change; nothing while its class is missing."""
        return self.overlays.types(pool.metadata.name, self.sold(pool))

    def sold(self, pool: NodePool) -> tuple[InstanceType, ...]:
        """The same as the provider has it, before NodeOverlays."""
        found = self.node_class(pool.spec.template.spec.node_class_ref)
        return self.provider.instance_types(found) if found is not None else ()

    def paid(self, pool: NodePool) -> Mapping[Offer, int]:
        """What the cloud asks for instances of the pool, whatever NodeOverlays say."""
        sold = self.sold(pool)
        known = self.prices if self.instance_types(pool) is sold else self.list_prices
        return known.of(pool.metadata.name, sold)

    def forget_prices(self, pool: str) -> None:
        """The pool is gone."""
        self.prices.forget(pool)
        self.list_prices.forget(pool)

    def volume_price(self, pool: NodePool) -> int:
        """Nano-dollars per hour of the volumes of one node of the pool."""
        found = self.node_class(pool.spec.template.spec.node_class_ref)
        return self.provider.volume_price(found) if found is not None else 0
