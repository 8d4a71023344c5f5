"""Rules on one claim to buy: its pods, its types, its offerings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations

from dovetail.model import labels
from dovetail.model.cluster_view import NodeView, PodFacts
from dovetail.model.filters import volume_binding, volume_zone
from dovetail.model.plan import MOST_TYPES, PlannedClaim
from dovetail.model.ports import port_error
from dovetail.model.problem import Pool
from dovetail.model.requirement import Requirement
from dovetail.model.resources import total
from dovetail.model.taints import HARD_EFFECTS, untolerated
from dovetail.model.volumes import ignored_reason
from dovetail.verify.violation import Violation
from dovetail.verify.worlds import Catalogue, Offer, node_keys


def claim_violations(catalogue: Catalogue, claim: PlannedClaim) -> Iterator[Violation]:
    """Everything that must hold of a claim whatever else is in the plan."""
    offer = catalogue.offer(claim)
    pool = catalogue.pools[claim.pool]
    yield from offer.once(("pool", claim.taints), partial(_of_pool, pool, claim))
    yield from (Violation("offerings", claim.name, fault) for fault in offer.faults)
    yield from _cheapest(catalogue, claim, offer)
    relaxed = claim.min_values_relaxed
    yield from offer.once(("minValues", relaxed), partial(_min_values, catalogue, pool, claim))
    yield from _taints(catalogue, pool, claim)
    for key in claim.pods:
        if catalogue.template(key) is None:
            yield from _place(catalogue, claim, key, offer)
        else:  # without a volume of its own
            rule = catalogue.like(key).node_rule
            yield from offer.once(("place", rule), partial(_place, catalogue, claim, key, offer))
    yield from _room(catalogue, claim, offer)


def _of_pool(pool: Pool, claim: PlannedClaim) -> Iterator[Violation]:
    """The claim asks for nothing that its pool does not allow, and carries its taints."""
    for item in pool.requirements:
        mine = _values_only(claim.requirements.get(item.key))
        if not claim.requirements.has(item.key) or mine.intersection(_values_only(item)) != mine:
            yield Violation("pool", claim.name, f"its {mine} is wider than its pool's {item}")
    if set(claim.taints) != set(pool.taints):
        yield Violation("pool", claim.name, f"its taints differ from those of pool {pool.name}")
    if len(claim.instance_types) > MOST_TYPES:
        yield Violation(
            "pool", claim.name, f"lists {len(claim.instance_types)} types, {MOST_TYPES} are allowed"
        )


def _values_only(requirement: Requirement) -> Requirement:
    return replace(requirement, min_values=None)


def _cheapest(catalogue: Catalogue, claim: PlannedClaim, offer: Offer) -> Iterator[Violation]:
    """The claim is priced by the cheapest offering of any listed type, and names that offering.

    What a node costs besides its instance is the same for all of a pool's.
    """
    if not offer.prices:
        return
    parts = (catalogue.pools[claim.pool].volumes, catalogue.problem.options.node_surcharge)
    if (claim.volumes, claim.surcharge) != parts:
        message = f"says {claim.volumes} for volumes and {claim.surcharge} besides, they cost {parts}"
        yield Violation("price", claim.name, message)
    least = offer.cheapest + sum(parts)
    if claim.price != least:
        yield Violation("price", claim.name, f"says {claim.price}, the cheapest offering costs {least}")
    most = offer.dearest + sum(parts)
    if claim.worst != most:
        yield Violation("price", claim.name, f"says {claim.worst} at worst, the dearest costs {most}")
    chosen = (claim.instance_type, claim.zone, claim.capacity_type, claim.price - sum(parts))
    if not offer.has(*chosen):
        yield Violation("price", claim.name, f"there is no offering {chosen} that it could use")
    if not offer.in_order:
        yield Violation("price", claim.name, "its types are not listed cheapest first")


def _min_values(catalogue: Catalogue, pool: Pool, claim: PlannedClaim) -> Iterator[Violation]:
    strict = catalogue.problem.options.strict_min_values
    if claim.min_values_relaxed and strict:
        yield Violation("minValues", claim.name, "minValues are relaxed under the Strict policy")
    listed = set(claim.instance_types)
    wanted = [item for item in pool.requirements if item.min_values is not None]
    types = [item for item in pool.instance_types if item.name in listed] if wanted else []
    for item in wanted:
        allowed = claim.requirements.get(item.key)
        found = {
            value for kind in types for value in kind.requirements.get(item.key).values if allowed.has(value)
        }
        if claim.min_values_relaxed:
            if len(found) < (allowed.min_values or 0):
                message = f"asks for {allowed.min_values} values of {item.key} and has {len(found)}"
                yield Violation("minValues", claim.name, message)
        elif len(found) < (item.min_values or 0):
            message = f"{len(found)} values of {item.key}, its pool wants {item.min_values}"
            yield Violation("minValues", claim.name, message)


def _taints(catalogue: Catalogue, pool: Pool, claim: PlannedClaim) -> Iterator[Violation]:
    """Startup taints go by themselves; the pool's others must be tolerated."""
    hard = [item for item in pool.taints if item.effect in HARD_EFFECTS]
    for key in claim.pods if hard else ():
        for taint in untolerated(hard, catalogue.pods[key].spec.tolerations):
            message = f"does not tolerate {taint.key}:{taint.effect} of pool {pool.name}"
            yield Violation("taints", key, message)


def _place(catalogue: Catalogue, claim: PlannedClaim, key: str, offer: Offer) -> Iterator[Violation]:
    """Whatever the cloud picks, the pod's node rules and volumes accept the node."""
    index, facts = catalogue.problem.volumes, catalogue.facts(key)
    reason = ignored_reason(facts.pod, index)
    if reason:
        yield Violation("volumes", key, reason)
    keys = node_keys([facts]) | {labels.ZONE, labels.REGION}
    for node in offer.distinct(keys):
        view = NodeView(claim.name, node, {})
        if not facts.node_rule.matches(claim.name, node):
            message = f"its node selector or affinity refuses {claim.name} with {_text(node)}"
            yield Violation("node affinity", key, message)
        elif volume_binding(facts, view, index) or volume_zone(facts, view, index):
            message = f"its volumes cannot be reached from {claim.name} with {_text(node)}"
            yield Violation("volumes", key, message)


def _room(catalogue: Catalogue, claim: PlannedClaim, offer: Offer) -> Iterator[Violation]:
    """Pods and daemons fit on every listed type, and their host ports do not clash.

    What only daemons ask for keeps no pod away, however much it is.
    """
    pods = [catalogue.like(key) for key in claim.pods]
    asked = total(facts.requests for facts in pods)
    short = [name for name, amount in asked.items() if amount > claim.requests.get(name, 0)]
    if short:
        yield Violation("requests", claim.name, f"says less than its pods ask for: {', '.join(short)}")
    clashes = _port_clashes(pods)
    for room in offer.rooms(catalogue.daemons, catalogue.pools[claim.pool].taints, claim.name):
        if room.daemons:
            clashes |= _port_clashes([*pods, *(item.facts for item in room.daemons)])
        for name in room.short(asked):
            yield Violation("resources", claim.name, f"{name} does not hold its pods and daemons")
    for clash in sorted(clashes):
        yield Violation("host ports", claim.name, clash)


def _port_clashes(pods: list[PodFacts]) -> set[str]:
    open_ports = [facts for facts in pods if facts.ports]
    errors = {port_error(facts.ports, other.ports) for facts, other in combinations(open_ports, 2)}
    return errors - {""}


def _text(node: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(node.items())) or "no labels"
