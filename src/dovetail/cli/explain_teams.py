"""`dovetail explain teams`: the least that each team's pods could cost, alone and together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from dovetail.api.core import Pod
from dovetail.base.errors import InputError
from dovetail.cli.tables import add_row, new_table
from dovetail.cost.aggregate import key_of, strict_keys
from dovetail.cost.allocation import Properties
from dovetail.cost.facts import owner_of
from dovetail.cost.filters import sanitized
from dovetail.disrupt.pods import reschedulable, unbound
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.units.money import HOURS_A_MONTH, monthly

Solve = Callable[[Problem], Plan]
_MOST = 40  # each is a plan of its own


@dataclass(frozen=True, slots=True)
class Team:
    """`plan` of its pods on nodes of their own."""

    name: str
    pods: int
    plan: Plan


def keys_of(given: str) -> tuple[str, ...]:
    """What to group by. Raises InputError for what is nothing of the kind."""
    try:
        keys = strict_keys(given)
    except ValueError:
        keys = ()
    if not keys or set(keys) & {"node", "pod", "container", "cluster"}:
        raise InputError(
            f"{given!r} is nothing that pods are grouped by",
            source="--by",
            remedy="give namespace, controller, label:NAME or the like",
        )
    return keys


def emptied(problem: Problem) -> Problem:
    """Its pods and pools before there was any node: all of them are to be bought for."""
    there = (pod for node in problem.nodes for pod in node.pods)
    pods = (*problem.pods, *(unbound(pod) for pod in there if reschedulable(pod)))
    pools = tuple(replace(pool, usage={}) for pool in problem.pools)
    return replace(problem, nodes=(), pods=pods, pools=pools)


def teams(problem: Problem, keys: tuple[str, ...], solve: Solve, step: Callable[[str], None]) -> list[Team]:
    """Each group's pods planned alone, dearest first; `problem` is emptied.

    Raises InputError for too many groups.
    """
    groups: dict[str, list[Pod]] = {}
    for pod in problem.pods:
        groups.setdefault(_group(pod, keys), []).append(pod)
    if len(groups) > _MOST:
        raise InputError(
            f"there are {len(groups)} groups, and each is planned alone",
            source="--by",
            remedy=f"group by something that {_MOST} at most have, such as namespace",
        )
    found = []
    for name, pods in sorted(groups.items()):
        step(name)
        found.append(Team(name, len(pods), solve(replace(problem, pods=tuple(pods)))))
    return sorted(found, key=lambda team: (-team.plan.cost.hourly, team.name))


def _group(pod: Pod, keys: tuple[str, ...]) -> str:
    labels = pod.metadata.labels
    owner = next((one for one in pod.metadata.owner_references if one.controller), None)
    kind, name = owner_of(f"{owner.kind}/{owner.name}" if owner is not None else "", labels)
    about = Properties(
        controller=name,
        controller_kind=kind,
        namespace=pod.metadata.namespace,
        labels={sanitized(key): value for key, value in labels.items()},
        annotations={sanitized(key): value for key, value in pod.metadata.annotations.items()},
    )
    return key_of(about, keys)


def tables(found: list[Team], together: Plan, by: str) -> RenderableType:
    """For people; dollars per month."""
    if not found:
        return Text("There are no pods, so nothing could cost anything.")
    table = new_table(
        f"What pods need by {by}, dollars a month", "Name", "Pods", "Alone", "At least", "Nodes", ""
    )
    for column in table.columns[1:5]:
        column.justify = "right"
    for team in found:
        cost = team.plan.cost
        left = f"{len(team.plan.left)} without a place" if team.plan.left else ""
        least = f"{monthly(cost.lower_bound):,.2f}"
        nodes = str(len(team.plan.claims))
        add_row(table, team.name, str(team.pods), f"{monthly(cost.hourly):,.2f}", least, nodes, left)
    return Group(table, *(Text(line) for line in _lines(found, together)))


def _lines(found: list[Team], together: Plan) -> Iterator[str]:
    alone = sum(team.plan.cost.hourly for team in found)
    cost = together.cost
    yield (
        f"Alone they cost ${monthly(alone):,.2f} a month ({HOURS_A_MONTH} h) in all; together "
        f"${monthly(cost.hourly):,.2f} on {len(together.claims)} nodes, and at least "
        f"${monthly(cost.lower_bound):,.2f}: proven."
    )
    if alone > cost.hourly:
        yield f"Sharing nodes saves ${monthly(alone - cost.hourly):,.2f} a month."
    yield "Alone: on nodes of their own, planned anew with an empty cluster, daemonsets included."


def document(found: list[Team], together: Plan, keys: tuple[str, ...]) -> dict[str, Any]:
    """For programs; dollars per month of 730 hours."""
    return {
        "by": list(keys),
        "teams": [
            {
                "name": team.name,
                "pods": team.pods,
                "withoutPlace": len(team.plan.left),
                "nodes": len(team.plan.claims),
                "alone": round(monthly(team.plan.cost.hourly), 2),
                "atLeast": round(monthly(team.plan.cost.lower_bound), 2),
            }
            for team in found
        ],
        "together": {
            "nodes": len(together.claims),
            "monthly": round(monthly(together.cost.hourly), 2),
            "atLeast": round(monthly(together.cost.lower_bound), 2),
        },
    }
