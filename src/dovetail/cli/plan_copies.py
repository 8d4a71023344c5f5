"""Workloads of very many equal pods: some are planned one by one, the rest as copies of a plan.

A plan of whole nodes for some pods of a workload is a plan for twice as many when it is bought twice. So the
time that a plan takes does not grow with `replicas`, and no pod has to be made to be counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from dovetail.api.core import Affinity, Pod, PodTemplateSpec
from dovetail.api.workloads import CronJob, Job, StatefulSet
from dovetail.cli.searching import Answer
from dovetail.model import labels
from dovetail.model.label_values import Requirement
from dovetail.model.offering import InstanceType
from dovetail.model.plan import BETWEEN_PODS, Cost, Plan, PlannedClaim
from dovetail.model.podtemplate import Workload, at_once
from dovetail.model.problem import Pool, Problem
from dovetail.model.selector import Selector

# A workload with more pods than this is counted.
COUNTED = 100_000
# So many pods are planned and copied. It divides by up to ten zones: a copy that spreads its pods evenly
# adds nothing to the skew of others.
SAMPLE = 5_040


@dataclass(frozen=True, slots=True)
class Copied:
    """The pods of a workload that are not in the problem, `times` as many as `sample` has."""

    workload: str  # kind and name
    sample: tuple[Pod, ...]  # pods of the problem that are like them
    times: int

    @staticmethod
    def of(workload: str, pods: tuple[Pod, ...], times: int) -> Copied:
        """Of the pods of a workload that are planned one by one."""
        return Copied(workload, pods[:SAMPLE], times)

    @property
    def pods(self) -> int:
        return self.times * len(self.sample)


@dataclass(frozen=True, slots=True)
class Copies:
    """What is bought for them: `plan`, for as many pods as one sample has, `times` over."""

    workload: str
    plan: Plan
    each: int  # pods of one copy
    times: int
    left: int  # pods that have no place
    why: str  # why some are left; "" if none are
    bound: int  # nano-dollars per hour that the pods with a place must cost at least
    cut_short: bool  # True iff the search for the plan was

    @property
    def hourly(self) -> int:
        """Nano-dollars per hour."""
        return self.times * self.plan.cost.hourly

    @property
    def nodes(self) -> int:
        return self.times * len(self.plan.claims)

    @property
    def placed(self) -> int:
        return self.times * sum(len(claim.pods) for claim in self.plan.claims)

    @property
    def pods(self) -> int:
        return self.placed + self.left


def split(workload: Workload, existing: int) -> tuple[Workload, int]:
    """The workload with as many replicas as are planned one by one, and how many samples are left of it."""
    missing = _wanted(workload) - existing
    if missing <= COUNTED or not _copies_do(workload):
        return workload, 0
    times = (missing - SAMPLE) // SAMPLE
    return _resized(workload, existing + missing - times * SAMPLE), times


def _wanted(workload: Workload) -> int:
    if isinstance(workload, CronJob):
        return 0 if workload.spec.suspend else at_once(workload.spec.job_template.spec, 0)
    if isinstance(workload, Job):
        return at_once(workload.spec, workload.status.succeeded)
    return workload.spec.replicas


def _resized(workload: Workload, pods: int) -> Workload:
    change = msgspec.structs.replace
    if isinstance(workload, CronJob):
        job = workload.spec.job_template
        spec = change(job.spec, parallelism=pods, completions=None)
        return change(workload, spec=change(workload.spec, job_template=change(job, spec=spec)))
    if isinstance(workload, Job):
        return change(workload, spec=change(workload.spec, parallelism=pods, completions=None))
    return change(workload, spec=change(workload.spec, replicas=pods))


def template_of(workload: Workload) -> PodTemplateSpec:
    """What its pods are made of."""
    return (
        workload.spec.job_template.spec.template if isinstance(workload, CronJob) else workload.spec.template
    )


def _copies_do(workload: Workload) -> bool:
    """True iff no rule or volume of the pods ties those of one copy to those of another."""
    if isinstance(workload, StatefulSet) and workload.spec.volume_claim_templates:
        return False
    spec = template_of(workload).spec
    if any(volume.persistent_volume_claim is not None for volume in spec.volumes):
        return False
    return not any(_between_nodes(spec.affinity))


def _between_nodes(affinity: Affinity | None) -> Iterator[Selector]:
    """Of required rules between pods, those that look beyond one node: the pods that they look at."""
    for rules in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ():
        for term in rules.required if rules else ():
            if term.topology_key != labels.HOSTNAME or rules is (affinity and affinity.pod_affinity):
                yield Selector.read(term.label_selector)


def tied(pods: Iterable[Pod], copied: Copied) -> bool:
    """True iff a required rule of another pod, about zones or the like, looks at the pods that are copied.

    Namespaces are not looked at: it may be true without need.
    """
    like = copied.sample[0].metadata
    owner = like.controller()
    seen: set[int] = set()
    for pod in pods:
        if id(pod.spec) in seen:
            continue
        seen.add(id(pod.spec))
        if pod.metadata.controller() == owner and pod.metadata.namespace == like.namespace:
            continue
        spreads = (
            Selector.read(spread.label_selector)
            for spread in pod.spec.topology_spread_constraints
            if spread.when_unsatisfiable == "DoNotSchedule" and spread.topology_key != labels.HOSTNAME
        )
        if any(rule.matches(like.labels) for rule in (*_between_nodes(pod.spec.affinity), *spreads)):
            return True
    return False


def sample_problem(problem: Problem, copied: Copied) -> Problem:
    """What one copy is asked to solve: new nodes alone, nothing that ends, and spreads without any skew."""
    pools = tuple(replace(pool, limits=None, instance_types=_endless(pool)) for pool in problem.pools)
    return replace(problem, pods=_evenly(copied.sample), pools=pools, nodes=(), commons={})


def _endless(pool: Pool) -> tuple[InstanceType, ...]:
    """Its types without offerings of reserved machines, of which there are only so many."""
    return tuple(
        replace(kind, offerings=tuple(one for one in kind.offerings if one.capacity_type != labels.RESERVED))
        if any(one.capacity_type == labels.RESERVED for one in kind.offerings)
        else kind
        for kind in pool.instance_types
    )


def _evenly(pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
    change = msgspec.structs.replace
    spec = pods[0].spec
    if all(spread.max_skew == 1 for spread in spec.topology_spread_constraints):
        return pods
    even = tuple(change(spread, max_skew=1) for spread in spec.topology_spread_constraints)
    spec = change(spec, topology_spread_constraints=even)
    return tuple(change(pod, spec=spec) for pod in pods)


def copies(
    problem: Problem, plan: Plan, copied: Sequence[Copied], answer: Callable[[Problem], Answer]
) -> tuple[Copies, ...]:
    """What is bought for the pods beside the problem, whose plan is `plan`; `answer` makes further plans.

    Limits of NodePools are kept: what does not go into them is left over.
    """
    rooms = {pool.name: _Room.of(pool, plan.claims) for pool in problem.pools if pool.limits}
    each: dict[str, int] = {}
    if plan.proof.method != BETWEEN_PODS:  # which proves nothing by what a single pod is worth
        each = {pod: item.each for item in plan.proof.worth for pod in item.pods}
    found = []
    for one in copied:
        answered = answer(sample_problem(problem, one))
        made = answered.plan
        made = replace(
            made,
            claims=tuple(rooms[item.pool].kept(item) if item.pool in rooms else item for item in made.claims),
        )
        times, why = one.times, made.unschedulable[0].reason if made.unschedulable else ""
        for name in sorted({claim.pool for claim in made.claims} & rooms.keys()):
            most, resource = rooms[name].times(made.claims)
            if most < times:
                times, why = most, f"NodePool {name} would exceed its limit of {resource}"
        for room in rooms.values():
            room.take(made.claims, times)
        # What the proof says of a pod holds for each that is like it.
        worth = min(each.get(pod.key, 0) for pod in one.sample)
        placed = times * (len(one.sample) - len(made.left))
        found.append(
            Copies(
                one.workload,
                made,
                len(one.sample),
                times,
                left=one.pods - placed,
                why=why,
                bound=placed * worth,
                cut_short=answered.cut_short,
            )
        )
    return tuple(found)


class _Room:
    """What is left of a pool's limits; a node counts as the largest type that may come up."""

    def __init__(self, pool: Pool, left: dict[str, int]) -> None:
        self._pool, self._left = pool, left
        self._sizes = {kind.name: {**kind.capacity, "nodes": 1} for kind in pool.instance_types}

    @staticmethod
    def of(pool: Pool, claims: Iterable[PlannedClaim]) -> _Room:
        limits = pool.limits or {}
        room = _Room(pool, {name: most - pool.usage.get(name, 0) for name, most in limits.items()})
        room.take(claims, 1)
        return room

    def kept(self, claim: PlannedClaim) -> PlannedClaim:
        """The claim without types that take more of what is limited than the planned one does.

        So does a plan where limits are near. A claim that has to offer many values stays as it is.
        """
        if any(one.min_values is not None for one in claim.requirements):
            return claim
        planned = self._sizes[claim.instance_type]
        names = tuple(
            name
            for name in claim.instance_types
            if all(self._sizes[name].get(key, 0) <= planned.get(key, 0) for key in self._left)
        )
        only = Requirement.new(labels.INSTANCE_TYPE, "In", names)
        return replace(claim, instance_types=names, requirements=claim.requirements.add(only))

    def times(self, claims: Iterable[PlannedClaim]) -> tuple[int, str]:
        """How many times all of the claims go into it, and the resource that ends first."""
        need = self._need(claims)
        return min((max(0, self._left[name] // amount), name) for name, amount in need.items())

    def take(self, claims: Iterable[PlannedClaim], times: int) -> None:
        for name, amount in self._need(claims).items():
            self._left[name] -= times * amount

    def _need(self, claims: Iterable[PlannedClaim]) -> dict[str, int]:
        need: Counter[str] = Counter()
        for claim in claims:
            if claim.pool == self._pool.name:
                sizes = [self._sizes[name] for name in claim.instance_types]
                need.update({name: max(size.get(name, 0) for size in sizes) for name in self._left})
        return {name: amount for name, amount in need.items() if amount}


def in_all(answer: Answer, found: Sequence[Copies]) -> Answer:
    """The answer with the cost of everything that is bought, and what that must cost at least."""
    if not found:
        return answer
    plan = answer.plan
    hourly = plan.cost.hourly + sum(one.hourly for one in found)
    bound = plan.proof.linear + sum(one.bound for one in found)
    cut_short = answer.cut_short or any(one.cut_short for one in found)
    return replace(answer, plan=replace(plan, cost=Cost(hourly, min(bound, hourly))), cut_short=cut_short)
