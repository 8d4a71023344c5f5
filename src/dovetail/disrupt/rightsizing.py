"""What other requests save: the same pods planned with both, and with those of one workload changed alone.

Pure. As prices of rules are (`explain.cost`), savings are differences of plans, with what is proven of any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dovetail.explain.sizes import Owner, OwnerOf, Requests, Size, Work, resized
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.model.resources import CPU, MEMORY, subtract, total

Solve = Callable[[Problem], Plan]


@dataclass(frozen=True, slots=True)
class Saving:
    """Nano-dollars per hour; negative where the requests that are right cost more.

    The cheapest plans with both requests differ by `least` at least and by `most` at most, which is proven.
    """

    saved: int
    least: int
    most: int
    nodes: int  # fewer

    @staticmethod
    def of(before: Plan, after: Plan, *, smaller: bool) -> Saving:
        """`smaller` iff no pod asks for more: the plan before is one of afterwards, too."""
        cost = min(after.cost.hourly, before.cost.hourly) if smaller else after.cost.hourly
        least = before.cost.lower_bound - cost
        return Saving(
            before.cost.hourly - cost,
            max(0, least) if smaller else least,
            before.cost.hourly - after.cost.lower_bound,
            0 if cost < after.cost.hourly else len(before.claims) - len(after.claims),
        )


@dataclass(frozen=True, slots=True)
class Both:
    """The same pods with both requests. `left` have no place with one of them, and are in neither plan."""

    problem: Problem  # as it is
    before: Plan
    after: Plan
    left: tuple[str, ...]
    smaller: bool

    @property
    def saving(self) -> Saving:
        return Saving.of(self.before, self.after, smaller=self.smaller)

    @property
    def untried(self) -> int:
        """Pods that the searches did not come to: then nothing can be compared."""
        return max(len(self.before.untried), len(self.after.untried))


def both(problem: Problem, requests: Requests, owner_of: OwnerOf, solve: Solve, *, smaller: bool) -> Both:
    """Plans for the pending pods of the problem; `solve` is asked twice, and again where pods are left."""
    gone: set[str] = set()
    while True:
        before, after = solve(problem), solve(resized(problem, requests, owner_of))
        left = {one.pod for plan in (before, after) for one in plan.unschedulable if not one.untried}
        if not left or before.untried or after.untried:
            return Both(problem, before, after, tuple(sorted(gone)), smaller)
        gone |= left
        problem = replace(problem, pods=tuple(pod for pod in problem.pods if pod.key not in left))


def at_stake(found: Both, works: Mapping[Owner, Work], sizes: Iterable[Size]) -> list[Owner]:
    """Owners whose requests change, the dearest change first.

    Of what its pods are worth in the proof, which is what they cost, the share that their requests change by
    is at stake; of daemons, of their share of what is asked for on the nodes.
    """
    worth = {pod: item.each for item in found.before.proof.worth for pod in item.pods}
    asked: dict[Owner, dict[str, list[int]]] = {}
    for size in sizes:
        one = asked.setdefault(size.owner, {CPU: [0, 0], MEMORY: [0, 0]})[size.resource]
        one[0] += size.now or 0
        one[1] += abs(size.change)
    claims = found.before.claims
    everything = total(claim.requests for claim in claims)
    stake = {}
    for owner, parts in asked.items():
        if work := works.get(owner):
            cost = sum(worth.get(pod, 0) for pod in work.pods)
            for name, (now, change) in parts.items():
                if work.per_node and everything.get(name):
                    share = max(now, change) * len(claims) / everything[name]
                    cost = max(cost, round(found.before.cost.hourly * min(1.0, share)))
            share = max(
                min(1.0, change / now) if now else float(change > 0) for now, change in parts.values()
            )
            if share:
                stake[owner] = cost * share
    return sorted(stake, key=lambda owner: (-stake[owner], owner))


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one owner's requests save, changed alone; None where its plan leaves pods over."""

    owner: Owner
    saving: Saving | None


def contributions(
    found: Both,
    requests: Requests,
    owners: Sequence[Owner],
    smaller: Mapping[Owner, bool],
    owner_of: OwnerOf,
    solve: Solve,
    step: Callable[[Owner], None],
) -> tuple[Contribution, ...]:
    """Of these owners, the greatest saving first; `step` is called with each before its turn.

    Compared with the plan that is known for all as they are: with less effort than that took, it is less that
    is found to be saved, and never more.
    """
    known = []
    for owner in owners:
        step(owner)
        plan = solve(resized(found.problem, {owner: requests[owner]}, owner_of))
        saving = None if plan.unschedulable else Saving.of(found.before, plan, smaller=smaller[owner])
        known.append(Contribution(owner, saving))
    return tuple(
        sorted(
            known, key=lambda one: (one.saving is None, -(one.saving.saved if one.saving else 0), one.owner)
        )
    )


def overfull(problem: Problem) -> tuple[str, ...]:
    """Nodes whose pods ask for more than there is."""
    found = []
    for node in problem.nodes:
        rest = subtract(node.allocatable, node.occupancy.requests)
        if any(rest.get(name, 0) < 0 for name in (CPU, MEMORY)):
            found.append(node.name)
    return tuple(found)
