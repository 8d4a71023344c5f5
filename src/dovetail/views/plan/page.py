"""The page of a plan: what `-o json` says of it as lists, what each phase of the solver did as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dovetail import __version__
from dovetail.base.words import number_of
from dovetail.views.page.document import one_file, part

_PAGE = "dovetail.views.plan"


def render(
    document: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]],
    sentences: Sequence[str],
    cluster: Sequence[str] = (),
) -> str:
    """The page as text, which needs nothing else.

    `document` is the plan as plan.schema.json has it, `steps` are lines of --trace. `sentences` say what the
    plan comes to, `cluster` what the nodes cost that are there.
    """
    data = page_data(document, steps, sentences, cluster)
    return one_file(f"Dovetail: {data['title']}", part("plan.html", _PAGE), part("plan.js", _PAGE), data)


def page_data(
    document: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]],
    sentences: Sequence[str],
    cluster: Sequence[str],
) -> dict[str, Any]:
    """Everything that the page shows, as JSON values; dollars per hour."""
    claims = [*map(_claim, document["nodeClaims"]), *_copies(document["copies"])]
    nodes = sum(claim["nodes"] for claim in claims)
    hourly = document["cost"]["hourly"]
    title = f"{number_of(nodes, 'node')} for ${hourly:,.4f} an hour"
    return {
        "title": title if nodes else "Nothing to buy",
        "version": __version__,
        "tiles": list(_tiles(document, nodes)),
        "sentences": list(sentences),
        "cluster": list(cluster),
        "groups": document.get("cluster", {}).get("groups", []),
        "claims": claims,
        "existing": [{"node": node, "pods": pods} for node, pods in document["existing"].items()],
        "left": [*map(_left, document["unschedulable"]), *_copies_left(document["copies"])],
        "steps": [dict(step) for step in steps],
        "proof": {key: document["proof"][key] for key in ("bound", "method", "worth")},
    }


def _tiles(document: Mapping[str, Any], nodes: int) -> Iterator[dict[str, Any]]:
    cost, pods = document["cost"], document["pods"]
    left = pods["unschedulable"]
    if nodes:
        yield _tile(f"${cost['hourly']:,.4f}", "an hour")
        yield _tile(f"${document['monthly']:,.0f}", "a month of 730 hours")
        yield _tile(f"${cost['lowerBound']:,.4f}", "an hour is the least, proven")
        yield _tile(f"{cost['gap']:.1%}", "gap between the two")
        yield _tile(f"{nodes:,}", "nodes to buy")
    yield _tile(
        f"{pods['onNewNodes'] + pods['onExistingNodes']:,}", f"of {pods['pending']:,} pods have a place"
    )
    if left:
        yield _tile(f"{left:,}", "pods left over", bad=True)
    if "elapsedSeconds" in document:
        short = ", cut short" if document["cutShort"] else ""
        yield _tile(f"{document['elapsedSeconds']:,.1f} s", f"of search{short}")


def _tile(value: str, label: str, *, bad: bool = False) -> dict[str, Any]:
    return {"value": value, "label": label, "bad": bad}


def _claim(claim: Mapping[str, Any], times: int = 1) -> dict[str, Any]:
    """A row: a node to buy, or `times` of them; `pods` are names, or how many if they have none."""
    return {
        "pool": claim["nodePool"],
        "type": claim["instanceType"],
        "others": max(0, len(claim["instanceTypes"]) - 1),
        "zone": claim["zone"],
        "capacity": claim["capacityType"],
        "price": claim["price"],
        "estimated": claim["priceEstimated"],
        "cpu": claim["requests"].get("cpu", "0"),
        "memory": claim["requests"].get("memory", "0"),
        "pods": claim["pods"],
        "nodes": times,
    }


def _copies(copies: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for one in copies:
        yield from (_claim(claim, claim["nodes"]) for claim in one["nodeClaims"] if claim["nodes"])


def _left(item: Mapping[str, Any]) -> dict[str, Any]:
    """Per pool what the type that comes nearest fails, where that is known."""
    nearest = {} if item.get("gang") else item["nearestMiss"]
    why = [item["gang"]] if item.get("gang") else []
    why += [f"{pool}: {nearest.get(pool, reason)}" for pool, reason in item["nodePools"].items()]
    return {"pod": item["pod"], "pods": 1, "why": "; ".join(why) or item["reason"]}


def _copies_left(copies: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for one in copies:
        if one["unschedulable"]:
            yield {"pod": one["workload"], "pods": one["unschedulable"], "why": one["reason"]}
