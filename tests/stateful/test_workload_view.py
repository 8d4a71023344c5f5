"""The view of the workload controllers under events that come late, twice, or out of order."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dovetail.api.core import Pod, PodSpec, PodStatus
from dovetail.api.meta import Condition, Meta, OwnerReference
from dovetail.api.workloads import ReplicaSet
from dovetail.simulate.workloads.pods import Standing
from dovetail.simulate.workloads.view import View

OWNERS = {
    name: ReplicaSet(metadata=Meta(name=name, namespace="default", uid=f"uid-{name}"))
    for name in ("web", "api")
}
numbers = st.integers(min_value=0, max_value=5)


class Views(RuleBasedStateMachine):
    """Beside the view: which pods have gone, and which were asked to go."""

    def __init__(self) -> None:
        super().__init__()
        self.view = View()
        self.gone: set[str] = set()
        self.seen: dict[str, Pod] = {}

    def pod(self, number: int, birth: int, version: int, state: str) -> Pod:
        owner = OWNERS["web" if number % 2 else "api"]
        reference = OwnerReference(
            api_version="apps/v1",
            kind="ReplicaSet",
            name=owner.metadata.name,
            uid=owner.metadata.uid,
            controller=True,
        )
        return Pod(
            metadata=Meta(
                name=f"p{number}",
                namespace="default",
                uid=f"{number}-{birth}",
                resource_version=str(version),
                deletion_timestamp="2026-03-02T12:00:00Z" if state == "leaving" else "",
                owner_references=(reference,),
            ),
            spec=PodSpec(node_name="" if state == "waiting" else "n1"),
            status=PodStatus(
                phase={"ready": "Running", "finished": "Failed"}.get(state, "Pending"),
                conditions=(Condition(type="Ready", status=str(state == "ready")),),
            ),
        )

    @rule(
        number=numbers,
        birth=st.integers(min_value=0, max_value=1),
        version=st.integers(min_value=1, max_value=9),
        state=st.sampled_from([item.value for item in Standing]),
    )
    def learns(self, number: int, birth: int, version: int, state: str) -> None:
        pod = self.pod(number, birth, version + 10 * birth, state)
        before = self.view.get(Pod, pod.key)
        if not self.view.learn(pod):
            return
        if before is not None and before.metadata.uid != pod.metadata.uid:
            self.gone.add(before.metadata.uid)
        self.seen[pod.metadata.uid] = pod

    @rule(number=numbers)
    def asks_to_go(self, number: int) -> None:
        pod = self.view.get(Pod, f"default/p{number}")
        if pod is not None:
            self.view.mark_deleting(pod)
            assert self.view.is_deleting(pod)

    @rule(number=numbers, birth=st.integers(min_value=0, max_value=1))
    def goes(self, number: int, birth: int) -> None:
        pod = self.seen.pop(f"{number}-{birth}", None)
        if pod is not None:
            self.view.forget(pod)
            self.gone.add(pod.metadata.uid)

    @invariant()
    def counts_are_right(self) -> None:
        self.view.check()

    @invariant()
    def the_gone_stay_gone(self) -> None:
        assert self.gone.isdisjoint(pod.metadata.uid for pod in self.view.all(Pod))

    @invariant()
    def every_pod_is_counted_once(self) -> None:
        total = sum(self.view.count(owner, *Standing) for owner in OWNERS.values())
        assert total == sum(1 for _ in self.view.all(Pod))


TestViews = Views.TestCase
