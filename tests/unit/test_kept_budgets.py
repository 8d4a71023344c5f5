"""PodDisruptionBudgets at the API server's twin: their status, and whether a pod may be evicted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from dovetail.api.core import Pod
from dovetail.api.workloads import Deployment, PodDisruptionBudget, ReplicaSet, StatefulSet
from dovetail.base.clock import SECOND
from dovetail.base.errors import ApiError, TooManyRequests
from dovetail.kube.memory import MemoryServer
from dovetail.kube.memory.disruption import Covered, budget_status, check_eviction, is_ready
from dovetail.simulate.time.clock import VirtualClock, run_virtual

Document = dict[str, Any]
KINDS = {Deployment: "Deployment", ReplicaSet: "ReplicaSet", StatefulSet: "StatefulSet"}


def pod(
    name: str, *, ready: bool = True, phase: str = "Running", owner: Document | None = None, **meta: Any
) -> Document:
    owners = {"ownerReferences": [owner]} if owner else {}
    conditions = [
        {"type": "Initialized", "status": "True"},
        {"type": "Ready", "status": "True" if ready else "False"},
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}, **owners, **meta},
        "spec": {"containers": [{"name": "main", "image": "web:1"}], "nodeName": "n"},
        "status": {"phase": phase, "conditions": conditions},
    }


def budget(name: str = "b", app: str = "web", **spec: Any) -> Document:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default", "generation": 7},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


def of(name: str, *, controller: bool = True) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": name,
        "uid": name,
        "controller": controller,
    }


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([], False),
        (None, False),
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready"}], False),
        ([{"type": "Initialized", "status": "True"}], False),
        ([{"type": "Initialized", "status": "False"}, {"type": "Ready", "status": "True"}], True),
    ],
)
def test_a_pod_is_ready_by_its_condition_of_that_name(conditions: Any, ready: bool) -> None:
    assert is_ready({"status": {"conditions": conditions}}) is ready
    assert not is_ready({})


@pytest.mark.parametrize(
    ("spec", "pods", "replicas", "wanted"),
    [
        # What is wanted: allowed, healthy, desired, expected.
        ({"minAvailable": 1}, [pod("a"), pod("b")], {}, (1, 2, 1, 2)),
        ({"minAvailable": 2}, [pod("a"), pod("b")], {}, (0, 2, 2, 2)),
        ({"minAvailable": 3}, [pod("a"), pod("b")], {}, (0, 2, 3, 2)),
        ({"minAvailable": 1}, [pod("a"), pod("b", ready=False)], {}, (0, 1, 1, 2)),
        (
            {"minAvailable": 1},
            [pod("a"), pod("b", deletionTimestamp="2026-03-02T09:00:00Z")],
            {},
            (0, 1, 1, 2),
        ),
        ({"minAvailable": 0}, [], {}, (0, 0, 0, 0)),
        ({"minAvailable": 0}, [pod("a")], {}, (1, 1, 0, 1)),
        ({"minAvailable": 1}, [pod("a", ready=False)], {}, (0, 0, 1, 1)),
        ({"maxUnavailable": 1}, [], {}, (0, 0, 0, 0)),
        ({"maxUnavailable": "1%"}, [pod("a", owner=of("r"))] * 100, {"r": 100}, (1, 100, 99, 100)),
        ({"minAvailable": "1%"}, [pod("a", owner=of("r"))], {"r": 100}, (0, 1, 1, 100)),
        ({"maxUnavailable": 1}, [pod("a", owner=of("r")), pod("b", owner=of("r"))], {"r": 2}, (1, 2, 1, 2)),
        ({"maxUnavailable": 1}, [pod("a", owner=of("r"))], {"r": 4}, (0, 1, 3, 4)),
        ({"maxUnavailable": 9}, [pod("a", owner=of("r"))], {"r": 4}, (1, 1, 0, 4)),
        ({"maxUnavailable": "30%"}, [pod("a", owner=of("r"))] * 4, {"r": 4}, (2, 4, 2, 4)),  # 1.2 is 2
        ({"minAvailable": "50%"}, [pod("a", owner=of("r"))] * 3, {"r": 3}, (1, 3, 2, 3)),  # 1.5 is 2
        ({"minAvailable": "100%"}, [pod("a", owner=of("r"))] * 3, {"r": 3}, (0, 3, 3, 3)),
        ({"minAvailable": "100%"}, [pod("a", owner=of("r"))] * 3, {"r": 200}, (0, 3, 200, 200)),
        (
            {"minAvailable": "50%"},
            [pod("a", owner=of("r")), pod("b", owner=of("s"))],
            {"r": 1, "s": 3},
            (0, 2, 2, 4),
        ),
        # A pod whose controller cannot be scaled makes the whole budget unknown; one without counts as none.
        ({"maxUnavailable": 1}, [pod("a", owner=of("r")), pod("b", owner=of("job"))], {"r": 2}, (0, 2, 1, 2)),
        ({"maxUnavailable": 1}, [pod("a", owner=of("r")), pod("b")], {"r": 2}, (1, 2, 1, 2)),
        ({"maxUnavailable": 1}, [pod("a", owner=of("r", controller=False))], {"r": 2}, (0, 1, 0, 0)),
        ({}, [pod("a", owner=of("r"))], {"r": 2}, (0, 1, 0, 0)),
    ],
)
def test_the_counts_of_a_budget(
    spec: Document, pods: Sequence[Document], replicas: Mapping[str, int], wanted: tuple[int, int, int, int]
) -> None:
    def scale(uid: str) -> tuple[str, int] | None:
        return (uid, replicas[uid]) if uid in replicas else None

    covered = Covered()
    for number, one in enumerate(pods):
        covered.put(("default", str(number)), one)
    found = budget_status(budget(**spec), covered, scale)
    assert tuple(found.values()) == (*wanted, 7)
    names = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods", "observedGeneration"]
    assert list(found) == names
    assert budget_status({"metadata": {}, "spec": spec}, covered, scale)["observedGeneration"] == 1


def with_server(check: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        await check(MemoryServer(clock), clock)

    run_virtual(main, start=1_772_409_600 * SECOND)


@pytest.mark.parametrize(
    ("status", "ready", "policy", "allowed"),
    [
        ({"disruptionsAllowed": 1}, True, "", True),
        ({"disruptionsAllowed": 0}, True, "", False),
        ({}, True, "", False),
        ({"disruptionsAllowed": 0, "currentHealthy": 3, "desiredHealthy": 3}, True, "", False),
        ({"disruptionsAllowed": 0, "currentHealthy": 3, "desiredHealthy": 3}, False, "", True),
        ({"disruptionsAllowed": 0, "currentHealthy": 4, "desiredHealthy": 3}, False, "", True),
        ({"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 3}, False, "", False),
        ({"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}, False, "", True),
        ({"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 0}, False, "", False),
        ({"disruptionsAllowed": 0, "desiredHealthy": 1}, False, "", False),
        ({"disruptionsAllowed": 0}, False, "", False),
        ({"currentHealthy": 3}, False, "", False),
        ({}, False, "AlwaysAllow", True),
        ({}, True, "AlwaysAllow", False),
    ],
)
def test_a_budget_lets_a_pod_go_by_its_status(
    status: Document, ready: bool, policy: str, allowed: bool
) -> None:
    async def check(server: MemoryServer, _clock: VirtualClock) -> None:
        server.create(budget(minAvailable=1, **({"unhealthyPodEvictionPolicy": policy} if policy else {})))
        server.patch(PodDisruptionBudget, "b", "default", merge_patch={"status": status}, status=True)
        if allowed:
            check_eviction(server.store, pod("a", ready=ready))
        else:
            with pytest.raises(TooManyRequests):
                check_eviction(server.store, pod("a", ready=ready))

    with_server(check)


@pytest.mark.parametrize(
    ("document", "protected"),
    [
        (pod("a"), True),
        (pod("a", phase="Pending"), False),
        (pod("a", phase="Succeeded"), False),
        (pod("a", phase="Failed"), False),
        (pod("a", phase="Unknown"), True),
        (pod("a", deletionTimestamp="2026-03-02T09:00:00Z"), False),
        (pod("a", labels={"app": "other"}), False),
        (pod("a", labels=None), False),
    ],
)
def test_only_pods_that_run_and_are_selected_are_protected(document: Document, protected: bool) -> None:
    async def check(server: MemoryServer, _clock: VirtualClock) -> None:
        server.create(budget(minAvailable=1))
        server.create(budget("of-others", app="third", minAvailable=1))
        if protected:
            with pytest.raises(TooManyRequests):
                check_eviction(server.store, document)
            server.create(budget("second", minAvailable=0))
            with pytest.raises(ApiError, match="more than one PodDisruptionBudget"):
                check_eviction(server.store, document)
        else:
            check_eviction(server.store, document)

    with_server(check)


def add(server: MemoryServer, document: Document) -> None:
    """Create a pod, and then its status, as its kubelet does."""
    server.create(document)
    name, status = document["metadata"]["name"], {"status": document["status"]}
    server.patch(Pod, name, "default", merge_patch=status, status=True)


def counts(server: MemoryServer) -> tuple[int, int, int, int]:
    server.disruption.sync()
    status = server.get(PodDisruptionBudget, "b", "default")["status"]
    names = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    return tuple(status[name] for name in names)  # type: ignore[return-value]


def scaled(kind: str, name: str, replicas: int, owner: Document | None = None) -> Document:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "m", "image": "i"}]}}
    spec: Document = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    if kind == "StatefulSet":
        spec["serviceName"] = "web"
    meta: Document = {"name": name, "namespace": "default"}
    if owner:
        meta["ownerReferences"] = [owner]
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec}


@pytest.mark.parametrize("kind", [Deployment, ReplicaSet, StatefulSet])
def test_a_status_follows_the_pods_and_what_scales_them(kind: Any) -> None:
    async def check(server: MemoryServer, _clock: VirtualClock) -> None:
        top = server.create(scaled(KINDS[kind], "top", 4))
        owner = {
            "apiVersion": "apps/v1",
            "kind": KINDS[kind],
            "name": "top",
            "uid": top.uid,
            "controller": True,
        }
        if kind is Deployment:  # a ReplicaSet stands between
            between = server.create(scaled("ReplicaSet", "between", 3, owner))
            owner = {**owner, "kind": "ReplicaSet", "name": "between", "uid": between.uid}
        server.create(budget(maxUnavailable=1))
        for name in "pqr":
            add(server, pod(name, owner=owner))
        add(server, pod("ended", phase="Succeeded", owner=owner))
        add(server, pod("failed", phase="Failed", owner=owner))
        add(server, pod("other", owner=owner, labels={"app": "other"}))
        assert counts(server) == (0, 3, 3, 4)
        add(server, pod("s", owner=owner))
        assert counts(server) == (1, 4, 3, 4)
        server.patch(kind, "top", "default", merge_patch={"spec": {"replicas": 2}})
        assert counts(server) == (3, 4, 1, 2)
        server.patch(kind, "top", "default", merge_patch={"spec": {"replicas": 0}})
        assert counts(server) == (0, 4, 0, 0)
        server.patch(kind, "top", "default", merge_patch={"spec": {"replicas": None}})
        assert counts(server) == (4, 4, 0, 1)
        server.patch(kind, "top", "default", merge_patch={"spec": {"replicas": 2}})
        server.patch(Pod, "p", "default", merge_patch={"status": {"phase": "Failed"}}, status=True)
        assert counts(server) == (2, 3, 1, 2)
        server.patch(Pod, "q", "default", merge_patch={"metadata": {"labels": {"app": "other"}}})
        assert counts(server) == (1, 2, 1, 2)
        server.delete(Pod, "r", "default", grace_period_seconds=0)
        assert counts(server) == (0, 1, 1, 2)
        server.patch(PodDisruptionBudget, "b", "default", merge_patch={"spec": {"maxUnavailable": 2}})
        assert counts(server) == (1, 1, 0, 2)

    with_server(check)


def test_the_condition_keeps_its_time_while_the_verdict_stays() -> None:
    async def check(server: MemoryServer, clock: VirtualClock) -> None:
        def condition() -> tuple[str, str, str]:
            server.disruption.sync()
            (found,) = server.get(PodDisruptionBudget, "b", "default")["status"]["conditions"]
            assert found["type"] == "DisruptionAllowed"
            return found["status"], found["reason"], found["lastTransitionTime"]

        server.create(budget(minAvailable=1))
        add(server, pod("a"))
        assert condition() == ("False", "InsufficientPods", "2026-03-02T00:00:00Z")
        await clock.sleep(60 * SECOND)
        add(server, pod("b"))
        assert condition() == ("True", "SufficientPods", "2026-03-02T00:01:00Z")
        await clock.sleep(60 * SECOND)
        add(server, pod("c"))
        assert condition() == ("True", "SufficientPods", "2026-03-02T00:01:00Z")

    with_server(check)


def test_a_budget_is_about_the_pods_of_its_namespace() -> None:
    async def check(server: MemoryServer, _clock: VirtualClock) -> None:
        other = budget(minAvailable=1)
        other["metadata"]["namespace"] = "other"
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        server.create(other)
        server.create(budget(minAvailable=1))
        server.disruption.sync()
        add(server, pod("a"))
        assert list(server.disruption._touched) == [("default", "b")]
        assert counts(server) == (0, 1, 1, 1)

    with_server(check)


@pytest.mark.parametrize(
    ("patch", "asked"),
    [
        ({"metadata": {"annotations": {"a": "b"}}}, False),
        ({"metadata": {"labels": {"app": "web", "more": "x"}}}, True),
        ({"metadata": {"ownerReferences": [of("another")]}}, True),
    ],
)
def test_only_what_budgets_look_at_makes_them_count_anew(patch: Document, asked: bool) -> None:
    async def check(server: MemoryServer, _clock: VirtualClock) -> None:
        server.create(budget(minAvailable=1))
        add(server, pod("a"))
        counts(server)
        server.patch(Pod, "a", "default", merge_patch=patch)
        assert bool(server.disruption._touched) is asked

    with_server(check)


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Succeeded"},
        {"phase": "Failed"},
        {"conditions": [{"type": "Ready", "status": "False"}]},
    ],
)
def test_a_pod_whose_state_changes_makes_them_count_anew(status: Document) -> None:
    async def check(server: MemoryServer, _clock: VirtualClock) -> None:
        server.create(budget(minAvailable=1))
        add(server, pod("a"))
        assert counts(server) == (0, 1, 1, 1)
        assert not server.disruption._touched
        server.patch(Pod, "a", "default", merge_patch={"status": status}, status=True)
        assert server.disruption._touched

    with_server(check)


def test_a_pod_that_is_marked_for_deletion_is_not_healthy_any_more() -> None:
    async def check(server: MemoryServer, _clock: VirtualClock) -> None:
        server.create(budget(minAvailable=1))
        add(server, pod("a"))
        assert counts(server) == (0, 1, 1, 1)
        add(server, pod("b"))
        server.delete(Pod, "a", "default", grace_period_seconds=30)
        assert counts(server) == (0, 1, 1, 2)
        server.delete(Pod, "a", "default", grace_period_seconds=0)
        assert counts(server) == (0, 1, 1, 1)

    with_server(check)


def test_scaling_counts_and_other_changes_of_a_deployment_do_not() -> None:
    async def check(server: MemoryServer, _clock: VirtualClock) -> None:
        server.create(budget(minAvailable=1))
        server.create(scaled("Deployment", "top", 1))
        counts(server)
        server.patch(Deployment, "top", "default", merge_patch={"metadata": {"labels": {"a": "b"}}})
        assert not server.disruption._touched
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        assert not server.disruption._touched
        server.patch(Deployment, "top", "default", merge_patch={"spec": {"replicas": 2}})
        assert list(server.disruption._touched) == [("default", "b")]
        server.delete(PodDisruptionBudget, "b", "default")
        server.disruption.sync()  # it is gone, although a change touched it
        assert not server.disruption._touched

    with_server(check)


def test_a_status_that_stays_as_it_is_is_not_written() -> None:
    async def check(server: MemoryServer, _clock: VirtualClock) -> None:
        server.create(budget(minAvailable=1))
        add(server, pod("a"))
        counts(server)
        before = server.store.version
        server.patch(Pod, "a", "default", merge_patch={"metadata": {"labels": {"app": "web", "x": "y"}}})
        counts(server)
        assert server.store.version == before + 1  # the pod's own

    with_server(check)


def test_what_no_controller_scales_is_not_counted_by_it() -> None:
    """A pod of a Job, and one of a ReplicaSet that is gone."""

    async def check(server: MemoryServer, _clock: VirtualClock) -> None:
        server.create(budget(maxUnavailable=1))
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "i"}]}}
        meta = {"name": "job", "namespace": "default"}
        work = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template}}
        job = server.create(work)
        for name, uid in (("job", job.uid), ("gone", "gone")):
            add(server, pod(name, owner={**of(name), "kind": "Job", "apiVersion": "batch/v1", "uid": uid}))
        assert counts(server) == (0, 2, 0, 0)

    with_server(check)


def test_statuses_are_kept_up_to_date_by_themselves() -> None:
    async def main(clock: VirtualClock) -> None:
        server = MemoryServer(clock)
        running = asyncio.ensure_future(server.disruption.run())
        for step in range(2):
            server.create(budget(f"b-{step}", app=f"app-{step}", minAvailable=1))
            await clock.sleep(SECOND)
            status = server.get(PodDisruptionBudget, f"b-{step}", "default")["status"]
            assert status["desiredHealthy"] == 1
        running.cancel()

    run_virtual(main)
