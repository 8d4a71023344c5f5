"""Small scheduling problems, made up: documents in the form of recorded scenarios."""

from __future__ import annotations

import random
from typing import Any

from dovetail.model import labels

Document = dict[str, Any]

ZONES = ("zone-a", "zone-b", "zone-c")
APPS = ("web", "api", "db")
TEAM = "example.com/team"
DEDICATED = {"key": TEAM, "value": "red", "effect": "NoSchedule"}
# Type -> CPUs, GiB of memory, $/h on demand.
TYPES = {
    "c.small": (2, 4, 0.085),
    "c.large": (4, 8, 0.166),
    "m.large": (4, 16, 0.19),
    "m.xlarge": (8, 32, 0.37),
    "r.large": (2, 16, 0.126),
}
ON_DEMAND = {labels.CAPACITY_TYPE: "on-demand"}
SIZES = ((250, 512), (500, 2048), (900, 1024), (1500, 3072), (1700, 12000), (3000, 4096))  # milli-CPU, MiB


def _selects(app: str) -> Document:
    return {"matchLabels": {"app": app}}


def _spread(app: str, key: str, skew: int = 1, **more: Any) -> Document:
    rule = {"maxSkew": skew, "topologyKey": key, "labelSelector": _selects(app), **more}
    return {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule", **rule}]}


def _near(app: str, key: str, field: str = "podAffinity") -> Document:
    term = {"labelSelector": _selects(app), "topologyKey": key}
    return {"affinity": {field: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _rather(app: str, key: str, field: str) -> Document:
    term = {"weight": 1, "podAffinityTerm": {"labelSelector": _selects(app), "topologyKey": key}}
    return {"affinity": {field: {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _in_zones(*alternatives: str) -> Document:
    terms = [
        {"matchExpressions": [{"key": labels.ZONE, "operator": "In", "values": [zone]}]}
        for zone in alternatives
    ]
    required = {"nodeSelectorTerms": terms}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def _rather_in(key: str, value: str) -> Document:
    preference = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    terms = [{"weight": 5, "preference": preference}]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}


def rules(app: str, other: str) -> dict[str, Document]:
    """Parts of a pod's spec by what they ask for; `other` is another app that some of them are about."""
    tolerations = [{"key": TEAM, "operator": "Exists"}]
    return {
        "plain": {},
        "spread over zones": _spread(app, labels.ZONE),
        "spread over zones, skew 2": _spread(app, labels.ZONE, 2),
        "spread over two zones at least": _spread(app, labels.ZONE, 1, minDomains=2),
        "spread over hosts": _spread(app, labels.HOSTNAME),
        "spread over capacity types": _spread(app, labels.CAPACITY_TYPE),
        "spread over zones with another app": _spread(other, labels.ZONE),
        "rather spread over zones": _spread(app, labels.ZONE, whenUnsatisfiable="ScheduleAnyway"),
        "one per host": _near(app, labels.HOSTNAME, "podAntiAffinity"),
        "one per zone": _near(app, labels.ZONE, "podAntiAffinity"),
        "not in the zone of another app": _near(other, labels.ZONE, "podAntiAffinity"),
        "not on the host of another app": _near(other, labels.HOSTNAME, "podAntiAffinity"),
        "rather one per host": _rather(app, labels.HOSTNAME, "podAntiAffinity"),
        "all in one zone": _near(app, labels.ZONE),
        "on the host of another app": _near(other, labels.HOSTNAME),
        "in the zone of another app": _near(other, labels.ZONE),
        "rather in the zone of another app": _rather(other, labels.ZONE, "podAffinity"),
        "in zone-a": {"nodeSelector": {labels.ZONE: "zone-a"}},
        "in zone-b or zone-c": _in_zones("zone-b", "zone-c"),
        "rather in zone-c": _rather_in(labels.ZONE, "zone-c"),
        "rather on demand": _rather_in(labels.CAPACITY_TYPE, "on-demand"),
        "of the team": {"nodeSelector": {TEAM: "red"}, "tolerations": tolerations},
        "tolerates the team": {"tolerations": tolerations},
    }


def pod(name: str, app: str, size: tuple[int, int], rule: Document, *, port: int = 0) -> Document:
    """A pod of an app that asks for so many milli-CPU and MiB."""
    container: Document = {
        "name": "main",
        "resources": {"requests": {"cpu": f"{size[0]}m", "memory": f"{size[1]}Mi"}},
    }
    if port:
        container["ports"] = [{"containerPort": port, "hostPort": port}]
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": {**rule, "containers": [container]},
    }


def node(name: str, zone: str, cpus: int, *, taints: tuple[Document, ...] = ()) -> Document:
    """A node that exists, of the pool `general`."""
    room = {"cpu": str(cpus), "memory": f"{4 * cpus}Gi", "pods": "20"}
    marks = {
        labels.ZONE: zone,
        labels.HOSTNAME: name,
        labels.NODEPOOL: "general",
        labels.CAPACITY_TYPE: "on-demand",
        labels.INSTANCE_TYPE: "m.large",
        labels.ARCH: "amd64",
        labels.OS: "linux",
        labels.REGISTERED: "true",
        labels.INITIALIZED: "true",
    }
    return {
        "metadata": {"name": name, "labels": marks},
        "spec": {"providerID": f"made-up:///{name}", "taints": list(taints)},
        "status": {"capacity": room, "allocatable": room},
    }


def pool(
    name: str,
    *,
    weight: int = 0,
    limits: Document | None = None,
    team: bool = False,
    capacity: tuple[str, ...] = (),
) -> Document:
    """A pool of everything, or of these capacity types; one of the team has its label and its taint."""
    wanted = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": list(capacity)}
    template: Document = {
        "nodeClassRef": {"group": "example.com", "kind": "Class", "name": "any"},
        "requirements": [wanted] if capacity else [],
        "taints": [DEDICATED] if team else [],
    }
    marks = {TEAM: "red"} if team else {}
    spec = {"template": {"metadata": {"labels": marks}, "spec": template}, "weight": weight or None}
    if limits:
        spec["limits"] = limits
    return {"metadata": {"name": name}, "spec": {key: value for key, value in spec.items() if value}}


def instance_types(unavailable: frozenset[tuple[str, str, str]] = frozenset()) -> list[Document]:
    """Every type in every zone, spot and on demand; `unavailable` are (type, zone, capacity type)."""
    found = []
    for name, (cpus, memory, price) in TYPES.items():
        offerings = [
            {
                "price": round(price * (1 + 0.03 * index) * (0.4 if kind == "spot" else 1), 5),
                "available": (name, zone, kind) not in unavailable,
                "requirements": {labels.ZONE: zone, labels.CAPACITY_TYPE: kind},
            }
            for index, zone in enumerate(ZONES)
            for kind in ("spot", "on-demand")
        ]
        marks = {labels.INSTANCE_TYPE: name, labels.ARCH: "amd64", labels.OS: "linux"}
        found.append(
            {
                "name": name,
                "requirements": [
                    {"key": key, "operator": "In", "values": [value]} for key, value in marks.items()
                ],
                "offerings": offerings,
                "capacity": {"cpu": str(cpus), "memory": f"{memory}Gi", "pods": "20"},
                "overhead": {"cpu": "80m", "memory": "300Mi"},
            }
        )
    return found


def scenario(
    pods: list[Document],
    pools: list[Document],
    types: list[Document],
    *,
    nodes: list[Document] | None = None,
    bound: list[Document] | None = None,
) -> Document:
    """A whole problem, for `scenarios.to_problem`."""
    return {
        "wellKnownLabels": sorted(labels.WELL_KNOWN),
        "nodePools": pools,
        "instanceTypes": types,
        "nodes": nodes or [],
        "boundPods": bound or [],
        "pods": pods,
    }


def both(one: Document, other: Document) -> Document:
    """A spec that asks for what either asks for. Lists add up, and so do the fields of what is in both."""
    merged = dict(one)
    for key, value in other.items():
        known = merged.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            merged[key] = both(known, value)
        elif isinstance(known, list) and key != "nodeSelectorTerms":
            merged[key] = [*known, *value]
        else:
            merged[key] = value
    return merged


def enriched(document: Document, seed: int) -> Document:
    """A random scenario with a second rule for some apps, and with what else a cluster has."""
    draw = random.Random(f"more {seed}")
    apps = sorted({item["metadata"]["labels"]["app"] for item in document["pods"]})
    for app in apps:
        if draw.random() < 0.6:
            more = draw.choice(list(rules(app, draw.choice(APPS)).values()))
            for item in document["pods"]:
                if item["metadata"]["labels"]["app"] == app:
                    item["spec"] = both(item["spec"], more)
    pools = document["nodePools"]
    template = pools[0]["spec"]["template"]["spec"]
    if draw.random() < 0.2:
        template["taints"] = [{"key": "example.com/soft", "effect": "PreferNoSchedule"}]
    if draw.random() < 0.2 and "limits" not in pools[0]["spec"]:
        least = draw.choice((2, 3))
        wanted = {"key": labels.INSTANCE_TYPE, "operator": "Exists", "minValues": least}
        template["requirements"] = [wanted]
    if draw.random() < 0.2:
        document["daemonSets"] = [daemon_set("agent", (200, 256))]
    if draw.random() < 0.2:
        kind = draw.choice(document["instanceTypes"])
        marks = {labels.ZONE: draw.choice(ZONES), labels.CAPACITY_TYPE: labels.RESERVED}
        marks[labels.RESERVATION_ID] = "cr-1"
        offering = {"price": 0.001, "available": True, "requirements": marks}
        kind["offerings"].append({**offering, "reservationCapacity": draw.choice((1, 2))})
    return document


def daemon_set(name: str, size: tuple[int, int]) -> Document:
    """A DaemonSet of every node."""
    template = pod(name, name, size, {"tolerations": [{"operator": "Exists"}]})
    template["metadata"] = {"labels": {"app": name}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"template": template}}


def random_scenario(seed: int, *, most: int = 7, limited: bool = True) -> Document:
    """Up to `most` pods of up to three deployments, with whatever else there may be, limits if `limited`."""
    draw = random.Random(seed)
    pods: list[Document] = []
    for app in draw.sample(APPS, draw.choice((1, 2, 2, 3))):
        other = draw.choice([item for item in APPS if item != app])
        rule = draw.choice(list(rules(app, other).values()))
        port = 8080 if draw.random() < 0.1 else 0
        size = draw.choice(SIZES)
        count = draw.randint(1, 4)
        pods += [pod(f"{app}-{number}", app, size, rule, port=port) for number in range(count)]
    limits = draw.choice((None, None, None, {"cpu": "10"}, {"nodes": "2"}))
    pools = [pool("general", limits=limits if limited else None)]
    if draw.random() < 0.4:
        pools.append(pool("team", team=True, weight=draw.choice((0, 10))))
    if draw.random() < 0.2:
        limits = draw.choice((None, {"nodes": "1"}))
        pools.append(pool("better", weight=20, limits=limits if limited else None))
    nodes, bound = [], []
    for number in range(draw.choice((0, 0, 1, 2, 3))):
        nodes.append(node(f"node-{number}", draw.choice(ZONES), draw.choice((1, 2, 4))))
        for index in range(draw.choice((0, 1, 1))):
            app = draw.choice(APPS)
            rule = draw.choice(({}, {}, rules(app, "web")["one per host"]))
            there = pod(f"old-{number}-{index}", app, (250, 512), rule)
            there["spec"]["nodeName"] = f"node-{number}"
            bound.append(there)
    every = [(name, zone, kind) for name in TYPES for zone in ZONES for kind in ("spot", "on-demand")]
    gone = frozenset(draw.sample(every, draw.choice((0, 0, 5, 20))))
    return scenario(pods[:most], pools, instance_types(gone), nodes=nodes, bound=bound)


def weighted_scenario(seed: int, *, count: tuple[int, int] = (2, 4)) -> Document:
    """Two or three pools, most of different weights, with limits that come to their end or not, some of which
    nodes take already; up to three deployments of so many pods each.
    """
    draw = random.Random(f"weighted {seed}")
    large = max(1, count[1] // 4)
    pods: list[Document] = []
    for app in draw.sample(APPS, draw.choice((2, 3))):
        every = rules(app, app)
        rule = draw.choice((*[{}] * 4, every["spread over zones"], {"nodeSelector": ON_DEMAND}))
        size = draw.choice(SIZES)
        pods += [pod(f"{app}-{number}", app, size, rule) for number in range(draw.randint(*count))]
    pools = []
    for number, weight in enumerate(draw.choice(((30, 20), (30, 20, 10), (20, 20)))):
        limits: tuple[Document | None, ...] = (
            {"cpu": str(draw.choice((2, 4, 6)) * large)},
            {"memory": f"{draw.choice((4, 8, 16)) * large}Gi"},
            {"nodes": str(draw.choice((1, 2)) * large)},
            {"cpu": "1000", "nodes": "100"},
            None,
        )
        kinds = draw.choice((("spot",), ("on-demand",), ("spot", "on-demand")))
        limit = draw.choice(limits if not number else (None, None, *limits))
        pools.append(pool(f"pool-{number}", weight=weight, limits=limit, capacity=kinds))
    nodes, bound = [], []
    for number in range(draw.choice((0, 0, 0, 1, 2))):
        nodes.append(node(f"node-{number}", draw.choice(ZONES), draw.choice((2, 4))))
        nodes[-1]["metadata"]["labels"][labels.NODEPOOL] = "pool-0"
        if draw.random() < 0.7:
            there = pod(f"old-{number}", "old", (1500, 1024), {})
            there["spec"]["nodeName"] = f"node-{number}"
            bound.append(there)
    return scenario(pods, pools, instance_types(), nodes=nodes, bound=bound)
