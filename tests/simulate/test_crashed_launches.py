"""A process that dies anywhere on the way from pods to nodes on AWS: nothing is paid for twice."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE, SECOND
from dovetail.cloud.aws import api
from dovetail.simulate.analysis.log import JsonlLog
from dovetail.simulate.cluster import Cluster
from dovetail.simulate.environment.aws import CloudOnAws
from dovetail.simulate.faults import processes
from dovetail.simulate.faults.epoch import Epoch
from dovetail.simulate.faults.plan import Faults
from dovetail.simulate.scenario.scenario import Scenario, load
from dovetail.simulate.time.clock import VirtualClock, run_virtual

BEGIN = 2 * MINUTE
POOLS = {"steady": ("on-demand", 3), "cheap": ("spot", 2)}


class Counting(Epoch):
    """The process that was made last, and the steps that it took since `counted` was set."""

    last: Counting

    def __init__(self, number: int) -> None:
        super().__init__(number)
        Counting.last = self
        self.steps = 0

    def step(self) -> None:
        """See Epoch."""
        self.steps += 1
        super().step()


@dataclass
class Lives:
    """What came of pods that wait for a node each, though the process died."""

    scenario: Scenario
    started: list[api.Instance]
    claims: list[NodeClaim]
    waiting: list[str]
    broken: tuple[str, ...] = ()  # promises, as the checker of simulations sees it
    steps: int = 0
    window: tuple[int, int] = (0, 0)


def scenario(folder: Path) -> Scenario:
    document = {
        "apiVersion": "simulation.dovetail.dev/v1alpha1",
        "kind": "Scenario",
        "name": "crash",
        "region": "ap-northeast-2",
        "duration": "1h",
        "cluster": {"name": "demo", "instanceTypes": ["m5.large"]},
        "settings": {"provider": "aws", "solveDeadline": "1s"},
    }
    (folder / "scenario.yaml").write_text(json.dumps(document), encoding="utf-8")
    items = [node_class(), *(pool(name, how) for name, (how, _) in POOLS.items())]
    (folder / "objects.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return load(folder)


def node_class() -> dict[str, Any]:
    terms = [{"tags": {"karpenter.sh/discovery": "demo"}}]
    spec = {
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": terms,
        "securityGroupSelectorTerms": terms,
    }
    meta = {"name": "default"}
    return {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": meta, "spec": spec}


def pool(name: str, capacity_type: str) -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    wanted = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]}]
    template = {"spec": {"nodeClassRef": reference, "requirements": wanted, "expireAfter": "Never"}}
    spec = {"template": template, "disruption": {"consolidateAfter": "Never"}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}


def workload(name: str, count: int) -> dict[str, Any]:
    """One pod a node."""
    labels = {"app": name}
    container = {"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "1500m"}}}
    pods = {"containers": [container], "nodeSelector": {"karpenter.sh/nodepool": name}}
    template = {"metadata": {"labels": labels}, "spec": pods}
    spec = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def lived(found: Scenario, crash_at: int | None) -> Lives:
    """The pods come, and the process dies at that step of its from then on."""
    lives = Lives(found, [], [], [])

    async def main(clock: VirtualClock) -> None:
        with JsonlLog(clock) as log:
            world = Cluster(found, clock, log, faults=Faults("", ()))
            assert isinstance(world.cloud, CloudOnAws)
            world.cloud.aws.machines.on_started.append(lives.started.append)
            await world.prepare()
            running = asyncio.get_running_loop().create_task(world.run())
            await clock.sleep(BEGIN)
            process = Counting.last
            process.steps = 0
            begun: list[int] = []
            world.cloud.aws.machines.on_started.append(lambda _: begun.append(process.steps))
            if crash_at is not None:
                process.crash_after(crash_at)
            for name, (_, count) in POOLS.items():
                world.server.create(workload(name, count))
            for _ in range(2000):
                await clock.sleep(SECOND // 100)
                owned = [record.view.status.provider_id for record in world.server.list(NodeClaim)]
                if begun and owned and all(owned) and not lives.window[1]:
                    lives.window = begun[0], process.steps
            lives.steps = process.steps
            await clock.sleep(5 * MINUTE)
            lives.claims = [record.view for record in world.server.list(NodeClaim)]
            pods = [record.view for record in world.server.list(Pod)]
            lives.waiting = [one.metadata.name for one in pods if one.status.phase != "Running"]
            lives.broken = tuple(str(one["message"]) for one in log.records if one["kind"] == "violation")
            running.cancel()

    run_virtual(main, start=found.start)
    return lives


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "Epoch", Counting)


def crash_steps(usual: Lives, count: int) -> list[int]:
    """So many, evenly, from just before the first instance starts until every claim has its own."""
    first, last = usual.window[0] - 2, usual.window[1] + 2
    return [first + (last - first) * number // (count - 1) for number in range(count)]


def test_whenever_a_process_dies_each_claim_is_launched_once(tmp_path: Path) -> None:
    found = scenario(tmp_path)
    usual = lived(found, None)
    assert (len(usual.claims), len(usual.started), usual.waiting) == (5, 5, [])
    assert usual.window[1] > usual.window[0] > 0
    for step in crash_steps(usual, 16):
        lives = lived(found, step)
        assert (step, len(lives.started), len(lives.claims), lives.waiting) == (step, 5, 5, [])
        assert (step, lives.broken) == (step, ())
