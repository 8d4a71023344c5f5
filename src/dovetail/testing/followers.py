"""Tiny random problems in which pods follow others that rules, sizes or prices would rather keep together."""

from __future__ import annotations

import random

from dovetail.model import labels
from dovetail.testing.problems import Document, both, pod, scenario

_PODS = (3, 7)
_KINDS = ("spot", "on-demand")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_ON_DEMAND = {"nodeSelector": {labels.CAPACITY_TYPE: "on-demand"}}
_TAINT = {"key": "example.com/side", "value": "yes", "effect": "NoSchedule"}
_TOLERANT = {"tolerations": [{"key": "example.com/side", "operator": "Exists"}]}
_SIZES = (
    (250, 256),
    (500, 512),
    (700, 3000),
    (1000, 512),
    (1500, 512),
    (1900, 1024),
    (2500, 3000),
    (3000, 1024),
)
_ROOMS = ((2, 4), (2, 16), (3, 3), (4, 8), (4, 16), (6, 24), (8, 8), (16, 32))


def followers(seed: int) -> Document:
    """Up to seven pods of up to three groups; each may be spread and may have to be near an earlier one.

    Not all zones sell all that the pods need, so that where the first group goes decides which follow.
    """
    draw = random.Random(f"followers {seed}")
    zones = [f"z{number + 1}" for number in range(draw.choice((2, 3, 3)))]
    groups = [_group(draw, number) for number in range(draw.choice((2, 2, 3)))]
    pods = []
    sizes = [draw.choice(_SIZES) for _ in groups]
    for index in range(draw.randint(*_PODS)):
        number = index % len(groups)
        size = draw.choice(_SIZES) if draw.random() < 0.25 else sizes[number]
        rule, port = groups[number]
        pods.append(pod(f"q{index}", f"g{number}", size, rule, port=port))
    pools = [
        _pool(draw, f"p{number}", tainted=number > 0 and draw.random() < 0.3)
        for number in range(draw.choice((1, 2)))
    ]
    return scenario(pods, pools, [_type(draw, f"t{number}", zones) for number in range(draw.randint(1, 5))])


def _group(draw: random.Random, number: int) -> tuple[Document, int]:
    own = {"matchLabels": {"app": f"g{number}"}}
    rule: Document = {}
    spreads = []
    if draw.random() < 0.6:
        spreads.append((labels.ZONE, draw.choice((1, 1, 2))))
    if draw.random() < 0.25:
        spreads.append((labels.HOSTNAME, draw.choice((1, 2))))
    if spreads:
        rule["topologySpreadConstraints"] = [
            {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": own}
            for key, skew in spreads
        ]
    if number and draw.random() < 0.75:
        other = {"matchLabels": {"app": f"g{draw.randrange(number)}"}}
        key = draw.choice((labels.ZONE, labels.ZONE, labels.HOSTNAME))
        rule["affinity"] = {"podAffinity": {_REQUIRED: [{"labelSelector": other, "topologyKey": key}]}}
    elif draw.random() < 0.2:
        rule["affinity"] = {
            "podAntiAffinity": {_REQUIRED: [{"labelSelector": own, "topologyKey": labels.HOSTNAME}]}
        }
    if draw.random() < 0.3:
        rule = both(rule, _ON_DEMAND)
    if draw.random() < 0.25:
        rule = both(rule, _TOLERANT)
    return rule, 8080 if draw.random() < 0.1 else 0


def _pool(draw: random.Random, name: str, *, tainted: bool) -> Document:
    kinds = draw.choice((("on-demand",), _KINDS))
    wanted = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": list(kinds)}
    template = {
        "nodeClassRef": {"group": "example.com", "kind": "Class", "name": "any"},
        "requirements": [wanted],
        "taints": [_TAINT] if tainted else [],
    }
    return {"metadata": {"name": name}, "spec": {"template": {"metadata": {}, "spec": template}}}


def _type(draw: random.Random, name: str, zones: list[str]) -> Document:
    cpus, memory = draw.choice(_ROOMS)
    price = 0.03 * cpus + 0.004 * memory
    marks = {labels.INSTANCE_TYPE: name, labels.ARCH: "amd64", labels.OS: "linux"}
    offerings = [
        {
            "price": round(
                price * (draw.uniform(0.3, 0.6) if kind == "spot" else draw.uniform(0.97, 1.03)), 4
            ),
            "available": draw.random() < 0.9,
            "requirements": {labels.ZONE: zone, labels.CAPACITY_TYPE: kind},
        }
        for zone in zones
        for kind in _KINDS
        if draw.random() < 0.7
    ]
    return {
        "name": name,
        "requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in marks.items()],
        "offerings": offerings,
        "capacity": {"cpu": str(cpus), "memory": f"{memory}Gi", "pods": str(draw.choice((3, 4, 8, 30)))},
        "overhead": {"cpu": "100m", "memory": "256Mi"},
    }
