"""The watchdog: a healthy life of a node passes, and every planted fault is found by its rule."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from dovetail.api.scheme import KINDS
from dovetail.cloud.provider import Instance
from dovetail.kube.client import ChangeType
from dovetail.kube.memory.store import Change, Record
from dovetail.simulate.violations import Watchdog
from dovetail.units.timestamp import parse_rfc3339, to_rfc3339

START = parse_rfc3339("2026-03-02T21:00:00Z")
MINUTE = 60 * 10**9
Document = dict[str, Any]


class Story:
    """A cluster that a test changes step by step."""

    def __init__(self) -> None:
        self.now = START
        self.several = False  # leaders at once
        self.watchdog = Watchdog(lambda: self.now, several=lambda: self.several)
        self.stored: dict[tuple[str, str], Document] = {}
        self.version = 0

    def put(self, document: Document) -> None:
        key = (document["kind"], document["metadata"]["name"])
        old = self.stored.get(key)
        self.stored[key] = deepcopy(document)
        self._change("MODIFIED" if old else "ADDED", document, old)

    def change(self, kind: str, name: str, edit: Callable[[Document], None]) -> None:
        document = deepcopy(self.stored[kind, name])
        edit(document)
        self.put(document)

    def remove(self, kind: str, name: str) -> None:
        old = self.stored.pop((kind, name))
        self._change("DELETED", old, old)

    def _change(self, verb: ChangeType, document: Document, old: Document | None) -> None:
        kind = next(kind for kind in KINDS if document["kind"] == kind.KIND)
        self.version += 1
        before = Record(kind, old, self.version - 1) if old is not None else None
        self.watchdog.change(Change(verb, self.version, Record(kind, document, self.version), before))

    def bind(self, name: str, node: str) -> None:
        self.change("Pod", name, lambda item: item["spec"].update(nodeName=node))

    def taint(self, node: str) -> None:
        taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
        self.change("Node", node, lambda item: item["spec"]["taints"].append(taint))

    def rules(self) -> list[str]:
        return [item.rule for item in self.watchdog.finish()]


def pool(limit: str = "100") -> Document:
    reference = {"group": "g", "kind": "k", "name": "c"}
    return {
        "kind": "NodePool",
        "metadata": {"name": "main"},
        "spec": {
            "template": {"spec": {"nodeClassRef": reference}},
            "limits": {"cpu": limit},
            "disruption": {"budgets": [{"nodes": "1"}]},
        },
    }


def claim(name: str, **status: Any) -> Document:
    return {
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "main", "team": "x"}},
        "spec": {
            "nodeClassRef": {"group": "g", "kind": "k", "name": "c"},
            "taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}],
        },
        "status": {"providerID": f"i-{name}", "capacity": {"cpu": "2"}, **status},
    }


def node(name: str, ready: str = "True", **metadata: Any) -> Document:
    marks = {"karpenter.sh/nodepool": "main", "team": "x", "karpenter.sh/registered": "true"}
    marks["karpenter.sh/initialized"] = "true"
    return {
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": marks,
            "finalizers": ["karpenter.sh/termination"],
            **metadata,
        },
        "spec": {
            "providerID": f"i-{name}",
            "taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}],
        },
        "status": {
            "allocatable": {"cpu": "2", "pods": "10"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def pod(name: str, cpu: str = "500m", **metadata: Any) -> Document:
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "d",
            "labels": {"app": "web"},
            "creationTimestamp": to_rfc3339(START),
            **metadata,
        },
        "spec": {
            "containers": [{"resources": {"requests": {"cpu": cpu}}}],
            "tolerations": [{"key": "team", "operator": "Exists"}],
        },
        "status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def budget() -> Document:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "d"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1},
    }


def evict(item: Document) -> None:
    item["status"]["conditions"].append(
        {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    )


def disrupt(item: Document) -> None:
    item["status"]["conditions"] = [{"type": "DisruptionReason", "status": "True", "reason": "Drifted"}]


def cluster() -> Story:
    story = Story()
    story.put(pool())
    for name in ("n1", "n2"):
        story.put(claim(name))
        story.put(node(name))
    return story


def instance(name: str) -> Instance:
    return Instance(f"i-{name}", "m.small", "a", "spot", 1, "ami", START, claim=name)


def test_a_healthy_life_passes() -> None:
    story = cluster()
    story.put(budget())
    for name, place in (("a", "n1"), ("b", "n2")):
        story.put(pod(name))
        story.bind(name, place)
    story.watchdog.instances([instance("n1"), instance("n2")])
    story.change("NodeClaim", "n1", disrupt)
    story.taint("n1")
    story.change("Pod", "a", evict)
    story.remove("Pod", "a")
    story.watchdog.ended("i-n1")
    story.change("Node", "n1", lambda item: item["metadata"].update(finalizers=[]))
    story.remove("Node", "n1")
    story.remove("NodeClaim", "n1")
    story.now += 60 * MINUTE
    story.watchdog.instances([instance("n2")])
    assert story.rules() == []


def test_what_the_scheduler_preempts_is_no_eviction() -> None:
    story = cluster()
    story.put(pod("a", annotations={"karpenter.sh/do-not-disrupt": "true"}))
    story.bind("a", "n1")
    mark = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    story.change("Pod", "a", lambda item: item["status"].update(phase="Running", conditions=[mark]))
    assert story.rules() == []
    mark = {**mark, "reason": "EvictionByEvictionAPI"}
    story.change("Pod", "a", lambda item: item["status"].update(conditions=[mark]))
    assert story.rules() == ["do-not-disrupt", "drain without taint"]


def test_what_has_not_started_may_leave_a_node_that_stays() -> None:
    for phase, rules in (("Pending", []), ("Running", ["drain without taint"])):
        story = cluster()
        story.put(pod("a"))
        story.bind("a", "n1")
        mark = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        story.change("Pod", "a", lambda item, phase=phase: item["status"].update(phase=phase))
        story.change("Pod", "a", lambda item, mark=mark: item["status"].update(conditions=[mark]))
        assert story.rules() == rules


def bound_to(document: Document, **fields: Any) -> Story:
    story = cluster()
    story.put(document)
    story.put({**pod("a"), **fields})
    story.bind("a", document["metadata"]["name"])
    return story


def overcommitted() -> Story:
    story = cluster()
    story.put(pod("a", cpu="3"))
    story.bind("a", "n1")
    return story


def against_a_filter() -> Story:
    story = cluster()
    document = pod("a")
    del document["spec"]["tolerations"]
    story.put(document)
    story.bind("a", "n1")
    return story


def unregistered() -> Story:
    document = node("n3")
    document["spec"]["taints"].append({"key": "karpenter.sh/unregistered", "effect": "NoExecute"})
    return bound_to(document)


def protected_pod_evicted() -> Story:
    story = cluster()
    story.put(pod("a", annotations={"karpenter.sh/do-not-disrupt": "true"}))
    story.bind("a", "n1")
    story.change("Pod", "a", evict)
    return story


def last_pod_evicted() -> Story:
    story = cluster()
    story.put(budget())
    story.put(pod("a"))
    story.bind("a", "n1")
    story.change("Pod", "a", evict)
    return story


def limits_passed() -> Story:
    story = cluster()
    story.put(pool(limit="5"))
    story.put(claim("n3"))
    return story


def two_at_once() -> Story:
    story = cluster()
    story.change("NodeClaim", "n1", disrupt)
    story.change("NodeClaim", "n2", disrupt)
    return story


def claim_without_instance() -> Story:
    story = cluster()
    for _ in range(2):
        story.watchdog.instances([instance("n1")])
        story.now += 11 * MINUTE
    story.watchdog.instances([instance("n1")])
    return story


def instance_without_claim() -> Story:
    story = cluster()
    for _ in range(3):
        story.watchdog.instances([instance("n1"), instance("n2"), instance("ghost")])
        story.now += 11 * MINUTE
    return story


def pod_forgotten() -> Story:
    story = cluster()
    story.put(pod("a"))
    story.now += 20 * MINUTE
    return story


def disruption_forgotten() -> Story:
    story = cluster()
    begun = {"type": "DisruptionReason", "status": "True", "reason": "Empty"}
    begun["lastTransitionTime"] = to_rfc3339(story.now)
    story.change("NodeClaim", "n1", lambda item: item["status"].update(conditions=[begun]))
    story.now += 21 * MINUTE
    return story


def finalizer_dropped() -> Story:
    story = cluster()
    story.put(pod("a"))
    story.bind("a", "n1")
    story.change("Node", "n1", lambda item: item["metadata"].update(finalizers=[]))
    return story


def labels_missing() -> Story:
    story = cluster()
    story.put(claim("n3"))
    document = node("n3")
    del document["metadata"]["labels"]["team"]
    story.put(document)
    return story


def taints_missing() -> Story:
    story = cluster()
    story.put(claim("n3"))
    document = node("n3")
    document["spec"]["taints"] = []
    story.put(document)
    return story


@pytest.mark.parametrize(
    ("rule", "story"),
    [
        ("overcommitted", overcommitted),
        ("filter", against_a_filter),
        ("bound to unready", lambda: bound_to(node("n3", ready="False"))),
        ("bound to unready", unregistered),
        ("do-not-disrupt", protected_pod_evicted),
        ("disruption budget of pods", last_pod_evicted),
        ("limits", limits_passed),
        ("disruption budget of nodes", two_at_once),
        ("pairing", claim_without_instance),
        ("pairing", instance_without_claim),
        ("lost pod", pod_forgotten),
        ("disruption left over", disruption_forgotten),
        ("finalizer", finalizer_dropped),
        ("registration", labels_missing),
        ("registration", taints_missing),
    ],
)
def test_a_planted_fault_is_found(rule: str, story: Callable[[], Story]) -> None:
    assert rule in story().rules()


def test_a_protection_that_has_run_out_does_not_count() -> None:
    story = cluster()
    story.put(pod("a", annotations={"karpenter.sh/do-not-disrupt": "5m"}))
    started = {"startTime": to_rfc3339(START), "phase": "Running"}
    story.change("Pod", "a", lambda item: item["status"].update(started))
    story.bind("a", "n1")
    story.now += 6 * MINUTE
    story.taint("n1")
    story.change("Pod", "a", evict)
    assert story.rules() == []


def test_a_node_out_of_time_may_go_with_its_pods() -> None:
    story = cluster()
    story.put(pod("a"))
    story.bind("a", "n1")
    stamp = {"karpenter.sh/nodeclaim-termination-timestamp": to_rfc3339(START)}
    story.change("NodeClaim", "n1", lambda item: item["metadata"].update(annotations=stamp))
    story.now += MINUTE
    story.watchdog.ended("i-n1")
    story.change("Node", "n1", lambda item: item["metadata"].update(finalizers=[]))
    assert story.rules() == []


@pytest.mark.parametrize(("seconds", "rules"), [(14, []), (16, ["disruption budget of nodes"])])
def test_a_node_that_was_just_taken_by_force_uses_no_budget_yet(seconds: int, rules: list[str]) -> None:
    story = cluster()
    stamp = to_rfc3339(story.now)
    story.change("NodeClaim", "n1", lambda item: item["metadata"].update(deletionTimestamp=stamp))
    story.now += seconds * MINUTE // 60
    story.change("NodeClaim", "n2", disrupt)
    assert story.rules() == rules


def test_a_binding_may_cross_a_taint_that_has_just_come() -> None:
    story = cluster()
    story.put(pod("a"))
    story.taint("n1")
    story.bind("a", "n1")
    assert story.rules() == []
    story.now += MINUTE
    story.put(pod("b"))
    story.bind("b", "n1")
    assert story.rules() == ["filter"]


@pytest.mark.parametrize(
    ("uid", "rules"), [("old", []), ("new", ["forced deletion"]), ("", ["forced deletion"])]
)
def test_a_forced_deletion_is_judged_by_the_pod_that_it_means(uid: str, rules: list[str]) -> None:
    story = cluster()
    story.put(pod("db-0", uid="new"))
    story.bind("db-0", "n1")
    story.watchdog.pod_deletion("d/db-0", uid)
    assert story.rules() == rules


@pytest.mark.parametrize(
    ("spec", "pods", "broken"),
    [
        # How many of so many pods may be evicted until the budget is broken: shares are rounded up.
        ({"minAvailable": "50%"}, 3, 2),
        ({"minAvailable": "50%"}, 4, 3),
        ({"minAvailable": "34%"}, 3, 2),
        ({"minAvailable": "100%"}, 2, 1),
        ({"minAvailable": 2}, 3, 2),
        ({"minAvailable": 0}, 2, None),
        ({"maxUnavailable": "50%"}, 3, 3),
        ({"maxUnavailable": "34%"}, 3, 3),
        ({"maxUnavailable": "1%"}, 3, 2),
        ({"maxUnavailable": "0%"}, 3, 1),
        ({"maxUnavailable": 1}, 3, 2),
        ({"maxUnavailable": 5}, 3, None),
        ({}, 2, None),
    ],
)
def test_budgets_of_pods_are_counted_as_kubernetes_does(
    spec: Document, pods: int, broken: int | None
) -> None:
    story = cluster()
    found = {"selector": {"matchLabels": {"app": "web"}}, **spec}
    story.put({**budget(), "spec": found})
    names = [f"p{number}" for number in range(pods)]
    for name in names:
        story.put(pod(name, cpu="100m"))
        story.bind(name, "n1")
    story.now += MINUTE
    story.taint("n1")
    for number, name in enumerate(names, 1):
        story.change("Pod", name, evict)
        rules = [item.rule for item in story.watchdog.found]
        assert rules == (["disruption budget of pods"] if number == broken else []), number
        if number == broken:
            return
        story.remove("Pod", name)
        status = {"status": {"expectedPods": pods}}
        story.put({**budget(), "spec": found, **status})


@pytest.mark.parametrize(
    ("seconds", "rules"),
    [
        # The node has 10 minutes, the pod wants 30 s of them; clocks are up to 95 s apart.
        (0, ["forced deletion"]),
        (600 - 30 - 96, ["forced deletion"]),
        (600 - 30 - 95, []),
        (600 - 30, []),
        (600, []),
    ],
)
def test_a_pod_is_forced_only_when_its_grace_must_begin(seconds: int, rules: list[str]) -> None:
    story = cluster()
    document = pod("a")
    document["spec"]["terminationGracePeriodSeconds"] = 30
    story.put(document)
    story.bind("a", "n1")
    stamp = {"karpenter.sh/nodeclaim-termination-timestamp": to_rfc3339(START + 10 * MINUTE)}
    story.change("NodeClaim", "n1", lambda item: item["metadata"].update(annotations=stamp))
    story.now += seconds * MINUTE // 60
    story.watchdog.pod_deletion("d/a")
    assert story.rules() == rules
