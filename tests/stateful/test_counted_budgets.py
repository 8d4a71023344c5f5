"""Random changes of pods, budgets and controllers: a budget counts what a walk over all pods finds."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dovetail.api.core import Pod
from dovetail.api.workloads import PodDisruptionBudget, ReplicaSet
from dovetail.base.errors import AlreadyExists, NotFound
from dovetail.kube.memory import MemoryServer
from tests.stateful.test_memory_server import StoppedClock

NAMES = st.sampled_from(["a", "b", "c"])
LABELS = st.dictionaries(st.just("app"), st.sampled_from(["web", "api"]))
CONTAINERS = [{"name": "main", "image": "registry.example/app:1"}]
SPECS = st.sampled_from([{"maxUnavailable": 1}, {"minAvailable": "50%"}, {"minAvailable": 1}])


def document(kind: str, version: str, name: str, **rest: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", **rest.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **rest}


class BudgetMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.server = MemoryServer(StoppedClock())
        marks = {"app": "web"}
        template = {"metadata": {"labels": marks}, "spec": {"containers": CONTAINERS}}
        owner = {"replicas": 2, "selector": {"matchLabels": marks}, "template": template}
        self.owner = self.server.create(document("ReplicaSet", "apps/v1", "owner", spec=owner)).uid

    @rule(name=NAMES, labels=LABELS, owned=st.booleans(), held=st.booleans())
    def create_pod(self, name: str, labels: dict[str, str], owned: bool, held: bool) -> None:
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "owner", "uid": self.owner}
        meta: dict[str, Any] = {"labels": labels, "finalizers": ["example.com/f"] if held else []}
        if owned:
            meta["ownerReferences"] = [{**reference, "controller": True}]
        with suppress(AlreadyExists):
            self.server.create(document("Pod", "v1", name, metadata=meta, spec={"containers": CONTAINERS}))

    @rule(name=NAMES, labels=st.sampled_from([{"app": "web"}, {"app": "api"}, {"app": None}]))
    def label(self, name: str, labels: dict[str, str | None]) -> None:
        with suppress(NotFound):
            self.server.patch(Pod, name, "default", merge_patch={"metadata": {"labels": labels}})

    @rule(
        name=NAMES, phase=st.sampled_from(["Running", "Succeeded"]), ready=st.sampled_from(["True", "False"])
    )
    def run(self, name: str, phase: str, ready: str) -> None:
        status = {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}
        with suppress(NotFound):
            self.server.patch(Pod, name, "default", merge_patch={"status": status}, status=True)

    @rule(name=NAMES, kind=st.sampled_from([Pod, PodDisruptionBudget]))
    def delete(self, name: str, kind: type[Pod | PodDisruptionBudget]) -> None:
        with suppress(NotFound):
            self.server.delete(kind, name, "default", grace_period_seconds=0)

    @rule(name=NAMES)
    def release(self, name: str) -> None:
        with suppress(NotFound):
            self.server.patch(Pod, name, "default", merge_patch={"metadata": {"finalizers": None}})

    @rule(name=NAMES, labels=LABELS, spec=SPECS)
    def budget(self, name: str, labels: dict[str, str], spec: dict[str, Any]) -> None:
        """Make one, or let it select others."""
        whole = {**spec, "selector": {"matchLabels": labels}}
        try:
            self.server.create(document("PodDisruptionBudget", "policy/v1", name, spec=whole))
        except AlreadyExists:
            change = {"selector": {"matchLabels": {"app": None, **labels}}}
            self.server.patch(PodDisruptionBudget, name, "default", merge_patch={"spec": change})

    @rule(replicas=st.integers(0, 3))
    def scale(self, replicas: int) -> None:
        self.server.patch(ReplicaSet, "owner", "default", merge_patch={"spec": {"replicas": replicas}})

    @invariant()
    def counted(self) -> None:
        self.server.disruption.sync()
        self.server.check()
        for record in self.server.store.table(PodDisruptionBudget).records.values():
            selected = record.document["spec"]["selector"]["matchLabels"].items()
            pods = [pod.view for pod in self.server.store.table(Pod).records.values()]
            healthy = [
                pod
                for pod in pods
                if selected <= pod.metadata.labels.items()
                and not pod.deleting
                and pod.status.phase != "Succeeded"
                and any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)
            ]
            assert record.view.status.current_healthy == len(healthy)


TestBudgets = BudgetMachine.TestCase
TestBudgets.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
