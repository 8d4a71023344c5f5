"""Sixty workloads that arrive as a burst: Deployments with every kind of rule about where pods go.

A workload is a scenario folder. Its cluster stands for two minutes, then one change applies everything that
the burst consists of. Twelve families have five sizes each, from about ten pods to about two thousand; what a
Deployment asks for is drawn from a stream of the workload's own, so that one workload never shifts another.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dovetail.base.streams import stream
from dovetail.testing.guests import node_class

Document = dict[str, Any]

REGION = "us-east-1"
START = "2026-03-02T10:00"
BURST_MINUTES = 2  # of the scenario, when the burst comes
UPDATE_MINUTES = 10  # when a rolling update begins, where there is one
HOUR_MINUTES = 62  # how long it is played: an hour from the burst on
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SIZES = (12, 40, 130, 450, 1_600)  # pods, about: drawn from 0.75 to 1.25 of it
FIVE_HUNDRED = "five-hundred"  # a workload beside the sixty, as users described it
# Pods of real clusters: requests of Deployments in the traces that the benchmarks of the solver use, rounded.
_CPU = ("100m", "250m", "500m", "1", "2")
_MEMORY = ("128Mi", "256Mi", "512Mi", "1Gi", "2Gi", "4Gi")


@dataclass(slots=True)
class Workload:
    """One of the sixty: documents that are there from the start, of the burst, and of an update."""

    name: str
    pods: int  # of the burst
    base: list[Document] = field(default_factory=list)
    burst: list[Document] = field(default_factory=list)
    update: list[Document] = field(default_factory=list)
    base_nodes: int = 0  # of a managed group that pods may use, half full when the burst comes

    def write(
        self,
        folder: Path,
        minutes: int = HOUR_MINUTES,
        *,
        nominate: bool = True,
        policy: str = "dovetail",
        patches: str = "",
    ) -> Path:
        """The scenario as files in the folder, so long; answers the folder. Without `nominate` the scheduler
        knows nothing of plans; `policy` is whose heuristics buy and consolidate; `patches` is how long writes
        to the API server take.
        """
        (folder / "changes").mkdir(parents=True)
        changes = [{"at": f"10:{BURST_MINUTES:02}", "file": "changes/burst.json"}]
        if self.update and minutes > UPDATE_MINUTES:
            changes.append({"at": f"10:{UPDATE_MINUTES:02}", "file": "changes/update.json"})
            _write(folder / "changes" / "update.json", _listed(self.update))
        _write(folder / "changes" / "burst.json", _listed(self.burst))
        _write(folder / "base.json", _listed([node_class("realised"), *self.base]))
        scenario = {
            **self._scenario(changes, minutes),
            "settings": {"nominatePods": nominate, "policy": policy, "patchTime": patches},
        }
        _write(folder / "scenario.yaml", scenario)
        return folder

    def _scenario(self, changes: list[Document], minutes: int) -> Document:
        zones = list(ZONES)
        # Something to stand on: a scheduler without any node tries its pods ever more seldom.
        system = {"name": "system", "instanceType": "m5.large", "count": 1, "zones": zones[:1]}
        groups: list[Document] = [{**system, "taints": [{"key": "system", "effect": "NoSchedule"}]}]
        if self.base_nodes:
            count = self.base_nodes
            groups.append({"name": "base", "instanceType": "m5.2xlarge", "count": count, "zones": zones})
        subnets = [
            {"id": f"subnet-{zone}", "zone": zone, "tags": {"karpenter.sh/discovery": "realised"}}
            for zone in zones
        ]
        security = [{"id": "sg-nodes", "tags": {"karpenter.sh/discovery": "realised"}}]
        return {
            "apiVersion": "simulation.dovetail.dev/v1alpha1",
            "kind": "Scenario",
            "name": self.name,
            "region": REGION,
            "start": START,
            "duration": f"{minutes}m",
            "cluster": {"name": "realised", "subnets": subnets, "securityGroups": security},
            "nodeGroups": groups,
            "changes": changes,
        }


def workloads() -> list[Workload]:
    """All of them: five sizes of each family, named `family-size`."""
    return [_workload(family, size) for family in FAMILIES for size in range(len(SIZES))]


def workload(name: str) -> Workload:
    """One of them, or FIVE_HUNDRED."""
    return _five_hundred() if name == FIVE_HUNDRED else next(one for one in workloads() if one.name == name)


def _five_hundred() -> Workload:
    """Ten Deployments of fifty pods, two of each size; one of the two must be spread over zones."""
    made = Workload(FIVE_HUNDRED, 500, base=[_pool("general")])
    memory = ("256Mi", "512Mi", "1Gi", "2Gi", "4Gi", "512Mi", "1Gi", "2Gi", "1Gi", "2Gi")
    for n, (cpu, each) in enumerate(zip(2 * _CPU, memory, strict=True)):
        rule = _spread(f"app-{n}", ZONE) if n % 2 else {}
        made.burst.append(_deployment(f"app-{n}", 50, cpu, each, rule))
    return made


def _workload(family: str, size: int) -> Workload:
    draw = stream(21, f"{family}-{size}", "workload")
    pods = round(SIZES[size] * draw.uniform(0.75, 1.25))
    made = Workload(f"{family}-{pods}", pods, base=[_pool("general")])
    FAMILIES[family](made, draw)
    return made


# Families -------------------------------------------------------------------------------------------------


def _plain(made: Workload, draw: random.Random) -> None:
    """Pods of mixed sizes without any rule."""
    made.burst = _deployments(made.pods, draw)


def _zones(made: Workload, draw: random.Random) -> None:
    """Every other Deployment must be spread over zones."""
    made.burst = _deployments(made.pods, draw, lambda app, n: _spread(app, ZONE) if n % 2 else {})


def _zones_wished(made: Workload, draw: random.Random) -> None:
    """All of them would rather be spread over zones."""
    made.burst = _deployments(made.pods, draw, lambda app, _: _spread(app, ZONE, must=False))


def _hosts(made: Workload, draw: random.Random) -> None:
    """Spread over nodes, with a skew that lets several share one; every other one must be."""
    made.burst = _deployments(
        made.pods, draw, lambda app, n: _spread(app, HOST, skew=draw.randint(1, 4), must=bool(n % 2))
    )


def _apart(made: Workload, draw: random.Random) -> None:
    """A third of the Deployments keep each pod on a node of its own; these are small, as databases are."""
    made.burst = _deployments(
        made.pods,
        draw,
        lambda app, n: _pod_rule("podAntiAffinity", app, HOST) if n % 3 == 0 else {},
        replicas=lambda n, count: min(count, 12) if n % 3 == 0 else count,
    )


def _crossed(made: Workload, draw: random.Random) -> None:
    """Every other Deployment keeps away from the nodes of the one before it."""
    made.burst = _deployments(
        made.pods, draw, lambda _, n: _pod_rule("podAntiAffinity", f"app-{n - 1}", HOST) if n % 2 else {}
    )


def _near(made: Workload, draw: random.Random) -> None:
    """Every third Deployment stays in one zone, and another follows it there."""
    made.burst = _deployments(
        made.pods,
        draw,
        lambda _, n: _pod_rule("podAffinity", f"app-{n - n % 3}", ZONE) if n % 3 < 2 else {},
    )


def _rules(made: Workload, draw: random.Random) -> None:
    """Each Deployment has one of all rules, or none."""

    def rule(app: str, _: int) -> Document:
        kinds: list[Document] = [
            {},
            _spread(app, ZONE),
            _spread(app, ZONE, must=False),
            _spread(app, HOST, skew=2),
            _pod_rule("podAntiAffinity", app, HOST, must=False),
            _pod_rule("podAffinity", app, ZONE),
        ]
        return kinds[draw.randrange(len(kinds))]

    made.burst = _deployments(made.pods, draw, rule)


def _pools(made: Workload, draw: random.Random) -> None:
    """A spot pool of higher weight, an on-demand pool, and a tainted one that a third of the pods want."""
    made.base = [
        _pool("spot", capacity=("spot",), weight=50),
        _pool("steady"),
        _pool("batch", taint="batch", capacity=("spot", "on-demand")),
    ]

    def rule(app: str, n: int) -> Document:
        if n % 3 == 1:
            taint = {"key": "batch", "operator": "Exists", "effect": "NoSchedule"}
            return {"tolerations": [taint], "nodeSelector": {"karpenter.sh/nodepool": "batch"}}
        if n % 3 == 2:
            return {"nodeSelector": {"karpenter.sh/capacity-type": "on-demand"}} | _spread(app, ZONE)
        return {}

    made.burst = _deployments(made.pods, draw, rule)


def _daemons(made: Workload, draw: random.Random) -> None:
    """Three DaemonSets of a usual weight on every node, and zone spreads on half of the Deployments."""
    made.base += [_daemonset(name, cpu) for name, cpu in (("logs", "100m"), ("mesh", "200m"), ("net", "50m"))]
    made.burst = _deployments(made.pods, draw, lambda app, n: _spread(app, ZONE) if n % 2 else {})


def _half_full(made: Workload, draw: random.Random) -> None:
    """Nodes that are half full stand already, and a quarter of the burst has a higher priority."""
    made.base_nodes = max(3, made.pods // 40)
    made.base.append(_priority("high", 1_000))
    # m5.2xlarge has 7.9 CPUs for pods: four of one CPU fill half of it.
    made.base.append(_deployment("resident", 4 * made.base_nodes, "1", "2Gi", _spread("resident", HOST)))
    made.burst = _deployments(
        made.pods,
        draw,
        lambda app, n: (
            ({"priorityClassName": "high"} if n % 4 == 0 else {}) | (_spread(app, ZONE) if n % 2 else {})
        ),
    )


def _rolling(made: Workload, draw: random.Random) -> None:
    """Eight minutes after the burst every Deployment gets another image, a quarter of its pods at a time."""
    made.burst = _deployments(made.pods, draw, lambda app, n: _spread(app, ZONE) if n % 2 else {})
    made.update = json.loads(json.dumps(made.burst).replace("app:1", "app:2"))


FAMILIES: dict[str, Callable[[Workload, random.Random], None]] = {
    "plain": _plain,
    "zones": _zones,
    "zones-wished": _zones_wished,
    "hosts": _hosts,
    "apart": _apart,
    "crossed": _crossed,
    "near": _near,
    "rules": _rules,
    "pools": _pools,
    "daemons": _daemons,
    "half-full": _half_full,
    "rolling": _rolling,
}


# Documents ------------------------------------------------------------------------------------------------


def _deployments(
    pods: int,
    draw: random.Random,
    rule: Callable[[str, int], Document] = lambda _app, _n: {},
    replicas: Callable[[int, int], int] = lambda _n, count: count,
) -> list[Document]:
    """Up to ten Deployments of `pods` pods in all; `rule(app, number)` is a part of the pod's spec."""
    number = min(10, max(3, pods // 4))
    shares = [draw.uniform(0.5, 1.5) for _ in range(number)]
    made = []
    for n, share in enumerate(shares):
        app = f"app-{n}"
        count = replicas(n, max(1, round(pods * share / sum(shares))))
        made.append(_deployment(app, count, draw.choice(_CPU), draw.choice(_MEMORY), rule(app, n)))
    return made


def _deployment(app: str, count: int, cpu: str, memory: str, rule: Document) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": {"app": app}},
            "template": _template(app, cpu, memory, rule),
        },
    }


def _daemonset(app: str, cpu: str) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": app, "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": {"app": app}},
            "template": _template(app, cpu, "128Mi", {"tolerations": [{"operator": "Exists"}]}),
        },
    }


def _template(app: str, cpu: str, memory: str, rule: Document) -> Document:
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"terminationGracePeriodSeconds": 10, "containers": [container], **rule},
    }


def _spread(app: str, key: str, *, skew: int = 1, must: bool = True) -> Document:
    constraint = {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule" if must else "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {"topologySpreadConstraints": [constraint]}


def _pod_rule(kind: str, app: str, key: str, *, must: bool = True) -> Document:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    if must:
        return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    wish = {"weight": 100, "podAffinityTerm": term}
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}}


def _priority(name: str, value: int) -> Document:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def _pool(
    name: str, *, capacity: tuple[str, ...] = ("on-demand",), weight: int = 0, taint: str = ""
) -> Document:
    """A pool as people write it: c, m and r of the newer generations, up to 32 CPUs."""
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": list(capacity)},
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
        {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["4"]},
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["33"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
    ]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    spec: Document = {"nodeClassRef": reference, "requirements": requirements}
    if taint:
        spec["taints"] = [{"key": taint, "effect": "NoSchedule"}]
    disruption = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": spec}, "disruption": disruption}
        | ({"weight": weight} if weight else {}),
    }


def _listed(items: list[Document]) -> Document:
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _write(path: Path, value: Document) -> None:
    path.write_text(json.dumps(value) + "\n", encoding="utf-8")
