"""Nodes that are used to a part, as a question to consolidation."""

from __future__ import annotations

import random
from dataclasses import replace

from benchmarks.solve import inputs
from benchmarks.solve.inputs import Document
from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.disrupt.consolidation.question import Candidate, Question
from dovetail.disrupt.pods import unbound
from dovetail.model import labels
from dovetail.model.problem import ExistingNode
from dovetail.units.money import NANO_DOLLARS

CPUS = 8
EACH = 8  # pods per node
_POOL = "default"


def cluster(
    count: int, used: tuple[float, float], *, spread: float = 0.0, rules: bool = False, most: int = 400
) -> Question:
    """So many nodes, used so much of their CPUs; pods of one node differ in size by the spread, up or down.

    With `rules` a quarter of the pods are spread over zones, and one in ten shares no node with its like.
    """
    draw = random.Random(1)
    types = inputs.linear_types(most)
    empty = inputs.problem([], types)
    nodes, candidates, number = [], [], 0
    for index in range(count):
        name = f"node-{index:05}"
        share = draw.uniform(*used) * CPUS * 1000
        cuts = [draw.uniform(1 - spread, 1 + spread) for _ in range(EACH)]
        pods = []
        for cut in cuts:
            pods.append(_pod(number, int(share * cut / sum(cuts)), name, rules=rules))
            number += 1
        nodes.append(node(name, CPUS, inputs.ZONES[index % 3], tuple(pods)))
        candidates.append(candidate(nodes[-1]))
    problem = replace(empty, nodes=tuple(nodes))
    return Question(problem, tuple(candidates), {_POOL: count})


def _pod(number: int, cpu: int, name: str, *, rules: bool) -> Pod:
    own = {"app": f"app-{number % 40:02}"}
    rule: Document = {}
    if rules and number % 40 < 10:
        rule = {"topologySpreadConstraints": [inputs.spread(labels.ZONE, own)]}
    elif rules and number % 40 < 14:
        rule = {"affinity": inputs.near("podAntiAffinity", labels.HOSTNAME, own)}
    document = inputs.pod(number, cpu, cpu * 3 // 2, own, **rule)
    document["spec"]["nodeName"] = name
    return decode(document, Pod)


def node(name: str, cpus: int, zone: str, pods: tuple[Pod, ...]) -> ExistingNode:
    """A node of so many CPUs on demand, with these pods."""
    room = {"cpu": 1000 * cpus, "memory": 2 * cpus * 2**30, "pods": 10 * cpus}
    stamped = {
        labels.HOSTNAME: name,
        labels.ZONE: zone,
        labels.NODEPOOL: _POOL,
        labels.INSTANCE_TYPE: f"type-{cpus}",
        labels.CAPACITY_TYPE: labels.ON_DEMAND,
        labels.ARCH: "amd64",
        labels.OS: "linux",
        labels.INITIALIZED: "true",
        labels.REGISTERED: "true",
    }
    return ExistingNode(name, stamped, (), room, room, pods, _POOL)


def candidate(one: ExistingNode) -> Candidate:
    """Nothing stands against taking it."""
    kind = one.labels[labels.INSTANCE_TYPE]
    offer = kind, one.labels[labels.ZONE], labels.ON_DEMAND
    price = int(kind.removeprefix("type-")) * NANO_DOLLARS // 25
    return Candidate(one.name, _POOL, offer, price, float(len(one.pods)), tuple(map(unbound, one.pods)))
