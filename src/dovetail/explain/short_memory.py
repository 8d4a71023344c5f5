"""Pods that ask for no memory, on nodes that have next to none: the scheduler counts nothing for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dovetail.api.core import Pod
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.model.resources import MEMORY, pod_requests

LITTLE = 64 * 2**20  # bytes: what the container of a small service takes before it does anything


@dataclass(frozen=True, slots=True)
class Short:
    """`pods` ask for no memory, and `left` bytes of the node are there for them all; `kind` is its type."""

    node: str
    kind: str
    pods: tuple[str, ...]
    left: int


def short_of_memory(problem: Problem, plan: Plan) -> tuple[Short, ...]:
    """Nodes of the plan with less than LITTLE for each such pod that it places there, the shortest first."""
    pods = {pod.key: pod for pod in problem.pods}
    found = [*_bought(problem, plan, pods), *_there(problem, plan, pods)]
    short = [one for one in found if one.pods and one.left < LITTLE * len(one.pods)]
    return tuple(sorted(short, key=lambda one: (one.left // len(one.pods), one.node)))


def _bought(problem: Problem, plan: Plan, pods: Mapping[str, Pod]) -> Iterator[Short]:
    kinds = {pool.name: {kind.name: kind for kind in pool.instance_types} for pool in problem.pools}
    for claim in plan.claims:
        room = kinds[claim.pool][claim.instance_type].allocatable().get(MEMORY, 0)
        left = room - claim.requests.get(MEMORY, 0)
        yield Short(claim.name, claim.instance_type, _silent(claim.pods, pods), left)


def _there(problem: Problem, plan: Plan, pods: Mapping[str, Pod]) -> Iterator[Short]:
    for node in problem.nodes:
        placed = plan.existing.get(node.name, ())
        taken = sum(pod_requests(pod).get(MEMORY, 0) for pod in (*node.pods, *(pods[key] for key in placed)))
        yield Short(node.name, "", _silent(placed, pods), node.allocatable.get(MEMORY, 0) - taken)


def _silent(keys: Iterable[str], pods: Mapping[str, Pod]) -> tuple[str, ...]:
    return tuple(key for key in keys if not pod_requests(pods[key]).get(MEMORY, 0))
