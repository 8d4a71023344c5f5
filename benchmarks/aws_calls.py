"""How many calls to AWS the controllers make: for each node of a burst, and in an hour without any change.

python -m benchmarks.aws_calls [--only burst|idle] [--burst 500] [--idle 5000] [--json FILE]

Both run all controllers with the AWS provider on an AWS in memory, in virtual time: the counts are the same
everywhere.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.machine import facts
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import HOUR, MINUTE
from dovetail.cli.main import readers_may_leave
from dovetail.cloud.aws.api import Instance
from dovetail.cloud.aws.fake import MemoryAws
from dovetail.cloud.aws.fake.machines import instance_id
from dovetail.cloud.aws.instance.instances import provider_id
from dovetail.cloud.aws.launchtemplate.template import image_on
from dovetail.kube.memory import MemoryServer
from dovetail.model import labels
from dovetail.simulate.analysis.log import JsonlLog
from dovetail.simulate.cluster import Cluster
from dovetail.simulate.environment.aws import CloudOnAws
from dovetail.simulate.scenario.scenario import Scenario, load
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.testing.guests import node_class

REGION, TYPE, POOL = "ap-northeast-2", "m5.xlarge", "general"
CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
SETTLED = 20 * MINUTE  # after a burst everything is launched and tagged; of an idle cluster the start is over
CREATED = "2026-03-01T00:00:00Z"
CONDITIONS = [
    {"type": kind, "status": "True", "lastTransitionTime": CREATED, "reason": kind, "message": ""}
    for kind in ("Launched", "Registered", "Initialized", "Ready")
]


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls by action, with how many nodes there were at the end and what it took to find out."""

    case: str
    nodes: int
    calls: dict[str, int]
    total: int
    cpu_seconds: float


@readers_may_leave()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.aws_calls", description=__doc__)
    parser.add_argument("--only", choices=("burst", "idle"))
    parser.add_argument("--burst", type=int, default=500, help="nodes that are launched at once")
    parser.add_argument("--idle", type=int, default=5_000, help="nodes that are there for an hour")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    cases: dict[str, Callable[[], Calls]] = {
        "burst": lambda: burst(arguments.burst),
        "idle": lambda: idle(arguments.idle),
    }
    rows = [measure() for name, measure in cases.items() if arguments.only in (None, name)]
    for row in rows:
        per = f"{row.total / row.nodes:.2f} a node" if row.case == "burst" else "in an hour"
        print(f"{row.case:6} {row.nodes:6} nodes {row.total:6} calls, {per}; {row.cpu_seconds:.0f} s CPU")
        for action, count in sorted(row.calls.items(), key=lambda item: (-item[1], item[0])):
            print(f"       {count:6} {action}")
    if arguments.json:
        document = {"machine": facts(), "rows": [asdict(row) for row in rows]}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def burst(nodes: int) -> Calls:
    """What so many nodes, asked for at once, cost until they are up and have their tags.

    Those are the calls beyond the ones of a cluster that stays empty.
    """

    async def play(_: Cluster, clock: VirtualClock, __: Counter[str]) -> None:
        await clock.sleep(SETTLED)

    empty = _measured("burst", 0, play, [])
    full = _measured("burst", nodes, play, _workload(nodes))
    calls = dict(Counter(full.calls) - Counter(empty.calls))
    return replace(full, calls=calls, total=sum(calls.values()))


def idle(nodes: int) -> Calls:
    """All calls of an hour in which so many nodes are there and nothing happens."""

    async def play(world: Cluster, clock: VirtualClock, calls: Counter[str]) -> None:
        await clock.sleep(MINUTE)
        await _populate(world, nodes, clock.now())
        await clock.sleep(SETTLED)
        calls.clear()
        await clock.sleep(HOUR)

    return _measured("idle", nodes, play, [])


Play = Callable[[Cluster, VirtualClock, Counter[str]], Awaitable[None]]


def _measured(case: str, nodes: int, play: Play, workload: list[dict[str, Any]]) -> Calls:
    async def main(clock: VirtualClock) -> Counter[str]:
        with JsonlLog(clock) as log:
            world = Cluster(scenario, clock, log)
            await world.prepare()
            running = asyncio.get_running_loop().create_task(world.run())
            aws = _aws(world)
            await play(world, clock, aws.gate.calls)
            there = sum(1 for _ in aws.machines.running())
            if there != nodes:
                raise RuntimeError(f"{there} instances run, {nodes} were meant to")
            counted = Counter(aws.gate.calls)
            running.cancel()
            return counted

    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        scenario = _scenario(Path(folder), workload)
        calls = run_virtual(main, start=scenario.start)
    return Calls(case, nodes, dict(calls), calls.total(), round(time.process_time() - begun, 1))


def _aws(world: Cluster) -> MemoryAws:
    assert isinstance(world.cloud, CloudOnAws)
    return world.cloud.aws


def _scenario(folder: Path, workload: list[dict[str, Any]]) -> Scenario:
    scenario = {
        "apiVersion": "simulation.dovetail.dev/v1alpha1",
        "kind": "Scenario",
        "name": "calls",
        "region": REGION,
        "duration": "2h",
        "cluster": {"name": "demo", "instanceTypes": [TYPE]},
        "settings": {"interruptionQueue": "demo", "solveDeadline": "1s"},
    }
    (folder / "scenario.yaml").write_text(json.dumps(scenario), encoding="utf-8")
    items = [_pool(), node_class(), *workload]
    (folder / "objects.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return load(folder)


def _pool() -> dict[str, Any]:
    wanted = [
        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
        {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [TYPE]},
    ]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": POOL},
        "spec": {
            "template": {
                "spec": {"nodeClassRef": CLASS, "requirements": wanted, "expireAfter": "Never"},
            },
            "disruption": {"consolidateAfter": "Never"},
        },
    }


def _workload(pods: int) -> list[dict[str, Any]]:
    """One pod per node: two do not fit."""
    container = {"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": pods, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    meta = {"name": "web", "namespace": "default"}
    return [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}]


async def _populate(world: Cluster, nodes: int, now: int) -> None:
    """Instances, claims and nodes as earlier processes left them."""
    aws, server = _aws(world), world.server
    (chosen,) = (record.view for record in server.list(EC2NodeClass))
    provider = world.cloud.provider
    stands_for = await provider.classes.resolve(chosen)
    image = image_on(provider.instance_types(chosen)[0], stands_for.images)
    groups = frozenset(item.id for item in stands_for.security_groups)
    subnets = sorted(aws.ec2.account.subnets, key=lambda item: item.id)
    for number in range(nodes):
        subnet, name = subnets[number % len(subnets)], f"{POOL}-{number:05}"
        found = Instance(
            id=instance_id(1, name),
            state="running",
            instance_type=TYPE,
            zone=subnet.zone,
            zone_id=subnet.zone_id,
            launched=now,
            spot=False,
            image=image.id if image else "",
            subnet=subnet.id,
            vpc=subnet.vpc,
            security_groups=groups,
            tags={
                "eks:eks-cluster-name": "demo",
                labels.NODEPOOL: POOL,
                "karpenter.k8s.aws/ec2nodeclass": "default",
                "karpenter.sh/nodeclaim": name,
            },
        )
        aws.machines.start(found, (labels.ON_DEMAND, TYPE, subnet.zone), 1)
        _add(server, found, name)


def _add(server: MemoryServer, found: Instance, name: str) -> None:
    place = provider_id(found.zone, found.id)
    known = {
        labels.NODEPOOL: POOL,
        labels.INSTANCE_TYPE: TYPE,
        labels.ZONE: found.zone,
        labels.CAPACITY_TYPE: labels.ON_DEMAND,
        labels.ARCH: "amd64",
        labels.OS: "linux",
        labels.REGISTERED: "true",
        labels.INITIALIZED: "true",
        labels.HOSTNAME: name,
    }
    room = {"cpu": "3920m", "memory": "14Gi", "pods": "58", "ephemeral-storage": "17Gi"}
    finalizers = [labels.TERMINATION_FINALIZER]
    meta = {"name": name, "labels": known, "finalizers": finalizers}
    marks = {"karpenter.k8s.aws/tagged": "true"}
    spec = {"nodeClassRef": CLASS, "requirements": [], "expireAfter": "Never"}
    server.create(
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {**meta, "annotations": marks},
            "spec": spec,
        }
    )
    status = {
        "providerID": place,
        "nodeName": name,
        "imageID": found.image,
        "capacity": room,
        "allocatable": room,
        "conditions": CONDITIONS,
    }
    server.patch(NodeClaim, name, merge_patch={"status": status}, status=True)
    server.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": meta,
            "spec": {"providerID": place},
            "status": {"capacity": room, "allocatable": room, "conditions": [CONDITIONS[-1]]},
        }
    )


if __name__ == "__main__":
    main()
