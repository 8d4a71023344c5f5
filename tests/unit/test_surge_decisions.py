"""What is done about a pod whose node goes, as tables: restart its Deployment, wait, give up, or evict."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from dovetail.api.codec import decode
from dovetail.api.core import (
    ClaimSpec,
    ClaimVolumeSource,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    PodTemplateMeta,
    PodTemplateSpec,
    Volume,
)
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Condition, Meta, OwnerReference
from dovetail.api.workloads import (
    Deployment,
    DeploymentSpec,
    DeploymentStatus,
    DeploymentStrategy,
    RollingUpdate,
)
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.disrupt import surge
from dovetail.disrupt.surge import Case, Past, Rollout, Step
from dovetail.model import labels
from dovetail.model.podtemplate import deployment_of
from dovetail.units.timestamp import parse_rfc3339, to_rfc3339

CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
TEMPLATE = {"template": {"spec": {"nodeClassRef": CLASS}}}
NOW = parse_rfc3339("2026-03-02T12:00:00Z")


def pod(age: int = HOUR, kind: str = "ReplicaSet", name: str = "web-abc", digest: str = "abc") -> Pod:
    owners = (
        (OwnerReference(api_version="apps/v1", kind=kind, name=name, uid="1", controller=True),)
        if kind
        else ()
    )
    meta = Meta(
        name="web-abc-1",
        namespace="team",
        labels={"pod-template-hash": digest} if digest else {},
        owner_references=owners,
        creation_timestamp=to_rfc3339(NOW - age),
    )
    return Pod(metadata=meta)


def deployment(
    replicas: int = 1, *, marks: dict[str, str] | None = None, restarted: str = "", **spec: Any
) -> Deployment:
    annotations = {labels.RESTARTED_AT: restarted} if restarted else {}
    template = PodTemplateSpec(
        metadata=PodTemplateMeta(annotations=annotations), spec=spec.pop("pods", PodSpec())
    )
    return Deployment(
        metadata=Meta(
            name="web", namespace="team", generation=3, resource_version="7", annotations=marks or {}
        ),
        spec=DeploymentSpec(replicas=replicas, template=template, **spec),
        status=DeploymentStatus(
            replicas=replicas,
            updated_replicas=replicas,
            ready_replicas=replicas,
            available_replicas=replicas,
            observed_generation=3,
        ),
    )


def restarted(ago: int, *, running: bool = False, **options: Any) -> Deployment:
    """One that was restarted for a node so long ago."""
    stamp = to_rfc3339(NOW - ago)
    found = deployment(marks={labels.SURGE_RESTARTED: stamp}, restarted=stamp, **options)
    return replace(found, status=replace(found.status, replicas=2)) if running else found


def case(owner: Deployment | None, one: Pod | None = None, *, blocked: bool = True, **more: Any) -> Case:
    past = surge.past_of(owner, more.pop("past", Past()), NOW) if owner is not None else Past()
    return Case(one or pod(), owner, past, blocked, **more)


WAITING = replace(deployment(), status=replace(deployment().status, available_replicas=0))
FAILING = replace(
    deployment(),
    status=replace(
        deployment().status, updated_replicas=0, conditions=(Condition(type="Progressing", status="False"),)
    ),
)
UNSEEN = replace(deployment(), status=replace(deployment().status, observed_generation=2))


@pytest.mark.parametrize(
    ("why", "case", "since", "step"),
    [
        ("a budget keeps it", case(deployment()), 0, Step.RESTART),
        ("it is the only one", case(deployment(), blocked=False, alone=True), 0, Step.RESTART),
        ("others are ready elsewhere", case(deployment(), blocked=False), 0, Step.EVICT),
        ("one of those is new", case(restarted(MINUTE, running=True), blocked=False), 0, Step.WAIT),
        ("no Deployment", case(None), 0, Step.EVICT),
        ("a rollout of its own", case(UNSEEN), 0, Step.WAIT),
        ("a pod of it is not available", case(WAITING), 0, Step.WAIT),
        ("that takes too long", case(WAITING), 10 * MINUTE, Step.EVICT),
        ("its own rollout fails", case(FAILING), 0, Step.EVICT),
        ("the restart is on its way", case(restarted(MINUTE, running=True)), 2 * MINUTE, Step.WAIT),
        ("and is over, the pod still there", case(restarted(MINUTE)), 2 * MINUTE, Step.WAIT),
        ("it came to nothing", case(restarted(9 * MINUTE, running=True)), 10 * MINUTE, Step.GIVE_UP),
        ("another node's restart", case(restarted(HOUR, running=True), pod(2 * HOUR)), 0, Step.WAIT),
        ("came by one, and goes again", case(restarted(HOUR), pod(MINUTE)), 0, Step.RESTART),
        ("came back to the node", case(restarted(5 * MINUTE), pod(MINUTE)), 6 * MINUTE, Step.EVICT),
        (
            "it failed lately",
            case(deployment(marks={labels.SURGE_FAILED: to_rfc3339(NOW - HOUR)})),
            0,
            Step.EVICT,
        ),
        (
            "it failed long ago",
            case(deployment(marks={labels.SURGE_FAILED: to_rfc3339(NOW - 7 * HOUR)})),
            0,
            Step.RESTART,
        ),
        ("the mark was taken off", case(deployment(), past=Past(None, NOW - HOUR)), 0, Step.EVICT),
        ("the watch lags", case(deployment(), past=Past(NOW, None, 4)), MINUTE, Step.WAIT),
        ("it was made anew", case(deployment(), past=Past(NOW - MINUTE, None, 50)), 0, Step.RESTART),
        (
            "an instant in the future",
            case(deployment(marks={labels.SURGE_FAILED: to_rfc3339(NOW + HOUR)})),
            0,
            Step.RESTART,
        ),
        ("no instant", case(deployment(marks={labels.SURGE_FAILED: "never\x00"})), 0, Step.RESTART),
    ],
)
def test_steps(why: str, case: Case, since: int, step: Step) -> None:
    assert surge.decide(case, NOW, NOW - since).step is step, why


def test_where_the_cloud_takes_the_machine_patience_is_short() -> None:
    waiting = case(restarted(MINUTE, running=True))
    assert surge.decide(waiting, NOW, NOW - 59 * SECOND, hurried=True).step is Step.WAIT
    assert surge.decide(waiting, NOW, NOW - MINUTE, hurried=True).step is Step.EVICT


def rolling(**limits: int | str) -> DeploymentStrategy:
    return DeploymentStrategy(rolling_update=RollingUpdate(**limits))


@pytest.mark.parametrize(
    ("owner", "why"),
    [
        (deployment(), ""),
        (deployment(3), ""),  # 25 % of 3 is less than a pod
        (deployment(4), "the strategy of its Deployment lets 1 of 4 pods be missing"),
        (deployment(4, strategy=rolling(max_unavailable=0)), ""),
        (
            deployment(strategy=rolling(max_surge=0, max_unavailable=1)),
            "the strategy of its Deployment lets 1 of 1",
        ),
        (deployment(strategy=rolling(max_surge="many%")), "the strategy of its Deployment cannot be read"),
        (
            deployment(strategy=DeploymentStrategy(type="Recreate")),
            "its Deployment has the strategy Recreate",
        ),
        (deployment(paused=True), "rollouts of its Deployment are paused"),
        (deployment(pods=PodSpec(node_name="n1")), "its Deployment names a node"),
    ],
)
def test_deployments_that_bring_up_no_other_pod_first(owner: Deployment, why: str) -> None:
    found = surge.obstacle(case(owner))
    assert found.startswith(why) and bool(found) is bool(why)
    assert surge.decide(case(owner), NOW, NOW).step is (Step.EVICT if why else Step.RESTART)
    assert surge.spares(case(owner), NOW, HOUR) is not bool(why)


@pytest.mark.parametrize(
    ("one", "key", "why"),
    [
        (pod(), "team/web", ""),
        (pod(name="web-other"), "", "its ReplicaSet is of no Deployment"),
        (pod(digest=""), "", "its ReplicaSet is of no Deployment"),
        (pod(kind=""), "", "nothing makes another pod in its place"),
        (
            pod(kind="StatefulSet", name="db"),
            "",
            "a StatefulSet makes a pod anew only once the old one is gone",
        ),
        (pod(kind="Job", name="db"), "", "it is a pod of a Job, not of a Deployment"),
    ],
)
def test_owners(one: Pod, key: str, why: str) -> None:
    assert deployment_of(one) == key
    if why:
        assert surge.decide(case(None, one), NOW, NOW) == surge.Answer(Step.EVICT, why)


@pytest.mark.parametrize(
    ("ago", "rest", "spared"),
    [(59 * MINUTE, HOUR, False), (HOUR, HOUR, True), (HOUR, 24 * HOUR, False), (25 * HOUR, 24 * HOUR, True)],
)
def test_budgets_keep_the_node_for_a_while_after_a_restart(ago: int, rest: int, spared: bool) -> None:
    assert surge.spares(case(restarted(ago), pod(0)), NOW, rest) is spared


@pytest.mark.parametrize("owner", [WAITING, FAILING, UNSEEN, None])
def test_budgets_keep_the_node_while_it_is_not_complete(owner: Deployment | None) -> None:
    assert not surge.spares(case(owner), NOW, HOUR)


@pytest.mark.parametrize(
    ("said", "of_pool", "wanted"),
    [
        ("true", "", True),
        ("", "true", True),
        ("", "", False),
        ("false", "true", False),
        ("yes", "", False),
        ("yes", "true", True),
        ("", "yes", False),
    ],
)
def test_who_asks_for_it(said: str, of_pool: str, wanted: bool) -> None:
    owner = deployment(marks={labels.SURGE: said} if said else {})
    document = {"metadata": {"name": "p", "annotations": {labels.SURGE: of_pool} if of_pool else {}}}
    pool = decode({"spec": TEMPLATE, **document}, NodePool)
    assert surge.opted_in(owner, pool) is wanted
    assert surge.opted_in(None, pool) is (of_pool == "true")


def test_a_volume_for_one_node_only() -> None:
    volume = Volume(name="data", persistent_volume_claim=ClaimVolumeSource(claim_name="disk"))
    one = replace(pod(), spec=PodSpec(volumes=(Volume(name="tmp"), volume)))

    def claim(*modes: str) -> PersistentVolumeClaim:
        return PersistentVolumeClaim(metadata=Meta(name="disk"), spec=ClaimSpec(access_modes=modes))

    assert surge.one_node_only(one, [claim("ReadWriteOnce")]) == "disk"
    assert surge.one_node_only(one, [claim("ReadWriteOnce", "ReadWriteMany")]) == ""
    assert surge.one_node_only(one, []) == ""
    assert "disk" in surge.obstacle(case(deployment(), one, tied="disk"))


def test_a_restart_is_taken_back_to_what_was_there_before() -> None:
    before = "2026-01-01T00:00:00Z"
    owner = deployment(restarted=before)
    patch = surge.restart_patch(owner, NOW + SECOND // 2)
    assert patch == {
        "metadata": {
            "resourceVersion": "7",
            "annotations": {
                labels.SURGE_RESTARTED: to_rfc3339(NOW),
                labels.SURGE_BEFORE: before,
                labels.SURGE_FAILED: None,
            },
        },
        "spec": {"template": {"metadata": {"annotations": {labels.RESTARTED_AT: to_rfc3339(NOW)}}}},
    }
    marks = {labels.SURGE_RESTARTED: to_rfc3339(NOW), labels.SURGE_BEFORE: before}
    undone = surge.undo_patch(deployment(marks=marks, restarted=to_rfc3339(NOW)), NOW, back=True)
    assert undone["spec"] == {"template": {"metadata": {"annotations": {labels.RESTARTED_AT: before}}}}
    assert "spec" not in surge.undo_patch(owner, NOW, back=False)


def test_rollouts_as_kubectl_tells_them() -> None:
    assert surge.rollout(deployment()) is Rollout.COMPLETE
    assert surge.rollout(deployment(0)) is Rollout.COMPLETE
    assert [surge.rollout(one) for one in (WAITING, UNSEEN, FAILING)] == [
        Rollout.RUNNING,
        Rollout.RUNNING,
        Rollout.FAILED,
    ]
