"""The controller's record of costs: what ran when and at which price, kept in a file as it happens.

It gets nodes, claims and pods from the state, and writes what is new every 15 seconds. After a restart it
goes on with what had not ended; what is gone by then ended when the record was last written to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dovetail.api.core import Node, PersistentVolume, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object, condition, is_true
from dovetail.api.workloads import StorageClass
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import ApiError, InputError
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.status import DISRUPTION_REASON
from dovetail.controllers.prices import offer_of
from dovetail.cost.facts import Instance, PodRun, Rate, Workload, owner_of, shared_out
from dovetail.cost.store import Store
from dovetail.kube.client import ChangeType
from dovetail.model import labels, resources
from dovetail.runtime.usage import PodUse, UsageSource
from dovetail.runtime.volume_costs import VolumeRecord
from dovetail.units.timestamp import parse_rfc3339

_EVERY = 15 * SECOND
_MEASURES = MINUTE  # between two looks at what pods use
_PRICES = 10 * MINUTE  # between two looks at what is paid: the market changes spot prices
_FORGETS = 24 * 60 * MINUTE
ListPrice = Callable[[Mapping[str, str]], int | None]


class CostRecord:
    """Subscribed to a State when it is made. `keep`: nanoseconds after which what has ended is dropped.

    `listed` prices nodes of no pool by their labels; None is not known and counts as free. `usage` is asked
    what pods use, where there is one.
    """

    def __init__(
        self,
        context: Context,
        store: Store,
        keep: int,
        listed: ListPrice,
        usage: UsageSource | None = None,
    ) -> None:
        self._context = context
        self._store = store
        self._keep = keep
        self._listed = listed
        self._facts = store.resume()
        now = context.clock.now()
        self._facts.start = self._facts.start or now
        self._known_until = self._facts.end or now
        self._runs = {(run.workload.namespace, run.name, run.instance): run for run in self._facts.pods}
        self._seen: set[tuple[str, str, str]] = set()
        self._there: set[str] = set()
        self._workloads: dict[Workload, Workload] = {}
        self._begun = False
        self._waiting: dict[str, tuple[Pod, int]] = {}  # bound to a node that is not known yet
        self._volumes = VolumeRecord(
            lambda name: context.state.get(StorageClass, name), self._facts.volumes, self._known_until
        )
        self._usage = usage
        context.state.subscribe(self.notice)

    def notice(self, kind: type[Object], change: ChangeType, old: Object | None, new: Object | None) -> None:
        """See State."""
        now = self._context.clock.now()
        if kind is NodeClaim:
            self._claim(change, new if isinstance(new, NodeClaim) else old, now)
        elif kind is Node:
            self._node(change, new if isinstance(new, Node) else old, now)
        elif kind is Pod:
            self._pod(change, new if isinstance(new, Pod) else old, now)
        elif isinstance(new, PersistentVolume):
            self._volumes.changed(new, now)
        elif isinstance(old, PersistentVolume):
            self._volumes.ended(old.metadata.name, now)

    async def run(self) -> None:
        """Write for ever."""
        clock = self._context.clock
        priced = forgotten = clock.monotonic()
        while True:
            await clock.sleep(_EVERY)
            now = clock.now()
            if not self._begun:
                self._begin()
            if clock.monotonic() - priced >= _PRICES:
                priced = clock.monotonic()
                self._reprice(now)
            self.write(now)
            if clock.monotonic() - forgotten >= _FORGETS:
                forgotten = clock.monotonic()
                self._store.forget(now - self._keep)

    async def measure(self) -> None:
        """Ask for ever what pods use, once a minute; a source that does not answer is asked less often."""
        clock = self._context.clock
        written = clock.monotonic() - _PRICES
        said, wait = "", _EVERY
        while self._usage is not None:
            await clock.sleep(wait)
            try:
                found = await self._usage.read()
            except ApiError as error:
                wait = _PRICES
                if said != (said := str(error)):
                    self._context.log.record("costs.use_unknown", error=said)
                continue
            said, wait = "", _MEASURES
            self.take_usage(found, clock.now())
            if clock.monotonic() - written >= _PRICES:
                written = clock.monotonic()
                self._write_usage()

    def take_usage(self, found: PodUse, now: int) -> None:
        """What pods use now."""
        for (namespace, name, _), run in self._runs.items():
            if run.end is None and (amounts := found.get((namespace, name))) is not None:
                run.measured(now, *amounts)

    def _write_usage(self) -> None:
        try:
            self._store.write_usage(run for run in self._facts.pods if run.usage and run.end is None)
        except InputError as error:
            self._context.log.record("costs.failed", error=str(error))

    def _begin(self) -> None:
        """All that is there is known: what was open and is not there ended while the process was away."""
        self._begun = True
        for key, run in self._runs.items():
            if key not in self._seen and run.end is None:
                run.end = max(run.start, self._known_until)
        for one in self._facts.instances.values():
            if one.id not in self._there and one.end is None:
                one.end = max(one.start, self._known_until)
        self._volumes.begin({f"{namespace}/{name}" for namespace, name, _ in self._seen})

    def write(self, now: int) -> None:
        """Bring the file up to date; an error of it is logged, and tried again."""
        self._facts.end = now
        try:
            self._store.write(self._facts)
        except InputError as error:
            self._context.log.record("costs.failed", error=str(error))
            return
        self._facts.pods = [run for run in self._facts.pods if run.end is None]
        self._runs = {key: run for key, run in self._runs.items() if run.end is None}
        self._volumes.forget_ended(now - self._keep)
        self._seen &= self._runs.keys()
        ended = [one.id for one in self._facts.instances.values() if one.end is not None]
        for name in ended:
            del self._facts.instances[name]

    def _claim(self, change: ChangeType, claim: Any, now: int) -> None:
        identifier = claim.status.provider_id
        if not identifier:
            return
        if change == "DELETED":
            self._ended(identifier, now)
            return
        launched = condition(claim.status.conditions, "Launched")
        since = _instant(launched.last_transition_time if launched is not None else "", now)
        one = self._instance(identifier, claim.metadata.labels, since, claim)
        one.claim = claim.metadata.name
        one.node = claim.status.node_name or one.node
        one.capacity = one.capacity or resources.amounts(claim.status.capacity)
        one.allocatable = one.allocatable or resources.amounts(claim.status.allocatable)
        chosen = condition(claim.status.conditions, DISRUPTION_REASON)
        if one.ending is None and (claim.metadata.deletion_timestamp or (chosen and chosen.status == "True")):
            one.ending, one.why = now, chosen.reason.lower() if chosen is not None else "deleted"

    def _node(self, change: ChangeType, node: Any, now: int) -> None:
        identifier = _identifier(node)
        if change == "DELETED":
            if self._context.state.claim_of(node) is None:
                self._ended(identifier, now)
            return
        since = _instant(node.metadata.creation_timestamp, now)
        one = self._instance(identifier, node.metadata.labels, since, self._context.state.claim_of(node))
        one.node = node.metadata.name
        one.capacity = resources.amounts(node.status.capacity) or one.capacity
        one.allocatable = resources.amounts(node.status.allocatable) or one.allocatable
        if one.ready is None and is_true(node.status.conditions, "Ready"):
            one.ready = now
        for pod, at in [pair for pair in self._waiting.values() if pair[0].spec.node_name == one.node]:
            self._waiting.pop(pod.key, None)
            self._bound(pod, one, at)

    def _instance(
        self, identifier: str, stamped: Mapping[str, str], since: int, claim: NodeClaim | None
    ) -> Instance:
        self._there.add(identifier)
        one = self._facts.instances.get(identifier)
        if one is None:
            one = Instance(identifier, since, [])
            price, volumes = self._price(claim, stamped)
            one.rates.append(Rate(since, price, volumes))
            self._facts.instances[identifier] = one
        one.pool = stamped.get(labels.NODEPOOL, "") or one.pool
        one.instance_type = stamped.get(labels.INSTANCE_TYPE, "") or one.instance_type
        one.zone = stamped.get(labels.ZONE, "") or one.zone
        one.capacity_type = stamped.get(labels.CAPACITY_TYPE, "") or one.capacity_type
        return one

    def _ended(self, identifier: str, now: int) -> None:
        one = self._facts.instances.get(identifier)
        if one is not None and one.end is None:
            one.end = max(now, one.start)

    def _price(self, claim: NodeClaim | None, stamped: Mapping[str, str]) -> tuple[int, int]:
        """Nano-dollars an hour in all, and of that for its volumes."""
        context = self._context
        pool = context.state.get(NodePool, stamped.get(labels.NODEPOOL, ""))
        if claim is not None and pool is not None:
            known = context.paid(pool).get(offer_of(claim))
            if known is not None:
                volumes = context.volume_price(pool)
                return known + volumes, volumes
        return self._listed(stamped) or 0, 0

    def _reprice(self, now: int) -> None:
        """What is paid for a claim's node changes with the market."""
        for claim in self._context.state.all(NodeClaim):
            one = self._facts.instances.get(claim.status.provider_id)
            if one is None or one.end is not None:
                continue
            price, volumes = self._price(claim, claim.metadata.labels)
            last = one.rates[-1]
            if price and (price, volumes) != (last.price, last.volumes):
                one.rates.append(Rate(max(now, last.at), price, volumes))

    def _pod(self, change: ChangeType, pod: Any, now: int) -> None:
        name = pod.spec.node_name
        if not name:
            return
        node = self._context.state.get(Node, name)
        identifier = "" if node is None else _identifier(node)
        one = self._facts.instances.get(identifier)
        if change == "DELETED" or pod.terminal:
            self._waiting.pop(pod.key, None)
            self._volumes.unmounted(pod, now)
            run = self._runs.get((pod.metadata.namespace, pod.metadata.name, identifier))
            if run is not None and run.end is None:
                run.end = max(now, run.start)
        elif one is None:
            self._waiting[pod.key] = pod, now
        else:
            self._bound(pod, one, now)

    def _bound(self, pod: Pod, one: Instance, now: int) -> None:
        key = pod.metadata.namespace, pod.metadata.name, one.id
        self._seen.add(key)
        if key in self._runs and self._runs[key].end is None:
            return
        scheduled = condition(pod.status.conditions, "PodScheduled")
        since = _instant(scheduled.last_transition_time if scheduled is not None else "", now)
        made = _workload(pod)
        run = PodRun(pod.metadata.name, self._workloads.setdefault(made, made), one.id, max(since, one.start))
        self._runs[key] = run
        self._facts.pods.append(run)
        self._volumes.mounted(pod, run.start)


def _identifier(node: Node) -> str:
    return node.spec.provider_id or f"node:///{node.metadata.name}"


def _workload(pod: Pod) -> Workload:
    owner = next((one for one in pod.metadata.owner_references if one.controller), None)
    named = f"{owner.kind}/{owner.name}" if owner is not None else ""
    kind, name = owner_of(named, pod.metadata.labels)
    whole = {key: amount for key, amount in resources.pod_requests(pod).items() if key != resources.PODS}
    return Workload(
        namespace=pod.metadata.namespace,
        kind=kind,
        owner=name,
        labels=tuple(sorted(pod.metadata.labels.items())),
        containers=shared_out(
            whole, {one.name: resources.amounts(one.resources.requests) for one in pod.spec.containers}
        ),
    )


def _instant(text: str, otherwise: int) -> int:
    try:
        return min(parse_rfc3339(text), otherwise) if text else otherwise
    except ValueError:
        return otherwise
