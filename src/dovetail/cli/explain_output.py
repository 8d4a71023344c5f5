"""How explanations are shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from dovetail.cli.tables import add_row, new_table
from dovetail.explain import words
from dovetail.explain.miss import Miss, NodesVerdict, Offer, PoolVerdict, Way
from dovetail.explain.pod import PodStory
from dovetail.model.offering import NANO_DOLLARS

CUT = "The time for the explanation was over before everything was looked at: give a longer --deadline."


def bound(pod: str, node: str) -> RenderableType:
    """A pod that runs already."""
    return Text(f"{pod} runs on node {node}: there is nothing to plan.")


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
            "price": claim.price / NANO_DOLLARS,
            "priceEstimated": claim.price_estimated,
            "pods": list(claim.pods),
        }
    if story.node:
        found["node"] = story.node
    if story.given_up:
        found["preferencesGivenUp"] = list(story.given_up)
    if story.reason:
        found["reason"] = story.reason
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
        "price": item.price / NANO_DOLLARS,
        "priceEstimated": item.estimated,
    }


def miss_document(item: Miss) -> dict[str, str]:
    """What stands in the way."""
    return {"rule": item.rule, "name": item.name, "text": item.text}


def pod_tables(story: PodStory) -> RenderableType:
    """A pod's story for people."""
    parts: list[RenderableType] = [Text(line) for line in _headline(story)]
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
    elif story.reason and not story.spare and not story.cut:
        parts.append(Text("No change that was tried would give it a place."))
    return Group(*parts)


def _headline(story: PodStory) -> Iterator[str]:
    if story.reason:
        why = f": {story.reason}" if story.broken else " in this plan."
        yield f"{story.pod} has no place{why}"
        if story.spare:
            yield f"The search missed one: after this plan it fits {story.spare}."
        return
    if story.node:
        yield f"{story.pod} goes onto node {story.node}, which has room: that costs nothing more."
    if story.claim:
        claim = story.claim
        price = words.dollars(claim.price, estimated=claim.price_estimated)
        others = len(claim.pods) - 1
        company = f"together with {others} other pod{'s' if others != 1 else ''}" if others else "alone"
        yield (
            f"{story.pod} goes onto a new node of NodePool {claim.pool}, {company}: "
            f"{claim.instance_type} in {claim.zone}, {claim.capacity_type}, {price} ({claim.name})."
        )
    if story.given_up:
        yield f"Preferences given up for it: {words.listed(story.given_up)}."


def _pools(story: PodStory) -> RenderableType:
    title = "What stands in its way, per NodePool" if story.reason else "The pod alone on a new node"
    table = new_table(title, "NodePool")
    table.add_column("Nearest miss" if story.reason else "Cheapest type that holds it, or the nearest miss")
    for item in story.verdict.pools:
        add_row(table, item.pool, _offer(item.offer) if item.offer else item.text)
    return table


def _offer(item: Offer) -> str:
    price = words.dollars(item.price, estimated=item.estimated)
    return f"{item.instance_type} in {item.zone}, {item.capacity_type}, {price}"


def _nodes(found: NodesVerdict) -> RenderableType:
    table = new_table(f"The {found.total} nodes that are there or planned")
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
