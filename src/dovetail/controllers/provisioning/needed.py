"""What of a plan is still needed once it is there: the cluster goes on while a plan is made. Pure.

A pod that lost its place may be bound a tenth of a second after its batch was closed, and what was planned
for it would come up empty a minute later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from dovetail.api.core import Pod
from dovetail.controllers.provisioning.pods import evicts
from dovetail.model.plan import Cost, Plan


def needs_place(pod: Pod | None, going: Callable[[str], bool], *, moved: bool) -> bool:
    """True iff the pod that a plan was made for has still to be given a place; None: it is gone.

    One on a node that is `going` (by name) has to, and so has the successor of one that was on such a node
    when the plan was asked for (`moved`): what a ReplicaSet makes in its place has another name.
    """
    if pod is None:
        return moved
    if pod.terminal:
        return False
    if pod.spec.node_name:
        return going(pod.spec.node_name)
    return not pod.deleting and not evicts(pod)


def still_needed(plan: Plan, asked: Collection[str], needs: Callable[[str], bool]) -> Plan:
    """The plan for those of its pods alone that `needs` says still need a place, by their keys.

    A claim that has none of them left is not in it; the others stay as they are, so that the cloud keeps its
    choice. Nothing is left once none of the pods that the plan was `asked` for needs a place: the places of
    all others were only to be changed for these. The bound goes down by what the claims cost that are left
    out; the proof remains that of the whole.
    """
    if not any(map(needs, asked)):
        plan = replace(plan, claims=(), existing={}, cost=Cost(0, 0))
    claims = [
        replace(claim, pods=left) for claim in plan.claims if (left := tuple(filter(needs, claim.pods)))
    ]
    existing = {name: left for name, pods in plan.existing.items() if (left := tuple(filter(needs, pods)))}
    spared = sum(claim.price for claim in plan.claims) - sum(claim.price for claim in claims)
    return replace(
        plan,
        claims=tuple(claims),
        existing=existing,
        unschedulable=tuple(one for one in plan.unschedulable if needs(one.pod)),
        cost=Cost(plan.cost.hourly - spared, max(plan.cost.lower_bound - spared, 0)),
    )
