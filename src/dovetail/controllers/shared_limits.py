"""Launches within the limits that several NodePools share, whoever launches.

A plan keeps to them as its claims are priced (`Problem.commons`), of a state that may have changed since, and
the cloud may choose any type that a claim lists. So launches come here last: one batch at a time, each claim
no longer with what would go above a limit, whatever the cloud chooses.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.cloud.choice import MOST_TYPES
from dovetail.cluster.shared_limits import Counting, Way
from dovetail.controllers.context import Context
from dovetail.controllers.provisioning.intake import lingering
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.plan import USED_UP, PlannedClaim
from dovetail.model.requirement import Requirement, Requirements
from dovetail.model.resources import Resources, add
from dovetail.model.shared_limits import rooms

Admitted = tuple[PlannedClaim, str]  # as it may be launched, and why it may not be; "" if it may


@asynccontextmanager
async def admitted(
    context: Context, claims: Sequence[PlannedClaim], going: Collection[str] = ()
) -> AsyncIterator[list[Admitted]]:
    """These claims as they may be launched now; others wait until they are. `going` names machines that go
    for them: what these take may be taken. Without shared limits nothing changes and nothing waits.
    """
    if not context.shared_limits:
        yield [(claim, "") for claim in claims]
        return
    async with context.launching:
        counting = counting_of(context)
        yield admit(counting, claims, room_of(context, counting, going))


def counting_of(context: Context) -> Counting:
    """What counts machines as the pools are now."""

    def sold(name: str) -> tuple[tuple[InstanceType, ...], int]:
        pool = context.state.get(NodePool, name)
        return (context.instance_types(pool), context.volume_price(pool)) if pool is not None else ((), 0)

    return Counting(context.shared_limits, context.state.all(NodePool), sold)


def used_by(context: Context, counting: Counting, going: Collection[str] = ()) -> tuple[Resources, Resources]:
    """What machines take by quota, and of that what those do that are named.

    Those on their way out count while they cannot go, because pods there may not be evicted.
    """
    state = context.state
    stuck = lingering(context)
    away = [machine for machine in state.machines() if not machine.names().isdisjoint(going)]
    others = (
        machine
        for machine in state.machines()
        if machine.names().isdisjoint(going) and (not state.going(machine) or machine.name in stuck)
    )
    freed = counting.used(away)
    return add(counting.used(others), freed), freed


def room_of(context: Context, counting: Counting, going: Collection[str]) -> dict[str, int]:
    """By quota how much more may be launched."""
    return rooms(context.shared_limits, *used_by(context, counting, going))


def admit(counting: Counting, claims: Sequence[PlannedClaim], room: Mapping[str, int]) -> list[Admitted]:
    """Which claims may be launched, in this order, and as what. Pure.

    Each may take what it is priced by; what that leaves is shared out evenly, for dearer or larger machines
    that the cloud may choose instead. So the worst of all of them together is within the room.
    """
    known: dict[tuple[str, int, int], tuple[Way, ...]] = {}
    left, found = dict(room), list[tuple[PlannedClaim, tuple[Way, ...], Resources, str]]()
    for claim in claims:
        key = claim.pool, id(claim.requirements), id(claim.instance_types)  # alike ones share them
        if key not in known:
            known[key] = _ways(counting, claim) if counting.drawn(claim.pool) else ()
        takes = _priced(claim, known[key])
        short = sorted(quota for quota, amount in takes.items() if left[quota] < amount)
        for quota, amount in () if short else takes.items():
            left[quota] -= amount
        found.append((claim, known[key], takes, f"{USED_UP} {', '.join(short)}" if short else ""))
    drawing = [each for each in found if each[1] and not each[3]]
    share = {quota: rest // max(1, len(drawing)) for quota, rest in left.items()}
    return [
        (claim, why) if why or not ways else narrowed(claim, ways, add(share, takes))
        for claim, ways, takes, why in found
    ]


def _ways(counting: Counting, claim: PlannedClaim) -> tuple[Way, ...]:
    """Of its types those that a launch would name: of others nothing can come, and they must not count."""
    found = counting.ways(claim.pool, claim.requirements, claim.instance_types)
    if any(item.min_values for item in claim.requirements):
        return tuple(found)
    least: dict[str, int] = {}
    for way in found:
        least[way.kind.name] = min(way.offering.price, least.get(way.kind.name, way.offering.price))
    named = {*sorted(least, key=lambda name: (least[name], name))[:MOST_TYPES], claim.instance_type}
    return tuple(way for way in found if way.kind.name in named)


def _priced(claim: PlannedClaim, ways: Sequence[Way]) -> Resources:
    """What the claim takes as it is priced; where that is sold no more, as the cheapest of its type."""
    own = [way for way in ways if way.kind.name == claim.instance_type]
    exact = [
        way
        for way in own
        if (way.offering.zone, way.offering.capacity_type) == (claim.zone, claim.capacity_type)
    ]
    best = min(exact or own or ways, key=lambda way: way.offering.price, default=None)
    return best.takes if best is not None else {}


def narrowed(claim: PlannedClaim, ways: Sequence[Way], most: Resources) -> Admitted:
    """The claim without what may take more than that; its capacity type and zone are settled only where the
    type that it is priced by would be lost else. Refused where that leaves fewer kinds than minValues.
    """
    wanted = claim.requirements
    for key, value in ((labels.CAPACITY_TYPE, claim.capacity_type), (labels.ZONE, claim.zone)):
        if claim.instance_type in _too_large(ways, most):
            wanted = wanted.add(Requirement.new(key, "In", (value,)))
            ways = [way for way in ways if wanted.get(key).has(_value(way.offering, key))]
    large = _too_large(ways, most)
    ways = [way for way in ways if way.kind.name not in large]
    kept = tuple(dict.fromkeys(way.kind.name for way in ways))
    if claim.instance_types == kept and wanted is claim.requirements:
        return claim, ""
    for item in wanted:
        values = {value for way in ways for value in way.kind.requirements.get(item.key).values}
        if item.min_values and len(values) < item.min_values:
            return claim, f"{USED_UP} {', '.join(large.values())} for the minValues of {item.key}"
    listed = Requirement.new(labels.INSTANCE_TYPE, "In", kept, wanted.get(labels.INSTANCE_TYPE).min_values)
    return replace(
        claim,
        requirements=Requirements({**wanted.by_key, labels.INSTANCE_TYPE: listed}),
        instance_types=kept,
        worst=max(way.offering.price for way in ways) + claim.volumes + claim.surcharge,
    ), ""


def _too_large(ways: Sequence[Way], most: Resources) -> dict[str, str]:
    """The types that may come as what takes more, and of which quota."""
    return {
        way.kind.name: quota
        for way in ways
        for quota, amount in way.takes.items()
        if amount > most.get(quota, amount)
    }


def _value(offering: Offering, key: str) -> str:
    return offering.zone if key == labels.ZONE else offering.capacity_type
