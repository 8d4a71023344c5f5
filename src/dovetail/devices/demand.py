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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    ResourceRequirements,
    SelectorRequirement,
)
from dovetail.api.devices import DeviceRequest, ResourceClaim
from dovetail.api.meta import LabelSelector
from dovetail.base.words import number_of
from dovetail.devices.allocator import (
    Allocation,
    AllocationError,
    Ledger,
    Target,
    World,
    claim_target,
    node_target,
)
from dovetail.model.devices import ClusterDevices, claim_keys, claims_devices
from dovetail.model.labels import HOSTNAME
from dovetail.model.offering import InstanceType
from dovetail.model.plan import Cost, Plan, Unschedulable
from dovetail.model.problem import Ask, ExistingNode, Problem, Questions
from dovetail.units.quantity import Quantity

ROW = "devices.dovetail.sh/"  # prefix of the resources that stand for claims; no plan shows them
# Pods of one kind of claims on one node that are counted; more are never held apart by their number alone.
MOST_COUNTED = 64
# Devices that are looked at for the rows of one kind of claims on all types and nodes: 0.2 s. Ordinary ones
# take up to 600 on 28 of EC2's types. Types that come later count as if they served none.
MOST_LOOKS_OF_KIND = 40_000
_PLENTY = 1 << 40
_SHOWN_ROW = re.compile(rf'"{re.escape(ROW)}[^"]*":"[^"]*",?')  # in a reason
_ALONE = f"{ROW}alone"
_AT = f"{ROW}at/"  # and the name of a node where devices are allocated already
_TAKEN = f"{ROW}taken"  # devices, of whatever kind: pods of different claims share those of a node
_ROUNDS = 4  # plans until the allocator agrees with all nodes of one; then kinds of claims are left out

_IN_VAIN = "no plan was found in which it gets its devices"
_WITH = f"{ROW}with"  # label of pods that share claims for devices of one node
SHARED = "it shares claims for devices with {others}, all of which have to be on one node"
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
    lead: str = ""  # the row of the first pod that it shares claims with, which asks for the devices of all

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
    # Pods that share claims which are still to be allocated, by key: the first pod of theirs, and how many.
    bundles: dict[str, tuple[str, int]] = field(default_factory=dict)
    loose: set[str] = field(default_factory=set)  # rows that may count fewer pods than a better choice serves
    # By row: claims of as many such pods as were counted so far.
    _copies: dict[str, list[tuple[ResourceClaim, ...]]] = field(default_factory=dict)
    _looks: dict[str, int] = field(default_factory=dict)  # by row: what was looked at for it
    _nodes: dict[str, ExistingNode] = field(default_factory=dict)  # by name, as the search sees it
    # By identity: each type with what the search sees of it.
    _types: dict[int, tuple[InstanceType, InstanceType]] = field(default_factory=dict)

    @cached_property
    def ledger(self) -> Ledger:
        """What pods with a place hold, and no more; others are made `fresh` from it.

        A pod that is asked for and is still on a node, as those are that consolidation would move, holds
        nothing there: it would have no other place then.
        """
        asked = {pod.key for pod in self.problem.pods if claims_devices(pod)}
        kinds = {kind.name: kind.devices for pool in self.problem.pools for kind in pool.instance_types}
        found = Ledger(World.of(self.devices, kinds, self.problem.options.well_known))
        for node in self.problem.nodes:
            found.settle(node, self.devices.claims, asked)
        return found

    def read(self) -> None:
        """Sort the pods by what they claim; pods that cannot be planned are refused, with the reason."""
        found = {pod.key: pod for pod in self.problem.pods if claims_devices(pod)}
        fresh: dict[str, list[str]] = {}  # by pod: claims that are still to be allocated
        fixed: dict[str, tuple[tuple[SelectorRequirement, ...], str]] = {}
        for key, pod in found.items():
            if reason := self._read(pod, fresh, fixed):
                self.refused[key] = reason
        for pods in _sharing(fresh):
            self._sorted(pods, fresh, fixed)

    def _read(
        self,
        pod: Pod,
        fresh: dict[str, list[str]],
        fixed: dict[str, tuple[tuple[SelectorRequirement, ...], str]],
    ) -> str:
        """Which claims it needs devices for, and where those are that it has some for; or why it waits."""
        mine: list[str] = []
        placed: list[SelectorRequirement] = []
        node = ""
        for key in claim_keys(pod):
            claim = self.devices.claims.get(key)
            if claim is None:
                return MISSING.format(claim=key)
            allocation = claim.status.allocation
            if here := self.ledger.node_of(claim):
                if node not in ("", here):
                    return APART.format(node=here, other=node)
                node = here
            elif allocation is None:
                mine.append(key)
            elif allocation.node_selector is not None:
                for term in allocation.node_selector.node_selector_terms:
                    placed += term.match_expressions
        fresh[pod.key], fixed[pod.key] = mine, (tuple(placed), node)
        return ""

    def _sorted(
        self,
        pods: list[str],
        fresh: Mapping[str, list[str]],
        fixed: Mapping[str, tuple[tuple[SelectorRequirement, ...], str]],
    ) -> None:
        """Pods that share claims: the first asks for all devices, the others for a place on the same node.

        Where devices can be used from any node, no more than the first has to have some.
        """
        claims = [
            self.devices.claims[key] for key in dict.fromkeys(key for pod in pods for key in fresh[pod])
        ]
        first = self.by_pod[pods[0]] = self._sort(claims, *fixed[pods[0]])
        if len(pods) > 1 and not self._anywhere(claims):
            self.bundles.update(dict.fromkeys(pods, (pods[0], len(pods))))
        for pod in pods[1:]:
            self.by_pod[pod] = self._sort([], *fixed[pod], first.row)

    def _sort(
        self,
        claims: Collection[ResourceClaim],
        placed: tuple[SelectorRequirement, ...],
        node: str,
        lead: str = "",
    ) -> Sort:
        content = written([claim.spec for claim in claims]) + written(placed) + f"{node}/{lead}".encode()
        sort = self.sorts.get(content)
        if sort is None:
            row = f"{ROW}{len(self.sorts)}" if claims else ""
            sort = self.sorts[content] = Sort(row, tuple(claims), placed, node, lead)
        return sort

    def _anywhere(self, claims: Collection[ResourceClaim]) -> bool:
        """True iff devices that every node can use are enough for the claims."""
        try:
            self.ledger.fresh().allocate(Target("", ("",)), claims)
        except AllocationError:
            return False
        return True

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
        specs: dict[tuple[int, int, str], PodSpec] = {}
        pods = []
        for pod in asked:
            if pod.key in self.refused:
                continue
            sort = self.by_pod.get(pod.key)
            if sort is not None:
                bundle, _ = self.bundles.get(pod.key, ("", 0))
                if bundle in self.refused:
                    continue
                memo = id(pod.spec), id(sort), bundle
                if memo not in specs:
                    specs[memo] = _rewritten(pod.spec, sort, sort.row in alone, bundle)
                pod = msgspec.structs.replace(pod, spec=specs[memo])
                if bundle:
                    marks = {**pod.metadata.labels, _WITH: bundle}
                    meta = msgspec.structs.replace(pod.metadata, labels=marks)
                    pod = msgspec.structs.replace(pod, metadata=meta)
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
        before = self.ledger.looked
        if self._looks.get(sort.row, 0) >= MOST_LOOKS_OF_KIND:
            return 0
        served = self._tried(target, sort)
        self._looks[sort.row] = self._looks.get(sort.row, 0) + self.ledger.looked - before
        return served

    def _tried(self, target: Target, sort: Sort) -> int:
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
            if sort is None or not (sort.row or sort.lead):
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

    def refuse(self, failed: Mapping[str, str]) -> None:
        """None of these is planned for again, nor any that shares claims with one."""
        self.refused |= failed
        lost = {self.bundles[pod][0]: why for pod, why in failed.items() if pod in self.bundles}
        for pod, (first, _) in self.bundles.items():
            if first in lost:
                self.refused.setdefault(pod, lost[first])

    def with_mates(self, pod: str, reason: str) -> str:
        """The reason why it waits, after which others it shares claims with."""
        if pod not in self.bundles:
            return reason
        others = number_of(self.bundles[pod][1] - 1, "other pod")
        return "; ".join(filter(None, (SHARED.format(others=others), reason)))

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


def _rewritten(spec: PodSpec, sort: Sort, alone: bool, bundle: str) -> PodSpec:
    """The pod as the search sees it: rows instead of claims, and where allocated devices are as a demand; it
    is near the others that it shares claims with.
    """
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
    if bundle:
        affinity = _near(affinity, bundle)
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


def _near(affinity: Affinity | None, bundle: str) -> Affinity:
    affinity = affinity or Affinity()
    others = affinity.pod_affinity or PodAffinity()
    term = PodAffinityTerm(topology_key=HOSTNAME, label_selector=LabelSelector(match_labels={_WITH: bundle}))
    near = msgspec.structs.replace(others, required=(*others.required, term))
    return msgspec.structs.replace(affinity, pod_affinity=near)


def _sharing(claims: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Pods with claims in common, directly or by way of others; each with its own is alone."""
    users: dict[str, list[str]] = {}
    for pod, keys in claims.items():
        for key in keys:
            users.setdefault(key, []).append(pod)
    seen: set[str] = set()
    for start in claims:
        if start in seen:
            continue
        seen.add(start)
        found = [start]
        for pod in found:  # which grows
            for key in claims[pod]:
                for other in users.pop(key, ()):
                    if other not in seen:
                        seen.add(other)
                        found.append(other)
        yield found


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
        lonely = {demand.by_pod[pod].row or demand.by_pod[pod].lead for pod in failed}
        if number >= _ROUNDS:  # each round has fewer claims then
            of_them = (pod for pod, sort in demand.by_pod.items() if (sort.row or sort.lead) in lonely)
            failed = {pod: failed.get(pod, _IN_VAIN) for pod in of_them}
        if lonely <= alone or number >= _ROUNDS - 2:
            demand.refuse(failed)
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
    left += [Unschedulable(pod, demand.with_mates(pod, reason)) for pod, reason in demand.refused.items()]
    return replace(plan, unschedulable=tuple(sorted(left, key=lambda one: one.pod)), work=questions.used)


def _with_reason(item: Unschedulable, demand: Demand) -> Unschedulable:
    """The reason in words of devices; without the rows, which only the search knows."""
    near = demand.nearest(item.pod)
    sort = demand.by_pod.get(item.pod)
    if sort is not None and sort.node:
        near = near or PINNED.format(node=sort.node)
    if item.pod in demand.bundles:
        near = demand.with_mates(item.pod, near or demand.nearest(demand.bundles[item.pod][0]))
    if near:
        return Unschedulable(item.pod, near)
    pools = {name: _SHOWN_ROW.sub("", text) for name, text in item.pools.items()}
    return Unschedulable(item.pod, _SHOWN_ROW.sub("", item.reason), pools)
