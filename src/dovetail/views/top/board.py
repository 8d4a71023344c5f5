"""The cluster as eks-node-viewer counts it: objects as they come in, rows and sums kept up to date.

A change costs what changed. Rows are frozen; ages are made from them when they are shown.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dovetail.api.core import Event, Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object, condition
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.pods import Budgets
from dovetail.model import labels
from dovetail.model.resources import PODS, pod_quantities
from dovetail.model.selector import Selector
from dovetail.units.duration import format_age
from dovetail.units.money import NANO_DOLLARS
from dovetail.units.quantity import Quantity
from dovetail.units.timestamp import parse_rfc3339
from dovetail.views.top.order import CREATION, OLDEST_FIRST, Key, Sort, natural

T = TypeVar("T", bound=Object)
PRICE_LABEL = "eks-node-viewer/instance-price"
_COMPUTED = "eks-node-viewer/node-"
_USAGE = "-usage"
NODE_AGE = f"{_COMPUTED}age"
# Ours, to sort by: none of them can be the label of a node.
NAME, PRICE, USAGE, POD_COUNT = "@name", "@price", "@usage", "@pods"
_COMPUTE = "eks.amazonaws.com/compute-type"
_PROVISIONED = "CapacityProvisioned"
_CORDONING = ("karpenter.sh/disruption", labels.DISRUPTED_TAINT)
_KINDS = {"on-demand": "On-Demand", "spot": "Spot", "reserved": "Reserved"}
_ONE = Quantity(1_000_000_000)
_ZERO = Quantity(0)
_NOTES = 200  # that are kept of one object: a history of days
ABSENT = "-"
# What a node costs (nano-dollars per hour), by its labels, or its claim's while it is none; None: unknown.
Price = Callable[[Mapping[str, str]], int | None]


@dataclass(frozen=True, slots=True)
class Settings:
    """What is shown, and how."""

    resources: tuple[str, ...] = ("cpu",)
    extra_labels: tuple[str, ...] = ()
    sort: Sort = OLDEST_FIRST
    selector: Selector | None = None
    pricing: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A node, or a claim that has an instance and no node yet. Instants are nanoseconds since the epoch.

    Two rows are equal iff they are the same one: a change makes another.
    """

    name: str
    node: Node | None
    claim: NodeClaim | None
    pods: tuple[Pod, ...]  # that are bound to it
    used: Mapping[str, Quantity]
    allocatable: Mapping[str, Quantity]
    price: int | None  # nano-dollars per hour
    type: str
    kind: str
    state: str
    ready: bool
    since: int  # it was created, or ceased to be ready

    @property
    def labels(self) -> Mapping[str, str]:
        """Its node's, or its claim's while there is no node."""
        return (self.node or self.claim or Node()).metadata.labels

    @property
    def instance(self) -> str:
        """The last part of the provider id."""
        return _provider(self.node or self.claim).rpartition("/")[2]

    @property
    def created(self) -> int:
        return _created(self.node or self.claim or Node())

    @property
    def pool(self) -> str:
        return self.labels.get(labels.NODEPOOL, "")

    def share(self, resource: str) -> float:
        """Percent of it that is used; 0 where there is nothing to use."""
        return percent(self.used.get(resource, _ZERO), self.allocatable.get(resource, _ZERO))

    def label(self, key: str, now: int) -> str:
        """Its value, a computed one where the node has none, or `-`."""
        found = self.labels.get(key)
        if found is not None:
            return found
        if key == NODE_AGE:
            return format_age(now - self.created)
        if key.startswith(_COMPUTED) and key.endswith(_USAGE):
            resource = key[len(_COMPUTED) : -len(_USAGE)]
            known = self.allocatable.get(resource, _ZERO).nanos > 0
            return f"{self.share(resource):.0f}%" if known else "N/A"
        return ABSENT

    def readiness(self, now: int) -> str:
        return "Ready" if self.ready else f"NotReady/{format_age(now - self.since)}"


def percent(used: Quantity, allocatable: Quantity) -> float:
    """0 where there is nothing to use."""
    if not allocatable.nanos:
        return 0.0
    return 100 * ((used.nanos / 1e9) / (allocatable.nanos / 1e9))


@dataclass(frozen=True, slots=True)
class Note:
    """Something that was said of an object."""

    at: int
    text: str


@dataclass(slots=True)
class Sums:
    """Over all nodes that are shown. Invariant: equals what adding up the rows anew would give."""

    nodes: int = 0
    price: int = 0  # of those whose price is known, nano-dollars per hour
    unpriced: int = 0  # those whose price is not
    used: dict[str, Quantity] = field(default_factory=dict)
    allocatable: dict[str, Quantity] = field(default_factory=dict)

    def add(self, row: Row, sign: int) -> None:
        self.nodes += sign
        self.price += sign * (row.price or 0)
        self.unpriced += sign * (row.price is None)
        for sums, amounts in ((self.used, row.used), (self.allocatable, row.allocatable)):
            for name, amount in amounts.items():
                before = sums.get(name, _ZERO)
                sums[name] = before + amount if sign > 0 else before - amount

    def shift(self, old: Row, new: Row) -> None:
        """The row has changed, and what it can hold has not: mostly only a few of its amounts have."""
        self.price += (new.price or 0) - (old.price or 0)
        self.unpriced += (new.price is None) - (old.price is None)
        for name in old.used.keys() | new.used.keys():
            before, after = old.used.get(name, _ZERO), new.used.get(name, _ZERO)
            if before.nanos != after.nanos:
                self.used[name] = self.used.get(name, _ZERO) - before + after


class Board:
    """Takes in objects (`take`), and answers rows and sums.

    `price` is asked for what no label says. `least` is what the nodes cost and what their pods cost at least
    (nano-dollars per hour), once it is proven; `costs` are the known prices by provider id.
    """

    def __init__(self, settings: Settings | None = None, price: Price = lambda _: None) -> None:
        self.settings = settings or Settings()
        self.revision = 0  # counts changes
        self.sums = Sums()
        self.phases: Counter[str] = Counter()
        self.bound = 0
        self.least: tuple[int, int] | None = None
        self.partial = False  # pools and budgets are not known, and so not why nodes stay
        self.pools: dict[str, NodePool] = {}
        self.claims: dict[str, NodeClaim] = {}
        self.pods: dict[str, Pod] = {}
        self.unbound: dict[str, Pod] = {}  # those of them that have no node
        self._price = price
        self._costs: dict[str, int] = {}
        self._nodes: dict[str, Node] = {}  # by provider id
        self._names: dict[str, str] = {}  # of nodes -> provider id
        self._of_provider: dict[str, NodeClaim] = {}
        self._awaited: dict[str, str] = {}  # names of the rows of claims -> provider id
        self._on: defaultdict[str, dict[str, Pod]] = defaultdict(dict)  # by the name of the node
        self._used: defaultdict[str, dict[str, Quantity]] = defaultdict(dict)  # by them: the same by name
        self._budgets: dict[str, PodDisruptionBudget] = {}
        self._read_budgets: Budgets | None = None
        self._notes: defaultdict[str, deque[Note]] = defaultdict(lambda: deque(maxlen=_NOTES))
        self._rows: dict[str, Row] = {}  # by provider id
        self._changed: dict[str, None] = {}  # provider ids whose row is out of date
        self._keys: dict[str, Any] = {}  # what each is sorted by
        self._order: list[str] | None = None  # provider ids; None: to be sorted anew

    # What comes in --------------------------------------------------------------------------------------

    def take(self, change: str, obj: Object) -> None:
        """`change` is ADDED, MODIFIED or DELETED. Objects of kinds that are not shown are passed over."""
        self.revision += 1
        gone = change == "DELETED"
        match obj:
            case Pod():
                self._take_pod(obj, gone)
            case Node():
                self._take_node(obj, gone)
            case NodeClaim():
                self._take_claim(obj, gone)
            case NodePool():
                _put(self.pools, obj, gone)
            case PodDisruptionBudget():
                _put(self._budgets, obj, gone)
                self._read_budgets = None
            case Event() if not gone:
                self._take_event(obj)

    def note(self, at: int, kind: str, key: str, text: str) -> None:
        """Something happened to the object of that kind and key (`namespace/name`, or the name)."""
        notes = self._notes[f"{kind}/{key}"]
        if not notes or notes[-1].text != text:
            notes.append(Note(at, text))

    def cost(self, provider: str, price: int) -> None:
        """What the instance of that provider id costs (nano-dollars per hour)."""
        self.revision += 1
        self._costs[provider] = price
        self._changed[provider] = None

    def show(self, settings: Settings) -> None:
        """From now on."""
        self.revision += 1
        if settings.selector != self.settings.selector:
            self._changed.update(dict.fromkeys((*self._nodes, *self._of_provider)))
        self.settings = settings
        self._order = None

    def _take_pod(self, pod: Pod, gone: bool) -> None:
        old = self.pods.pop(pod.key, None)
        if old is not None:
            self.phases[old.status.phase] -= 1
            self.unbound.pop(pod.key, None)
            self._unbind(old)
        if gone or pod.terminal or pod.deleting:
            return
        self.pods[pod.key] = pod
        self.phases[pod.status.phase] += 1
        if pod.spec.node_name:
            self.bound += 1
            self._on[pod.spec.node_name][pod.key] = pod
            used = self._used[pod.spec.node_name]
            for resource, amount in _asked(pod):
                used[resource] = used.get(resource, _ZERO) + amount
            self._touch(pod.spec.node_name)
        else:
            self.unbound[pod.key] = pod

    def _unbind(self, pod: Pod) -> None:
        name = pod.spec.node_name
        if not name:
            return
        self.bound -= 1
        there = self._on[name]
        there.pop(pod.key, None)
        used = self._used[name]
        for resource, amount in _asked(pod):
            used[resource] -= amount
        if not there:
            del self._on[name], self._used[name]
        self._touch(name)

    def _take_node(self, node: Node, gone: bool) -> None:
        provider, name = node.spec.provider_id, node.metadata.name
        if not provider:
            return
        self._changed[provider] = None
        if gone or (node.deleting and not node.metadata.finalizers):
            self._nodes.pop(provider, None)
            self._names.pop(name, None)
            for pod in tuple(self._on.get(name, {}).values()):
                self._take_pod(pod, gone=True)
            return
        self._nodes[provider] = node
        self._names[name] = provider

    def _take_claim(self, claim: NodeClaim, gone: bool) -> None:
        old = _put(self.claims, claim, gone)
        for each in (old, claim):
            provider = each.status.provider_id if each is not None else ""
            if provider:
                self._changed[provider] = None
                self._of_provider.pop(provider, None)
                self._awaited.pop(_named(each), None)
        if claim.status.provider_id and not gone:
            self._of_provider[claim.status.provider_id] = claim
            self._awaited[_named(claim)] = claim.status.provider_id

    def _take_event(self, event: Event) -> None:
        about = event.involved_object
        key = f"{about.namespace}/{about.name}" if about.namespace and about.kind == "Pod" else about.name
        at = event.last_timestamp or event.first_timestamp or event.metadata.creation_timestamp
        self.note(parse_rfc3339(at) if at else 0, about.kind, key, f"{event.reason}: {event.message}")

    def _touch(self, node: str) -> None:
        provider = self._names.get(node) or self._awaited.get(node)
        if provider is not None:
            self._changed[provider] = None

    # What is shown --------------------------------------------------------------------------------------

    def rows(self, now: int) -> tuple[Row, ...]:
        """Every node that is shown, in the order that was asked for."""
        self.refresh()
        sort = self.settings.sort
        if self._order is None or sort.key == NODE_AGE:
            key = self._key(sort, now)
            self._keys = {provider: key(row) for provider, row in self._rows.items()}
            self._order = sorted(self._rows, key=self._keys.__getitem__, reverse=sort.descending)
        return tuple(map(self._rows.__getitem__, self._order))

    def refresh(self) -> None:
        """Bring rows and sums up to date."""
        if not self._changed:
            return
        key = self._key(self.settings.sort, 0)
        for provider in self._changed:
            old = self._rows.pop(provider, None)
            new = self._row(provider, old)
            if new is not None:
                self._rows[provider] = new
            if old is not None and new is not None and old.allocatable is new.allocatable:
                self.sums.shift(old, new)
            else:
                for row, sign in ((old, -1), (new, 1)):
                    if row is not None:
                        self.sums.add(row, sign)
            # Most changes leave a row where it is, and sorting 5,000 takes longer than all else.
            if (new is None) != (old is None) or (new is not None and self._keys.get(provider) != key(new)):
                self._order = None
        self._changed.clear()

    def find(self, name: str) -> Row | None:
        """The row of the node or claim of that name."""
        self.refresh()
        provider = self._names.get(name)
        if provider is None and name in self.claims:
            provider = self.claims[name].status.provider_id
        return self._rows.get(provider or "")

    def notes(self, subjects: Iterable[tuple[str, str]]) -> tuple[Note, ...]:
        """What was said of any of these (kind, key), in the order of time."""
        found = [note for kind, key in subjects for note in self._notes.get(f"{kind}/{key}", ())]
        return tuple(sorted(found, key=lambda note: note.at))

    @property
    def budgets(self) -> Budgets:
        """The PodDisruptionBudgets."""
        if self._read_budgets is None:
            self._read_budgets = Budgets(tuple(self._budgets.values()))
        return self._read_budgets

    def view(self, row: Row) -> NodeView | None:
        """The row as a candidate for disruption; None for a node that has no claim."""
        if row.claim is None:
            return None
        going = row.claim.deleting or (row.node is not None and row.node.deleting)
        pool = self.pools.get(row.claim.metadata.labels.get(labels.NODEPOOL, ""))
        return NodeView(row.claim, row.node, pool, row.pods, going=going, price=row.price)

    def check(self) -> None:
        """Assert the invariants; for tests."""
        self.refresh()
        fresh = Sums()
        for row in self._rows.values():
            fresh.add(row, 1)
        assert (fresh.nodes, fresh.price, fresh.unpriced) == (
            *(self.sums.nodes, self.sums.price, self.sums.unpriced),
        )
        for mine, anew in ((self.sums.used, fresh.used), (self.sums.allocatable, fresh.allocatable)):
            assert {name: amount for name, amount in mine.items() if amount.nanos} == {
                name: amount for name, amount in anew.items() if amount.nanos
            }
        for row in self._rows.values():
            counted: Counter[str] = Counter()
            for pod in row.pods:
                counted.update({name: amount.nanos for name, amount in _asked(pod)})
            assert {name: amount.nanos for name, amount in row.used.items() if amount.nanos} == +counted
        assert self.bound == sum(len(pods) for pods in self._on.values())
        assert self.unbound == {key: pod for key, pod in self.pods.items() if not pod.spec.node_name}
        assert sum(self.phases.values()) == len(self.pods)

    def _row(self, provider: str, old: Row | None = None) -> Row | None:
        """As it is now; `old` is as it was, of which all holds still that follows from node and claim."""
        node, claim = self._nodes.get(provider), self._of_provider.get(provider)
        subject: Node | NodeClaim | None = node or claim
        if subject is None:
            return None
        stamped = subject.metadata.labels
        if self.settings.selector is not None and not self.settings.selector.matches(stamped):
            return None
        name = node.metadata.name if node is not None else _named(claim)
        here = self._on.get(name, {})
        pods, used = tuple(here.values()), dict(self._used.get(name, {}))
        price = self._price_of(provider, stamped)
        if old is not None and old.node is node and old.claim is claim:
            kind = old.type if _COMPUTE not in stamped else _type(stamped, pods)
            return Row(
                name,
                node,
                claim,
                pods,
                used,
                old.allocatable,
                price,
                kind,
                old.kind,
                old.state,
                old.ready,
                old.since,
            )
        ready = condition(subject.status.conditions, "Ready")
        up = node is not None and ready is not None and ready.status == "True"
        changed = ready.last_transition_time if node is not None and ready is not None and not up else ""
        return Row(
            name=name,
            node=node,
            claim=claim,
            pods=pods,
            used=used,
            allocatable=subject.status.allocatable,
            price=price,
            type=_type(stamped, pods),
            kind=_kind(stamped),
            state=_state(subject),
            ready=up,
            since=parse_rfc3339(changed) if changed else _created(claim or subject),
        )

    def _price_of(self, provider: str, stamped: Mapping[str, str]) -> int | None:
        try:
            return round(float(stamped[PRICE_LABEL]) * NANO_DOLLARS)
        except (KeyError, ValueError, OverflowError):
            known = self._costs.get(provider)
            return self._price(stamped) if known is None else known

    def _key(self, sort: Sort, now: int) -> Callable[[Row], Any]:
        resource = self.settings.resources[0]
        keys: dict[str, Callable[[Row], Any]] = {
            CREATION: lambda row: (-row.created, natural(row.name)),
            NAME: lambda row: natural(row.name),
            PRICE: lambda row: (row.price or 0, natural(row.name)),
            USAGE: lambda row: (row.share(resource), natural(row.name)),
            POD_COUNT: lambda row: (len(row.pods), natural(row.name)),
        }
        return keys.get(sort.key, lambda row: _label_key(row, sort.key, now))


def _asked(pod: Pod) -> tuple[tuple[str, Quantity], ...]:
    return (*pod_quantities(pod).items(), (PODS, _ONE))


def _label_key(row: Row, key: str, now: int) -> tuple[Key, Key]:
    return natural(row.label(key, now)), natural(row.instance)


def _put(table: dict[str, T], obj: T, gone: bool) -> T | None:
    """Store the object, or take it away; what was there before."""
    old = table.pop(obj.key, None)
    if not gone:
        table[obj.key] = obj
    return old


def _provider(subject: Node | NodeClaim | None) -> str:
    if isinstance(subject, Node):
        return subject.spec.provider_id
    return subject.status.provider_id if subject is not None else ""


def _named(claim: NodeClaim | None) -> str:
    return (claim.status.node_name or _provider(claim).rpartition("/")[2]) if claim is not None else ""


def _created(subject: Object) -> int:
    text = subject.metadata.creation_timestamp
    return parse_rfc3339(text) if text else 0


def _kind(stamped: Mapping[str, str]) -> str:
    compute = stamped.get(_COMPUTE, "")
    if compute == "fargate":
        return "Fargate"
    capacity = labels.capacity_type(stamped)
    return _KINDS.get(capacity, ABSENT) + ("/Auto" if compute == "auto" else "")


def _type(stamped: Mapping[str, str], pods: Collection[Pod]) -> str:
    """Fargate has no types: what its one pod was given stands for it."""
    if stamped.get(_COMPUTE) != "fargate":
        return stamped.get(labels.INSTANCE_TYPE, "")
    given = (pod.metadata.annotations.get(_PROVISIONED, "") for pod in pods)
    return next((text.replace(" ", "-") for text in given if text), "Fargate")


def _state(subject: Node | NodeClaim) -> str:
    found = []
    if isinstance(subject, Node):
        taints = subject.spec.taints
        if subject.spec.unschedulable or any(
            taint.key in _CORDONING and taint.effect == "NoSchedule" for taint in taints
        ):
            found.append("Cordoned")
    if subject.deleting:
        found.append("Deleting")
    return "/".join(found) or ABSENT
