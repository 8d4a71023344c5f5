"""Another pod is up before one has to leave its node: Deployments are restarted, and nothing else is hurt."""

from __future__ import annotations

from typing import Any

import pytest
from operated import Operated, play, pod, pool

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import is_true
from dovetail.api.workloads import Deployment
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.base.errors import Forbidden
from dovetail.cloud.interruption import InterruptionKind
from dovetail.disrupt.pods import DISRUPTED
from dovetail.model import labels
from dovetail.model.podtemplate import deployment_of
from dovetail.simulate.kubelet.pods import STARTUP
from dovetail.testing.guests import node_class

ON = {labels.SURGE: "true"}


def lasting(**spec: Any) -> dict[str, Any]:
    """A pool whose nodes go only because they drifted."""
    return pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}, **spec)


def deployment(
    name: str,
    count: int = 1,
    cpu: str = "700m",
    *,
    marks: dict[str, str] = ON,
    strategy: dict[str, Any] | None = None,
    pods: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "annotations": marks},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {**pod(name, cpu)["spec"], **(pods or {})},
            },
            **({"strategy": strategy} if strategy else {}),
            **spec,
        },
    }


def budget(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}}, **(spec or {"minAvailable": 1})},
    }


async def relabel(world: Operated, value: str = "new") -> None:
    """Make every node drift."""
    merge = {"spec": {"template": {"metadata": {"labels": {"generation": value}}}}}
    await world.client.patch(NodePool, "general", merge=merge)


def ready(pod: Pod) -> bool:
    return is_true(pod.status.conditions, "Ready") and not pod.deleting


async def outages(world: Operated, names: list[str], duration: int) -> dict[str, int]:
    """For how many seconds each Deployment had no ready pod, looked at every second."""
    found = dict.fromkeys(names, 0)
    for _ in range(duration // SECOND):
        await world.clock.sleep(SECOND)
        up = {
            deployment_of(pod).partition("/")[2] for pod in (await world.client.list(Pod)).items if ready(pod)
        }
        for name in names:
            found[name] += name not in up
    return found


def generations(world: Operated) -> set[str]:
    return {node.metadata.labels.get("generation", "") for node in world.state.all(Node)}


TEN = [f"s{number}" for number in range(10)]


def ten(budgets: bool, **options: Any) -> tuple[Operated, dict[str, int], set[str]]:
    """Ten services of one pod each, and all nodes drift."""
    found: dict[str, int] = {}
    left: set[str] = set()

    async def script(world: Operated) -> None:
        world.create(node_class(), lasting(), *(deployment(name) for name in TEN))
        if budgets:
            world.create(*(budget(name) for name in TEN))
        await world.clock.sleep(5 * MINUTE)
        await relabel(world)
        found.update(await outages(world, TEN, 40 * MINUTE))
        left.update(generations(world))

    return play(script, **options), found, left


def test_ten_services_are_never_away_while_all_nodes_are_renewed() -> None:
    world, found, left = ten(budgets=True, surge=True)
    assert set(found.values()) == {0}
    assert left == {"new"}
    assert sorted(one["deployment"] for one in world.records("surge.restarted")) == [
        f"default/{name}" for name in TEN
    ]
    assert not world.records("pod.evicted") and not world.records("surge.failed")
    bought = len(world.records("instance.started"))
    assert bought == 2 * len(world.state.all(Node))  # one for each that went, and none for pods on their way


def test_without_it_budgets_keep_the_nodes() -> None:
    world, found, left = ten(budgets=True)
    assert set(found.values()) == {0}
    assert left == {""}
    assert not world.records("disruption")


@pytest.mark.parametrize("surge", [False, True])
def test_services_without_budgets(surge: bool) -> None:
    _, found, left = ten(budgets=False, surge=surge)
    assert left == {"new"}
    assert all((seconds == 0) is surge for seconds in found.values())


async def drained(world: Operated, limit: int = 30 * MINUTE) -> tuple[int, dict[str, int]]:
    """Delete the only claim, as by hand: for how many seconds it stays, and Deployments have no ready pod."""
    (claim,) = world.state.all(NodeClaim)
    names = [one.metadata.name for one in (await world.client.list(Deployment)).items]
    found = dict.fromkeys(names, 0)
    await world.client.delete(NodeClaim, claim.metadata.name)
    for seconds in range(limit // SECOND):
        if world.state.get(NodeClaim, claim.metadata.name) is None:
            return seconds, found
        for name, away in (await outages(world, names, SECOND)).items():
            found[name] += away
    return limit // SECOND, found


def drain(
    *documents: dict[str, Any], surge: bool = True, **of_pool: Any
) -> tuple[Operated, int, dict[str, int]]:
    """A node with these, which is drained."""
    out: list[tuple[int, dict[str, int]]] = []

    async def script(world: Operated) -> None:
        made = lasting()
        made["metadata"] |= of_pool
        world.create(node_class(), made, *documents)
        await world.clock.sleep(20 * MINUTE)
        out.append(await drained(world))

    world = play(script, surge=surge)
    return world, *out[0]


FOREVER = 30 * MINUTE // SECOND  # as long as is looked at


@pytest.mark.parametrize("surge", [True, False])
def test_a_node_that_goes_anyway_is_not_held_by_a_budget(surge: bool) -> None:
    """As at its age, or deleted by hand: without a surge it stays until somebody changes the budget."""
    world, stayed, away = drain(deployment("web"), budget("web"), surge=surge)
    assert stayed < 4 * MINUTE // SECOND if surge else stayed == FOREVER
    assert away == {"web": 0}
    assert len(world.records("surge.restarted")) == surge


NONE: dict[str, str] = {}


@pytest.mark.parametrize(
    ("why", "document", "marks"),
    [
        ("nobody asks", deployment("web", marks=NONE), NONE),
        ("it says no", deployment("web", marks={labels.SURGE: "false"}), ON),
        ("Recreate", deployment("web", strategy={"type": "Recreate"}), NONE),
        ("one may be missing", deployment("web", 4, "200m"), NONE),
    ],
)
def test_what_is_evicted_as_ever(why: str, document: dict[str, Any], marks: dict[str, str]) -> None:
    world, stayed, away = drain(document, annotations=marks)
    assert not world.records("surge.restarted"), why
    assert stayed < FOREVER and world.records("pod.evicted"), why
    assert document["spec"]["replicas"] > 1 or away["web"] > 0, why


def test_the_pool_may_ask_for_all_of_its_deployments() -> None:
    documents = [deployment(name, cpu="300m", marks=NONE) for name in ("a", "b")]
    world, stayed, away = drain(*documents, annotations=ON)
    assert away == {"a": 0, "b": 0} and stayed < FOREVER
    assert len(world.records("surge.restarted")) == 2


def test_replicas_that_are_all_on_the_node_share_a_restart() -> None:
    world, stayed, away = drain(deployment("web", 3, "200m"))
    assert away == {"web": 0} and stayed < FOREVER
    assert len(world.records("surge.restarted")) == 1
    assert not world.records("pod.evicted")


def stateful(name: str) -> dict[str, Any]:
    found = deployment(name)
    return {**found, "kind": "StatefulSet", "spec": {**found["spec"], "serviceName": name}}


def test_what_no_deployment_makes_is_told_so() -> None:
    bare = pod("bare", "300m")
    world, _, _ = drain(stateful("db"), bare, annotations=ON)
    assert not world.records("surge.restarted")
    assert sorted(set(world.messages("SurgeImpossible"))) == []
    world, stayed, _ = drain(stateful("db"), budget("db"), annotations=ON)
    assert stayed == FOREVER
    (why,) = set(world.messages("SurgeImpossible"))
    assert why.endswith("a StatefulSet makes a pod anew only once the old one is gone")


SLOW = {STARTUP: "15m"}


def slow(name: str, **spec: Any) -> dict[str, Any]:
    """Its pods take a quarter of an hour until they are ready."""
    found = deployment(name, **spec)
    found["spec"]["template"]["metadata"]["annotations"] = SLOW
    return found


def restarts(world: Operated, name: str = "default/web") -> tuple[str, str]:
    """What the Deployment says of the last restart, and its template."""
    found = world.state.get(Deployment, name)
    assert found is not None
    marks, template = found.metadata.annotations, found.spec.template.metadata.annotations
    return marks.get(labels.SURGE_FAILED, ""), template.get(labels.RESTARTED_AT, "")


def test_a_drain_gives_up_in_time_and_takes_the_restart_back() -> None:
    world, stayed, away = drain(slow("web"))
    assert len(world.records("surge.restarted")) == 1
    (failed,) = world.records("surge.failed")
    begun = world.records("surge.restarted")[0]
    assert 9 * MINUTE <= failed["t"] - begun["t"] <= 11 * MINUTE
    assert restarts(world)[0] and not restarts(world)[1]
    assert stayed < 15 * MINUTE // SECOND  # evicted then, as ever
    assert away["web"] > 0


def test_a_node_stays_where_no_other_pod_comes_in_time() -> None:
    """As it would without a surge: its budget keeps it, and it is not tried again for hours."""

    async def script(world: Operated) -> None:
        world.create(node_class(), lasting(), slow("web"), budget("web"), deployment("other", cpu="200m"))
        await world.clock.sleep(20 * MINUTE)
        await relabel(world)
        found = await outages(world, ["web", "other"], 3 * HOUR)
        assert found == {"web": 0, "other": 0}
        assert "" in generations(world)
        assert not any(
            taint.key == DISRUPTED.key for node in world.state.all(Node) for taint in node.spec.taints
        )

    world = play(script, surge=True)
    assert [one["deployment"] for one in world.records("surge.failed")] == ["default/web"]
    assert len(world.records("disruption.failed")) == 1
    assert len([one for one in world.records("surge.restarted") if one["deployment"] == "default/web"]) == 1
    assert any("is given up" in text for text in world.messages("SurgeFailed"))


@pytest.mark.parametrize("after", [5 * SECOND, 45 * SECOND, 60 * SECOND, 75 * SECOND])
def test_a_controller_that_is_restarted_goes_on(after: int) -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), lasting(), deployment("web"), budget("web"))
        await world.clock.sleep(5 * MINUTE)
        await relabel(world)
        found = await outages(world, ["web"], after)
        await world.restart()
        for name, seconds in (await outages(world, ["web"], 15 * MINUTE)).items():
            found[name] += seconds
        assert found == {"web": 0}
        assert generations(world) == {"new"}

    world = play(script, surge=True)
    assert len(world.records("surge.restarted")) == 1
    assert len(world.records("instance.started")) == 2


def test_a_forged_owner_restarts_nothing() -> None:
    """Who may create pods, but no Deployments, gives one an owner of that name: its UID is another."""
    forged = pod("web-abc-1", "200m")
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "victim-abc",
        "uid": "x",
        "controller": True,
    }
    forged["metadata"] |= {
        "labels": {"app": "forged", "pod-template-hash": "abc"},
        "ownerReferences": [reference],
    }

    async def script(world: Operated) -> None:
        world.create(node_class(), lasting(), deployment("victim", cpu="200m"), budget("forged"))
        await world.clock.sleep(3 * MINUTE)
        world.create(forged)
        await world.clock.sleep(10 * SECOND)
        await relabel(world)
        await world.clock.sleep(10 * MINUTE)

    world = play(script, surge=True)
    assert len(world.records("surge.restarted")) <= 1  # for the victim's own pod
    assert not [one for one in world.records("surge.restarted") if one["pod"] == "default/web-abc-1"]


def test_what_was_restarted_for_a_node_is_not_moved_to_save_money_for_a_day() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), deployment("web"), budget("web"), deployment("big", cpu="3"))
        await world.clock.sleep(5 * MINUTE)
        await relabel(world)
        await world.clock.sleep(30 * MINUTE)
        assert generations(world) == {"new"}
        await world.client.delete(Deployment, "big", "default")
        await world.clock.sleep(5 * HOUR)

    world = play(script, surge=True)
    assert len([one for one in world.records("surge.restarted") if one["deployment"] == "default/web"]) == 1


def test_without_the_right_to_restart_it_is_as_ever() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), lasting(), deployment("web"))
        await world.clock.sleep(5 * MINUTE)
        patch = world.client.patch

        async def refused(kind: Any, *names: str, **how: Any) -> Any:
            if kind is Deployment and not how.get("status"):
                raise Forbidden('deployments.apps "web" is forbidden')
            return await patch(kind, *names, **how)

        world.client.patch = refused  # type: ignore[method-assign]
        stayed, _ = await drained(world)
        assert stayed < 3 * MINUTE // SECOND

    world = play(script, surge=True)
    assert any("cannot be restarted" in text for text in world.messages("SurgeImpossible"))


def test_where_the_cloud_takes_the_machine_the_new_pod_goes_on_coming_up() -> None:
    """Its pods take three minutes; the notice of a spot interruption leaves one of them to wait."""
    made = deployment("web")
    made["spec"]["template"]["metadata"]["annotations"] = {STARTUP: "3m"}

    async def script(world: Operated) -> None:
        world.create(node_class(), lasting(), made)
        await world.clock.sleep(10 * MINUTE)
        (claim,) = world.state.all(NodeClaim)
        world.cloud.interrupt(claim.status.provider_id, InterruptionKind.SPOT)
        away = await outages(world, ["web"], 10 * MINUTE)
        assert away["web"] < 4 * MINUTE // SECOND

    world = play(script, surge=True)
    (restarted,), (evicted,) = world.records("surge.restarted"), world.records("pod.evicted")
    assert MINUTE <= evicted["t"] - restarted["t"] <= 75 * SECOND
    assert not world.records("surge.failed")
