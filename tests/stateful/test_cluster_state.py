"""The state under random events, beside a plain model: dictionaries and full scans."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object
from dovetail.base.clock import SECOND
from dovetail.cluster.nodes import Machine
from dovetail.cluster.pool_usage import PoolUsage
from dovetail.cluster.promises import room_left
from dovetail.cluster.state import State
from dovetail.cluster.usage import usage_by_pool
from dovetail.kube.memory.server import MemoryServer
from dovetail.model.labels import NODEPOOL

NAMES = st.sampled_from(["a", "b", "c"])
PROVIDERS = st.sampled_from(["", "aws:///z/i-1", "aws:///z/i-2"])
OURS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
THEIRS = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.instant = SECOND

    def now(self) -> int:
        return self.instant

    def monotonic(self) -> int:
        return self.instant

    async def sleep(self, nanoseconds: int) -> None:
        self.instant += max(0, nanoseconds)


def claim(name: str, provider: str, reference: dict[str, str] = OURS) -> NodeClaim:
    status: dict[str, Any] = {"providerID": provider} if provider else {}
    document: dict[str, Any] = {
        "metadata": {"name": name, "labels": {NODEPOOL: "general"}},
        "spec": {"nodeClassRef": reference},
        "status": {**status, "capacity": {"cpu": "4"}},
    }
    return decode(document, NodeClaim)


class StateMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = Hand()
        client = MemoryServer(self.clock).client()
        kinds = (("karpenter.k8s.aws", "EC2NodeClass"),)
        self.state = State(client, self.clock, node_class_kinds=kinds, nomination_window=10 * SECOND)
        self.model: dict[tuple[type[Object], str], Object] = {}
        self.expected: set[str] = set()
        self.nominated: dict[str, int] = {}
        self.seen: dict[tuple[type[Object], str], Object] = {}
        self.state.subscribe(self._follow)
        self.changed = self.state.follow()
        self.looks: dict[str, object] = {}
        self.usage = PoolUsage(self.state)

    def _follow(self, kind: type[Object], change: str, old: Object | None, new: Object | None) -> None:
        """A subscriber that rebuilds everything from what it receives."""
        present = new or old
        assert present is not None
        key = (kind, present.key)
        assert self.seen.get(key) is old
        assert change == ("DELETED" if new is None else "ADDED" if old is None else "MODIFIED")
        if new is None:
            del self.seen[key]
        else:
            self.seen[key] = new

    def _put(self, obj: Object) -> None:
        self.state.apply("MODIFIED", obj)
        self.model[type(obj), obj.key] = obj

    @rule(
        name=NAMES,
        node=st.sampled_from(["", "a", "b"]),
        phase=st.sampled_from(["", "Running", "Failed"]),
        cpu=st.sampled_from(["1", "2"]),
    )
    def put_pod(self, name: str, node: str, phase: str, cpu: str) -> None:
        container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
        document = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": node, "containers": [container]},
            "status": {"phase": phase},
        }
        self._put(decode(document, Pod))

    @rule(name=NAMES, provider=PROVIDERS, pool=st.sampled_from(["", "general", "spot"]))
    def put_node(self, name: str, provider: str, pool: str) -> None:
        document = {
            "metadata": {"name": name, "labels": {NODEPOOL: pool} if pool else {}},
            "spec": {"providerID": provider},
            "status": {"capacity": {"cpu": "2", "memory": "1Gi"}},
        }
        self._put(decode(document, Node))

    @rule(name=NAMES, provider=PROVIDERS)
    def put_claim(self, name: str, provider: str) -> None:
        self._put(claim(f"claim-{name}", provider))
        self.expected.discard(f"claim-{name}")

    @rule(name=NAMES, provider=PROVIDERS)
    def put_foreign_claim(self, name: str, provider: str) -> None:
        self.state.apply("ADDED", claim(f"foreign-{name}", provider, THEIRS))

    @rule(name=NAMES)
    def expect_claim(self, name: str) -> None:
        obj = claim(f"claim-{name}", "")
        self.state.expect(obj)
        if (NodeClaim, obj.key) not in self.model:
            self.model[NodeClaim, obj.key] = obj
            self.expected.add(obj.key)

    @rule(kind=st.sampled_from([Pod, Node, NodeClaim]), name=NAMES)
    def delete(self, kind: type[Object], name: str) -> None:
        key = f"default/{name}" if kind is Pod else name if kind is Node else f"claim-{name}"
        obj = self.model.pop((kind, key), None)
        if obj is not None:
            self.state.apply("DELETED", obj)
            self.expected.discard(key)
            self.nominated.pop(key, None)

    @rule(name=NAMES, seconds=st.integers(0, 15))
    def nominate(self, name: str, seconds: int) -> None:
        self.state.nominate(name)
        self.nominated[name] = self.clock.instant + 10 * SECOND
        self.clock.instant += seconds * SECOND

    @rule(name=NAMES, machine=st.sampled_from(["a", "b", "claim-a", "claim-b"]))
    def promise(self, name: str, machine: str) -> None:
        pod = self.state.get(Pod, f"default/{name}")
        if pod is not None:
            self.state.promise(pod, machine)

    @rule(name=st.sampled_from(["a", "claim-a", "claim-b"]), marks=st.booleans())
    def mark(self, name: str, marks: bool) -> None:
        (self.state.mark if marks else self.state.unmark)([name])

    @invariant()
    def followers_learn_what_changed(self) -> None:
        looks: dict[str, object] = {
            one.name: (
                one,
                self.state.pods_on(one.name) if one.node is not None else (),
                self.state.promised_on(one),
                self.state.going(one),
            )
            for one in self.state.machines()
        }
        assert {name for name, look in looks.items() if self.looks.get(name) != look} <= self.changed.keys()
        self.changed.clear()
        self.looks = looks

    @rule()
    def usage_by_pool_is_that_of_all_machines(self) -> None:
        state = self.state
        found = usage_by_pool(one for one in state.machines() if not state.going(one))
        assert self.usage.now() == found
        assert self.usage.now() is self.usage.now()

    @invariant()
    def room_is_what_the_pods_leave(self) -> None:
        for one in self.state.machines():
            there = self.state.pods_on(one.name) if one.node is not None else ()
            assert self.state.room_left(one) == room_left(one, there)

    @invariant()
    def agrees_with_the_model(self) -> None:
        self.state.check()
        assert self.seen == self.model
        pods = [
            obj for (kind, _), obj in sorted(self.model.items(), key=lambda item: item[0][1]) if kind is Pod
        ]
        for node in ("", "a", "b", "c"):
            wanted = tuple(pod for pod in pods if isinstance(pod, Pod) and pod.spec.node_name == node)
            assert self.state.pods_on(node) == wanted
            assert self.state.standing(node) == tuple(pod for pod in wanted if pod.status.phase != "Failed")
        claims = [obj for obj in self.model.values() if isinstance(obj, NodeClaim)]
        launched = all(item.status.provider_id for item in claims)
        assert self.state.synced() is (launched and not self.expected)
        machines = self.state.machines()
        assert [item.name for item in machines] == sorted(item.name for item in machines)
        nodes = [obj for obj in self.model.values() if isinstance(obj, Node)]
        assert sum(item.node is not None for item in machines) == len(nodes)
        for node in nodes:
            until = self.nominated.get(node.metadata.name, 0)
            assert self.state.nominated(Machine(node, None)) is (until > self.clock.instant)


StateMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestState = StateMachine.TestCase


def test_a_place_under_the_claims_name_is_a_change_of_its_node() -> None:
    clock = Hand()
    state = State(MemoryServer(clock).client(), clock)
    state.apply("ADDED", claim("claim-a", "aws:///z/i-1"))
    state.apply("ADDED", decode({"metadata": {"name": "a"}, "spec": {"providerID": "aws:///z/i-1"}}, Node))
    state.apply("ADDED", decode({"metadata": {"name": "b"}}, Node))
    changed = state.follow()
    assert [*changed] == ["claim-a", "a", "b"]
    pods = [decode({"metadata": {"name": name, "namespace": "default", "uid": name}}, Pod) for name in "pq"]
    for pod, place in zip(pods, ("claim-a", "b"), strict=True):
        state.apply("ADDED", pod)
        changed.clear()
        state.promise(pod, place)
    assert [*changed] == ["b"]
    for step in (lambda: state.promise(pods[0], "b"), lambda: state.promise(pods[0], "claim-a")):
        changed.clear()
        step()
        assert changed.keys() == {"claim-a", "a", "b"}
    changed.clear()
    state.apply("DELETED", pods[0])
    assert changed.keys() == {"claim-a", "a"}
    changed.clear()
    state.promise(pods[1], "gone")
    assert changed.keys() == {"b"}  # nothing is kept of what is not there
