"""Rules on the plan as a whole: accounting, limits, reservations, cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dovetail.devices.allocator import AllocationError, Ledger, World, claim_target, node_target
from dovetail.model import labels
from dovetail.model.devices import ClusterDevices, claim_keys, claims_devices
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import Pool, Problem
from dovetail.verify.violation import Violation


def whole_violations(problem: Problem, plan: Plan) -> Iterator[Violation]:
    """Everything that can be checked without asking where a single pod may run."""
    yield from _accounting(problem, plan)
    yield from _devices(problem, plan)
    yield from _names(problem, plan)
    yield from _limits(problem, plan)
    yield from _reservations(problem, plan)
    yield from _commons(problem, plan)
    yield from _gangs(problem, plan)
    yield from _cost(plan)


def _accounting(problem: Problem, plan: Plan) -> Iterator[Violation]:
    """Every pending pod is placed once or reported once, and nothing else is."""
    placed = [(pod, claim.name) for claim in plan.claims for pod in claim.pods]
    placed += [(pod, node) for node, pods in plan.existing.items() for pod in pods]
    placed += [(item.pod, "left over") for item in plan.unschedulable]
    pending = frozenset(pod.key for pod in problem.pods)
    once = {pod for pod, _ in placed}
    places: dict[str, list[str]] = {}
    if once != pending or len(once) < len(placed):
        places.update((pod, []) for pod in pending)
        for pod, place in placed:
            places.setdefault(pod, []).append(place)
    for pod, where in sorted(places.items()):
        named = ", ".join(sorted(where))
        if pod not in pending:
            yield Violation("accounting", pod, f"is not pending, but the plan puts it at {named}")
        elif not where:
            yield Violation("accounting", pod, "is pending, but the plan neither places nor reports it")
        elif len(where) > 1:
            yield Violation("accounting", pod, f"is in the plan {len(where)} times: {named}")
    for item in plan.unschedulable:
        if not item.reason:
            yield Violation("accounting", item.pod, "is left over without a reason")


def _devices(problem: Problem, plan: Plan) -> Iterator[Violation]:
    """Every pod gets the devices that it claims, on each type that its node may be; none is given twice."""
    claiming = {pod.key: pod for pod in problem.pods if claims_devices(pod)}
    if not claiming:
        return
    known = problem.devices
    templates = {kind.name: kind.devices for pool in problem.pools for kind in pool.instance_types}
    ledger = Ledger(World.of(known or ClusterDevices(), templates, problem.options.well_known))
    nodes = {node.name: node for node in problem.nodes}
    for node in problem.nodes:
        ledger.settle(node, known.claims if known is not None else {})
    places = [
        (node_target(nodes[name]), pods) for name, pods in sorted(plan.existing.items()) if name in nodes
    ]
    places += [(claim_target(claim), claim.pods) for claim in plan.claims]
    for target, pods in places:
        for pod in (claiming[key] for key in pods if key in claiming):
            if known is None:
                yield Violation("devices", pod.key, "claims devices, but the plan has a place for it")
                continue
            keys = claim_keys(pod)
            try:
                found = ledger.allocate(target, [known.claims[key] for key in keys if key in known.claims])
            except AllocationError as error:
                yield Violation("devices", pod.key, f"gets none at {target.id}: {error}")
                continue
            ledger.commit(found)
            lost = [name for name in target.types if name not in found.types]
            if lost or found.requirements:
                where = f"types {', '.join(lost)}" if lost else f"nodes that are not {found.requirements}"
                yield Violation("devices", pod.key, f"gets none at {target.id} on {where}")
            if any(key not in known.claims for key in keys):
                yield Violation("devices", pod.key, f"has a place at {target.id}, but lacks a claim")


def _names(problem: Problem, plan: Plan) -> Iterator[Violation]:
    nodes = {node.name for node in problem.nodes}
    for name in sorted(plan.existing.keys() - nodes):
        yield Violation("names", name, "no such node")
    pools = {pool.name: {item.name for item in pool.instance_types} for pool in problem.pools}
    taken = Counter(claim.name for claim in plan.claims)
    sold: set[tuple[str, tuple[str, ...]]] = set()  # of which nothing is unknown
    for claim in plan.claims:
        if taken[claim.name] > 1 or claim.name in nodes:
            yield Violation("names", claim.name, "the name is taken")
        if claim.pool not in pools:
            yield Violation("names", claim.name, f"there is no pool {claim.pool}")
            continue
        listed = claim.pool, claim.instance_types
        unknown = () if listed in sold else sorted(set(claim.instance_types) - pools[claim.pool])
        if not unknown:
            sold.add(listed)
        for name in unknown:
            yield Violation("names", claim.name, f"pool {claim.pool} has no instance type {name}")
        if not claim.instance_types or claim.instance_type not in claim.instance_types:
            yield Violation("names", claim.name, "its instance type is not among those listed")
        if not claim.pods:
            yield Violation("names", claim.name, "nothing runs on it")


def _limits(problem: Problem, plan: Plan) -> Iterator[Violation]:
    """Whatever types the cloud picks, no pool grows past its limits; `nodes` counts within the batch too."""
    for pool in problem.pools:
        claims = [claim for claim in plan.claims if claim.pool == pool.name]
        if not claims or not pool.limits:
            continue
        for name, limit in sorted(pool.limits.items()):
            bought = sum(_largest(pool, claim, name) for claim in claims)
            total = pool.usage.get(name, 0) + bought
            if bought > 0 and total > limit:
                yield Violation("limits", pool.name, f"{name} may grow to {total}, the limit is {limit}")


def _largest(pool: Pool, claim: PlannedClaim, resource: str) -> int:
    if resource == "nodes":
        return 1
    listed = set(claim.instance_types)
    sizes = (item.capacity.get(resource, 0) for item in pool.instance_types if item.name in listed)
    return max(sizes, default=0)


def _gangs(problem: Problem, plan: Plan) -> Iterator[Violation]:
    """Of each gang enough pods have a place, or none gets one now. Nothing is said of why it is none."""
    if not problem.gangs or not problem.buys:
        return
    now = {pod for claim in plan.claims for pod in claim.pods}
    now.update(pod for pods in plan.existing.values() for pod in pods)
    there = {pod.key for node in problem.nodes for pod in node.pods}
    for gang in problem.gangs:
        number = len(now.intersection(gang.pods))
        total = number + len(there.intersection(gang.pods))
        if number and total < gang.minimum:
            text = f"{number} of its pods get a place, it lacks {gang.minimum}"
            yield Violation("gangs", gang.name, text)


def _reservations(problem: Problem, plan: Plan) -> Iterator[Violation]:
    """No more claims than instances left in the reservation that each is priced by."""
    taken: Counter[str] = Counter()
    room: dict[str, int] = {}
    pools = {pool.name: pool for pool in problem.pools}
    for claim in plan.claims:
        if claim.capacity_type != labels.RESERVED or claim.pool not in pools:
            continue
        for item in pools[claim.pool].instance_types:
            for offering in item.offerings:
                mine = (offering.zone, offering.capacity_type) == (claim.zone, claim.capacity_type)
                if item.name == claim.instance_type and mine and offering.reservation_id:
                    taken[offering.reservation_id] += 1
                    room[offering.reservation_id] = offering.reservation_capacity
    for name, count in sorted(taken.items()):
        if count > room[name]:
            yield Violation("reservations", name, f"{count} claims share {room[name]} reserved instances")


def _commons(problem: Problem, plan: Plan) -> Iterator[Violation]:
    """The offerings that claims are priced by draw no more on what they share than is left of it."""
    for name, left in sorted(commons_left(problem, plan).items()):
        start = problem.commons[name]
        if left < 0 and left < start:
            yield Violation("commons", name, f"the claims draw {start - left}, {start} are left")


def commons_left(problem: Problem, plan: Plan) -> dict[str, int]:
    """What the claims leave of the commons; those that leave their zone open take where most is left."""
    pools = {pool.name: pool for pool in problem.pools}
    left = dict(problem.commons)
    choices = [
        _drawn(pools[claim.pool], problem.extra(pools[claim.pool]), claim)
        for claim in (plan.claims if left else ())
        if claim.pool in pools
    ]
    for ways in sorted(choices, key=len):
        best: dict[str, int] = {}
        most: int | None = None
        for draws in ways:
            rest = min((left[name] - amount for name, amount in draws.items() if name in left), default=0)
            if most is None or rest > most:
                best, most = draws, rest
        for name, amount in best.items():
            if name in left:
                left[name] -= amount
    return left


def _drawn(pool: Pool, extra: int, claim: PlannedClaim) -> list[dict[str, int]]:
    """What each offering draws that the claim may be priced by: alike but for the zone."""
    zones = claim.requirements.get(labels.ZONE)
    return [
        dict(item.draws)
        for kind in pool.instance_types
        if kind.name == claim.instance_type
        for item in kind.offerings
        if item.capacity_type == claim.capacity_type
        and item.price + extra == claim.price
        and zones.has(item.zone)
    ]


def _cost(plan: Plan) -> Iterator[Violation]:
    total = sum(claim.price for claim in plan.claims)
    if plan.cost.hourly != total:
        yield Violation("cost", "plan", f"says {plan.cost.hourly}, the claims add up to {total}")
    if not 0 <= plan.cost.lower_bound <= plan.cost.hourly:
        message = f"the lower bound {plan.cost.lower_bound} is not within 0 and the cost {plan.cost.hourly}"
        yield Violation("cost", "plan", message)
