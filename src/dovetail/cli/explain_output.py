"""How explanations are shown, and the prices of rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from dovetail.base.words import number_of
from dovetail.cli.tables import add_row, new_table
from dovetail.explain import words
from dovetail.explain.cost import CostStory, RulePrice
from dovetail.explain.miss import Miss, NodesVerdict, Offer, PoolVerdict, Way
from dovetail.explain.pod import PodStory
from dovetail.units.money import HOURS_A_MONTH, dollars, monthly

CUT = "The time for the explanation was over before everything was looked at: give a longer --deadline."


def bound(pod: str, node: str, off_spot: str) -> RenderableType:
    """A pod that runs already."""
    return Text(f"{pod} runs on node {node}: there is nothing to plan. {off_spot}".rstrip())


def bound_document(pod: str, node: str, off_spot: str) -> dict[str, Any]:
    """The same for programs."""
    return {"pod": pod, "bound": node, **({"offSpot": off_spot} if off_spot else {})}


def pod_document(story: PodStory) -> dict[str, Any]:
    """A pod's story for programs; prices in dollars per hour."""
    found: dict[str, Any] = {"pod": story.pod, "scheduled": not story.reason}
    if story.claim is not None:
        claim = story.claim
        found["newNode"] = {
            "name": claim.name,
            "nodePool": claim.pool,
            "instanceType": claim.instance_type,
            "zone": claim.zone,
            "capacityType": claim.capacity_type,
            "price": dollars(claim.price),
            "priceEstimated": claim.price_estimated,
            "pods": list(claim.pods),
        }
    if story.node:
        found["node"] = story.node
    if story.given_up:
        found["preferencesGivenUp"] = list(story.given_up)
    if story.off_spot:
        found["offSpot"] = story.off_spot
    if story.reason:
        found["reason"] = story.reason
    if story.gang:
        found["gang"] = story.gang
    if story.mate:
        found["nodePoolsOf"] = story.mate
    if story.cut:
        found["incomplete"] = True
    if story.spare:
        found["missed"] = story.spare
    found["nodePools"] = [_pool(item) for item in story.verdict.pools]
    nodes = story.verdict.nodes
    if nodes.total:
        found["nodes"] = {
            "total": nodes.total,
            "refused": dict(nodes.reasons),
            "open": list(nodes.open),
            "nearest": nodes.nearest,
            "misses": [miss_document(item) for item in nodes.misses],
        }
    return found


def _pool(item: PoolVerdict) -> dict[str, Any]:
    found: dict[str, Any] = {"nodePool": item.pool}
    if item.offer:
        found["cheapest"] = offer_document(item.offer)
    found["misses"] = [miss_document(miss) for miss in item.misses]
    found["wouldFit"] = [
        {"change": [change.words for change in way.changes], "where": way.place} for way in item.ways
    ]
    return found


def offer_document(item: Offer) -> dict[str, Any]:
    """An offering; dollars per hour."""
    return {
        "instanceType": item.instance_type,
        "zone": item.zone,
        "capacityType": item.capacity_type,
        "price": dollars(item.price),
        "priceEstimated": item.estimated,
    }


def miss_document(item: Miss) -> dict[str, str]:
    """What stands in the way."""
    return {"rule": item.rule, "name": item.name, "text": item.text}


def pod_tables(story: PodStory) -> RenderableType:
    """A pod's story for people."""
    parts: list[RenderableType] = [Text(line) for line in _headline(story)]
    if story.off_spot:
        parts.append(Text(story.off_spot))
    if story.broken:
        return Group(*parts)
    if story.verdict.pools:
        parts.append(_pools(story))
    if story.verdict.nodes.total:
        parts.append(_nodes(story.verdict.nodes))
    if story.cut:
        parts.append(Text(CUT))
    ways = [way for pool in story.verdict.pools for way in pool.ways]
    if ways:
        parts.append(_ways(tuple(dict.fromkeys(ways))))
    elif story.reason and not story.spare and not story.cut and bool(story.gang) == bool(story.mate):
        parts.append(Text("No change that was tried would give it a place."))
    return Group(*parts)


def _headline(story: PodStory) -> Iterator[str]:
    if story.reason:
        why = f": {story.reason}" if story.broken else " in this plan."
        yield f"{story.pod} has no place{why}"
        if story.gang:
            yield f"{story.gang[:1].upper()}{story.gang[1:]}."
        if story.spare:
            yield f"The search missed one: after this plan it fits {story.spare}."
        return
    if story.node:
        yield f"{story.pod} goes onto node {story.node}, which has room: that costs nothing more."
    if story.claim:
        claim = story.claim
        price = words.dollars(claim.price, estimated=claim.price_estimated)
        others = len(claim.pods) - 1
        company = f"together with {number_of(others, 'other pod')}" if others else "alone"
        yield (
            f"{story.pod} goes onto a new node of NodePool {claim.pool}, {company}: "
            f"{claim.instance_type} in {claim.zone}, {claim.capacity_type}, {price} ({claim.name})."
        )
    if story.given_up:
        yield f"Preferences given up for it: {words.listed(story.given_up)}."


def _pools(story: PodStory) -> RenderableType:
    whose = f"the way of {story.mate}" if story.mate not in ("", story.pod) else "its way"
    title = f"What stands in {whose}, per NodePool" if story.reason else "The pod alone on a new node"
    table = new_table(title, "NodePool")
    table.add_column("Nearest miss" if story.reason else "Cheapest type that holds it, or the nearest miss")
    for item in story.verdict.pools:
        add_row(table, item.pool, _offer(item.offer) if item.offer else item.text)
    return table


def _offer(item: Offer) -> str:
    price = words.dollars(item.price, estimated=item.estimated)
    return f"{item.instance_type} in {item.zone}, {item.capacity_type}, {price}"


def _nodes(found: NodesVerdict) -> RenderableType:
    those = f"The {found.total} nodes that are" if found.total > 1 else "The node that is"
    table = new_table(f"{those} there or planned")
    table.add_column("Nodes", justify="right")
    table.add_column("What they say")
    for reason, count in found.reasons:
        add_row(table, str(count), reason)
    if found.open:
        add_row(table, str(len(found.open)), f"would take it: {words.listed(found.open)}")
    if found.nearest and not found.open:
        add_row(table, "", f"nearest is {found.nearest}: {'; '.join(item.text for item in found.misses)}")
    return table


def _ways(ways: tuple[Way, ...]) -> RenderableType:
    table = new_table("What would help (each was tried)")
    table.add_column("Change")
    table.add_column("Then it goes")
    for way in ways:
        add_row(table, "; and ".join(change.words for change in way.changes), way.place)
    return table


def cost_document(story: CostStory) -> dict[str, Any]:
    """Prices of rules for programs; dollars per month of 730 hours."""
    return {
        "monthly": round(monthly(story.base.plan.cost.hourly), 2),
        "lowerBound": round(monthly(story.base.plan.cost.lower_bound), 2),
        "rules": [
            {
                "rule": item.rule.what,
                "who": item.rule.who,
                "saved": round(monthly(item.saved), 2),
                "atLeast": round(monthly(item.least), 2),
                "atMost": round(monthly(item.most), 2),
                "nodesFewer": item.nodes,
            }
            for item in story.prices
        ],
        "notComparable": [{"rule": rule.what, "who": rule.who} for rule in story.unclear],
        "notTried": [{"rule": rule.what, "who": rule.who} for rule in story.untried],
    }


def cost_tables(story: CostStory) -> RenderableType:
    """Prices of rules for people."""
    cost = story.base.plan.cost
    if not cost.hourly:
        return Text("The plan buys nothing, so no rule costs anything.")
    parts: list[RenderableType] = [
        Text(
            f"The plan costs ${monthly(cost.hourly):,.2f} a month ({HOURS_A_MONTH} h); no plan under these "
            f"rules costs less than ${monthly(cost.lower_bound):,.2f}."
        )
    ]
    dear = [item for item in story.prices if item.saved > 0 and round(monthly(item.saved), 2) > 0]
    if dear:
        parts.append(_table(dear))
        parts.append(
            Text(
                "Saved: the plan found without that one rule, against this plan. Surely and At most are "
                "proven of the cheapest plans that keep the same preferences and weights; where Surely is "
                "0, a saving may be luck of the search. Rules are lifted one at a time: what they save "
                "does not add up."
            )
        )
    free = len(story.prices) - len(dear)
    parts += [Text(line) for line in _rest(story, free)]
    return Group(*parts)


def _table(prices: Sequence[RulePrice]) -> RenderableType:
    table = new_table("What each rule costs, in dollars a month")
    table.add_column("Without this rule")
    table.add_column("Of")
    for heading in ("Saved", "Surely", "At most", "Nodes"):
        table.add_column(heading, justify="right", no_wrap=True)
    for item in prices:
        figures = (f"{monthly(each):,.2f}" for each in (item.saved, item.least, item.most))
        add_row(table, item.rule.what, item.rule.who, *figures, f"{-item.nodes:+d}" if item.nodes else "")
    return table


def _rest(story: CostStory, free: int) -> list[str]:
    lines = []
    if free:
        lines.append(f"{number_of(free, 'rule that was', 'rules that were')} tried would save nothing.")
    if story.unclear:
        names = "; ".join(f"{rule.what} of {rule.who}" for rule in story.unclear)
        lines.append(f"Could not be compared, because the plan without it leaves pods over: {names}.")
    if story.untried:
        count = len(story.untried)
        lines.append(f"{number_of(count, 'rule was', 'rules were')} not tried (see --tries).")
    return lines
