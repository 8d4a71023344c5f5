"""The least that the pods of a cluster can come to cost while spot may not follow spot: the gate is shut.

Such nodes only stay or go. Budgets and the limit on moves forbid nothing more within an hour, since nodes may
go one after the other, and each pod once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from dovetail.base.clock import SECOND
from dovetail.cli.question import Question
from dovetail.disrupt.bill import movable_nodes, without
from dovetail.disrupt.pods import reschedulable
from dovetail.kube.memory.store import Change
from dovetail.model import labels
from dovetail.model.problem import Budget, ExistingNode, Pool, Problem
from dovetail.simulate.analysis.log import Record
from dovetail.solve.solver import solve

_MOST = 6  # spot nodes, of which each may stay: 64 questions
_PROVEN = Budget.within(10 * SECOND)  # a second leaves up to 7 % between the best plan and what is proven


class Objects:
    """A spectator of a simulation: all objects as they are."""

    def __init__(self) -> None:
        self._documents: dict[tuple[str, str, str], dict[str, Any]] = {}

    def changed(self, change: Change[Any]) -> None:
        """See Spectator."""
        kind, document = change.after.kind, change.after.document
        meta = document["metadata"]
        key = (kind.KIND, meta.get("namespace", ""), meta["name"])
        if change.type == "DELETED":
            del self._documents[key]
        else:
            self._documents[key] = {"apiVersion": kind.API_VERSION, "kind": kind.KIND, **document}

    def progress(self, now: int, records: Sequence[Record]) -> None:
        """See Spectator."""

    def owners(self) -> Iterator[str]:
        """Of each pod that is on a node and could be on another."""
        for (kind, namespace, _), document in self._documents.items():
            meta = document["metadata"]
            if kind == "Pod" and document["spec"].get("nodeName") and not meta.get("deletionTimestamp"):
                for owner in meta.get("ownerReferences", ()):
                    if owner["kind"] != "DaemonSet":
                        yield f"{namespace}/{owner['kind']}/{owner['name']}"

    def write(self, path: Path) -> Path:
        """A List of them, for commands that read a cluster."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(self._documents.values())}
        path.write_text(json.dumps(listed) + "\n", encoding="utf-8")
        return path


def least(cluster: Path, region: str, prices: Mapping[str, int]) -> int:
    """Nano-dollars per hour that its pods cost at least, on the spot nodes that are there and any others.

    `prices` (nano-dollars per hour, by node) are what the nodes were bought for: spot prices change.
    """
    problem = Question(filename=[str(cluster)], region=region).problem()
    movable = movable_nodes(problem)
    nodes = [node for node in problem.nodes if node.name in movable]
    spot = [node for node in nodes if node.labels.get(labels.CAPACITY_TYPE) == labels.SPOT]
    if not spot or len(spot) > _MOST:
        return _bound(without(problem, movable), _PROVEN)
    steady = replace(problem, pools=tuple(map(_without_spot, problem.pools)))
    return min(
        sum(prices[node.name] for node in kept) + _bound(_beside(steady, movable, kept), Budget())
        for kept in _subsets(spot)
    )


def anew(cluster: Path, region: str) -> Problem:
    """The problem of placing its pods on nodes that are all bought for them."""
    problem = Question(filename=[str(cluster)], region=region).problem()
    return without(problem, movable_nodes(problem))


def proven(problem: Problem) -> int:
    """Nano-dollars per hour that its plan costs at least, by ten seconds' work."""
    return _bound(problem, _PROVEN)


def _beside(problem: Problem, movable: frozenset[str], kept: Sequence[ExistingNode]) -> Problem:
    """All pods of nodes that can go are to be placed: on these, on others that stay, or on new ones."""
    empty = (replace(node, pods=tuple(pod for pod in node.pods if not reschedulable(pod))) for node in kept)
    asked = without(problem, movable)
    return replace(asked, nodes=(*asked.nodes, *empty))


def _bound(problem: Problem, budget: Budget) -> int:
    plan = solve(problem, budget)
    return plan.cost.lower_bound if not plan.unschedulable else 2**62


def _subsets(nodes: Sequence[ExistingNode]) -> Iterator[tuple[ExistingNode, ...]]:
    return chain.from_iterable(combinations(nodes, count) for count in range(len(nodes) + 1))


def _without_spot(pool: Pool) -> Pool:
    kinds = [
        replace(kind, offerings=tuple(one for one in kind.offerings if one.capacity_type != labels.SPOT))
        for kind in pool.instance_types
    ]
    return replace(pool, instance_types=tuple(kind for kind in kinds if kind.offerings))
