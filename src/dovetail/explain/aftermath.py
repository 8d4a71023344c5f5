"""The problem as it stands once a plan is carried out: its nodes are there, its pods run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dovetail.api.core import Pod
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import ExistingNode, Pool, Problem
from dovetail.model.requirement import Requirements
from dovetail.model.resources import add
from dovetail.solve.instance.pool_table import NODES, STAMPED


def aftermath(problem: Problem, plan: Plan, pending: tuple[Pod, ...]) -> Problem:
    """What is asked about `pending` alone after the plan; where the plan puts them, their capacity is
    free.
    """
    waiting = {pod.key for pod in pending}
    pods = {pod.key: pod for pod in problem.pods if pod.key not in waiting}
    nodes = [
        replace(node, pods=(*node.pods, *_known(pods, plan.existing.get(node.name, ()))))
        for node in problem.nodes
    ]
    pools = {pool.name: pool for pool in problem.pools}
    # A node that was bought for these pods alone is not there without them.
    bought = [claim for claim in plan.claims if not waiting.issuperset(claim.pods)]
    commons = dict(problem.commons)
    for claim in bought:
        offering = _offering(pools[claim.pool], claim)
        for name, amount in offering.draws if offering else ():
            if name in commons:
                commons[name] -= amount
    nodes += [_node(pools[claim.pool], claim, _known(pods, claim.pods)) for claim in bought]
    return replace(
        problem,
        pods=pending,
        nodes=tuple(nodes),
        commons=commons,
        pools=tuple(
            _used(pool, [item for item in bought if item.pool == pool.name]) for pool in problem.pools
        ),
    )


def _known(pods: Mapping[str, Pod], keys: tuple[str, ...]) -> tuple[Pod, ...]:
    return tuple(pods[key] for key in keys if key in pods)


def _node(pool: Pool, claim: PlannedClaim, pods: tuple[Pod, ...]) -> ExistingNode:
    """The node as its cheapest offering would bring it up."""
    kind = next(item for item in pool.instance_types if item.name == claim.instance_type)
    offering = _offering(pool, claim)
    carried: dict[str, str] = {}
    for source in (kind.requirements, Requirements.of(STAMPED), claim.requirements):
        carried.update(_settled(source))
    carried.update(_settled(offering.requirements) if offering else {})
    carried.update(claim.labels)
    carried.update({labels.INSTANCE_TYPE: kind.name, labels.NODEPOOL: pool.name})
    return ExistingNode(
        name=claim.name,
        labels=carried,
        taints=claim.taints,
        allocatable=kind.allocatable(),
        capacity=kind.capacity,
        pods=pods,
        pool=pool.name,
        initialized=False,
        in_flight=True,
    )


def _offering(pool: Pool, claim: PlannedClaim) -> Offering | None:
    """The cheapest that the claim may get."""
    kind = next(item for item in pool.instance_types if item.name == claim.instance_type)
    wanted = claim.zone, claim.capacity_type
    return next((item for item in kind.offerings if (item.zone, item.capacity_type) == wanted), None)


def _settled(requirements: Requirements) -> dict[str, str]:
    """The labels that can only be one thing."""
    return {
        item.key: next(iter(item.values))
        for item in requirements
        if not item.complement and len(item.values) == 1
    }


def _used(pool: Pool, bought: list[PlannedClaim]) -> Pool:
    """The pool with what was bought counted, as its limits count it: the largest type that may come up."""
    kinds = {item.name: item for item in pool.instance_types}
    usage = dict(pool.usage)
    for claim in bought:
        may_come = [kinds[name].capacity for name in claim.instance_types if name in kinds]
        names = sorted({name for capacity in may_come for name in capacity})
        most = {name: max(capacity.get(name, 0) for capacity in may_come) for name in names}
        usage = add(usage, {**most, NODES: 1})
    taken: dict[str, int] = {}
    for claim in bought:
        held = claim.requirements.by_key.get(labels.RESERVATION_ID)
        if held is not None and not held.complement and len(held.values) == 1:
            name = next(iter(held.values))
            taken[name] = taken.get(name, 0) + 1
    types = pool.instance_types
    if taken:
        types = tuple(_less_reserved(kind, taken) for kind in types)
    return replace(pool, usage=usage, instance_types=types)


def _less_reserved(kind: InstanceType, taken: Mapping[str, int]) -> InstanceType:
    return replace(
        kind,
        offerings=tuple(
            replace(
                item,
                reservation_capacity=max(0, item.reservation_capacity - taken.get(item.reservation_id, 0)),
            )
            if item.reservation_id
            else item
            for item in kind.offerings
        ),
    )
