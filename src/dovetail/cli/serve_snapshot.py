"""The page of a snapshot: what stands at one instant, what it costs at least, and what would be done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dovetail.api.core import Pod
from dovetail.base.errors import InputError
from dovetail.cli.messages import note
from dovetail.cli.plan_input import read_cluster
from dovetail.cli.question import Question
from dovetail.cli.region import Region
from dovetail.cli.searching import Search
from dovetail.cloud.catalog.lookup import catalogue_price
from dovetail.cost.facts import Facts
from dovetail.cost.store import is_store
from dovetail.disrupt.bill import anew, bill, repack
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.views.live.present import Present
from dovetail.views.report.facts import Absent

_DEADLINE = "3s"  # of each of the three questions, unless the user says otherwise
_PAST = (
    "What was: cost over time, past decisions, who bore the cost",
    "a snapshot is one instant; a record of costs or a log knows what was: dovetail serve FILE",
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the page shows of it: now, and nothing before."""

    present: Present
    at: int  # nanoseconds since the epoch
    absent: Absent

    @property
    def span(self) -> tuple[int, int]:
        """See Past."""
        return self.at, self.at

    def read(self, start: int, end: int) -> Facts:
        """See Past."""
        return Facts(start=start, end=end)


def read_snapshot(path: Path, region: str | None, deadline: str | None) -> Snapshot:
    """Of manifests in a file; its instant is the file's own. Raises InputError.

    What would be bought and moved and the proven least are looked for first; where they cannot be known, the
    page says why.
    """
    question = Question(filename=[str(path)], region=region, deadline=deadline or _DEADLINE)
    question.search()  # a wrong deadline is said before anything else
    others = (item.object for item in question.reading.manifests if not isinstance(item.object, Pod))
    at = path.stat().st_mtime_ns
    present = Present(lambda: at, catalogue_price)
    for obj in (*others, *read_cluster(question.reading).pods):  # with the pods of workloads that have none
        present.changed(type(obj), "ADDED", None, obj)
    absent = [_PAST]
    note("looking for what would be bought and moved, and for the least that its pods can cost")
    try:
        problem, search = question.problem(), question.search()
        plan = search.answer(problem).plan
        for kind, fields in (*_launches(plan), *_moves(problem, search, question.place)):
            present.logged(kind, fields)
        for pod, text in _places(plan):
            present.waits(pod, text)
    except InputError as error:
        why = f"{error.message}{f'; {error.remedy}' if error.remedy else ''}"
        note(f"what would be done and the least are not known: {why}")
        absent.insert(0, ("What would be done, the proven least, and the gap", why))
    return Snapshot(present, at, tuple(absent))


# Of the event log, as a controller that only looks on has them.
Records = Iterator[tuple[str, Mapping[str, Any]]]


def _launches(plan: Plan) -> Records:
    if plan.claims:
        nodes = [
            {
                "nodepool": one.pool,
                "instance-type": one.instance_type,
                "zone": one.zone,
                "capacity-type": one.capacity_type,
                "pods": len(one.pods),
            }
            for one in plan.claims
        ]
        yield (
            "observed.launch",
            {
                "pods": sum(len(one.pods) for one in plan.claims),
                "nodes": nodes,
                "hourly": plan.cost.hourly,
                "lowerBound": plan.cost.lower_bound,
            },
        )
    for left in plan.unschedulable:
        yield "pod.unplaced", {"pod": left.pod, "message": left.reason}


def _places(plan: Plan) -> Iterator[tuple[str, str]]:
    """Of pods that wait and have a place in the plan: its words."""
    for claim in plan.claims:
        for pod in claim.pods:
            yield pod, f"a node would be bought for it: {claim.instance_type} in {claim.zone} ({claim.pool})"
    for node, pods in plan.existing.items():
        for pod in pods:
            yield pod, f"has room on {node}"


def _moves(problem: Problem, search: Search, region: Region | None) -> Records:
    """The least that the pods of nodes that can go cost, and what would be moved to get there."""
    from dovetail.cli.bill_output import node_prices

    prices = node_prices(problem, region.name if region else "")
    if not prices:
        return
    found = bill(problem, prices, search.answer(anew(problem)).plan)
    now = found.movable.cost
    if found.fresh is not None and now and not found.homeless:
        yield "efficiency", {"cost": now, "lowerBound": min(found.fresh.least, now)}
    budget = search.what_ifs.budget()
    moves = repack(problem, prices, lambda asked: search.quick(asked, budget), budget)
    for move in moves.moves if moves is not None else ():
        yield (
            "observed.disruption",
            {
                "reason": "Underutilized" if any(one.pods for one in move.candidates) else "Empty",
                "nodes": [one.name for one in move.candidates],
                "replacements": [one.instance_type for one in move.claims],
                "pods": sum(len(one.pods) for one in move.candidates),
                "savings": move.saving,
            },
        )


def is_manifests(path: Path) -> bool:
    """Are these objects, and no log, record or scenario? A log begins with a JSON object of no apiVersion.

    Raises InputError for a file that cannot be read.
    """
    if path.is_dir():
        return not (path / "scenario.yaml").is_file()
    if not path.is_file() or is_store(path):
        return False
    if path.name.endswith(".gz"):
        return True
    try:
        with path.open("rb") as file:
            first = next((line for line in file if line.strip()), b"")
        found = msgspec.json.decode(first)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=str(path)) from None
    except msgspec.MsgspecError:
        return not first.lstrip().startswith(b"{") or path.suffix == ".json"
    return isinstance(found, list) or (isinstance(found, dict) and "apiVersion" in found)
