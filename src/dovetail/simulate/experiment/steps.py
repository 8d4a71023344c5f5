"""From a pending pod to its node, step by step: five with Cluster Autoscaler, three without node groups.

Only pods count that a new node was bought for: one that was asked for after the pod was there, and that the
pod ran on. The steps of a pod add up to its time, so that those of the mean do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from dovetail.base.clock import SECOND

Record = Mapping[str, Any]
WITH_GROUPS = (
    "pod is pending",
    "Cluster Autoscaler raises a node group",
    "the group starts an instance",
    "node is added",
    "pod is scheduled",
)
DIRECT = ("pod is pending", "node is added", "pod is scheduled")


@dataclass(frozen=True, slots=True)
class Steps:
    """`at` is when each step is reached on average, in seconds after the pod was created."""

    names: tuple[str, ...]
    at: tuple[float, ...]
    pods: int
    # Of three steps: when the node was asked for and when its instance started, on the way to the second.
    asked: float = 0.0
    started: float = 0.0


def steps(records: Sequence[Record], *, groups: bool) -> Steps | None:
    """The mean over pods; None where none waited for a node of its own. `groups`: nodes come from groups."""
    names = WITH_GROUPS if groups else DIRECT
    found = _pods(records, groups=groups)
    if not found:
        return None
    asked, started, ready, bound = (fmean(each[part] for each in found) for part in range(4))
    at = (0.0, asked, started, ready, bound) if groups else (0.0, ready, bound)
    return Steps(names, at, len(found), asked, started)


def _pods(records: Sequence[Record], *, groups: bool) -> list[tuple[float, float, float, float]]:
    """Asked, started, ready and bound of each pod, in seconds after it was created."""
    created: dict[str, int] = {}
    asked: dict[str, int] = {}  # by claim, or by node of a group
    started: dict[str, int] = {}  # by claim, or by node of a group
    ready: dict[str, int] = {}
    claim_of: dict[str, str] = {}
    found = []
    for record in records:
        at = record["t"]
        match record["kind"]:
            case "pod.created":
                created[record["pod"]] = at
            case "claim.created":
                asked[record["claim"]] = at
            case "instance.started":
                name = record.get("node") or record.get("claim", "")
                started[name] = at
                if "asked" in record:
                    asked[name] = record["asked"]
            case "node.created":
                claim_of[record["node"]] = record.get("claim") or ""
            case "node.ready":
                ready.setdefault(record["node"], at)
            case "pod.bound" if record["pod"] in created:
                node, born = record["node"], created[record["pod"]]
                origin = node if groups else claim_of.get(node, "")
                begun, up = started.get(origin), ready.get(node)
                order = asked.get(origin)
                if begun is None or up is None or order is None or not born <= order <= begun <= up <= at:
                    continue
                if order == up:  # it was there when the play began, as nodes of replays are
                    continue
                found.append(tuple((each - born) / SECOND for each in (order, begun, up, at)))
    return found  # type: ignore[return-value]  # four parts each
