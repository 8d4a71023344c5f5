"""How a plan is shown: a document for programs, tables and one sentence for people."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table

from dovetail.api.core import Pod
from dovetail.api.workloads import CronJob, Deployment, Job, ReplicaSet, StatefulSet
from dovetail.base.errors import InputError
from dovetail.base.words import number_of
from dovetail.cli.plan_copies import Copies
from dovetail.cli.region import Region
from dovetail.cli.searching import Answer, Search
from dovetail.cli.tables import add_row, new_table
from dovetail.cloud.catalog.provenance import provenance
from dovetail.explain.short_memory import short_of_memory
from dovetail.explain.spread_domains import AsSeen
from dovetail.model import labels
from dovetail.model.plan import Plan, PlannedClaim, Proof, Unschedulable
from dovetail.model.problem import Problem
from dovetail.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from dovetail.reading import Reading
from dovetail.units.money import dollars, monthly
from dovetail.units.quantity import Quantity

if TYPE_CHECKING:
    from dovetail.simulate.scheduler.forecast import Forecast

_SHOWN_PODS = 3


# Per pod that is left over, per pool, what the type that comes nearest fails.
Nearest = Mapping[str, Mapping[str, str]]


def document(
    problem: Problem,
    plan: Plan,
    elapsed: float,
    nearest: Nearest,
    diversity: int,
    seen: AsSeen,
    placed: Forecast | None,
    more: Sequence[Copies] = (),
) -> dict[str, Any]:
    """The plan for `-o json` and `-o yaml`; prices in dollars per hour, `elapsed` in seconds.

    `diversity` is what keeping many types for spot costs, in nano-dollars per hour; `more` is bought besides,
    and in the plan's cost.
    """
    return {
        "nodeClaims": [_claim(claim) for claim in plan.claims],
        "existing": {node: list(pods) for node, pods in sorted(plan.existing.items()) if pods},
        "unschedulable": [
            {
                "pod": item.pod,
                "reason": item.reason,
                "nodePools": dict(sorted(item.pools.items())),
                **({"gang": item.gang} if item.gang else {}),
                "nearestMiss": dict(sorted(nearest.get(item.pod, {}).items())),
            }
            for item in plan.unschedulable
        ],
        "cost": {
            "hourly": dollars(plan.cost.hourly),
            "atListPrices": dollars(_at_list_prices(plan, problem, more)),
            **_parts(plan.claims, more),
            "expected": dollars(plan.cost.hourly),
            "likely": dollars(_likely(plan, more)),
            "worst": dollars(_worst(plan, more)),
            "diversity": dollars(diversity),
            "lowerBound": dollars(plan.cost.lower_bound),
            "lowerBoundAsSeen": _as_seen(plan, seen),
            "gap": round(plan.cost.gap, 6),
        },
        "copies": [_copies(one) for one in more],
        "realised": _realised(plan, placed),
        "proof": {**_proof(plan.proof), "spreadDomains": "purchasable" if seen.counted else "any"},
        "elapsedSeconds": round(elapsed, 3),
    }


def _as_seen(plan: Plan, seen: AsSeen) -> float | None:
    """What is proven if spreads counted only domains with nodes; None if that was not worked out."""
    bound = seen.bound if seen.counted else plan.cost.lower_bound
    return None if bound is None else dollars(bound)


def _realised(plan: Plan, placed: Forecast | None) -> dict[str, Any] | None:
    """What comes of the plan once the scheduler has placed its pods; None if there was no time to see."""
    if placed is None:
        return None
    deeper = _for_depth(plan)
    return {
        "expected": dollars(placed.expected + deeper),
        "least": dollars(placed.least + deeper),
        "most": dollars(placed.most + deeper),
        "tries": len(placed.outcomes),
        "podsWherePlanned": round(placed.here, 4),
        "elsewhere": dict(placed.causes),
        "stranded": list(placed.stranded),
    }


def _proof(proof: Proof) -> dict[str, Any]:
    """Worths in dollars per hour of one pod; what is said of one pod holds for so many like it."""
    named = [item.pods[0] for item in proof.worth]
    return {
        "bound": dollars(proof.bound),
        "linear": dollars(proof.linear),
        "method": proof.method,
        "worth": [
            {
                "pod": item.pods[0],
                "pods": len(item.pods),
                "each": dollars(item.each),
                "nodePools": list(item.pools),
            }
            for item in proof.worth
        ],
        "absorbed": {name: dollars(amount) for name, amount in sorted(proof.absorbed.items())},
        "rules": [
            {
                "name": rule.name,
                "most": rule.most,
                "pods": [named[index] for index in rule.pods],
                "price": dollars(rule.price),
            }
            for rule in proof.rules
        ],
        "apart": [[named[first], named[second]] for first, second in proof.apart],
        "limits": [
            {
                "nodePool": item.pool,
                "resource": item.resource,
                "left": quantity(item.resource, item.left),
                "price": dollars(item.price),
            }
            for item in proof.limits
        ],
    }


def _copies(found: Copies) -> dict[str, Any]:
    """What is bought for pods that no list names."""
    return {
        "workload": found.workload,
        "pods": found.pods,
        "unschedulable": found.left,
        "reason": found.why,
        "times": found.times,
        "nodes": found.nodes,
        "hourly": dollars(found.hourly),
        "lowerBound": dollars(found.bound),
        "nodeClaims": [
            {**_claim(claim), "pods": len(claim.pods), "nodes": count * found.times}
            for claim, count in _alike(found.plan.claims)
        ],
    }


def _alike(claims: Sequence[PlannedClaim]) -> Iterator[tuple[PlannedClaim, int]]:
    """Of claims that look the same the first one, and how many there are."""
    first: dict[tuple[str, ...], PlannedClaim] = {}
    for claim in claims:
        first.setdefault(_row(claim), claim)
    for row, count in Counter(map(_row, claims)).items():
        yield first[row], count


def _worst(plan: Plan, more: Sequence[Copies]) -> int:
    """Nano-dollars per hour if the cloud has only the dearest offering of what each launch hands over."""
    return sum(times * claim.worst for claim, times in _bought(plan.claims, more))


def _likely(plan: Plan, more: Sequence[Copies]) -> int:
    """Nano-dollars per hour that fleets are likely to pay for what each launch hands over."""
    return sum(times * _likely_price(claim) for claim, times in _bought(plan.claims, more))


def _for_depth(plan: Plan) -> int:
    """What fleets are likely to pay beyond the plan for spot pools that are not the cheapest."""
    return _likely(plan, ()) - sum(claim.price for claim in plan.claims)


def _likely_price(claim: PlannedClaim) -> int:
    return claim.price if claim.likely is None else claim.likely


def _bought(claims: Sequence[PlannedClaim], more: Sequence[Copies]) -> Iterator[tuple[PlannedClaim, int]]:
    """All claims, with how often each is bought."""
    yield from ((claim, 1) for claim in claims)
    for one in more:
        yield from ((claim, one.times) for claim in one.plan.claims)


def bought_on_demand(problem: Problem, plan: Plan, more: Sequence[Copies] = ()) -> int:
    """What its machines on demand come to at list prices, nano-dollars per hour, without their volumes."""
    found, changed = _bought(plan.claims, more), _overlaid(problem)
    return sum(
        times * (one.instance_price + changed.get(_offer(one), 0))
        for one, times in found
        if one.capacity_type == labels.ON_DEMAND
    )


def _parts(claims: Sequence[PlannedClaim], more: Sequence[Copies]) -> dict[str, float]:
    """What the cost is made of, in dollars per hour."""
    bought = list(_bought(claims, more))
    return {
        "instance": dollars(sum(times * claim.instance_price for claim, times in bought)),
        "volumes": dollars(sum(times * claim.volumes for claim, times in bought)),
        "surcharge": dollars(sum(times * claim.surcharge for claim, times in bought)),
    }


def _claim(claim: PlannedClaim) -> dict[str, Any]:
    return {
        "name": claim.name,
        "nodePool": claim.pool,
        "instanceType": claim.instance_type,
        "zone": claim.zone,
        "capacityType": claim.capacity_type,
        "price": dollars(claim.price),
        "instancePrice": dollars(claim.instance_price),
        "volumes": dollars(claim.volumes),
        "surcharge": dollars(claim.surcharge),
        "likelyPrice": dollars(_likely_price(claim)),
        "worstPrice": dollars(claim.worst),
        "priceEstimated": claim.price_estimated,
        "instanceTypes": list(claim.instance_types),
        "requirements": list(_requirements(claim)),
        "requests": {name: quantity(name, amount) for name, amount in sorted(claim.requests.items())},
        "pods": list(claim.pods),
    }


def _requirements(claim: PlannedClaim) -> Iterator[dict[str, Any]]:
    """As they are written on a NodeClaim."""
    for item in claim.requirements.selector_requirements():
        entry: dict[str, Any] = {"key": item.key, "operator": item.operator}
        if item.values:
            entry["values"] = list(item.values)
        least = claim.requirements.get(item.key).min_values
        if least is not None:
            entry["minValues"] = least
        yield entry


def quantity(name: str, amount: int) -> str:
    """An amount of model/resources as Kubernetes writes it: 1500m, 3Gi."""
    if name == CPU:
        return str(Quantity(amount * 1_000_000))
    style = "binary" if name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith("hugepages-") else "decimal"
    return str(Quantity(amount * 1_000_000_000, style))


def tables(plan: Plan, nearest: Nearest, more: Sequence[Copies] = ()) -> Iterator[RenderableType]:
    """The plan for people."""
    if plan.claims or any(one.nodes for one in more):
        yield _purchases([item for item in _bought(plan.claims, more) if item[1]])
    if any(plan.existing.values()):
        yield _existing(plan)
    if plan.unschedulable:
        yield _left_over(plan.unschedulable, nearest)


def sentences(
    plan: Plan, diversity: int, seen: AsSeen, placed: Forecast | None, more: Sequence[Copies]
) -> Iterator[str]:
    """What the plan comes to; `diversity` in nano-dollars per hour."""
    sentence = _sentence(plan, diversity, more)
    if sentence:
        yield sentence
    if seen.bound is not None and dollars(plan.cost.lower_bound - seen.bound) >= 0.00005 and not more:
        yield (
            "That counts every domain of a spread where a node could be bought. If only domains with nodes "
            f"counted, as kube-scheduler sees them, no plan costs less than ${dollars(seen.bound):.4f}/h."
        )
    yield from map(_of_copies, more)
    if plan.claims and placed is not None:
        yield _outlook(plan, placed)


def _of_copies(found: Copies) -> str:
    """How the pods that no list names were planned."""
    times = (
        f"{found.times:,} times what {found.each:,} of them need" if found.nodes else "nothing more is bought"
    )
    left = f"; {found.left:,} have no place: {found.why}" if found.left else ""
    return f"{found.pods:,} pods of {found.workload} were counted, not planned one by one: {times}{left}."


def _purchases(bought: Sequence[tuple[PlannedClaim, int]]) -> Table:
    pools = sorted({claim.pool for claim, _ in bought})
    title = f"Nodes to buy from NodePool {pools[0]}" if len(pools) == 1 else "Nodes to buy"
    table = new_table(title, *(["NodePool"] if len(pools) > 1 else []), "Instance type", "Zone", "Capacity")
    for heading in ("$/h", "CPU", "Memory", "Pods", "Nodes"):
        table.add_column(heading, justify="right", no_wrap=True)
    # Copies are one row; the order is that of their first names.
    counts: Counter[tuple[str, ...]] = Counter()
    for claim, times in bought:
        counts[_row(claim)] += times
    for row, count in counts.items():
        add_row(table, *(row if len(pools) > 1 else row[1:]), str(count))
    return table


def _row(claim: PlannedClaim) -> tuple[str, ...]:
    others = len(claim.instance_types) - 1
    return (
        claim.pool,
        f"{claim.instance_type} +{others}" if others > 0 else claim.instance_type,
        claim.zone,
        claim.capacity_type,
        f"{'~' if claim.price_estimated else ''}{dollars(claim.price):.4f}",
        f"{claim.requests.get(CPU, 0) / 1000:g}",
        f"{claim.requests.get(MEMORY, 0) / 2**30:.1f}Gi",
        str(len(claim.pods)),
    )


def _existing(plan: Plan) -> Table:
    table = new_table("Onto existing nodes", "Node")
    table.add_column("Pods", justify="right")
    table.add_column("Names")
    for node, pods in sorted(plan.existing.items()):
        if pods:
            add_row(table, node, str(len(pods)), _some(pods))
    return table


def _left_over(left: tuple[Unschedulable, ...], nearest: Nearest) -> Table:
    table = new_table("Unschedulable")
    table.add_column("Pods")
    table.add_column("Why, per NodePool")
    groups: dict[str, list[str]] = {}
    for item in left:
        groups.setdefault(_why(item, nearest.get(item.pod, {})), []).append(item.pod)
    for why, pods in groups.items():
        add_row(table, _some(tuple(pods)), why)
    return table


def _why(item: Unschedulable, nearest: Mapping[str, str]) -> str:
    """Per pool the nearest miss; the words of the event where there is none, and of the others of a gang."""
    known = {} if item.gang else nearest
    lines = [f"{pool}: {known.get(pool, reason)}" for pool, reason in sorted(item.pools.items())]
    if item.gang:
        lines.insert(0, item.gang)
    return "\n".join(lines) if lines else item.reason


def _some(pods: tuple[str, ...]) -> str:
    shown = ", ".join(pods[:_SHOWN_PODS])
    return f"{shown} and {len(pods) - _SHOWN_PODS} more" if len(pods) > _SHOWN_PODS else shown


def _sentence(plan: Plan, diversity: int, more: Sequence[Copies]) -> str:
    """What it costs, and how good that is; empty where there was no pod to plan for."""
    untried, missed = plan.untried, plan.refused
    left = len(missed) + sum(one.left for one in more)
    placed = sum(len(pods) for pods in plan.existing.values())
    end = f" {number_of(left, 'pod')} left over" if left else ""
    if left and not missed:
        end += "."
    elif left:
        end += f"; `dovetail explain pod {missed[0]}` says what would help."
    if untried:
        end += f" The search did not come to {number_of(len(untried), 'pod')}."
    if not plan.claims:
        fit = f": {number_of(placed, 'pod fits', 'pods fit')} on existing nodes"
        return f"Nothing to buy{fit if placed else ''}.{end}" if plan.unschedulable or placed else ""
    count, cost = len(plan.claims) + sum(one.nodes for one in more), plan.cost
    parts = _shown_parts(plan, more)
    start = f"{number_of(count, 'node')} for ${dollars(cost.hourly):.4f}/h{parts}"
    bound = (
        f"no plan for the same pods costs less than ${dollars(cost.lower_bound):.4f}/h (gap {cost.gap:.1%})."
        if cost.lower_bound
        else "there was no time to prove what they cost at least: a longer --deadline does."
    )
    note = " Prices marked ~ are estimates." if any(claim.price_estimated for claim in plan.claims) else ""
    if any(len(claim.instance_types) > 1 for claim in plan.claims):
        likely, most = (f"${dollars(sums(plan, more)):,.4f}/h" for sums in (_likely, _worst))
        note += (
            " +N: the cloud may pick one of N other types as well, if it has none of this one; "
            f"of those that a launch names, likely {likely}, at worst {most} in all."
        )
    if dollars(diversity) >= 0.00005:  # what would be shown as $0.0000 is not worth a sentence
        note += f" Keeping many types for spot costs about ${dollars(diversity):.4f}/h of it."
    return f"{start}; {bound}{note}{end}"


def _shown_parts(plan: Plan, more: Sequence[Copies]) -> str:
    """What it is made of, such as "(instance $1.2000, volumes $0.0500)"; empty if of instances only."""
    shown = [f"{part} ${amount:.4f}" for part, amount in _parts(plan.claims, more).items() if amount]
    return f" ({', '.join(shown)})" if len(shown) > 1 else ""


# Why a pod goes elsewhere than planned, as causes of the forecast are told.
_CAUSES = {
    "score": "another node is as good",
    "order": "pods before had taken the room",
    "priority": "pods of a higher priority had taken it",
    "spread": "its spread allowed no other at its turn",
    "affinity": "rules between pods allowed no other at its turn",
    "taint": "its node was not up yet",
    "other": "of another cause",
}


def _outlook(plan: Plan, placed: Forecast) -> str:
    """What comes of it once kube-scheduler has placed the pods."""
    count = len(placed.outcomes)
    tries = f"in {count} {'tries' if count > 1 else 'try'} of kube-scheduler's placing"
    deeper = _for_depth(plan)
    least, expected, most = (one + deeper for one in (placed.least, placed.expected, placed.most))
    if placed.most == plan.cost.hourly and not deeper:
        text = f"Realised at ${dollars(expected):.4f}/h, as planned, {tries}"
    else:
        more = f"{expected / plan.cost.hourly - 1:+.1%}"
        if deeper:
            more += f", {deeper / plan.cost.hourly:+.1%} of it for deeper spot pools than the cheapest,"
        if least != most:
            more += f"{'' if deeper else ','} ${dollars(least):.4f} to ${dollars(most):.4f}"
        text = f"Expected to be realised at ${dollars(expected):.4f}/h ({more} {tries})"
    causes = Counter(placed.causes.values()).most_common()
    if causes:
        named = ", ".join(f"{pods} as {_CAUSES.get(cause, cause)}" for cause, pods in causes)
        text += f"; {placed.here:.0%} of the pods go where planned, others elsewhere ({named})"
    if placed.stranded:
        text += f"; {_some(placed.stranded)} may find no place then"
    return f"{text}."


FAILED = 3  # the exit code where a condition of --fail-on is met
_VALID = "valid: unschedulable, cost>DOLLARS (an hour), gap>PERCENT, such as cost>12.5 or gap>5"
_LIMIT = re.compile(r"(cost|gap)\s*>\s*\$?(\d+(?:\.\d+)?)\s*%?")


@dataclass(frozen=True, slots=True)
class Condition:
    """`limit` is dollars per hour for cost, per cent for gap."""

    text: str
    what: str
    limit: float = 0.0

    def broken(self, plan: Plan, more: Sequence[Copies] = ()) -> str:
        """Why the plan fails, in one line; "" if it does not."""
        if self.what == "unschedulable":
            count = len(plan.unschedulable) + sum(one.left for one in more)
            some = f" ({len(plan.untried)} of them not looked at in the time)" if plan.untried else ""
            return f"{number_of(count, 'pod')} left over{some}" if count else ""
        if self.what == "cost":
            cost = dollars(plan.cost.hourly)
            return f"${cost:.4f}/h is more than ${self.limit:g}/h" if cost > self.limit else ""
        percent = 100 * plan.cost.gap
        return f"a gap of {percent:.2f} % is more than {self.limit:g} %" if percent > self.limit else ""


def conditions(texts: Sequence[str]) -> tuple[Condition, ...]:
    """Several may be in one text, with commas between them. Raises InputError."""
    return tuple(_read(part.strip()) for text in texts for part in text.split(","))


def _read(text: str) -> Condition:
    if text == "unschedulable":
        return Condition(text, text)
    match = _LIMIT.fullmatch(text)
    if match is None:
        raise InputError(f"{text!r} is no condition", source="--fail-on", remedy=_VALID)
    return Condition(text, match[1], float(match[2]))


_SHOWN = 3  # workloads without pods
SCHEMA = 1  # raised when a key goes or changes its meaning, not when one is added


def facts(
    problem: Problem, answer: Answer, region: Region | None, more: Sequence[Copies] = ()
) -> dict[str, Any]:
    """For programs; `region` None with a user's own types."""
    plan = answer.plan
    bought = sum(len(claim.pods) for claim in plan.claims) + sum(one.placed for one in more)
    filled = sum(map(len, plan.existing.values()))
    return {
        "schemaVersion": SCHEMA,
        "region": region.name if region else None,
        "regionFrom": region.origin if region else None,
        "prices": provenance(region.name).document() if region else None,
        "pods": {
            "pending": len(problem.pods) + sum(one.pods for one in more),
            "onNewNodes": bought,
            "onExistingNodes": filled,
            "unschedulable": len(plan.unschedulable) + sum(one.left for one in more),
            "notLookedAt": len(plan.untried),
        },
        "monthly": round(monthly(plan.cost.hourly), 2),
        "cutShort": answer.cut_short,
        "atMostCheaper": dollars(answer.hope),
    }


def _at_list_prices(plan: Plan, problem: Problem, more: Sequence[Copies]) -> int:
    """What it costs where no NodeOverlay changes a price, in nano-dollars per hour."""
    changed = _overlaid(problem)
    return plan.cost.hourly + sum(
        times * changed.get(_offer(one), 0) for one, times in _bought(plan.claims, more)
    )


_Offer = tuple[str, str, str, str]  # pool, instance type, zone, capacity type


def _overlaid(problem: Problem) -> dict[_Offer, int]:
    """How much more the cloud asks than NodeOverlays say, where they say something."""
    return {
        (pool.name, kind.name, one.zone, one.capacity_type): one.list_price - one.price
        for pool in problem.pools
        for kind in pool.instance_types
        for one in kind.offerings
        if one.list_price
    }


def _offer(one: PlannedClaim) -> _Offer:
    return one.pool, one.instance_type, one.zone, one.capacity_type


def fact_lines(
    problem: Problem,
    answer: Answer,
    search: Search,
    region: Region | None,
    reading: Reading,
    more: Sequence[Copies] = (),
) -> Iterator[str]:
    """For people."""
    plan, pending = answer.plan, len(problem.pods) + sum(one.pods for one in more)
    if not pending:
        yield f"Nothing to buy: 0 pods {_why_none(reading)}."
    if plan.claims:
        month = monthly(plan.cost.hourly)
        placed = pending - len(plan.unschedulable) - sum(one.left for one in more)
        yield f"${month:,.0f} a month; {placed:,} of {pending:,} pods have a place."
        listed = _at_list_prices(plan, problem, more)
        if listed != plan.cost.hourly:
            yield f"At list prices, without NodeOverlays, these nodes cost ${dollars(listed):.4f}/h."
    if plan.untried:
        looked = pending - len(plan.untried)
        yield (
            f"The search was cut short: {looked:,} of {pending:,} pods were looked at in {search.patience}; "
            f"{search.further} looks further."
        )
    elif answer.cut_short:
        # Without a proof it would be all that the plan costs.
        known = answer.hope if plan.cost.lower_bound else 0
        hope = f" and save up to ${dollars(known):,.4f}/h" if known else ""
        yield f"The search was cut short: more time ({search.further}) may find a cheaper plan{hope}."
    if region is not None:
        origin = "" if region.origin == "--region" else f" (region from {region.origin})"
        yield f"{provenance(region.name).sentence().removesuffix('.')}{origin}."


def remarks(problem: Problem, plan: Plan) -> Iterator[str]:
    """What a user should know of a plan that keeps all rules."""
    short = short_of_memory(problem, plan)
    if short:
        first, pods = short[0], sum(len(one.pods) for one in short)
        node = f"{first.node} ({first.kind})" if first.kind else first.node
        more = f" (and {len(short) - 1:,} more nodes have too little)" if len(short) > 1 else ""
        named = [pod for each in short for pod in each.pods]
        some = ", ".join(named[:_SHOWN]) + (f" and {pods - _SHOWN:,} more" if pods > _SHOWN else "")
        yield (
            f"no memory is asked for by {some}, so that none is kept: node {node} has "
            f"{max(0, first.left) / 2**20:,.0f} MiB for {len(first.pods):,} of them{more}. A container that "
            "takes more than is there is killed: give each a memory request"
        )


def _why_none(reading: Reading) -> str:
    """Why there is no pod to plan for."""
    idle: dict[str, list[str]] = {}
    for item in reading.manifests:
        match item.object:
            case (Deployment() | ReplicaSet() | StatefulSet()) as made if not made.spec.replicas:
                idle.setdefault("replicas: 0", []).append(" ".join(item.written))
            case (Job() | CronJob()) as made if made.spec.suspend:
                idle.setdefault("suspend: true", []).append(" ".join(item.written))
    if idle:
        texts = (
            f"{field} of {', '.join(names[:_SHOWN])}"
            + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
            for field, names in idle.items()
        )
        return f"({'; '.join(texts)})"
    if any(isinstance(item.object, Pod) for item in reading.manifests):
        return "wait for a node"
    return "are asked for: there is neither a Pod nor a workload that wants one"
