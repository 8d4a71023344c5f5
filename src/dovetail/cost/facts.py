"""What is known of the past: which instance ran from when to when at which price, and which pods were on it.

From an event log of a simulation all of it is known; from the controller's log only its instances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dovetail.base.clock import DAY, HOUR, MINUTE

Record = Mapping[str, Any]
Amounts = Mapping[str, int]  # "cpu" in milli-CPU, "memory" in bytes, devices by their resource's name


@dataclass(slots=True)
class Rate:
    """What an instance costs from `at` on, nano-dollars an hour: `price` in all, its disks too.

    `volumes` is how much of it its disks are.
    """

    at: int
    price: int
    volumes: int = 0


@dataclass(slots=True)
class Instance:
    """A machine as the provider bills it; instants in nanoseconds since the epoch, None for not yet.

    Invariant: `rates` is not empty, its first is of `start`, and they are in order.
    """

    id: str
    start: int
    rates: list[Rate]
    end: int | None = None
    claim: str = ""
    node: str = ""
    pool: str = ""
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    capacity: Amounts = field(default_factory=dict)
    allocatable: Amounts = field(default_factory=dict)
    ready: int | None = None
    ending: int | None = None  # when it was chosen to go
    why: str = ""  # it was chosen
    stays: list[tuple[int, str]] = field(default_factory=list)  # since when what forbids to end it

    @property
    def name(self) -> str:
        """Of its node; of the instance where there never was one."""
        return self.node or self.claim or self.id

    def billed(self, until: int, *, volumes: bool = False) -> int:
        """Nano-dollars from its start until then; rounded down once for each price, as the bill is.

        It grows with `until`, so what two instants differ by is the cost between them, and such costs add up.
        """
        until = until if self.end is None else min(until, self.end)
        paid = 0
        for index, rate in enumerate(self.rates):
            stop = min(until, self.rates[index + 1].at) if index + 1 < len(self.rates) else until
            if stop > rate.at:
                paid += (rate.volumes if volumes else rate.price) * (stop - rate.at) // HOUR
        return paid


@dataclass(frozen=True, slots=True)
class Workload:
    """What pods of one owner have in common. `containers`: (name, requests); they hold the pod's requests."""

    namespace: str
    kind: str = ""  # "deployment", small letters
    owner: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    containers: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    services: tuple[str, ...] = ()

    def requests(self) -> dict[str, int]:
        """Of all containers."""
        found: dict[str, int] = {}
        for _, amounts in self.containers:
            for name, amount in amounts:
                found[name] = found.get(name, 0) + amount
        return found


@dataclass(slots=True)
class Use:
    """What was measured of a pod on one day: sums of so many samples, milli-CPU and bytes."""

    samples: int = 0
    cpu: int = 0
    memory: int = 0

    def add(self, cpu: int, memory: int) -> None:
        self.samples += 1
        self.cpu += cpu
        self.memory += memory


@dataclass(slots=True)
class PodRun:
    """A pod on an instance, from when it was bound until it ended.

    `usage` is what was measured of it, by day: whole days of UTC since the epoch.
    """

    name: str
    workload: Workload
    instance: str
    start: int
    end: int | None = None
    usage: dict[int, Use] = field(default_factory=dict)

    def measured(self, at: int, cpu: int, memory: int) -> None:
        """So much of it was in use at that instant: milli-CPU and bytes."""
        self.usage.setdefault(at // DAY, Use()).add(cpu, memory)

    def mean_use(self, start: int, end: int) -> dict[str, int]:
        """What it used between two instants: days' means, by how much of each that is; {} is unknown."""
        found = {"cpu": 0, "memory": 0}
        known = 0
        for day, use in self.usage.items():
            span = min(end, (day + 1) * DAY) - max(start, day * DAY)
            if span > 0 and use.samples:
                known += span
                found["cpu"] += use.cpu * span // use.samples
                found["memory"] += use.memory * span // use.samples
        return {name: amount // known for name, amount in found.items()} if known else {}


@dataclass(slots=True)
class VolumeRun:
    """A persistent volume; `price` in nano-dollars an hour, `mounts` are (namespace/pod, from, until)."""

    name: str
    start: int
    price: int
    size: int
    end: int | None = None
    claim: str = ""  # namespace/name
    mounts: list[tuple[str, int, int | None]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Unused:
    """Of a commitment within one hour: `left` of the `due` nano-dollars pay for nothing."""

    name: str
    start: int
    end: int
    left: int
    due: int

    def cost(self, start: int, end: int) -> int:
        """What is left of it between two instants; such costs add up."""

        def until(at: int) -> int:
            return self.left * max(0, min(at, self.end) - self.start) // (self.end - self.start)

        return until(end) - until(start)


@dataclass(slots=True)
class Facts:
    """All of it; `end` is until when it is known."""

    cluster: str = "cluster"
    start: int = 0
    end: int = 0
    instances: dict[str, Instance] = field(default_factory=dict)
    pods: list[PodRun] = field(default_factory=list)
    volumes: list[VolumeRun] = field(default_factory=list)
    unused: list[Unused] = field(default_factory=list)  # in the order of their hours

    def bill(self, start: int, end: int) -> int:
        """What the provider asks for between two instants, nano-dollars: also for volumes that outlive nodes,
        and for commitments that nothing uses."""
        nodes = sum(one.billed(end) - one.billed(start) for one in self.instances.values())
        volumes = sum(volume_cost(one, start, end) for one in self.volumes)
        return nodes + volumes + sum(one.cost(start, end) for one in self.unused)


def volume_cost(volume: VolumeRun, start: int, end: int) -> int:
    """Of a persistent volume between two instants, nano-dollars; such costs add up."""

    def until(at: int) -> int:
        at = at if volume.end is None else min(at, volume.end)
        return max(0, at - volume.start) * volume.price // HOUR

    return until(end) - until(start)


_FORBIDS = ("DisruptionBlocked", "Unconsolidatable")
_SAID_ONCE = 5 * MINUTE  # what is said again sooner is not kept
NoPrice = Callable[[Record], int | None]


class LogReader:
    """Makes facts of the records of a log, in their order; `price` says what an instance costs whose price
    the log does not say (the controller's own), None where it is not known."""

    def __init__(
        self, price: NoPrice | None = None, capacity: Callable[[str], Amounts] | None = None
    ) -> None:
        self.facts = Facts()
        self._price = price
        self._capacity = capacity
        self._nodes: dict[str, str] = {}  # node -> instance
        self._claims: dict[str, str] = {}  # claim -> instance
        self._loose: dict[tuple[str, str], list[str]] = {}  # of no claim, by type and zone: not yet a node
        self._about: dict[str, Workload] = {}
        self._running: dict[str, PodRun] = {}
        self._workloads: dict[Workload, Workload] = {}
        self.unpriced = 0

    def read(self, record: Record) -> None:
        """Take in one record; kinds that say nothing about cost are passed over."""
        at = record["t"]
        facts = self.facts
        if not facts.start:
            facts.start = at
        facts.end = max(facts.end, at)
        handler = _HANDLERS.get(record["kind"])
        if handler is not None:
            handler(self, record, at)

    def close(self, end: int) -> Facts:
        """The facts, known until `end`."""
        self.facts.end = max(self.facts.end, end)
        return self.facts

    def _started(self, record: Record, at: int) -> None:
        price = record.get("price")
        if price is None and self._price is not None:
            price = self._price(record)
        self.unpriced += price is None
        one = Instance(
            id=record["instance"],
            start=at,
            rates=[Rate(at, price or 0, record.get("volumes", 0))],
            claim=record.get("claim", ""),
            node=record.get("node", ""),
            pool=record.get("pool", ""),
            instance_type=record.get("instanceType", ""),
            zone=record.get("zone", ""),
            capacity_type=record.get("capacityType", ""),
        )
        if self._capacity is not None:
            one.capacity = self._capacity(one.instance_type)
        self.facts.instances[one.id] = one
        if one.claim:
            self._claims[one.claim] = one.id
        else:
            self._loose.setdefault((one.instance_type, one.zone), []).append(one.id)

    def _terminated(self, record: Record, at: int) -> None:
        one = self.facts.instances.get(record["instance"])
        if one is not None and one.end is None:
            one.end = at

    def _repriced(self, record: Record, at: int) -> None:
        one = self.facts.instances.get(record["instance"])
        if one is not None:
            one.rates.append(Rate(at, record["price"], record.get("volumes", one.rates[-1].volumes)))

    def _node_created(self, record: Record, _at: int) -> None:
        identifier = record.get("instance") or self._claims.get(record.get("claim", ""), "")
        loose = self._loose.get((record.get("instanceType", ""), record.get("zone", "")), [])
        if not identifier and loose:
            identifier = loose.pop(0)
        one = self.facts.instances.get(identifier)
        if one is None:
            return
        self._nodes[record["node"]] = one.id
        one.node, one.pool = record["node"], record.get("pool", "") or one.pool
        one.capacity_type = one.capacity_type or record.get("capacityType", "")
        one.allocatable = _whole(record.get("allocatable"))
        one.capacity = _whole(record.get("capacity")) or one.capacity or one.allocatable

    def _node_ready(self, record: Record, at: int) -> None:
        one = self._of_node(record)
        if one is not None and one.ready is None:
            one.ready = at

    def _of_node(self, record: Record) -> Instance | None:
        return self.facts.instances.get(self._nodes.get(record["node"], ""))

    def _disrupted(self, record: Record, at: int) -> None:
        one = self.facts.instances.get(self._claims.get(record.get("claim", ""), ""))
        if one is not None and one.ending is None:
            one.ending, one.why = at, record.get("reason", "").replace("_", " ")

    def _claim_deleted(self, record: Record, at: int) -> None:
        """The controller's log has no other word for the end of an instance."""
        one = self.facts.instances.get(self._claims.get(record.get("claim", ""), ""))
        if one is not None and one.end is None and "pool" in record:
            one.end = at

    def _event(self, record: Record, at: int) -> None:
        """What an event says that forbids to end a node."""
        kind, _, name = record["object"].partition("/")
        if record.get("reason") not in _FORBIDS:
            return
        one = self.facts.instances.get(
            self._nodes.get(name, "") if kind == "Node" else self._claims.get(name, "")
        )
        if one is None:
            return
        last, said = one.stays[-1] if one.stays else (0, "")
        if said != record["message"] or at - last > _SAID_ONCE:
            one.stays.append((at, record["message"]))

    def _pod_created(self, record: Record, _at: int) -> None:
        key = record["pod"]
        namespace, _, name = key.partition("/")
        kind, owner = owner_of(record.get("owner", ""), record.get("labels") or {})
        whole = {name: amount for name, amount in record["requests"].items() if name != "pods"}
        made = Workload(
            namespace=namespace,
            kind=kind,
            owner=owner,
            labels=tuple(sorted((record.get("labels") or {}).items())),
            containers=shared_out(whole, record.get("containers") or {}, owner or name),
        )
        self._about[key] = self._workloads.setdefault(made, made)

    def _pod_bound(self, record: Record, at: int) -> None:
        key, identifier = record["pod"], self._nodes.get(record["node"], "")
        if not identifier or key in self._running or key not in self._about:
            return
        run = PodRun(key.partition("/")[2], self._about[key], identifier, at)
        self._running[key] = run
        self.facts.pods.append(run)

    def _pod_ended(self, record: Record, at: int) -> None:
        run = self._running.pop(record["pod"], None)
        if run is not None:
            run.end = at
        if record["kind"] == "pod.deleted":
            self._about.pop(record["pod"], None)


_HANDLERS: dict[str, Callable[[LogReader, Record, int], None]] = {
    "instance.started": LogReader._started,
    "instance.terminated": LogReader._terminated,
    "instance.repriced": LogReader._repriced,
    "node.created": LogReader._node_created,
    "node.ready": LogReader._node_ready,
    "disrupted": LogReader._disrupted,
    "claim.deleted": LogReader._claim_deleted,
    "event": LogReader._event,
    "pod.created": LogReader._pod_created,
    "pod.bound": LogReader._pod_bound,
    "pod.finished": LogReader._pod_ended,
    "pod.deleted": LogReader._pod_ended,
}


def owner_of(owner: str, labels: Mapping[str, str]) -> tuple[str, str]:
    """Kind and name of what OpenCost calls a pod's controller: the Deployment of its ReplicaSet."""
    kind, _, name = owner.partition("/")
    stamp = labels.get("pod-template-hash", "")
    if kind == "ReplicaSet" and stamp and name.endswith(f"-{stamp}"):
        return "deployment", name.removesuffix(f"-{stamp}")
    return kind.lower(), name


def shared_out(
    whole: Amounts, listed: Mapping[str, Amounts], otherwise: str = ""
) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
    """A pod's requests on its containers, in proportion to theirs; on one of that name where none is known.

    What rounding leaves is the first one's, so that they sum to the pod's.
    """
    if len(listed) < 2:
        return ((next(iter(listed), otherwise), tuple(sorted(whole.items()))),)
    shares: dict[str, dict[str, int]] = {name: {} for name in listed}
    first = next(iter(listed))
    for key, amount in whole.items():
        asked = sum(other.get(key, 0) for other in listed.values())
        for name, own in listed.items():
            shares[name][key] = amount * own.get(key, 0) // asked if asked else amount // len(listed)
        shares[first][key] += amount - sum(one[key] for one in shares.values())
    return tuple((name, tuple(sorted(own.items()))) for name, own in shares.items())


def _whole(amounts: Mapping[str, Any] | None) -> dict[str, int]:
    return {name: amount for name, amount in (amounts or {}).items() if isinstance(amount, int)}


def read_facts(records: Iterable[Record], end: int = 0) -> Facts:
    """Facts of a whole log, known until `end` or its last record."""
    reader = LogReader()
    for record in records:
        reader.read(record)
    return reader.close(end)
