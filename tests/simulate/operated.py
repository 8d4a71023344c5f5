"""A cluster that Dovetail operates in virtual time: server, cloud, kubelets, scheduler and operator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from aws_cloud import REGION, Fleets, cloud_on_aws

from dovetail.api.admission import admit
from dovetail.base.clock import SECOND
from dovetail.cloud.aws.fake import MemoryAws
from dovetail.cloud.inmemory import Limit
from dovetail.cloud.simulated import Account, SimulatedCloud
from dovetail.cluster.state import State
from dovetail.kube.memory.server import MemoryServer
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.runtime.metrics.memory import MemoryMetrics
from dovetail.runtime.operator import Operator, Ports
from dovetail.runtime.planning.inline import InlinePlanner
from dovetail.runtime.settings import Settings
from dovetail.simulate.analysis.log import JsonlLog, Record
from dovetail.simulate.analysis.observer import Observer
from dovetail.simulate.environment.aws import CloudOnAws
from dovetail.simulate.kubelet.kubelets import Kubelets
from dovetail.simulate.kubelet.machine import NodeNames, from_claim
from dovetail.simulate.kubelet.node import NodeOptions
from dovetail.simulate.scenario.latency import Distribution
from dovetail.simulate.scheduler.scheduler import Scheduler
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.simulate.workloads.runner import Workloads
from dovetail.verify import verify

START = 1_772_409_600 * SECOND
LATENCIES = {
    "boot": Distribution(30 * SECOND, 0.0),
    "ready": Distribution(8 * SECOND, 0.0),
    "pull": Distribution(3 * SECOND, 0.0),
    "start": Distribution(SECOND, 0.0),
    "stop": Distribution(2 * SECOND, 0.0),
}
WORK_PER_SECOND = 2_000_000


def pool(name: str = "general", **spec: Any) -> dict[str, Any]:
    """A NodePool document; `template` and the rest of the spec may be given."""
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5.xlarge"]},
    ]
    template = {"spec": {"nodeClassRef": reference, "requirements": requirements}}
    disruption = {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": template, "disruption": disruption, **spec},
    }


def pod(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    """A pod document in the namespace default."""
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    meta = {"name": name, "namespace": "default", "annotations": spec.pop("annotations", {})}
    container = {"name": "main", "image": "web:1", "resources": resources}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}}


def replicas(name: str, count: int, cpu: str = "500m") -> dict[str, Any]:
    """A ReplicaSet document in the namespace default."""
    template = pod(name, cpu)
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": template["spec"]},
        },
    }


def daemonset(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    """A DaemonSet document in the namespace default, whose pods tolerate whatever there is."""
    template = pod(name, cpu, tolerations=[{"operator": "Exists"}], **spec)
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": template["spec"]},
        },
    }


def _simulated(
    clock: VirtualClock, log: JsonlLog, limits: tuple[Limit, ...], *, reboots: bool = False
) -> SimulatedCloud:
    account = Account.usual(REGION, "demo")
    return SimulatedCloud(clock, 1, log, region=REGION, account=account, limits=limits, reboots=reboots)


CLOUDS: dict[str, Callable[..., SimulatedCloud | CloudOnAws]] = {"simulated": _simulated, "aws": cloud_on_aws}
CLOUD = "aws"  # which of them, as in scenarios; conftest.py has a fixture that goes through all


class Operated:
    """The whole; `play` runs a script on it."""

    def __init__(
        self,
        clock: VirtualClock,
        *,
        limits: tuple[Limit, ...] = (),
        reboots: bool = False,
        **settings: Any,
    ) -> None:
        self.clock = clock
        self.log = JsonlLog(clock)
        self.server = MemoryServer(clock, admit=admit)
        self.server.observe(Observer(self.log).changed)
        self.client = self.server.client()
        self.cloud = CLOUDS[CLOUD](clock, self.log, limits, reboots=reboots)
        self.fleets = Fleets(self.aws) if isinstance(self.cloud, CloudOnAws) else None
        names = NodeNames(REGION, 1)
        self.kubelets = Kubelets(self.client, clock, NodeOptions(1, LATENCIES, {}))
        self.cloud.on_started(
            lambda instance, claim: self.kubelets.switch_on(
                from_claim(instance, claim, name=names.draw(instance.provider_id), seed=1)
            )
        )
        self.cloud.on_terminated(lambda instance: self.kubelets.switch_off(instance.provider_id))
        self.cloud.on_rebooted(lambda place: self.kubelets.reboot(place))
        self.plans: list[Plan] = []
        self._settings = Settings(**{"on_plan": self._check, **settings})
        self.operator = self._operator()
        self.scheduler = Scheduler(self.client, clock, 1)
        self.workloads = Workloads(self.client, clock, self.log, seed=1)

    @property
    def aws(self) -> MemoryAws:
        """The account; a test that asks for it plays on AWS."""
        assert isinstance(self.cloud, CloudOnAws)
        return self.cloud.aws

    @property
    def state(self) -> State:
        return self.operator.state

    def create(self, *documents: dict[str, Any]) -> None:
        """Create these objects as a user would."""
        for document in documents:
            self.server.create(document)

    def records(self, kind: str, **fields: object) -> list[Record]:
        """The log's records of a kind with these fields."""
        wanted = {"kind": kind, **fields}.items()
        return [
            record for record in self.log.records if all(record.get(key) == value for key, value in wanted)
        ]

    def messages(self, reason: str) -> list[str]:
        """The messages of all events with that reason."""
        return [str(record["message"]) for record in self.records("event", reason=reason)]

    def start(self) -> None:
        """Start all parts."""
        loop = asyncio.get_running_loop()
        parts = (
            self.server.run_gc(),
            self.server.run_disruption(),
            self.kubelets.run(),
            self.scheduler.run(),
            self.workloads.run(),
        )
        self._tasks = [loop.create_task(part) for part in parts]
        self._operating = loop.create_task(self.operator.run())

    async def stop(self) -> None:
        """Stop the operator's process."""
        self._operating.cancel()
        await self.clock.sleep(SECOND)

    async def restart(self, **settings: Any) -> None:
        """Stop the operator's process, and start another that knows nothing, with these settings changed."""
        await self.stop()
        self._settings = replace(self._settings, **settings)
        self.operator = self._operator()
        self._operating = asyncio.get_running_loop().create_task(self.operator.run())

    def ports(self) -> Ports:
        """What the operator's process has of the world."""
        planner = InlinePlanner(self.clock, WORK_PER_SECOND)
        provider, queue = self.cloud.provider, self.cloud.queue
        return Ports(self.client, provider, self.clock, self.log, planner, self.metrics, queue)

    def _operator(self) -> Operator:
        self.metrics = MemoryMetrics()
        return Operator(self.ports(), self._settings)

    def _check(self, problem: Problem, plan: Plan) -> None:
        self.plans.append(plan)
        assert verify(problem, plan) == ()
        self.state.check()


def play(script: Callable[[Operated], Coroutine[Any, Any, None]], **options: Any) -> Operated:
    """Run the script on a started cluster; answers the cluster for its records."""

    async def main(clock: VirtualClock) -> Operated:
        world = Operated(clock, **options)
        world.start()
        await script(world)
        world.state.check()
        world.server.check()
        return world

    return run_virtual(main, start=START)
