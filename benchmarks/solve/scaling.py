"""How times grow with pods, with distinct shapes, with instance types and with nodes that exist."""

from __future__ import annotations

from functools import partial

from benchmarks.solve import inputs
from benchmarks.solve.case import SolveCase
from benchmarks.solve.traces import types
from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.base.streams import stream
from dovetail.cluster.problem import ClusterObjects
from dovetail.model import labels
from dovetail.model.problem import Problem

_REGION = "us-east-1"
_ON_DEMAND = (
    {"key": labels.CAPACITY_TYPE, "operator": "In", "values": [labels.ON_DEMAND]},
    {"key": labels.ARCH, "operator": "In", "values": ["amd64"]},
)


def cases() -> list[SolveCase]:
    """Each grows in one thing and keeps the others."""
    found = [SolveCase(f"pods/{count}", partial(sized, count, 50)) for count in (1_000, 10_000, 100_000)]
    found += [
        SolveCase(f"shapes/{count}", partial(sized, 10_000, count)) for count in (10, 100, 300, 1_000, 3_000)
    ]
    found += [SolveCase(f"types/{count}", partial(typed, count)) for count in (100, 400, 1_600)]
    found += [SolveCase(f"nodes/{count}", partial(running, count)) for count in (0, 100, 500, 2_000, 5_000)]
    return found


def sizes(count: int) -> list[tuple[int, int]]:
    """Different sizes of ordinary pods, milli-CPU and MiB: 50 m to 16 CPUs, 1 to 8 GiB per CPU."""
    found: dict[tuple[int, int], None] = {}
    number = 0
    while len(found) < count:
        draw = stream(number, "pod", "benchmark size")
        cpu = 10 * round(5 * 320 ** draw.random())
        found[cpu, max(64, round(cpu * 1.024 * 2 ** draw.uniform(0, 3)))] = None
        number += 1
    return list(found)


def sized(pods: int, shapes: int) -> Problem:
    """Pods of so many different sizes, on the real types of a region on demand."""
    menu = sizes(shapes)
    made = [inputs.pod(number, *menu[number % shapes]) for number in range(pods)]
    return inputs.problem(made, types(_REGION), requirements=_ON_DEMAND)


def typed(count: int) -> Problem:
    """Two thousand pods of fifty sizes on so many types of growing size."""
    menu = sizes(50)
    made = [inputs.pod(number, *menu[number % 50]) for number in range(2_000)]
    return inputs.problem(made, inputs.linear_types(count))


def running(count: int) -> Problem:
    """Two thousand pods of fifty sizes beside so many nodes of 8 CPUs, each with two pods of 3 CPUs."""
    nodes, bound = [], []
    for number in range(count):
        name = f"node-{number:05}"
        nodes.append(decode(_node(name, inputs.ZONES[number % 3]), Node))
        for place in range(2):
            document = inputs.pod(1_000_000 + 2 * number + place, 3_000, 4_096, nodeName=name)
            bound.append(decode(document, Pod))
    menu = sizes(50)
    made = [inputs.pod(number, *menu[number % 50]) for number in range(2_000)]
    objects = ClusterObjects(nodes=tuple(nodes), pods=tuple(bound))
    return inputs.problem(made, inputs.linear_types(100), objects=objects)


def _node(name: str, zone: str) -> inputs.Document:
    room = {"cpu": "8", "memory": "16Gi", "pods": "80"}
    values = {
        labels.HOSTNAME: name,
        labels.ZONE: zone,
        labels.ARCH: "amd64",
        labels.OS: "linux",
        labels.INSTANCE_TYPE: "type-8",
    }
    return {
        "metadata": {"name": name, "labels": values},
        "spec": {"providerID": f"example:///{name}"},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
