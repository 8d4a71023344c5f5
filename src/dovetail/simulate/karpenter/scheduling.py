"""First fit decreasing: nodes that exist, nodes about to be bought with the fewest pods first, then pools."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress

from dovetail.model import labels
from dovetail.model.offering import Offering
from dovetail.model.plan import MOST_TYPES, Cost, Plan, PlannedClaim, Unschedulable
from dovetail.model.problem import Problem
from dovetail.model.requirement import Requirement, Requirements
from dovetail.model.resources import Resources, subtract
from dovetail.model.taints import PREFER_NO_SCHEDULE
from dovetail.simulate.karpenter.nodes import (
    FEW_VALUES,
    Ints,
    OpenNode,
    Reservations,
    Reserved,
    StandingNode,
    Template,
    offered,
    vector,
)
from dovetail.simulate.karpenter.pods import PodData, pod_data, relaxed
from dovetail.simulate.karpenter.topology import Topology

NODES = "nodes"
# Labels that every node gets once it is up, which no claim may ask for.
_ITS_OWN = frozenset({labels.REGISTERED, labels.INITIALIZED})
_NO_POOL = "no nodepools with instance types found"


# What the original takes, in millionths of a second, as measured on an ordinary machine: 0.08 s for 100 pods,
# 1.0 s for 1,000 (200 nodes), 2.0 s for 2,000, 15 to 27 s for 10,000.
_PER_POD = 700
_PER_NODE_TRIED = 1


def schedule(problem: Problem) -> Plan:
    """Where the original would put the pods; the plan's work is the time that it would take for it."""
    return _Schedule(problem).run()


class _Schedule:
    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._options = problem.options
        pods = problem.pods
        data = [pod_data(pod, problem.volumes, respect=self._options.respect_preferences) for pod in pods]
        self._original = {item.key: item for item in data}
        named = {name for item in data for name, amount in item.requests.items() if amount > 0}
        self._names: Sequence[str] = sorted(named)
        made = (Template(pool, problem, self._names) for pool in problem.pools)
        self._templates = [item for item in made if len(item.all)]
        self._soft = any(
            taint.effect == PREFER_NO_SCHEDULE for item in self._templates for taint in item.pool.taints
        )
        self._left: dict[str, Resources | None] = {
            item.pool.name: _known_left(item.pool.limits, item.pool.usage) for item in self._templates
        }
        self._topology = Topology(problem)
        for item in data:
            self._topology.update(item)
        by_name = sorted(problem.nodes, key=lambda node: (not node.initialized, node.name))
        self._standing = [StandingNode(node, problem) for node in by_name]
        self._open: list[OpenNode] = []
        self._reservations = Reservations(problem.pools)
        self._count = 0
        self._tried = 0

    def run(self) -> Plan:
        """Pods from the largest to the smallest, those that failed once more, until nothing gets better."""
        queue = deque(sorted(self._original.values(), key=lambda item: item.order))
        last: dict[str, int] = {}
        errors: dict[str, str] = {}
        while queue and last.get(queue[0].key) != len(queue):
            item = queue.popleft()
            error = self._scheduled(item)
            if error:
                errors[item.key] = error
                self._topology.update(item)
                queue.append(item)
                last[item.key] = len(queue)
            else:
                errors.pop(item.key, None)
        return self._written(errors)

    def _scheduled(self, data: PodData) -> str:
        """'' once the pod has a place, with as many preferences as it takes given up; else why not."""
        if data.fault:
            return data.fault
        while True:
            try:
                error = self._placed(data)
            except Reserved as reserved:
                return str(reserved)
            if not error:
                return ""
            weaker = relaxed(data.pod, soft_taints=self._soft)
            if weaker is None:
                return error
            data = pod_data(weaker, self._problem.volumes, respect=self._options.respect_preferences)
            self._topology.update(data)

    def _placed(self, data: PodData) -> str:
        for node in self._standing:
            self._tried += 1
            if node.add(data, self._topology):
                return ""
        wanted = vector(data.requests, self._names)
        self._open.sort(key=lambda item: len(item.pods))
        for claim in self._open:
            self._tried += 1
            with suppress(Reserved):
                if not self._added(claim, data, wanted, strict=True):
                    return ""
        return self._opened(data, wanted)

    def _added(self, claim: OpenNode, data: PodData, wanted: Ints, *, strict: bool) -> str:
        return claim.add(data, wanted, self._topology, self._reservations, strict=strict)

    def _opened(self, data: PodData, wanted: Ints) -> str:
        """A new node of the first pool that can have one for the pod."""
        if not self._templates:
            return _NO_POOL
        errors = []
        for template in self._templates:
            self._tried += 1
            name, left = template.pool.name, self._left[template.pool.name]
            if left is not None and left.get(NODES, 1) <= 0:
                errors.append(f"node limits have been exhausted for nodepool (NodePool={name})")
                continue
            types = template.within(left)
            if not len(types):
                errors.append(f"all available instance types exceed limits for nodepool (NodePool={name})")
                continue
            self._count += 1
            claim = OpenNode(template, f"hostname-placeholder-{self._count:04d}", types)
            self._topology.register_host(claim.name)
            try:
                error = self._added(claim, data, wanted, strict=True)
                if error == FEW_VALUES and not self._options.strict_min_values:
                    error = self._added(claim, data, wanted, strict=False)
            except Reserved:
                self._topology.forget_host(claim.name)
                raise
            if not error:
                self._open.append(claim)
                self._left[name] = _less(left, template, claim)
                return ""
            self._topology.forget_host(claim.name)
            errors.append(f"incompatible with nodepool {name!r}, {error}")
        return "; ".join(errors)

    def _written(self, errors: dict[str, str]) -> Plan:
        counts: dict[str, int] = {}
        claims = []
        for node in sorted(self._open, key=lambda item: item.name):
            pool = node.template.pool.name
            number = counts.get(pool, 0)
            counts[pool] = number + 1
            claims.append(_claim(self._problem, node, f"{pool}-{number}", self._names))
        left = [Unschedulable(key, errors[key]) for key in sorted(errors)]
        hourly = sum(item.price for item in claims)
        existing = {
            node.name: tuple(sorted(item.key for item in node.pods)) for node in self._standing if node.pods
        }
        return Plan(
            claims=tuple(sorted(claims, key=lambda item: item.name)),
            existing=dict(sorted(existing.items())),
            unschedulable=tuple(left),
            cost=Cost(hourly, 0),
            work=_PER_POD * len(self._problem.pods) + _PER_NODE_TRIED * self._tried,
        )


def _known_left(limits: Resources | None, usage: Resources) -> Resources | None:
    """What is left of limits; None without any."""
    if limits is None:
        return None
    return {name: amount - usage.get(name, 0) for name, amount in limits.items()}


def _less(left: Resources | None, template: Template, claim: OpenNode) -> Resources | None:
    """What the node leaves of the limits if it becomes the largest that it may be; nodes are not counted."""
    if left is None:
        return None
    most = {
        name: max((template.types[index].capacity.get(name, 0) for index in claim.types), default=0)
        for name in left
        if name != NODES
    }
    return subtract(left, most)


def _claim(problem: Problem, node: OpenNode, name: str, names: Sequence[str]) -> PlannedClaim:
    """The node as it is asked for: its types with the cheapest first, at most 600."""
    template, pool = node.template, node.template.pool
    requirements = Requirements(
        {key: item for key, item in node.requirements.by_key.items() if key not in _ITS_OWN}
    )
    reserved = {labels.RESERVED} if node.reserved else set()
    if reserved:
        requirements = requirements.add(
            Requirement.new(labels.CAPACITY_TYPE, "In", reserved),
            *(Requirement.new(key, "In", node.reserved) for key in _reservation_keys(template, node)),
        )
    priced = sorted(_priced(node, requirements))[:MOST_TYPES]
    kinds = [template.types[index] for _, _, index in priced]
    offers = [list(offered(kind, requirements)) for kind in kinds]
    best = min(offers[0], key=_by_price)
    sold = sorted({item.capacity_type for each in offers for item in each})
    for key, values in ((labels.INSTANCE_TYPE, [kind.name for kind in kinds]), (labels.CAPACITY_TYPE, sold)):
        least = requirements.get(key).min_values
        listed = Requirement.new(key, "In", sorted(values), least)
        requirements = Requirements({**requirements.by_key, key: listed})
    extra = problem.extra(pool)
    overhead = template.overhead[[index for _, _, index in priced]].min(axis=0)
    requests = dict(zip(names, (node.requests + overhead).tolist(), strict=True))
    custom = requirements.labels(exclude=template.well_known | labels.AWS_WELL_KNOWN | {labels.HOSTNAME})
    return PlannedClaim(
        name=name,
        pool=pool.name,
        pods=tuple(sorted(item.key for item in node.pods)),
        requirements=requirements,
        instance_types=tuple(kind.name for kind in kinds),
        requests={name: amount for name, amount in requests.items() if amount > 0},
        instance_type=kinds[0].name,
        zone=best.zone,
        capacity_type=best.capacity_type,
        price=best.price + extra,
        worst=max(item.price for each in offers for item in each) + extra,
        volumes=pool.volumes,
        surcharge=problem.options.node_surcharge,
        price_estimated=best.estimated,
        labels={**custom, **pool.labels},
        taints=pool.taints,
        min_values_relaxed=node.relaxed_minimums,
    )


def _reservation_keys(template: Template, node: OpenNode) -> set[str]:
    """The label, by the provider's name for it, that distinguishes reservations."""
    return {
        item.key
        for index in node.types.tolist()
        for offering in template.types[index].offerings
        if offering.reservation_id in node.reserved
        for item in offering.requirements
        if item.values == {offering.reservation_id}
    }


def _priced(node: OpenNode, requirements: Requirements) -> Iterator[tuple[int, str, int]]:
    """(price, name, index) of every type that the node may still be."""
    template = node.template
    for index in node.types.tolist():
        kind = template.types[index]
        prices = [item.price for item in offered(kind, requirements)]
        if prices:
            yield min(prices), kind.name, index


def _by_price(offering: Offering) -> tuple[int, str, str]:
    return offering.price, offering.zone, offering.capacity_type
