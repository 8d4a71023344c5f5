"""What is said of every plan: its region, prices and pods, and whether the search was cut short."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from dovetail.api.core import Pod
from dovetail.api.workloads import Deployment, ReplicaSet, StatefulSet
from dovetail.cli.region import Region
from dovetail.cli.searching import Answer, Search
from dovetail.cloud.catalog.provenance import provenance
from dovetail.model.offering import HOURS_A_MONTH, NANO_DOLLARS
from dovetail.model.problem import Problem
from dovetail.reading import Reading

_SHOWN = 3  # workloads without pods
SCHEMA = 1  # raised when a key goes or changes its meaning, not when one is added


def facts(problem: Problem, answer: Answer, region: Region | None) -> dict[str, Any]:
    """For programs; `region` None with a user's own types."""
    plan = answer.plan
    bought = sum(len(claim.pods) for claim in plan.claims)
    filled = sum(map(len, plan.existing.values()))
    return {
        "schemaVersion": SCHEMA,
        "region": region.name if region else None,
        "regionFrom": region.origin if region else None,
        "prices": provenance(region.name).document() if region else None,
        "pods": {
            "pending": len(problem.pods),
            "onNewNodes": bought,
            "onExistingNodes": filled,
            "unschedulable": len(plan.unschedulable),
            "notLookedAt": len(plan.untried),
        },
        "monthly": round(plan.cost.hourly * HOURS_A_MONTH / NANO_DOLLARS, 2),
        "cutShort": answer.cut_short,
        "atMostCheaper": answer.hope / NANO_DOLLARS,
    }


def fact_lines(
    problem: Problem, answer: Answer, search: Search, region: Region | None, reading: Reading
) -> Iterator[RenderableType]:
    """For people."""
    plan, pending = answer.plan, len(problem.pods)
    if not pending:
        yield Text(f"Nothing to buy: 0 pods {_why_none(reading)}.")
    if plan.claims:
        month = plan.cost.hourly * HOURS_A_MONTH / NANO_DOLLARS
        placed = pending - len(plan.unschedulable)
        yield Text(f"${month:,.0f} a month; {placed:,} of {pending:,} pods have a place.")
    if plan.untried:
        looked = pending - len(plan.untried)
        yield Text(
            f"The search was cut short: {looked:,} of {pending:,} pods were looked at in {search.patience}; "
            f"{search.further} looks further."
        )
    elif answer.cut_short:
        more = f" and save up to ${answer.hope / NANO_DOLLARS:,.4f}/h" if answer.hope else ""
        yield Text(f"The search was cut short: more time ({search.further}) may find a cheaper plan{more}.")
    if region is not None:
        origin = "" if region.origin == "--region" else f" (region from {region.origin})"
        yield Text(f"{provenance(region.name).sentence().removesuffix('.')}{origin}.")


def _why_none(reading: Reading) -> str:
    """Why there is no pod to plan for."""
    idle = [
        " ".join(item.written)
        for item in reading.manifests
        if isinstance(item.object, Deployment | ReplicaSet | StatefulSet) and not item.object.spec.replicas
    ]
    if idle:
        more = f" and {len(idle) - _SHOWN} more" if len(idle) > _SHOWN else ""
        return f"(replicas: 0 of {', '.join(idle[:_SHOWN])}{more})"
    if any(isinstance(item.object, Pod) for item in reading.manifests):
        return "wait for a node"
    return "are asked for: there is neither a Pod nor a workload that wants one"
