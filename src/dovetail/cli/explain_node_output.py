"""How a node's story is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from dovetail.cli.explain_output import CUT, miss_document, offer_document
from dovetail.cli.tables import add_row, new_table
from dovetail.disrupt.standing import Standing
from dovetail.explain import words
from dovetail.explain.node import NodeStory, Option
from dovetail.model.resources import CPU, MEMORY
from dovetail.units.money import dollars

_PODS, _TYPES = 10, 8  # rows shown


def node_document(story: NodeStory) -> dict[str, Any]:
    """A node's story for programs; prices in dollars per hour, amounts in thousandths of CPU and in bytes."""
    found: dict[str, Any] = {"node": story.name, "nodePool": story.pool, "planned": story.planned}
    if story.offer:
        found["offer"] = offer_document(story.offer)
    found["pods"] = [{"pod": pod, "requests": requests} for pod, requests in story.pods]
    found["resources"] = {
        item.name: {"pods": item.pods, "daemons": item.daemons, "allocatable": item.allocatable}
        for item in story.fill
    }
    found["possible"] = [offer_document(item.offer) for item in story.possible]
    found["cheaperButUnfit"] = [
        {**offer_document(item.offer), "misses": [miss_document(miss) for miss in item.misses]}
        for item in story.cheaper
    ]
    if story.cut:
        found["incomplete"] = True
    if story.worth is not None:
        found["provenWorth"] = dollars(story.worth)
    return found


def node_tables(story: NodeStory) -> RenderableType:
    """A node's story for people."""
    parts: list[RenderableType] = [Text(line) for line in _headline(story)]
    parts += [_fill(story), _pods(story)]
    if story.cut:
        parts.append(Text(CUT))
    if story.possible:
        parts += [_possible(story), Text(_next_best(story))]
    if story.cheaper:
        parts.append(_cheaper(story.cheaper))
    return Group(*parts)


def _headline(story: NodeStory) -> Iterator[str]:
    sold = "of unknown type and price"
    if story.offer:
        offer = story.offer
        price = words.dollars(offer.price, estimated=offer.estimated)
        sold = f"{offer.instance_type} in {offer.zone}, {offer.capacity_type}, {price}"
    pool = f"of NodePool {story.pool}" if story.pool else "of no NodePool that is given"
    yield f"{story.name} {'is to be bought' if story.planned else 'is there'}: {sold}, {pool}."
    if story.flexible > 1:
        yield f"It is the cheapest of {story.flexible} types that the cloud may choose from."
    if story.arriving:
        yield f"{story.arriving} of its pods are put there by the plan."
    if story.worth is not None and story.offer:
        yield (
            f"Of its price, {words.dollars(min(story.worth, story.offer.price))} is what the proof of the "
            "lower bound counts for its pods."
        )


def _fill(story: NodeStory) -> RenderableType:
    table = new_table("How full it is", "Resource")
    for heading in ("Pods", "Daemons", "Free", "Of", "Full"):
        table.add_column(heading, justify="right", no_wrap=True)
    for item in story.fill:
        used = item.pods + item.daemons
        amounts = (item.pods, item.daemons, item.allocatable - used, item.allocatable)
        full = f"{used / item.allocatable:.0%}" if item.allocatable else "–"
        add_row(
            table, words.resource(item.name), *(words.bare(item.name, amount) for amount in amounts), full
        )
    return table


def _pods(story: NodeStory) -> RenderableType:
    table = new_table(f"Its {len(story.pods)} pods" if len(story.pods) != 1 else "Its pod", "Pod")
    for heading in ("CPU", "Memory"):
        table.add_column(heading, justify="right", no_wrap=True)
    for pod, requests in story.pods[:_PODS]:
        add_row(
            table, pod, words.bare(CPU, requests.get(CPU, 0)), words.bare(MEMORY, requests.get(MEMORY, 0))
        )
    if len(story.pods) > _PODS:
        add_row(table, f"and {len(story.pods) - _PODS} more", "", "")
    return table


def _possible(story: NodeStory) -> RenderableType:
    table = new_table("Types that hold its pods, the cheapest first", "Instance type", "Zone", "Capacity")
    for heading in ("$/h", "more"):
        table.add_column(heading, justify="right", no_wrap=True)
    for item in story.possible[:_TYPES]:
        offer = item.offer
        more = offer.price - story.offer.price if story.offer else 0
        add_row(
            table,
            offer.instance_type,
            offer.zone,
            offer.capacity_type,
            _price(item),
            f"{dollars(more):+.4f}" if more else "",
        )
    rest = len(story.possible) - _TYPES
    if rest > 0:
        add_row(table, f"and {rest} more", "", "", "", "")
    return table


def _next_best(story: NodeStory) -> str:
    mine = story.offer
    others = [
        item.offer for item in story.possible if mine and item.offer.instance_type != mine.instance_type
    ]
    if not others or mine is None:
        return "No other type holds its pods."
    best = others[0]
    more = best.price - mine.price
    difference = f"{words.dollars(abs(more))} {'more' if more >= 0 else 'less'}"
    return f"Next best is {best.instance_type}: {difference}."


def _cheaper(options: tuple[Option, ...]) -> RenderableType:
    table = new_table("Why nothing cheaper: the nearest of the cheaper types", "Instance type")
    table.add_column("$/h", justify="right", no_wrap=True)
    table.add_column("Why not")
    for item in options:
        add_row(table, item.offer.instance_type, _price(item), _why_not(item))
    return table


def _why_not(item: Option) -> str:
    """What it lacks; the type itself stands beside it."""
    beside = f" than {item.offer.instance_type} has for pods"
    return "; ".join(miss.text.replace(beside, "") for miss in item.misses)


def _price(item: Option) -> str:
    return f"{'~' if item.offer.estimated else ''}{dollars(item.offer.price):.4f}"


def standing_document(found: Standing | None) -> dict[str, Any]:
    """For programs."""
    if found is None:
        return {"managed": False}
    return {
        "managed": True,
        "blockers": list(found.blockers),
        "consolidation": list(found.consolidation),
        "replacement": list(found.replacement),
        "budgets": dict(found.allowed),
        "unreadable": list(found.faults),
        "remedies": list(found.remedies),
    }


def standing_lines(found: Standing | None) -> Iterator[RenderableType]:
    """For people."""
    if found is None:
        yield Text("No NodeClaim among the manifests is this node's, so Dovetail would never disrupt it.")
        return
    if found.blockers:
        table = new_table("What keeps it from being disrupted", "Reason")
        for text in found.blockers:
            add_row(table, text)
        yield table
    else:
        yield Text("Nothing on the node or its pods keeps it from being disrupted.")
    for title, texts in (
        ("What keeps consolidation from looking at it", found.consolidation),
        ("What its replacement waits for", found.replacement),
        ("What would help", found.remedies),
        ("What cannot be read", found.faults),
    ):
        if texts:
            table = new_table(title, "Remedy" if texts is found.remedies else "Reason")
            for text in texts:
                add_row(table, text)
            yield table
    shown = ", ".join(f"{reason} {count}" for reason, count in found.allowed)
    yield Text(f"Nodes of its pool that budgets allow to be disrupted now: {shown}.")
