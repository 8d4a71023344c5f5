"""Nodes of NodePools that are there when a scenario begins, and the pods that run on them.

The file has one JSON object a line:

{"name": "ip-10-0-1-7.ec2.internal", "nodePool": "general", "instanceType": "m5.large", "zone": "us-east-1a",
 "capacityType": "spot", "nodeClaim": "general-x7k2p", "age": "26h", "labels": {"team": "a"},
 "pods": {"Deployment/shop/web": 2, "Pod/shop/db-0": 1}}
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from dovetail.base.errors import InputError
from dovetail.simulate.scenario.traffic import Section
from dovetail.units.duration import parse_duration

_CAPACITY_TYPES = ("on-demand", "spot")
_REMEDY = "a line has name, nodePool, instanceType and zone; docs/reference/scenario.md has the other fields"


class Nodes(Section, frozen=True, kw_only=True):
    """The `nodes` section of a scenario."""

    file: str  # relative to the scenario's folder


class InitialNode(Section, frozen=True, kw_only=True):
    """One line of the file."""

    name: str
    node_pool: str
    instance_type: str
    zone: str
    capacity_type: str = "on-demand"
    node_claim: str = ""  # its name; one is drawn without it
    age: str = "0s"  # at the start
    labels: dict[str, str] = {}  # beyond those of the pool and of the cloud
    # How many pods of which workload run on it: kind/namespace/name, or Pod/namespace/name of one alone.
    pods: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Located:
    """A node and where it is written."""

    node: InitialNode
    age: int  # nanoseconds
    source: str
    line: int

    def error(self, message: str, remedy: str = "") -> InputError:
        """That points at its line."""
        text = f"node {self.node.name}: {message}"
        return InputError(text, source=self.source, line=self.line, remedy=remedy)


def read_nodes(path: Path) -> tuple[Located, ...]:
    """The nodes of a file; raises InputError with the line of the first that is wrong."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"cannot read the nodes: {error.strerror}", source=str(path)) from None
    found = tuple(_node(line, str(path), number) for number, line in enumerate(lines, 1) if line.strip())
    known: dict[str, int] = {}
    for one in found:
        first = known.setdefault(one.node.name, one.line)
        if first != one.line:
            raise one.error(f"its name is taken by the node of line {first}")
    return found


def _node(line: bytes, source: str, number: int) -> Located:
    try:
        node = msgspec.json.decode(line, type=InitialNode)
    except msgspec.DecodeError as error:
        raise InputError(f"is no node: {error}", source=source, line=number, remedy=_REMEDY) from None
    try:
        age = parse_duration(node.age)
    except ValueError as error:
        raise InputError(f"age: {error}", source=source, line=number) from None
    found = Located(node, age, source, number)
    if age < 0:
        raise found.error(f"its age {node.age!r} is less than 0s")
    if node.capacity_type not in _CAPACITY_TYPES:
        raise found.error(
            f"{node.capacity_type!r} is no capacity type; valid are {', '.join(_CAPACITY_TYPES)}"
        )
    for key, count in node.pods.items():
        if len(key.split("/")) != 3 or count < 0:
            raise found.error(f"pods: {key!r}: {count} is no Kind/namespace/name with a number of pods")
    return found
