"""What Dovetail knows of the cluster: fed by watches, changed by one task, read by all controllers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar, cast

from dovetail.api import core, namespaces, workloads
from dovetail.api.core import Node, Pod
from dovetail.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from dovetail.api.gangs import GANG_KINDS
from dovetail.api.karpenter.capacitybuffer import CapacityBuffer
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodeclass import NodeClass
from dovetail.api.karpenter.nodeoverlay import NodeOverlay
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.api.scheme import NODE_CLASSES
from dovetail.api.services import ReplicationController, Service
from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import NotFound
from dovetail.cluster.daemons import DaemonPods
from dovetail.cluster.default_spreads import SELECTING, DefaultSpreads, Owner
from dovetail.cluster.devices import DeviceObjects, unpublished
from dovetail.cluster.index import PodIndex, ProviderIndex, Store
from dovetail.cluster.nodes import Machine, managed
from dovetail.cluster.problem import ClusterObjects
from dovetail.cluster.promises import Promises, room_left
from dovetail.kube.client import ChangeType, Client, EventType
from dovetail.model import labels
from dovetail.model.gangs import Groups
from dovetail.model.resources import Resources
from dovetail.model.volumes import VolumeIndex

Kinds = tuple[tuple[str, str], ...]

_ALWAYS: tuple[type[Object], ...] = (
    NodePool,
    NodeClaim,
    core.Node,
    core.Pod,
    workloads.DaemonSet,
    workloads.PodDisruptionBudget,
    workloads.StorageClass,
    core.PersistentVolume,
    core.PersistentVolumeClaim,
    workloads.CSINode,
)


# CapacityBuffers, what they refer to, and what completes pods of it.
_BUFFERING: tuple[type[Object], ...] = (
    CapacityBuffer,
    workloads.PodTemplate,
    workloads.Deployment,
    workloads.StatefulSet,
    workloads.ReplicaSet,
    workloads.RuntimeClass,
    namespaces.LimitRange,
)


# Claims for devices, and what they are allocated from.
DEVICE_KINDS: tuple[type[Object], ...] = (DeviceClass, ResourceClaim, ResourceSlice)


def watched(
    kinds: Kinds | None,
    *,
    spreading: bool = False,
    buffers: bool = False,
    overlays: bool = False,
    devices: bool = False,
    surges: bool = False,
    gangs: bool = False,
) -> tuple[type[Object], ...]:
    """All kinds that are watched: those of every provider, and the node classes of the provider.

    `spreading`: the scheduler has default spread constraints, so what selects and owns pods as well;
    `buffers`: the gate CapacityBuffer is open, so these and what they refer to too; `overlays`: the gate
    NodeOverlay is open, so these too; `devices`: pods that claim devices are planned for, so claims, classes
    and slices as well; `surges`: Deployments are restarted for nodes that go, and watched for that; `gangs`:
    so what says how many pods need each other.
    """
    classes = [NODE_CLASSES[kind] for kind in (NODE_CLASSES if kinds is None else kinds)]
    more = (
        *(SELECTING if spreading else ()),
        *(_BUFFERING if buffers else ()),
        *((NodeOverlay,) if overlays else ()),
        *(DEVICE_KINDS if devices else ()),
        *((workloads.Deployment,) if surges else ()),
        *(GANG_KINDS if gangs else ()),
    )
    return tuple(dict.fromkeys((core.Namespace, *classes, *_ALWAYS, *more)))


Versions = tuple[tuple[NodePool, ...], tuple[NodeClaim, ...], tuple[Node, ...], tuple[Pod, ...]]


def fingerprint(versions: Versions) -> str:
    """Equal iff the states were: a digest of each object with its version, which most plans do not need."""
    found = [(item.KIND, item.metadata) for items in versions for item in items]
    lines = sorted(f"{kind} {meta.uid} {meta.resource_version}" for kind, meta in found)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


T = TypeVar("T", bound=Object)
# (kind, type, old, new): `new` is None for DELETED, `old` for ADDED.
Callback = Callable[[type[Object], ChangeType, Object | None, Object | None], None]
# (callback's name, object's key, error, object): what a callback raised; the others are called all the same.
OnError = Callable[[str, str, Exception, Object], None]
NOMINATION_WINDOW = 20 * SECOND
# How long a claim that we created may be missing from the watch before the API server is asked for it.
EXPECTATION = 10 * SECOND


@dataclass(frozen=True, slots=True)
class Expectation:
    """A claim that we created and the watch has not shown yet."""

    name: str
    since: int


class State:
    """Typed objects by kind and key, pods by node, machines by provider ID; nominations and marks.

    Claims and pools whose class is not one of `node_class_kinds` belong to another controller and stay out.
    `kinds` are those that it takes in; `default_constraints` are the scheduler's for pods without their own;
    with `buffers` CapacityBuffers and what they refer to are among them, with `overlays` NodeOverlays, with
    `devices` claims for devices and what they are allocated from, with `gangs` the
    groups of pods that need each other.
    Events cost what changed. `watch_synced` says whether every first list has arrived. `revision` counts
    changes of objects, nominations and marks: while it and the instant stay, so does every answer. `on_error`
    gets what a callback raised; without it, that ends the watch.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        node_class_kinds: Kinds | None = None,
        nomination_window: int = NOMINATION_WINDOW,
        watch_synced: Callable[[], bool] = lambda: True,
        default_constraints: tuple[core.TopologySpreadConstraint, ...] = (),
        buffers: bool = False,
        overlays: bool = False,
        devices: bool = False,
        surges: bool = False,
        gangs: bool = False,
        on_error: OnError | None = None,
    ) -> None:
        self._on_error = on_error
        self.watch_synced = watch_synced
        self.kinds = watched(
            node_class_kinds,
            spreading=bool(default_constraints),
            buffers=buffers,
            overlays=overlays,
            devices=devices,
            surges=surges,
            gangs=gangs,
        )
        self.plans_devices = devices
        # Of which objects, kind by kind, and what they say.
        self._groups: tuple[tuple[tuple[Object, ...], ...], Groups] = ((), Groups())
        self._constraints = default_constraints
        self._spreads: tuple[int, DefaultSpreads] | None = None  # as of a revision
        self.node_class_kinds = node_class_kinds
        self.revision = 0
        self._client = client
        self._clock = clock
        self._window = nomination_window
        self._stores: dict[type[Object], Store[Object]] = {kind: Store() for kind in self.kinds}
        # Of which nodes and claims, and they; a store's items are the very same until one of them changes.
        self._machines: tuple[tuple[Node, ...], tuple[NodeClaim, ...], tuple[Machine, ...]] = ((), (), ())
        self._launched: tuple[tuple[NodeClaim, ...], bool] = ((), True)  # of which claims: are all of them?
        self._pods = PodIndex()
        self._daemons = DaemonPods()
        # By name of a machine: it and its pods as they were, and what these leave of it.
        self._rooms: dict[str, tuple[Machine, tuple[Pod, ...], Resources]] = {}
        self._providers = ProviderIndex()
        self._callbacks: dict[type[Object], list[Callback]] = {kind: [] for kind in self.kinds}
        self._on_promise: list[Callable[[str], None]] = []
        self._on_bound: list[Callable[[Pod, str], None]] = []
        self._replaying = False
        # Names of claims or nodes -> until when they are nominated for pods that will be bound to them, in
        # the order in which that ends: what is nominated once it is gone ends with it.
        self._nominated: dict[str, int] = {}
        self._followers: list[dict[str, None]] = []
        self._promises = Promises(nomination_window, self._changed)
        # Names of claims and nodes that a command is about to delete.
        self._marked: dict[str, None] = {}
        self._deleting: set[str] = set()  # of those that are being deleted
        self._expected: dict[str, Expectation] = {}

    # Reading ------------------------------------------------------------------------------------------

    def get(self, kind: type[T], key: str) -> T | None:
        """The object with that key (`namespace/name`, or the name), if it exists."""
        return cast("T | None", self._stores[kind].by_key.get(key))

    def all(self, kind: type[T]) -> tuple[T, ...]:
        """All objects of the kind, in order of key."""
        return cast("tuple[T, ...]", self._stores[kind].items())

    def node_class(self, name: str) -> NodeClass | None:
        """The node class of that name, of whatever kind the provider has."""
        found = (self.get(kind, name) for kind in NODE_CLASSES.values() if kind in self._stores)
        return next((item for item in found if item is not None), None)

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """The pods bound to a node, in order of key; "" answers those that are bound to none."""
        return self._pods.on(node)

    def standing(self, node: str) -> tuple[Pod, ...]:
        """Those of them that have not ended."""
        return self._pods.standing(node)

    def room_left(self, machine: Machine) -> Resources:
        """What its pods leave of the machine: worked out anew when it or they have changed."""
        name, pods = machine.name, self.pods_on(machine.name) if machine.node is not None else ()
        seen, before, left = self._rooms.get(name, (None, (), {}))
        same = seen is not None and seen.node is machine.node and seen.claim is machine.claim
        if not same or before is not pods:
            left = room_left(machine, pods)
            self._rooms[name] = machine, pods, left
        return left

    def arrived(self) -> tuple[str, ...]:
        """Keys of the pods without a node, in the order in which they came: that of the scheduler."""
        return self._pods.arrived("")

    def node_of(self, claim: NodeClaim) -> Node | None:
        """The node of a claim, by provider ID."""
        name = self._providers.node(claim.status.provider_id)
        return self.get(Node, name) if name else None

    def nodes_of(self, claim: NodeClaim) -> tuple[Node, ...]:
        """Every node with the claim's provider ID; more than one breaks an invariant of the cluster."""
        names = self._providers.nodes(claim.status.provider_id)
        return tuple(node for name in names if (node := self.get(Node, name)) is not None)

    def claim_of(self, node: Node) -> NodeClaim | None:
        """The claim of a node, by provider ID."""
        name = self._providers.claim(node.spec.provider_id)
        return self.get(NodeClaim, name) if name else None

    def claims_of(self, node: Node) -> tuple[NodeClaim, ...]:
        """Every claim with the node's provider ID; more than one breaks an invariant likewise."""
        names = self._providers.claims(node.spec.provider_id)
        return tuple(claim for name in names if (claim := self.get(NodeClaim, name)) is not None)

    def machines(self) -> tuple[Machine, ...]:
        """Every node and every claim without a node, in order of name; a walk over all after one changed."""
        nodes, claims = self.all(Node), self.all(NodeClaim)
        if self._machines[0] is not nodes or self._machines[1] is not claims:
            found = [Machine(node, self.claim_of(node)) for node in nodes]
            found += [Machine(None, claim) for claim in claims if self.node_of(claim) is None]
            self._machines = nodes, claims, tuple(sorted(found, key=lambda machine: machine.name))
        return self._machines[2]

    def synced(self) -> bool:
        """True iff every first list has arrived, and every claim has a provider ID (or is on its way out)."""
        if not self.watch_synced() or self._expected:
            return False
        claims = self.all(NodeClaim)
        if self._launched[0] is not claims:
            self._launched = claims, all(claim.status.provider_id or claim.deleting for claim in claims)
        return self._launched[1]

    def objects(self) -> ClusterObjects:
        """Everything that a decision may depend on, pods aside: `standing` answers these by node."""
        return ClusterObjects(
            pools=self.all(NodePool),
            claims=self.all(NodeClaim),
            nodes=self.all(Node),
            daemonsets=self._daemons.as_they_run(self.all(workloads.DaemonSet)),
            namespaces=self.all(core.Namespace),
            pdbs=self.all(workloads.PodDisruptionBudget),
            volume_claims=self.all(core.PersistentVolumeClaim),
            volumes=self.all(core.PersistentVolume),
            storage_classes=self.all(workloads.StorageClass),
            csi_nodes=self.all(workloads.CSINode),
            groups=self.groups(),
        )

    def device_objects(self) -> DeviceObjects | None:
        """Which devices there are, and which are claimed; None where nothing is planned by claims."""
        if not self.plans_devices:
            return None
        return DeviceObjects(self.all(DeviceClass), self.all(ResourceClaim), self.all(ResourceSlice))

    def unpublished(self, claim: NodeClaim, node: Node) -> str:
        """The first driver whose devices the claim was bought for that has not published a whole pool there;
        "" where there is none, or nothing is planned by claims for devices.
        """
        drivers = claim.metadata.annotations.get(labels.REQUESTED_DRIVERS, "")
        if not drivers or not self.plans_devices:
            return ""
        return unpublished(self.all(ResourceSlice), node.metadata.name, drivers.split(","))

    def groups(self) -> Groups:
        """Which pods need each other, read anew when an object that says so has changed."""
        found = tuple(self.all(kind) for kind in GANG_KINDS if kind in self._stores)
        known = self._groups[0]
        if len(known) != len(found) or any(one is not other for one, other in zip(known, found, strict=True)):
            self._groups = found, Groups(one for some in found for one in some)
        return self._groups[1]

    def default_spreads(self) -> DefaultSpreads:
        """What the cluster's scheduler gives to pods without spread constraints."""
        if not self._constraints:
            return DefaultSpreads()
        if self._spreads is not None and self._spreads[0] == self.revision:
            return self._spreads[1]
        owners: tuple[Owner, ...] = (
            *self.all(ReplicationController),
            *self.all(workloads.ReplicaSet),
            *self.all(workloads.StatefulSet),
        )
        self._spreads = self.revision, DefaultSpreads(self._constraints, self.all(Service), owners)
        return self._spreads[1]

    def volumes(self) -> VolumeIndex:
        """What pods' claims say of where they may go, as it is now. Time: O(claims, volumes and classes)."""
        found = self.all(core.PersistentVolumeClaim), self.all(core.PersistentVolume)
        return VolumeIndex.of(*found, self.all(workloads.StorageClass))

    def outdate(self) -> None:
        """What pools may buy changed, or where room is kept, and no object did: no earlier answer stays."""
        self.revision += 1

    # Nominations and marks ----------------------------------------------------------------------------

    def versions(self) -> Versions:
        """Every pool, claim, node and pod as it is now."""
        return self.all(NodePool), self.all(NodeClaim), self.all(Node), self.all(Pod)

    def nominate(self, name: str) -> None:
        """Keep the claim or node of that name from disruption for one window: pods are about to come."""
        self.revision += 1
        now = self._clock.monotonic()
        while self._nominated and self._nominated[first := next(iter(self._nominated))] <= now:
            del self._nominated[first]
        self._nominated.pop(name, None)
        self._nominated[name] = now + self._window

    def nominations(self) -> frozenset[str]:
        """The names of all claims and nodes that are nominated now."""
        now = self._clock.monotonic()
        return frozenset(name for name, until in self._nominated.items() if until > now)

    def nominated(self, machine: Machine) -> bool:
        """True iff the machine is nominated now, under either of its names."""
        known = self._nominated
        if not known:
            return False
        now, node, claim = self._clock.monotonic(), machine.node, machine.claim
        return (node is not None and known.get(node.metadata.name, 0) > now) or (
            claim is not None and known.get(claim.metadata.name, 0) > now
        )

    def promise(self, pod: Pod, name: str, *, kept: bool = False) -> None:
        """A plan gave the pod a place on the claim or node of that name.

        One that runs and must move leaves it to the pod that its owner makes in its place; `kept`: no later
        plan gives that another one.
        """
        if pod.spec.node_name:
            self._promises.move(pod, name, kept=kept)
            return
        self._promises.make(pod, name, self._clock.now())
        self._promised(pod.key)

    def surge(self, pod: Pod, deployment: str, until: int) -> None:
        """That Deployment (by key) makes another pod before this one goes, in the place planned for it."""
        self._promises.surge(pod, deployment, until)

    def withdraw(self, pod: Pod) -> None:
        """The waiting pod's place is void."""
        self._promises.forget(pod.key)
        self._promised(pod.key)

    def _promised(self, key: str) -> None:
        for callback in self._on_promise:
            callback(key)

    def on_promise(self, callback: Callable[[str], None]) -> None:
        """Call back with the key of every pod that is given a place, or whose place is withdrawn."""
        self._on_promise.append(callback)

    def on_bound(self, callback: Callable[[Pod, str], None]) -> None:
        """Call back with every pod that is bound and had a place, and the name of the machine of that."""
        self._on_bound.append(callback)

    def promised_on(self, machine: Machine) -> tuple[str, ...]:
        """Keys of the pods that were given a place on the machine, whether that holds or not."""
        return self._promises.on(machine.names())

    def promised_machines(self) -> Iterator[Machine]:
        """The machines that stay and on which pods were given places, whether those hold or not."""
        return (machine for name in self._promises.machines() if (machine := self.staying(name)) is not None)

    def machines_promised(self) -> int:
        """How many machines pods were given places on, whether those hold or not."""
        return len(self._promises)

    def promised_to(self, owner: str) -> list[Machine]:
        """Those of them on which pods of that owner (by UID) were given places, in the same order."""
        found = map(self.staying, self._promises.machines_of(owner))
        machines = {machine.name: machine for machine in found if machine is not None}
        return sorted(machines.values(), key=lambda machine: self._promises.turn_of(machine.names()))

    def follow(self) -> dict[str, None]:
        """Names of machines, in the order in which something of them changed first: the node, the claim, the
        pods there, the places, a mark. Whoever asked for it takes out what it has looked at.

        A machine with a node is in it under that one's name, and may be under its claim's as well. At first
        all are in it.
        """
        names = dict.fromkeys(obj.metadata.name for kind in (NodeClaim, Node) for obj in self.all(kind))
        self._followers.append(names)
        return names

    def _changed(self, name: str) -> None:
        """Something changed of the node or claim of that name; of what is gone nothing is kept."""
        claim = self.get(NodeClaim, name)
        if claim is None and self.get(Node, name) is None:
            return
        for one in (name, *(self._providers.nodes(claim.status.provider_id) if claim is not None else ())):
            self._tell(one)

    def _tell(self, name: str) -> None:
        for names in self._followers:
            names[name] = None

    def moving(self) -> bool:
        """True iff running pods are to move to machines."""
        return self._promises.moving()

    def successors_on(self, machine: Machine) -> bool:
        """True iff running pods are to move to the machine."""
        return self._promises.successors(machine.names())

    def others_first(self, machine: Machine) -> bool:
        """True iff others leave nodes of pods that move there, and are to come to machines that are up."""
        names = self._promises.beside(machine.names(), self._clock.now())
        places = map(self.staying, names)
        return any(place is not None and place.initialized for place in places)

    def moves_to(self, pod: Pod) -> Machine | None:
        """The machine for which what comes in place of this running pod is planned, if that stays."""
        name = self._promises.moves_to(pod)
        return self.staying(name) if name else None

    def kept_places(self) -> Iterator[tuple[Pod, Machine]]:
        """Pods of nodes on their way out whose places are kept for what comes then, with the machines."""
        for key in self._promises.kept():
            pod = self.get(Pod, key)
            node = self.get(Node, pod.spec.node_name) if pod is not None else None
            if pod is None or node is None or not self.going(Machine(node, self.claim_of(node))):
                continue
            if (place := self.moves_to(pod)) is not None:
                yield pod, place

    def coming(self, machine: Machine) -> bool:
        """True iff a pod waits to be bound there, or one is still to come in place of one that ended."""
        return self._promises.coming(machine.names(), self._clock.now())

    def promised(self, pod: Pod) -> Machine | None:
        """The machine on which a plan gave this pending pod a place, as long as that holds."""
        return self._promises.place(pod, self.staying, self._clock.now())

    def places(self, pods: Iterable[Pod]) -> list[tuple[Pod, Machine]]:
        """Those of the pods that have a place which holds, with it: `promised`, of many at once."""
        return list(self.each_place(pods))

    def each_place(self, pods: Iterable[Pod]) -> Iterator[tuple[Pod, Machine]]:
        """The same one after the other, for a look that may end early; meanwhile nothing may change."""
        known: dict[str, Machine | None] = {}

        def staying(name: str) -> Machine | None:
            if name not in known:
                known[name] = self.staying(name)
            return known[name]

        now = self._clock.now()
        for pod in pods:
            place = self._promises.place(pod, staying, now)
            if place is not None:
                yield pod, place

    def binding(self, pause: int) -> bool:
        """True iff a pod with a place was bound within the last `pause` nanoseconds."""
        return self._promises.binding(self._clock.now(), pause)

    def displaced(self, pod: Pod) -> bool:
        """True iff a plan gave the pod a place, which it may have lost since: refused or crowded out."""
        return self._promises.made(pod)

    def staying(self, name: str) -> Machine | None:
        """The machine whose node or claim has that name, unless it is gone or going."""
        claim, node = self.get(NodeClaim, name), self.get(Node, name)
        machine = Machine(
            node or (self.node_of(claim) if claim else None), claim or (self.claim_of(node) if node else None)
        )
        gone = machine.node is None and machine.claim is None
        return None if gone or self.going(machine) else machine

    def mark(self, names: Iterable[str]) -> None:
        """These claims and nodes are about to be deleted: no pod goes there, they use no limit."""
        self.revision += 1
        for name in names:
            self._marked[name] = None
            self._changed(name)

    def unmark(self, names: Iterable[str]) -> None:
        """The command failed: they stay."""
        self.revision += 1
        for name in names:
            self._marked.pop(name, None)
            self._changed(name)

    def marked(self) -> frozenset[str]:
        """Names of all claims and nodes that are marked for deletion."""
        return frozenset(self._marked)

    def going(self, machine: Machine) -> bool:
        """True iff the machine is being deleted or marked for it."""
        if machine.deleting or not self._marked:
            return machine.deleting
        return not self._marked.keys().isdisjoint(machine.names())

    def leaving(self) -> tuple[Machine, ...]:
        """Those of the machines that are going, in order of name: few are, and only these are looked at."""
        nodes: dict[str, Node] = {}
        alone: list[Machine] = []
        for name in self._deleting | self._marked.keys():
            if (node := self.get(Node, name)) is not None:
                nodes[name] = node
            if (claim := self.get(NodeClaim, name)) is None:
                continue
            if self.node_of(claim) is None:
                alone.append(Machine(None, claim))
            nodes |= {one.metadata.name: one for one in self.nodes_of(claim) if self.claim_of(one) is claim}
        found = [Machine(node, self.claim_of(node)) for node in nodes.values()]
        return tuple(sorted((*found, *alone), key=lambda machine: machine.name))

    # Changing -----------------------------------------------------------------------------------------

    def subscribe(self, callback: Callback, *kinds: type[Object]) -> None:
        """Call back after every change of an object of these kinds, or of any, in order of subscription."""
        for kind, callbacks in self._callbacks.items():
            if not kinds or issubclass(kind, kinds):
                callbacks.append(callback)

    def replay(self) -> None:
        """Report every object as if it were added, which is no news: for subscriptions since."""
        self._replaying = True
        for kind, item in [(kind, item) for kind, store in self._stores.items() for item in store.items()]:
            self._report(kind, "ADDED", None, item)
        self._replaying = False

    def news(self) -> bool:
        """True iff what callbacks receive happens now: it is neither of the first lists nor replayed."""
        return self.watch_synced() and not self._replaying

    def expect(self, claim: NodeClaim) -> None:
        """Take in a claim that was just created, so that nothing buys it twice before the watch shows it."""
        if self.get(NodeClaim, claim.key) is None and not self._foreign(claim):
            self._expected[claim.metadata.name] = Expectation(claim.metadata.name, self._clock.monotonic())
            self._store("ADDED", claim)

    async def settle(self) -> None:
        """Ask the API server for claims that the watch should have shown by now, and forget what is gone."""
        now = self._clock.monotonic()
        for item in sorted(self._expected.values(), key=lambda item: item.name):
            if now - item.since < EXPECTATION:
                continue
            try:
                self.apply("MODIFIED", await self._client.get(NodeClaim, item.name))
            except NotFound:
                claim = self.get(NodeClaim, item.name)
                if claim is not None:
                    self.apply("DELETED", claim)

    def apply(self, change: EventType, obj: Object) -> None:
        """Take in one event of a watch."""
        if self._foreign(obj):
            return
        if isinstance(obj, NodeClaim):
            self._expected.pop(obj.metadata.name, None)
        self._store(change, obj)

    def _store(self, change: EventType, obj: Object) -> None:
        kind = type(obj)
        store = self._stores[kind]
        new = None if change == "DELETED" else obj
        old = store.put(new) if new is not None else store.drop(obj.key)
        if old is None and new is None:
            return
        self.revision += 1
        self._index(old, new)
        seen: ChangeType = "DELETED" if new is None else "ADDED" if old is None else "MODIFIED"
        self._report(kind, seen, old, new)

    def _report(self, kind: type[Object], change: ChangeType, old: Object | None, new: Object | None) -> None:
        """One that fails keeps neither the others nor the watch from their work."""
        for callback in self._callbacks[kind]:
            try:
                callback(kind, change, old, new)
            except Exception as error:
                about = new or old
                if self._on_error is None or about is None:
                    raise
                self._on_error(callback.__qualname__, about.key, error, about)

    def _index(self, old: Object | None, new: Object | None) -> None:
        present = new if new is not None else old
        if isinstance(present, Pod):
            self._pods.move(cast("Pod | None", old), cast("Pod | None", new))
            for pod in (old, new):
                if isinstance(pod, Pod) and pod.spec.node_name:
                    self._changed(pod.spec.node_name)
            now = self._clock.now()
            if new is None or present.deleting:
                self._promises.ends(present, now)
            if new is None:
                self._daemons.gone(present)
                self._promises.forget(present.key)
                return
            self._daemons.follow(present)
            if present.spec.node_name:
                if (place := self._promises.bound(present.key, now)) is not None:
                    for callback in self._on_bound:
                        callback(present, place)
            elif _came(cast("Pod | None", old), present) and self._promises.succeed(present, now):
                self._promised(present.key)
        elif isinstance(present, Node):
            self._providers.move_node(cast("Node | None", old), cast("Node | None", new))
            self._tell(present.metadata.name)
            if isinstance(old, Node) and (new is None or old.spec.provider_id != present.spec.provider_id):
                for name in self._providers.claims(old.spec.provider_id):  # which have no node now
                    self._changed(name)
        elif isinstance(present, NodeClaim):
            self._providers.move_claim(cast("NodeClaim | None", old), cast("NodeClaim | None", new))
            self._tell(present.metadata.name)
            self._changed(present.metadata.name)
            for name in self._providers.nodes(old.status.provider_id) if isinstance(old, NodeClaim) else ():
                self._changed(name)
        elif new is None and isinstance(present, workloads.DaemonSet):
            self._daemons.forget(present)
        if isinstance(present, Node | NodeClaim):
            self._note_deleting(present.metadata.name)
        if new is None and isinstance(present, Node | NodeClaim):
            self._machines = (), (), ()  # what was put together is not asked for again where all is quiet
            self._marked.pop(present.metadata.name, None)
            self._nominated.pop(present.metadata.name, None)
            self._rooms.pop(present.metadata.name, None)

    def _note_deleting(self, name: str) -> None:
        """The node or the claim of that name changed."""
        found = self.get(Node, name), self.get(NodeClaim, name)
        if any(one is not None and one.deleting for one in found):
            self._deleting.add(name)
        else:
            self._deleting.discard(name)

    def _foreign(self, obj: Object) -> bool:
        if isinstance(obj, NodeClaim):
            return not managed(obj.spec.node_class_ref, self.node_class_kinds)
        if isinstance(obj, NodePool):
            return not managed(obj.spec.template.spec.node_class_ref, self.node_class_kinds)
        return False

    def check(self) -> None:
        """Assert every invariant; for tests, after every step."""
        stores = self._stores
        self._pods.check(cast("dict[str, Pod]", stores[Pod].by_key))
        self._providers.check(
            cast("dict[str, Node]", stores[Node].by_key),
            cast("dict[str, NodeClaim]", stores[NodeClaim].by_key),
        )
        self._promises.check()
        assert self.leaving() == tuple(filter(self.going, self.machines())), "of those that are going"
        known = {obj.metadata.name for kind in (Node, NodeClaim) for obj in stores[kind].items()}
        assert known.issuperset(self._expected), "an expected claim is not stored"
        for kind, store in stores.items():
            assert all(type(obj) is kind and obj.key == key for key, obj in store.by_key.items())


def _came(old: Pod | None, pod: Pod) -> bool:
    """True iff the scheduler may bind the pod from now on: it is new, or its last gate was taken away."""
    return not pod.spec.scheduling_gates and (old is None or bool(old.spec.scheduling_gates))
