"""CapacityBuffers among the manifests: what the room that they keep costs, beside the plan for the pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dovetail.api.core import Pod
from dovetail.api.karpenter.capacitybuffer import CapacityBuffer
from dovetail.api.meta import Object
from dovetail.api.namespaces import LimitRange
from dovetail.base.words import number_of
from dovetail.cli.messages import note
from dovetail.cli.tables import add_row, new_table
from dovetail.explain.aftermath import aftermath
from dovetail.model.buffers import bounded, replicas, resolve, virtual_pods
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.reading import Manifest
from dovetail.units.money import dollars

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class Kept:
    """A buffer, the pods that stand for it, and how many it wants, which may be more."""

    name: str  # namespace/name
    wanted: int
    pods: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class Buffers:
    """All buffers, and what is bought for them once the pods have their places."""

    kept: tuple[Kept, ...]
    plan: Plan

    def parts(self, one: Kept) -> tuple[int, int, int]:
        """How many of its units find room, need nodes of their own, and have no place."""
        keys = {pod.key for pod in one.pods}
        new = sum(len(keys.intersection(claim.pods)) for claim in self.plan.claims)
        room = sum(len(keys.intersection(pods)) for pods in self.plan.existing.values())
        return room, new, one.wanted - room - new


def kept_of(manifests: Sequence[Manifest]) -> tuple[Kept, ...]:
    """The buffers among the manifests; notes tell of those that count and of those that do not."""
    objects: Mapping[tuple[type[Object], str], Object] = {
        (type(item.object), item.object.key): item.object for item in manifests
    }
    ranges = [one for one in objects.values() if isinstance(one, LimitRange)]

    def lookup(kind: type[Object], key: str) -> Object | None:
        return objects.get((kind, key))

    found = {
        item.object.key: (item.object, resolve(item.object, lookup, ranges))
        for item in manifests
        if isinstance(item.object, CapacityBuffer)
    }
    for key, (_, resolution) in found.items():
        if resolution.template is None:
            note(f"CapacityBuffer {key} is left out: {resolution.message}")
    wanted = {key: replicas(*each) for key, each in found.items() if each[1].template is not None}
    if wanted:
        named = ", ".join(sorted(wanted))
        verb = f"CapacityBuffer {named} counts" if len(wanted) == 1 else f"CapacityBuffers {named} count"
        note(f"{verb} here; in a cluster the gate CapacityBuffer decides, which is shut by default")
    numbers = bounded(wanted)
    kept = []
    for key, (buffer, resolution) in found.items():
        if resolution.template is not None:
            pods = virtual_pods(buffer, resolution.template, numbers[key])
            kept.append(Kept(key, wanted[key], pods))
    return tuple(kept)


def after_pods(problem: Problem, plan: Plan, kept: Iterable[Kept]) -> Problem:
    """What is asked for the buffers after the plan, as the controller does: pods come first."""
    found = aftermath(problem, plan, tuple(pod for one in kept for pod in one.pods))
    there = {node.name for node in problem.nodes}
    nodes = tuple(  # what is bought for buffers has names of its own, which begin anew
        node if node.name in there else replace(node, name=f"planned/{node.name}") for node in found.nodes
    )
    return replace(found, nodes=nodes)


def buffer_lines(buffers: Buffers) -> Iterator[Table | str]:
    """For people."""
    table = new_table("Room that CapacityBuffers keep", "Buffer")
    for heading in ("Pods", "Find room", "Need nodes", "No place"):
        table.add_column(heading, justify="right")
    for one in buffers.kept:
        add_row(table, one.name, str(one.wanted), *map(str, buffers.parts(one)))
    yield table
    claims = buffers.plan.claims
    if not claims:
        yield "The buffers need no node of their own."
        return
    number = number_of(len(claims), "more node")
    types = ", ".join(f"{count} x {name}" for name, count in _counted(one.instance_type for one in claims))
    hourly = dollars(buffers.plan.cost.hourly)
    yield f"The buffers need {number} ({types}), for ${hourly:,.4f}/h beside the plan."


def _counted(names: Iterable[str]) -> list[tuple[str, int]]:
    found: dict[str, int] = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return sorted(found.items())


def buffer_document(buffers: Buffers) -> dict[str, Any]:
    """For programs."""
    each = []
    for one in buffers.kept:
        room, new, left = buffers.parts(one)
        each.append(
            {"buffer": one.name, "pods": one.wanted, "fit": room, "needNodes": new, "unschedulable": left}
        )
    return {
        "hourlyCost": dollars(buffers.plan.cost.hourly),
        "nodes": [
            {
                "nodePool": claim.pool,
                "instanceType": claim.instance_type,
                "zone": claim.zone,
                "capacityType": claim.capacity_type,
                "hourlyPrice": dollars(claim.price),
                "pods": list(claim.pods),
            }
            for claim in buffers.plan.claims
        ],
        "buffers": each,
    }
