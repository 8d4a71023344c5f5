"""What `dovetail compare` says of a cluster's dump: the bill, day by day, after switching to Dovetail."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import DAY, HOUR
from dovetail.base.errors import InputError
from dovetail.base.words import number_of
from dovetail.units.money import dollars

if TYPE_CHECKING:
    from dovetail.cli.savings_plan import Commitment
    from dovetail.cluster.problem import ClusterObjects
    from dovetail.disrupt.switching import Switching

_LAST = 365
_PATIENCE = "10m"


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of the question."""

    cluster: Path
    days: str
    region: str | None
    instance_types: Path | None
    prices: Path | None
    deadline: str | None
    work: int | None
    output: str
    savings_plan: Commitment | None = None


def after_switching(asked: Asked) -> None:
    """Answer it. Raises InputError."""
    from dovetail.cli.bill_output import node_prices
    from dovetail.cli.plan_input import read_cluster
    from dovetail.cli.question import Question
    from dovetail.cli.runs_output import time_of
    from dovetail.cli.searching import Patience
    from dovetail.disrupt.bill import anew, movable_nodes
    from dovetail.disrupt.switching import Pace, switching
    from dovetail.simulate.replay.nodes import taken_at
    from dovetail.simulate.scheduler.moving import Bindings

    numbers = _numbers(asked.days)
    if asked.deadline is not None and asked.work is not None:
        raise InputError("only one of --work and --deadline can be given", source="--work")
    question = Question(
        filename=[str(asked.cluster)],
        region=asked.region,
        instance_types=asked.instance_types,
        prices=asked.prices,
        work=asked.work,
    )
    patience = Patience(time_of(asked.deadline or _PATIENCE, "--deadline"), asked.work)
    search = question.search()
    if not any(item.written[0] == NodePool.KIND for item in question.reading.manifests):
        remedy = "give a snapshot of the cluster, with the NodePools that its nodes are of"
        raise InputError(
            "holds no NodePool, so there is nothing to switch", source=str(asked.cluster), remedy=remedy
        )
    problem, objects = question.problem(), _with_claims(read_cluster(question.reading))
    prices = node_prices(problem, question.place.name if question.place else "")
    if not any(node.pool and node.name in prices for node in problem.nodes):
        raise InputError(
            "holds no node of a NodePool whose price is known, so there is nothing to switch",
            source=str(asked.cluster),
            remedy="give a snapshot of the cluster, or a scenario to play",
        )
    fresh = search.answer(anew(problem)).plan
    budget = patience.budget()
    begun, now = time.process_time(), time.time_ns()
    found = switching(
        problem,
        objects,
        prices,
        lambda what_if: search.quick(what_if, budget),
        Bindings(problem),
        budget,
        Pace(),
        max(numbers) * DAY,
        now,
        taken_at(question.reading.manifests) or now,
    )
    spent = time.process_time() - begun
    kept = sum(price.hourly for name, price in prices.items() if not _moves(problem, name))
    # What is proven is about the pods of all nodes that can go, so all of these need a price.
    compared = not fresh.untried and movable_nodes(problem) <= prices.keys()
    least = kept + fresh.cost.lower_bound if compared else None
    if asked.output == "json":
        document = _json(found, numbers, least)
        if asked.savings_plan is not None:
            document["savingsPlan"] = _committed(found, asked.savings_plan)
        print(json.dumps(document, indent=2))
    else:
        _print(found, numbers, least)
        if asked.savings_plan is not None:
            print(_committed_line(found, asked.savings_plan))
        sys.stdout.flush()
    if not found.complete:
        from dovetail.cli.messages import note

        note(f"the search ended after {spent:.0f} s: there is more to be saved; a longer --deadline finds it")


def _with_claims(objects: ClusterObjects) -> ClusterObjects:
    """A dump without any NodeClaim has not been asked for them: each node of a NodePool has one."""
    from msgspec.structs import asdict

    from dovetail.api.karpenter.nodeclaim import NodeClaim, NodeClaimSpec, NodeClaimStatus
    from dovetail.cli.messages import note
    from dovetail.model import labels

    if objects.claims:
        return objects
    pools = {pool.metadata.name: pool for pool in objects.pools}
    made = [
        NodeClaim(
            metadata=node.metadata,
            spec=NodeClaimSpec(**asdict(pool.spec.template.spec)),
            status=NodeClaimStatus(node_name=node.metadata.name, provider_id=node.spec.provider_id),
        )
        for node in objects.nodes
        if (pool := pools.get(node.metadata.labels.get(labels.NODEPOOL, ""))) and node.spec.provider_id
    ]
    if not made:
        return objects
    note(f"there are no NodeClaims in it: those of {len(made)} nodes are taken to be as their pools are now")
    return replace(objects, claims=tuple(made))


def _moves(problem: Any, name: str) -> bool:
    from dovetail.disrupt.bill import movable_nodes

    return name in movable_nodes(problem)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        found = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        found = (0,)
    if not 1 <= found[0] <= found[-1] <= _LAST:
        raise InputError(f"{text!r} are no days", source="--days", remedy=f"such as 1,7,30, at most {_LAST}")
    return found


def _print(found: Switching, numbers: tuple[int, ...], least: int | None) -> None:
    from rich.console import Console

    from dovetail.cli.tables import add_row, new_table
    from dovetail.disrupt.switching import days

    console = Console(highlight=False, markup=False, soft_wrap=True)
    table = new_table("The bill after switching", "Day")
    for heading in ("$ a day", "Saved", "$/h at its end", "Pods moved", "Expired", "Their pods"):
        table.add_column(heading, justify="right", no_wrap=True)
    daily = found.before * 24
    add_row(table, "as it is", f"{dollars(daily):,.0f}", "", f"{dollars(found.before):,.2f}", "", "", "")
    for number, paid in days(found, numbers).items():
        add_row(
            table,
            f"{number}",
            f"{dollars(paid):,.0f}",
            f"{1 - paid / daily:.1%}",
            f"{dollars(found.rate(number * DAY - 1)):,.2f}",
            f"{found.moved((number - 1) * DAY, number * DAY):,}",
            *(f"{amount:,}" for amount in found.expired((number - 1) * DAY, number * DAY)),
        )
    console.print(table)
    hours = _hours(found, max(numbers))
    busiest = max(hours, key=lambda hour: hours[hour], default=0)
    if hours:
        console.print(
            f"Pods moved: {sum(hours.values()):,} in all, {hours[busiest]:,} in the busiest hour (hour "
            f"{busiest + 1}); {', '.join(f'{hours.get(hour, 0):,}' for hour in range(6))} in the first six."
        )
    console.print(f"Nodes: {found.nodes[0]:,} now, {found.nodes[1]:,} in the end.")
    parts = (
        ("packing", found.packing),
        ("choice of types", found.types),
        ("spot", found.spot),
        ("fewer daemonset copies", found.daemons),
    )
    shown = ", ".join(f"{name} {_signed(amount)}" for name, amount in parts)
    console.print(f"Of the difference of {_signed(found.before - found.after)}/h: {shown}.")
    if least is not None:
        console.print(f"No nodes do for less than ${dollars(least):,.2f}/h.")
    for why, number in list(found.held.items())[:5]:
        console.print(f"{number_of(number, 'node takes', 'nodes take')} no part: {why}")
    aged, theirs = found.expired(0, max(numbers) * DAY)
    if aged:
        console.print(
            f"{number_of(aged, 'node reaches its', 'nodes reach their')} age (expireAfter) in "
            f"{number_of(max(numbers), 'day')}, with {number_of(theirs, 'pod')}: "
            "what comes in place of that is taken to cost the same."
        )
    console.print(
        "Pods are counted as they are now; nodes that drift or are interrupted meanwhile are not counted."
    )


def _committed(found: Switching, plan: Commitment) -> dict[str, float]:
    """Dollars an hour; what the nodes come to counts the whole of the plan, used or not."""
    now, end = found.on_demand
    return {
        "hourly": dollars(plan.hourly),
        "discount": plan.discount,
        "usedNow": dollars(plan.used(now)),
        "usedInTheEnd": dollars(plan.used(end)),
        "hourlyNow": dollars(found.before - plan.saved(now)),
        "hourlyInTheEnd": dollars(found.after - plan.saved(end)),
    }


def _committed_line(found: Switching, plan: Commitment) -> str:
    one = _committed(found, plan)
    vain = one["hourly"] - one["usedInTheEnd"]
    lost = f", ${vain:,.2f}/h of it paid in vain" if round(vain, 2) > 0 else ""
    return (
        f"Of the Savings Plan's ${one['hourly']:,.2f}/h, ${one['usedNow']:,.2f}/h are used now and "
        f"${one['usedInTheEnd']:,.2f}/h in the end{lost}. With it the nodes come to "
        f"${one['hourlyNow']:,.2f}/h now and ${one['hourlyInTheEnd']:,.2f}/h in the end."
    )


def _hours(found: Switching, last: int) -> dict[int, int]:
    """Hour since the switch -> pods moved in it."""
    hours = {}
    for hour in sorted({one.at // HOUR for one in found.made}):
        if hour < last * 24:
            hours[hour] = found.moved(hour * HOUR, (hour + 1) * HOUR)
    return hours


def _json(found: Switching, numbers: tuple[int, ...], least: int | None) -> dict[str, Any]:
    from dovetail.disrupt.switching import days

    return {
        "hourlyNow": dollars(found.before),
        "hourlyInTheEnd": dollars(found.after),
        "lowerBound": None if least is None else dollars(least),
        "days": [
            {
                "day": number,
                "cost": dollars(paid),
                "hourlyAtItsEnd": dollars(found.rate(number * DAY - 1)),
                "podsMoved": found.moved((number - 1) * DAY, number * DAY),
                "nodesExpired": found.expired((number - 1) * DAY, number * DAY)[0],
                "podsOfExpiredNodes": found.expired((number - 1) * DAY, number * DAY)[1],
            }
            for number, paid in days(found, numbers).items()
        ],
        "expired": dict(zip(("nodes", "pods"), found.expired(0, max(numbers) * DAY), strict=True)),
        "podsMovedByHour": {str(hour): count for hour, count in _hours(found, max(numbers)).items()},
        "difference": {
            "hourly": dollars(found.before - found.after),
            "packing": dollars(found.packing),
            "types": dollars(found.types),
            "spot": dollars(found.spot),
            "daemonsets": dollars(found.daemons),
        },
        "nodes": {"now": found.nodes[0], "inTheEnd": found.nodes[1]},
        "nodesWithoutPart": dict(found.held),
        "cutShort": not found.complete,
    }


def _signed(nanos: int) -> str:
    return f"{'-' if nanos < 0 else ''}${abs(dollars(nanos)):,.2f}"
