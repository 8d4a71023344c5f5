"""Claims for devices as a plan's search sees them: amounts of made-up resources, and labels.

The search knows resources and requirements alone. What pods of one kind of claims ask for becomes a row: how
many such pods the devices of a type serve. What the search answers is checked by the allocator itself; where
that refuses a node, pods of those claims are put on nodes of their own, and what is refused even so is left
over.

A bound has to hold whatever devices are chosen. The rows of claims with one request, for whole or shared
devices, count what any choice serves at most: each device that matches is as good as another. Where choices
differ (partitions, several requests, constraints, alternatives, all devices), and where pods were put on
nodes of their own, the bound is asked for anew, of rows that say no more than that each pod takes so many
devices of those that there are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count

import msgspec

from dovetail.api.codec import written
from dovetail.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    ResourceRequirements,
    SelectorRequirement,
)
from dovetail.api.devices import DeviceRequest, ResourceClaim
from dovetail.devices.allocator import (
    Allocation,
    AllocationError,
    Ledger,
    Target,
    World,
    claim_target,
    node_target,
    pinned,
)
from dovetail.model.devices import ClusterDevices, claim_keys, claims_devices
from dovetail.model.offering import InstanceType
from dovetail.model.plan import Cost, Plan, Unschedulable
from dovetail.model.problem import Ask, ExistingNode, Problem, Questions
from dovetail.units.quantity import Quantity

ROW = "devices.dovetail.sh/"  # prefix of the resources that stand for claims; no plan shows them
# Pods of one kind of claims on one node that are counted; more are never held apart by their number alone.
MOST_COUNTED = 64
_PLENTY = 1 << 40
_SHOWN_ROW = re.compile(rf'"{re.escape(ROW)}[^"]*":"[^"]*",?')  # in a reason
_ALONE = f"{ROW}alone"
_AT = f"{ROW}at/"  # and the name of a node where devices are allocated already
_TAKEN = f"{ROW}taken"  # devices, of whatever kind: pods of different claims share those of a node
_ROUNDS = 4  # plans until the allocator agrees with all nodes of one; then kinds of claims are left out

_IN_VAIN = "no plan was found in which it gets its devices"
SHARED = "its claim {claim} is shared with pod {pod}, which is not planned for yet"
APART = "devices of its claims are allocated on nodes {other} and {node}"
PINNED = "devices of its claims are allocated on node {node}, which has no place for it"
MISSING = 'resourceclaim "{claim}" not found'


@dataclass(frozen=True, slots=True)
class Sort:
    """Pods whose claims ask for the same."""

    row: str
    claims: tuple[ResourceClaim, ...]  # of the first of them
    placed: tuple[SelectorRequirement, ...]  # where devices can be used that are allocated already
    node: str = ""  # the only one where they can

    @property
    def least(self) -> int:
        """Devices that each pod takes at least."""
        return sum(_least(one) for claim in self.claims for one in claim.spec.devices.requests)


@dataclass
class Demand:
    """A problem with claims, on its way to one without."""

    problem: Problem
    devices: ClusterDevices
    sorts: dict[bytes, Sort] = field(default_factory=dict)
    by_pod: dict[str, Sort] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)  # pod -> why
    loose: set[str] = field(default_factory=set)  # rows that may count fewer pods than a better choice serves
    # By row: claims of as many such pods as were counted so far.
    _copies: dict[str, list[tuple[ResourceClaim, ...]]] = field(default_factory=dict)
    _nodes: dict[str, ExistingNode] = field(default_factory=dict)  # by name, as the search sees it
    # By identity: each type with what the search sees of it.
    _types: dict[int, tuple[InstanceType, InstanceType]] = field(default_factory=dict)

    @cached_property
    def ledger(self) -> Ledger:
        """What pods with a place hold, and no more; others are made `fresh` from it."""
        kinds = {kind.name: kind.devices for pool in self.problem.pools for kind in pool.instance_types}
        found = Ledger(World.of(self.devices, kinds, self.problem.options.well_known))
        for node in self.problem.nodes:
            found.settle(node, self.devices.claims)
        return found

    def read(self) -> None:
        """Sort the pods by what they claim; pods that cannot be planned are refused, with the reason."""
        users: dict[str, str] = {}
        for pod in self.problem.pods:
            if not claims_devices(pod):
                continue
            reason = self._read(pod, users)
            if reason:
                self.refused[pod.key] = reason

    def _read(self, pod: Pod, users: dict[str, str]) -> str:
        claims: list[ResourceClaim] = []
        placed: list[SelectorRequirement] = []
        node = ""
        for key in claim_keys(pod):
            claim = self.devices.claims.get(key)
            if claim is None:
                return MISSING.format(claim=key)
            allocation = claim.status.allocation
            if allocation is None:
                other = users.setdefault(key, pod.key)
                if other != pod.key:
                    return SHARED.format(claim=key, pod=other)
                claims.append(claim)
            elif here := pinned(claim):
                if node not in ("", here):
                    return APART.format(node=here, other=node)
                node = here
            elif allocation.node_selector is not None:
                for term in allocation.node_selector.node_selector_terms:
                    placed += term.match_expressions
        content = written([claim.spec for claim in claims]) + written(placed) + node.encode()
        sort = self.sorts.get(content)
        if sort is None:
            row = f"{ROW}{len(self.sorts)}" if claims else ""
            sort = self.sorts[content] = Sort(row, tuple(claims), tuple(placed), node)
        self.by_pod[pod.key] = sort
        return ""

    def encoded(self, alone: Collection[str]) -> Problem:
        """The problem without claims; pods of the rows in `alone` share no node with others that claim."""
        return self._encoded(self.problem.pods, alone, self._type, self._node)

    def bounding(self, pods: Collection[str]) -> Problem:
        """The question what these pods must cost, with rows that count no fewer than any choice serves."""

        def loosened(amounts: Mapping[str, int], devices: int) -> dict[str, int]:
            most = {sort.row: devices // max(1, sort.least) for sort in self.sorts.values()}
            return {
                name: max(amount, most[name]) if name in self.loose else amount
                for name, amount in amounts.items()
            }

        def kind(one: InstanceType) -> InstanceType:
            seen = self._type(one)
            if seen is one:
                return seen
            return replace(seen, capacity=loosened(seen.capacity, self._devices_of(one)))

        def node(one: ExistingNode) -> ExistingNode:
            seen = self._node(one)
            return seen if seen is one else replace(seen, allocatable=loosened(seen.allocatable, _PLENTY))

        asked = tuple(pod for pod in self.problem.pods if pod.key in pods)
        return self._encoded(asked, (), kind, node)

    def _encoded(
        self,
        asked: Iterable[Pod],
        alone: Collection[str],
        kind: Callable[[InstanceType], InstanceType],
        node: Callable[[ExistingNode], ExistingNode],
    ) -> Problem:
        specs: dict[tuple[int, int], PodSpec] = {}
        pods = []
        for pod in asked:
            if pod.key in self.refused:
                continue
            sort = self.by_pod.get(pod.key)
            if sort is not None:
                memo = id(pod.spec), id(sort)
                if memo not in specs:
                    specs[memo] = _rewritten(pod.spec, sort, sort.row in alone)
                pod = msgspec.structs.replace(pod, spec=specs[memo])
            pods.append(pod)
        pools = tuple(
            replace(pool, instance_types=tuple(map(kind, pool.instance_types))) for pool in self.problem.pools
        )
        return replace(
            self.problem,
            pods=tuple(pods),
            pools=pools,
            nodes=tuple(map(node, self.problem.nodes)),
            devices=None,
        )

    def _type(self, kind: InstanceType) -> InstanceType:
        known = self._types.get(id(kind))
        if known is None:
            target = Target("", (kind.name,), kind.requirements)
            rows = self._rows(target, self._devices_of(kind)) if self._has_any(kind) else {}
            known = kind, (replace(kind, capacity={**kind.capacity, **rows}) if rows else kind)
            self._types[id(kind)] = known
        return known[1]

    def _has_any(self, kind: InstanceType) -> bool:
        """False only where no claim for a device can be met."""
        return bool(kind.devices.slices or self.devices.slices) or self._asks_for_nothing

    def _node(self, node: ExistingNode) -> ExistingNode:
        known = self._nodes.get(node.name)
        if known is None:
            rows = self._rows(node_target(node), _PLENTY)
            if node.name in self._pins:
                rows[_AT + node.name] = _PLENTY
            known = self._nodes[node.name] = _with_rows(node, rows) if rows else node
        return known

    @cached_property
    def _pins(self) -> frozenset[str]:
        """Nodes where devices are that pods have to come to."""
        return frozenset(sort.node for sort in self.sorts.values() if sort.node)

    def _devices_of(self, kind: InstanceType) -> int:
        """How many devices a node of the type has for claims; plenty where some are shared, or elsewhere."""
        if self.devices.slices:
            return _PLENTY
        matching = self.ledger.promised(kind.name, self._claims)
        return _PLENTY if any(one.device.allow_multiple_allocations for one in matching) else len(matching)

    @cached_property
    def _claims(self) -> tuple[ResourceClaim, ...]:
        return tuple(claim for sort in self.sorts.values() for claim in sort.claims)

    def _rows(self, target: Target, devices: int) -> dict[str, int]:
        """How many pods of each sort the devices there serve, if no others are there."""
        rows = {}
        for sort in self.sorts.values():
            if sort.row and (served := self._served(target, sort)):
                rows[sort.row] = served if served < MOST_COUNTED else _PLENTY
        return {**rows, _ALONE: _PLENTY, _TAKEN: devices} if rows else {}

    def _served(self, target: Target, sort: Sort) -> int:
        ledger = self.ledger.fresh()
        copies = self._copies.setdefault(sort.row, [])
        for number in range(MOST_COUNTED):
            if number == len(copies):
                copies.append(_numbered(sort.claims, number))
            try:
                found = ledger.allocate(target, copies[number])
            except AllocationError:
                return number
            ledger.commit(found)
            if not number and _choices_differ(sort.claims, found):
                self.loose.add(sort.row)
        return MOST_COUNTED

    def checked(self, plan: Plan) -> tuple[Plan, dict[str, str]]:
        """The plan with the drivers of devices that are claimed, and pods that get no devices there."""
        ledger = self.ledger.fresh()
        failed: dict[str, str] = {}
        nodes = {node.name: node for node in self.problem.nodes}
        for name, pods in sorted(plan.existing.items()):
            self._fill(ledger, node_target(nodes[name]), pods, failed)
        claims = []
        for claim in plan.claims:
            drivers = self._fill(ledger, claim_target(claim), claim.pods, failed)
            requests = {name: amount for name, amount in claim.requests.items() if not name.startswith(ROW)}
            claims.append(replace(claim, requests=requests, drivers=drivers))
        return replace(plan, claims=tuple(claims)), failed

    def _fill(
        self, ledger: Ledger, target: Target, pods: Iterable[str], failed: dict[str, str]
    ) -> tuple[str, ...]:
        drivers: set[str] = set()
        for pod in pods:
            sort = self.by_pod.get(pod)
            if sort is None or not sort.row:
                continue
            claims = [self.devices.claims[key] for key in self._keys[pod]]
            try:
                found = ledger.allocate(target, claims)
            except AllocationError as error:
                failed[pod] = _told(error)
                continue
            if found.types != target.types or found.requirements:
                failed[pod] = "its devices would be found on some of the node's types only, or elsewhere"
                continue
            ledger.commit(found)
            drivers.update(found.drivers)
        return tuple(sorted(drivers))

    @cached_property
    def _asks_for_nothing(self) -> bool:
        """True iff claims may be met without a device: they ask for no device, or for a number of none."""
        return any(self._served(Target("", ("",)), sort) for sort in self.sorts.values() if sort.row)

    @cached_property
    def _keys(self) -> dict[str, tuple[str, ...]]:
        return {pod.key: claim_keys(pod) for pod in self.problem.pods if pod.key in self.by_pod}

    def nearest(self, pod: str) -> str:
        """Why no type serves the pod's claims; "" where one does."""
        sort = self.by_pod.get(pod)
        if sort is None or not sort.row:
            return ""
        names = tuple(self.ledger.world.templates)
        try:
            self.ledger.fresh().allocate(Target("", names), sort.claims)
        except AllocationError as error:
            return _told(error)
        return ""


def _with_rows(node: ExistingNode, rows: Mapping[str, int]) -> ExistingNode:
    return replace(node, allocatable={**node.allocatable, **rows}, capacity={**node.capacity, **rows})


def _numbered(claims: Iterable[ResourceClaim], number: int) -> tuple[ResourceClaim, ...]:
    """The claims of another such pod."""

    def other(claim: ResourceClaim) -> ResourceClaim:
        name = f"{claim.metadata.name}-{number}"
        return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, name=name))

    return tuple(map(other, claims))


def _least(request: DeviceRequest) -> int:
    forms = (request.exactly,) if request.exactly is not None else request.first_available
    return min((1 if one.count is None else one.count for one in forms), default=0)


def _choices_differ(claims: Collection[ResourceClaim], found: Allocation) -> bool:
    """False only where other such pods are served alike, whichever of the devices that match is taken."""
    if len(claims) != 1:
        return True
    (claim,) = claims
    spec = claim.spec.devices
    if len(spec.requests) != 1 or spec.constraints:
        return True
    exactly = spec.requests[0].exactly
    if exactly is None or exactly.allocation_mode == "All":
        return True
    given = (one for by_type in found.given.values() for devices in by_type.values() for one in devices)
    return any(one.candidate.counters for one in given)


def _told(error: AllocationError) -> str:
    """Karpenter's words, and how near the nearest type came."""
    near = max(
        error.misses, key=lambda one: (one.found, sum(times for _, times in one.reasons)), default=None
    )
    text = f"allocating dynamic resources, {error}"
    return text if near is None else f"{text}; nearest: {near}"


def _rewritten(spec: PodSpec, sort: Sort, alone: bool) -> PodSpec:
    """The pod as the search sees it: rows instead of claims, and where allocated devices are as a demand."""
    rows = {}
    if sort.row:
        amounts = {sort.row: 1, _ALONE: _PLENTY if alone else 1, _TAKEN: sort.least}
        rows = {name: Quantity(amount * 10**9) for name, amount in amounts.items() if amount}
    if sort.node:
        rows[_AT + sort.node] = Quantity(10**9)
    containers = []
    for at, one in enumerate(spec.containers):
        requests = {**one.resources.requests, **(rows if at == 0 else {})}
        resources = ResourceRequirements(requests=requests, limits=one.resources.limits)
        containers.append(msgspec.structs.replace(one, resources=resources))
    inits = tuple(
        msgspec.structs.replace(one, resources=msgspec.structs.replace(one.resources, claims=()))
        for one in spec.init_containers
    )
    affinity = _placed(spec.affinity, sort.placed) if sort.placed else spec.affinity
    return msgspec.structs.replace(
        spec, containers=tuple(containers), init_containers=inits, resource_claims=(), affinity=affinity
    )


def _placed(affinity: Affinity | None, placed: tuple[SelectorRequirement, ...]) -> Affinity:
    affinity = affinity or Affinity()
    near = affinity.node_affinity or NodeAffinity()
    terms = near.required.node_selector_terms if near.required is not None else (NodeSelectorTerm(),)
    joined = tuple(
        msgspec.structs.replace(term, match_expressions=(*term.match_expressions, *placed)) for term in terms
    )
    required = NodeSelector(node_selector_terms=joined)
    return msgspec.structs.replace(affinity, node_affinity=msgspec.structs.replace(near, required=required))


def in_rows(problem: Problem) -> Problem:
    """The problem as what knows resources alone sees it: rows instead of claims. Pods whose claims cannot be
    met as they are written are not in it.
    """
    if problem.devices is None or not problem.claims_devices:
        return problem
    demand = Demand(problem, problem.devices)
    demand.read()
    return demand.encoded(())


def solved_with_devices(problem: Problem, work: int, ask: Ask) -> Plan:
    """The plan of a problem whose pods claim devices, by a search that knows nothing of them.

    Asks for one plan where the allocator agrees with it, for more until it does, and for a bound where
    theirs does not hold.
    """
    assert problem.devices is not None
    demand = Demand(problem, problem.devices)
    demand.read()
    if not problem.places:
        demand.encoded(())  # which tells the rows that are loose
        return ask(replace(demand.bounding({pod.key for pod in problem.pods}), places=False), work)
    questions = Questions(work, ask)
    alone: set[str] = set()
    for number in count():
        plan, failed = demand.checked(questions.plan(demand.encoded(alone)))
        if not failed:
            break
        lonely = {demand.by_pod[pod].row for pod in failed}
        if number >= _ROUNDS:  # each round has fewer claims then
            of_them = (pod for pod, sort in demand.by_pod.items() if sort.row in lonely)
            failed = {pod: failed.get(pod, _IN_VAIN) for pod in of_them}
        if lonely <= alone or number >= _ROUNDS - 2:
            demand.refused |= failed
        alone |= lonely
    if plan.claims and (alone or demand.loose):
        placed = {pod for claim in plan.claims for pod in claim.pods}
        placed.update(pod for pods in plan.existing.values() for pod in pods)
        asked = demand.bounding(placed)
        bound = questions.plan(asked)
        if bound.unschedulable:  # then it is one for fewer pods
            bound = questions.plan(replace(asked, places=False))
        plan = replace(plan, cost=Cost(plan.cost.hourly, bound.cost.lower_bound), proof=bound.proof)
    left = [_with_reason(one, demand) for one in plan.unschedulable]
    left += [Unschedulable(pod, reason) for pod, reason in demand.refused.items()]
    return replace(plan, unschedulable=tuple(sorted(left, key=lambda one: one.pod)), work=questions.used)


def _with_reason(item: Unschedulable, demand: Demand) -> Unschedulable:
    """The reason in words of devices; without the rows, which only the search knows."""
    near = demand.nearest(item.pod)
    sort = demand.by_pod.get(item.pod)
    if sort is not None and sort.node:
        near = near or PINNED.format(node=sort.node)
    if near:
        return Unschedulable(item.pod, near)
    pools = {name: _SHOWN_ROW.sub("", text) for name, text in item.pools.items()}
    return Unschedulable(item.pod, _SHOWN_ROW.sub("", item.reason), pools)
