"""Small workloads on a real catalogue: five to fifty pods with rules, all types and zones of a region.

What people plan first. There are few pods and very many ways to buy nodes for them: a plan that is too dear,
or a bound that is too low, shows in full.
"""

from __future__ import annotations

import gc
import random
import time
from dataclasses import dataclass

from benchmarks.solve import inputs, traces
from benchmarks.solve.case import Row, Settings, Target, planned
from benchmarks.solve.check import checked
from benchmarks.solve.inputs import Document
from dovetail.api.codec import decode
from dovetail.api.workloads import DaemonSet
from dovetail.base.streams import stream
from dovetail.cluster.problem import ClusterObjects
from dovetail.model import labels
from dovetail.model.problem import Problem

_MANY = 100  # problems
_SHARE = 0.95  # of them are to be so near to their bounds
_GAP = 1.02
_CPUS = (100, 250, 500, 750, 1000, 1500, 2000, 4000)  # milli-CPU
_PER_CPU = (512, 1024, 2048, 4096, 8192)  # MiB per CPU
_RULES = ("none", "zone", "host", "zone and host", "apart", "one zone")


@dataclass(frozen=True, slots=True)
class SmallCase:
    """So many problems of one region, each under the budget."""

    region: str

    @property
    def name(self) -> str:
        return f"small/{self.region}"

    def run(self, settings: Settings) -> list[Row]:
        return [self._row(budget, settings) for budget in settings.budgets or (1.0,)]

    def _row(self, budget: float, settings: Settings) -> Row:
        walls, cpus, ratios, hourly = 0.0, 0.0, [], 0.0
        pods = nodes = left = broken = 0
        for seed in range(_MANY):
            asked = problem(seed, self.region)
            gc.collect()
            started, used = time.perf_counter(), time.process_time()
            plan = planned(asked, budget, counted=settings.counted)
            walls, cpus = walls + time.perf_counter() - started, cpus + time.process_time() - used
            pods, nodes, left = (
                pods + len(asked.pods),
                nodes + len(plan.claims),
                left + len(plan.unschedulable),
            )
            hourly += plan.cost.hourly / 1e9
            ratios.append(plan.cost.hourly / plan.cost.lower_bound if plan.cost.lower_bound else float("inf"))
            if settings.check:
                broken += checked(f"{self.name}/{seed}", asked, plan)[0]
        ratios.sort()
        near = sum(ratio <= _GAP for ratio in ratios)
        return Row(
            case=self.name,
            budget=budget,
            pods=pods,
            nodes=nodes,
            left=left,
            hourly=hourly,
            over_bound=ratios[int(_SHARE * _MANY) - 1],
            wall=(walls,),
            cpu=(cpus,),
            violations=broken if settings.check else None,
            note=f"{near} of {_MANY} within {_GAP - 1:.0%} of the bound",
            target=Target(over_bound=_GAP),
        )


def cases() -> list[SmallCase]:
    """One per region."""
    return [SmallCase(region) for region in ("us-east-1", "ap-northeast-2")]


def problem(seed: int, region: str = "us-east-1") -> Problem:
    """The problem of this number: one to four Deployments, a DaemonSet in half of them."""
    draw = stream(seed, region, "benchmark small plans")
    pods: list[Document] = []
    for team in range(draw.randint(1, 4)):
        pods += _deployment(draw, team, len(pods))
    capacity_types = [labels.ON_DEMAND, labels.SPOT] if draw.random() < 0.6 else [labels.ON_DEMAND]
    architectures = ["amd64", "arm64"] if draw.random() < 0.6 else ["amd64"]
    recent: list[Document] = [
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
        {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["4"]},
    ]
    requirements: list[Document] = [
        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": capacity_types},
        {"key": labels.ARCH, "operator": "In", "values": architectures},
        *(recent if draw.random() < 0.5 else ()),
    ]
    daemons = (_daemon(draw),) if draw.random() < 0.5 else ()
    return inputs.problem(
        pods,
        traces.types(region),
        requirements=requirements,
        objects=ClusterObjects(daemonsets=daemons),
    )


def _deployment(draw: random.Random, team: int, first: int) -> list[Document]:
    own = {"app": f"team-{team}"}
    cpu = draw.choice(_CPUS)
    memory = max(128, cpu * draw.choice(_PER_CPU) // 1000)
    rules, rest = draw.choice(_RULES), {}
    keys = {
        "zone": (labels.ZONE,),
        "host": (labels.HOSTNAME,),
        "zone and host": (labels.ZONE, labels.HOSTNAME),
    }
    if rules in keys:
        rest["topologySpreadConstraints"] = [inputs.spread(key, own) for key in keys[rules]]
    elif rules == "apart":
        rest["affinity"] = inputs.near("podAntiAffinity", labels.HOSTNAME, own)
    elif rules == "one zone":
        rest["affinity"] = inputs.near("podAffinity", labels.ZONE, own)
    return [inputs.pod(first + number, cpu, memory, own, **rest) for number in range(draw.randint(5, 12))]


def _daemon(draw: random.Random) -> DaemonSet:
    """An agent that every node runs."""
    requests = {"cpu": f"{draw.choice((50, 100, 200))}m", "memory": f"{draw.choice((64, 128, 256))}Mi"}
    own = {"app": "agent"}
    container = {"name": "agent", "resources": {"requests": requests}}
    spec = {
        "selector": {"matchLabels": own},
        "template": {"metadata": {"labels": own}, "spec": {"containers": [container]}},
    }
    return decode({"metadata": {"name": "agent", "namespace": "default"}, "spec": spec}, DaemonSet)
