"""The decisions of the workload controllers, as tables."""

from __future__ import annotations

import pytest

from dovetail.api.core import Container, Pod, PodSpec, PodStatus, PodTemplateMeta, PodTemplateSpec
from dovetail.api.meta import Condition, Meta
from dovetail.api.workloads import (
    CronJobSpec,
    CrossVersionObjectReference,
    DeploymentStrategy,
    HorizontalPodAutoscalerSpec,
    JobSpec,
    RollingUpdate,
    ScalingBehavior,
    ScalingPolicy,
    ScalingRules,
)
from dovetail.base.clock import MINUTE, SECOND
from dovetail.model.podtemplate import ALPHABET, rolling_limits, template_hash
from dovetail.simulate.workloads import cronjob, deployment, hpa, job, replicaset, statefulset
from dovetail.simulate.workloads.deployment import Generation
from dovetail.simulate.workloads.names import Names
from dovetail.simulate.workloads.runner import QUARANTINE, orphans
from dovetail.simulate.workloads.statefulset import Slot, Steps
from dovetail.units.timestamp import parse_rfc3339, to_rfc3339

NOW = parse_rfc3339("2026-03-02T12:00:00Z")


def pod(
    name: str,
    *,
    node: str = "n1",
    phase: str = "Running",
    ready: bool = True,
    cost: str = "",
    age: int = 3600,
) -> Pod:
    since = to_rfc3339(NOW - age * SECOND)
    return Pod(
        metadata=Meta(
            name=name,
            namespace="default",
            uid=name,
            creation_timestamp=since,
            annotations={"controller.kubernetes.io/pod-deletion-cost": cost} if cost else {},
        ),
        spec=PodSpec(node_name=node),
        status=PodStatus(
            phase=phase,
            conditions=(Condition(type="Ready", status=str(ready), last_transition_time=since),),
        ),
    )


LATER = pod("z")


@pytest.mark.parametrize(
    ("why", "first", "second"),
    [
        (
            "without a node",
            pod("a", node="", phase="Pending", ready=False),
            pod("b", phase="Pending", ready=False),
        ),
        ("pending", pod("a", phase="Pending", ready=False), pod("b", ready=False)),
        ("not ready", pod("a", ready=False), LATER),
        ("cheaper to delete", pod("a", cost="-1"), LATER),
        ("cost decides before crowding", pod("a", node="n2", cost="-5"), LATER),
        ("newer", pod("b", age=60), pod("a", age=36_000)),
        ("ages within a power of two: by uid", pod("a", age=3700), pod("b", age=3600)),
        ("a cost that is no number counts as 0", pod("a", cost="cheap", age=3700), pod("b", age=3600)),
    ],
)
def test_scale_down_deletes_first(why: str, first: Pod, second: Pod) -> None:
    for pods in ((first, second), (second, first)):
        assert replicaset.least_useful(1, pods, pods, NOW) == (first,), why


def test_pods_of_the_same_second_go_in_an_order_that_uids_do_not_foretell() -> None:
    """The real controller compares UIDs only where seconds differ: to place pods by UID gains nothing."""
    pods = tuple([pod(f"{number:02}", node=f"n{number // 8}") for number in range(24)])
    first = replicaset.least_useful(12, pods, pods, NOW)
    assert replicaset.least_useful(12, pods[::-1], pods, NOW) == first
    assert {one.spec.node_name for one in first} == {"n0", "n1", "n2"}


def test_scale_down_prefers_crowded_nodes_counting_siblings() -> None:
    mine = (pod("a", node="n1"), pod("b", node="n2"))
    sibling = pod("c", node="n2")
    assert replicaset.least_useful(1, mine, (*mine, sibling), NOW) == (mine[1],)


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "expected"),
    [
        ("25%", "25%", 10, (3, 2)),
        ("25%", "25%", 1, (1, 0)),
        (0, 0, 4, (0, 1)),
        ("0%", "1%", 4, (0, 1)),
        (2, 1, 4, (2, 1)),
    ],
)
def test_rolling_limits(
    surge: int | str, unavailable: int | str, replicas: int, expected: tuple[int, int]
) -> None:
    strategy = DeploymentStrategy(rolling_update=RollingUpdate(max_surge=surge, max_unavailable=unavailable))
    assert rolling_limits(strategy, replicas) == expected


ROLLING = DeploymentStrategy()
RECREATE = DeploymentStrategy(type="Recreate")


@pytest.mark.parametrize(
    ("why", "strategy", "replicas", "new", "old", "expected"),
    [
        ("plain scaling", ROLLING, 5, Generation("new", 3, 3, 3), [], {"new": 5}),
        ("nothing to do", ROLLING, 3, Generation("new", 3, 3, 3), [Generation("old", 0)], {}),
        ("surge first", ROLLING, 8, Generation("new", 0), [Generation("old", 8, 8, 8)], {"new": 2, "old": 6}),
        (
            "the old ones wait for readiness",
            ROLLING,
            8,
            Generation("new", 2, 0, 2),
            [Generation("old", 6, 6, 6)],
            {"new": 4},
        ),
        (
            "old pods that are not ready go first",
            ROLLING,
            8,
            Generation("new", 2, 2, 2),
            [Generation("old", 8, 4, 8)],
            {"old": 4},
        ),
        (
            "oldest replica set first",
            ROLLING,
            4,
            Generation("new", 3, 3, 3),
            [Generation("older", 1, 1, 1), Generation("old", 1, 1, 1)],
            {"older": 0, "old": 0},
        ),
        (
            "recreate empties first",
            RECREATE,
            3,
            Generation("new", 0),
            [Generation("old", 3, 3, 3)],
            {"old": 0},
        ),
        (
            "recreate waits until they are gone",
            RECREATE,
            3,
            Generation("new", 0),
            [Generation("old", 0, 0, 1)],
            {},
        ),
        ("recreate then starts", RECREATE, 3, Generation("new", 0), [Generation("old", 0)], {"new": 3}),
    ],
)
def test_deployment(
    why: str,
    strategy: DeploymentStrategy,
    replicas: int,
    new: Generation,
    old: list[Generation],
    expected: dict[str, int],
) -> None:
    assert deployment.decide(replicas, strategy, new, old) == expected, why


@pytest.mark.parametrize("replicas", [1, 2, 3, 7, 10])
def test_rollout_ends_and_keeps_its_promises(replicas: int) -> None:
    surge, unavailable = rolling_limits(ROLLING, replicas)
    new, old = Generation("new", 0), Generation("old", replicas, replicas, replicas)
    for _ in range(50):
        wanted = deployment.decide(replicas, ROLLING, new, [old])
        new = Generation("new", wanted.get("new", new.replicas), new.replicas, new.replicas)
        left = wanted.get("old", old.replicas)
        old = Generation("old", left, left, left)
        assert new.replicas + old.replicas <= replicas + surge
        assert new.ready + old.ready >= replicas - unavailable
    assert (new.replicas, old.replicas) == (replicas, 0)


READY, WAITING, LEAVING, FINISHED = Slot.READY, Slot.WAITING, Slot.LEAVING, Slot.FINISHED


@pytest.mark.parametrize(
    ("why", "replicas", "slots", "parallel", "outdated", "expected"),
    [
        ("first", 3, {}, False, (), Steps(create=(0,))),
        ("one after another", 3, {0: READY}, False, (), Steps(create=(1,))),
        ("waits for the one before", 3, {0: WAITING}, False, (), Steps()),
        ("all at once", 3, {0: WAITING}, True, (), Steps(create=(1, 2))),
        ("a gap is filled first", 3, {1: READY, 2: READY}, False, (), Steps(create=(0,))),
        ("highest goes first", 1, {0: READY, 1: READY, 2: READY}, False, (), Steps(delete=(2,))),
        ("removal waits for the others", 1, {0: WAITING, 1: READY}, False, (), Steps()),
        ("the one that goes may be unready", 1, {0: READY, 1: WAITING}, False, (), Steps(delete=(1,))),
        ("removal one by one", 0, {0: READY, 1: LEAVING}, False, (), Steps()),
        ("parallel removal", 0, {0: READY, 1: READY}, True, (), Steps(delete=(1, 0))),
        ("finished pods are made anew", 1, {0: FINISHED}, False, (), Steps(delete=(0,))),
        ("renewal from the top", 3, {0: READY, 1: READY, 2: READY}, False, (0, 1, 2), Steps(delete=(2,))),
        ("renewal waits", 3, {0: READY, 1: READY, 2: WAITING}, False, (0, 1), Steps()),
        ("renewal goes on", 3, {0: READY, 1: READY, 2: READY}, False, (0, 1), Steps(delete=(1,))),
        ("a broken old pod does not block", 2, {0: READY, 1: WAITING}, False, (0, 1), Steps(delete=(1,))),
    ],
)
def test_stateful_set(
    why: str,
    replicas: int,
    slots: dict[int, Slot],
    parallel: bool,
    outdated: tuple[int, ...],
    expected: Steps,
) -> None:
    steps = statefulset.decide(range(replicas), slots, parallel=parallel, outdated=frozenset(outdated))
    assert steps == expected, why


@pytest.mark.parametrize(
    ("parallelism", "completions", "tally", "expected"),
    [
        (3, None, job.Tally(), job.Verdict(create=3)),
        (3, None, job.Tally(active=2, succeeded=1), job.Verdict()),
        (3, None, job.Tally(succeeded=3), job.Verdict(finished="Complete")),
        (3, 5, job.Tally(active=1), job.Verdict(create=2)),
        (3, 5, job.Tally(active=1, succeeded=4), job.Verdict()),
        (3, 5, job.Tally(active=2, succeeded=4), job.Verdict(delete=1)),
        (1, 1, job.Tally(succeeded=1), job.Verdict(finished="Complete")),
        (1, 1, job.Tally(failed=6), job.Verdict(create=1)),
        (1, 1, job.Tally(active=1, failed=7), job.Verdict(delete=1, finished="Failed")),
    ],
)
def test_job(parallelism: int, completions: int | None, tally: job.Tally, expected: job.Verdict) -> None:
    assert job.decide(JobSpec(parallelism=parallelism, completions=completions), tally) == expected


HALF_HOURLY = {"schedule": "*/30 * * * *"}


@pytest.mark.parametrize(
    ("why", "spec", "last", "running", "expected"),
    [
        ("not due", CronJobSpec(**HALF_HOURLY), 0, 0, cronjob.Run()),
        ("due now", CronJobSpec(**HALF_HOURLY), 30, 0, cronjob.Run(NOW)),
        ("only the latest of many", CronJobSpec(schedule="*/10 * * * *"), 60, 0, cronjob.Run(NOW)),
        ("missed, in time", CronJobSpec(schedule="55 11 * * *"), 30, 0, cronjob.Run(NOW - 5 * MINUTE)),
        (
            "missed, too late",
            CronJobSpec(schedule="55 11 * * *", starting_deadline_seconds=60),
            30,
            0,
            cronjob.Run(),
        ),
        ("suspended", CronJobSpec(**HALF_HOURLY, suspend=True), 30, 0, cronjob.Run()),
        ("allow", CronJobSpec(**HALF_HOURLY), 30, 1, cronjob.Run(NOW)),
        ("forbid", CronJobSpec(**HALF_HOURLY, concurrency_policy="Forbid"), 30, 1, cronjob.Run()),
        (
            "replace",
            CronJobSpec(**HALF_HOURLY, concurrency_policy="Replace"),
            30,
            1,
            cronjob.Run(NOW, replace=True),
        ),
        ("its own zone", CronJobSpec(schedule="0 21 * * *", time_zone="Asia/Seoul"), 30, 0, cronjob.Run(NOW)),
    ],
)
def test_cron_job(why: str, spec: CronJobSpec, last: int, running: int, expected: cronjob.Run) -> None:
    assert cronjob.decide(spec, NOW - last * MINUTE, NOW, running) == expected, why


@pytest.mark.parametrize(
    ("why", "current", "usages", "unready", "target", "expected"),
    [
        ("within the tolerance", 4, [640] * 4, 0, 60, 4),
        ("ceil of the ratio", 4, [700] * 4, 0, 60, 5),
        ("down", 4, [200] * 4, 0, 60, 2),
        ("nothing measured", 4, [], 4, 60, 4),
        ("pods on their way count as idle", 8, [1000] * 4, 4, 60, 8),
        ("but not when even so there are too few", 6, [1000] * 4, 2, 50, 8),
        ("unready pods do not delay scaling down", 6, [100] * 4, 2, 50, 1),
        ("a request of 0 has no utilisation", 3, [0] * 3, 0, 50, 3),
    ],
)
def test_hpa_recommends(
    why: str, current: int, usages: list[int], unready: int, target: int, expected: int
) -> None:
    request = 0 if "request of 0" in why else 1000
    assert hpa.recommend(current, usages, request, unready=unready, target=target) == expected, why


def autoscaler(behavior: ScalingBehavior | None = None) -> HorizontalPodAutoscalerSpec:
    reference = CrossVersionObjectReference(kind="Deployment", name="web")
    return HorizontalPodAutoscalerSpec(
        scale_target_ref=reference, min_replicas=2, max_replicas=20, behavior=behavior
    )


@pytest.mark.parametrize(
    ("why", "current", "recommended", "desired", "reason"),
    [
        ("inside", 4, 6, 6, "DesiredWithinRange"),
        ("four pods at least", 2, 12, 6, "ScaleUpLimit"),
        ("or double", 6, 18, 12, "ScaleUpLimit"),
        ("the maximum", 12, 50, 20, "TooManyReplicas"),
        ("at the maximum", 20, 50, 20, "TooManyReplicas"),
        ("at the maximum and content", 20, 20, 20, "DesiredWithinRange"),
    ],
)
def test_hpa_bounds(why: str, current: int, recommended: int, desired: int, reason: str) -> None:
    decision = hpa.decide(autoscaler(), current, recommended, NOW, hpa.History())
    assert (decision.desired, decision.reason) == (desired, reason), why


def test_hpa_scales_down_only_after_five_quiet_minutes() -> None:
    history, current = hpa.History(), 10
    sizes = []
    for i in range(22):
        recommended = 10 if i == 0 else 1
        decision = hpa.decide(autoscaler(), current, recommended, NOW + i * hpa.SYNC_PERIOD, history)
        history, current = decision.history, decision.desired
        sizes.append(current)
        assert decision.stabilised == (0 < i < 20)
    assert sizes == [10] * 20 + [2] * 2


def test_hpa_policies_count_what_was_done_in_their_period() -> None:
    slow = ScalingBehavior(
        scale_up=ScalingRules(policies=(ScalingPolicy(type="Pods", value=3, period_seconds=60),)),
        scale_down=ScalingRules(
            stabilization_window_seconds=0,
            policies=(ScalingPolicy(type="Percent", value=50, period_seconds=60),),
        ),
    )
    history, current, sizes = hpa.History(), 4, []
    for i, recommended in enumerate([20] * 6 + [2] * 6):
        decision = hpa.decide(autoscaler(slow), current, recommended, NOW + i * hpa.SYNC_PERIOD, history)
        history, current = decision.history, decision.desired
        sizes.append(current)
    # The first step down is half of 7, not of 10: what was added within the minute does not count.
    assert sizes == [7, 7, 7, 7, 10, 10, 3, 3, 3, 3, 2, 2]


def test_hpa_disabled_direction_stays() -> None:
    still = ScalingBehavior(scale_up=ScalingRules(select_policy="Disabled"))
    assert hpa.decide(autoscaler(still), 4, 9, NOW, hpa.History()).desired == 4


def test_orphans_go_after_the_quarantine() -> None:
    pods = (pod("a", node="n1"), pod("b", node="gone"), pod("c", node=""))
    found, missing = orphans(pods, frozenset({"n1"}), {}, NOW)
    assert (found, missing) == ((), {"gone": NOW})
    found, missing = orphans(pods, frozenset({"n1"}), missing, NOW + QUARANTINE)
    assert found == (pods[1],)
    assert orphans(pods, frozenset({"n1", "gone"}), missing, NOW)[1] == {}


def test_names_are_drawn_per_owner() -> None:
    alone, mixed = Names(7), Names(7)
    expected = [alone.child("ReplicaSet default/a", "a") for _ in range(3)]
    drawn = []
    for _ in range(3):
        mixed.child("ReplicaSet default/b", "b")
        drawn.append(mixed.child("ReplicaSet default/a", "a"))
    assert drawn == expected
    assert len(set(expected)) == 3
    assert all(set(name.removeprefix("a-")) <= set(ALPHABET) and len(name) == 7 for name in expected)
    assert len(Names(1).child("x", "y" * 80)) <= 64


def test_template_hash_follows_the_template() -> None:
    def template(image: str) -> PodTemplateSpec:
        return PodTemplateSpec(
            metadata=PodTemplateMeta(labels={"app": "web"}),
            spec=PodSpec(containers=(Container(name="web", image=image),)),
        )

    assert template_hash(template("web:1")) == template_hash(template("web:1"))
    assert template_hash(template("web:1")) != template_hash(template("web:2"))
