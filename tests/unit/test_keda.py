"""KEDA's decisions as tables: what is scaled and when, how many Jobs are made, what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.keda import ScaledJob, ScaledObject, ScaledObjectSpec, ScaleTarget
from dovetail.base.clock import SECOND
from dovetail.simulate.workloads.keda import (
    JobCounts,
    Step,
    autoscaler_of,
    decide,
    new_jobs,
    not_played,
)
from dovetail.simulate.workloads.keda_cron import CronTrigger
from dovetail.units.timestamp import parse_rfc3339

NOW = 1_000_000 * SECOND
ACTIVE, RESTING, COOLING = "ScalerActive", "ScalerNotActive", "ScalerCooldown"


@pytest.mark.parametrize(
    ("spec", "replicas", "active", "ago", "step"),
    [
        ({}, 0, True, None, Step(1, True, ACTIVE)),
        ({"min_replica_count": 3}, 0, True, None, Step(3, True, ACTIVE)),
        ({}, 2, True, 5, Step(None, True, ACTIVE)),
        ({"idle_replica_count": 0, "min_replica_count": 2}, 1, True, None, Step(2, True, ACTIVE)),
        ({"idle_replica_count": 0, "min_replica_count": 2}, 2, True, None, Step(None, True, ACTIVE)),
        ({}, 5, False, 299, Step(None, False, COOLING)),
        ({}, 5, False, 300, Step(0, False, RESTING)),
        ({"cooldown_period": 10}, 5, False, 11, Step(0, False, RESTING)),
        ({}, 5, False, None, Step(0, False, RESTING)),
        ({"initial_cooldown_period": 60}, 5, False, None, Step(None, False, COOLING)),
        ({"initial_cooldown_period": 49}, 5, False, None, Step(0, False, RESTING)),
        ({}, 0, False, 10, Step(None, False, RESTING)),
        ({"min_replica_count": 2}, 5, False, 900, Step(None, False, RESTING)),
        ({"min_replica_count": 2}, 1, False, 900, Step(2, False, RESTING)),
        ({"idle_replica_count": 0, "min_replica_count": 2}, 5, False, 900, Step(0, False, RESTING)),
    ],
)
def test_off_zero_and_back(
    spec: dict[str, Any], replicas: int, active: bool, ago: int | None, step: Step
) -> None:
    """Created 50 s ago, and active for the last time `ago` seconds ago."""
    full = ScaledObjectSpec(scale_target_ref=ScaleTarget(name="web"), **spec)
    last = None if ago is None else NOW - ago * SECOND
    created = NOW - 50 * SECOND
    assert decide(full, replicas, active=active, now=NOW, last_active=last, created=created) == step


def scaled_job(**spec: Any) -> ScaledJob:
    document = {"metadata": {"name": "batch"}, "spec": {"jobTargetRef": {}, "triggers": [], **spec}}
    return decode({"apiVersion": ScaledJob.API_VERSION, "kind": ScaledJob.KIND, **document}, ScaledJob)


@pytest.mark.parametrize(
    ("strategy", "running", "pending", "queue", "made"),
    [
        ("default", 0, 0, 5, 5),
        ("default", 3, 0, 5, 2),
        ("default", 5, 0, 5, 0),
        ("default", 0, 0, 30, 10),
        ("default", 4, 0, 0, 0),
        ("accurate", 3, 1, 5, 4),
        ("accurate", 7, 0, 5, 3),
        ("eager", 3, 1, 5, 5),
        ("eager", 8, 1, 5, 1),
    ],
)
def test_jobs_made(strategy: str, running: int, pending: int, queue: int, made: int) -> None:
    scaled = scaled_job(maxReplicaCount=10, scalingStrategy={"strategy": strategy})
    assert new_jobs(scaled, JobCounts(running, pending), queue) == made


def test_jobs_below_the_least_come_first() -> None:
    assert new_jobs(scaled_job(minReplicaCount=2), JobCounts(0, 0), 5) == 2


CRON = {"timezone": "UTC", "start": "0 9 * * *", "end": "0 17 * * *", "desiredReplicas": "3"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"end": "0 9 * * *"}, "start and end can not have exactly same time input"),
        ({"start": "@daily"}, "error parsing start schedule: parser does not accept descriptors: @daily"),
        ({"end": "1-2-3 * * * *"}, "error parsing end schedule: too many hyphens: 1-2-3"),
        ({"end": "1/2/3 * * * *"}, "error parsing end schedule: too many slashes: 1/2/3"),
        (
            {"end": "*/0 * * * *"},
            "error parsing end schedule: step of range should be a positive number: */0",
        ),
        ({"end": "0 0 0 * *"}, "error parsing end schedule: beginning of range (0) below minimum (1): 0"),
        (
            {"end": "0 5-3 * * *"},
            "error parsing end schedule: beginning of range (5) beyond end of range (3): 5-3",
        ),
        (
            {"start": "TZ=Mars/Base 0 9 * * *"},
            "error parsing start schedule: provided bad location Mars/Base",
        ),
        ({"start": "TZ=UTC"}, "error parsing start schedule: expected a schedule after the time zone"),
        ({"start": "99999999999999999999 9 * * *"}, "value out of range"),
        ({"desiredReplicas": "many"}, 'parsing "many": invalid syntax'),
    ],
)
def test_what_is_refused(change: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        CronTrigger.parse({**CRON, **change})


def test_a_missing_field_is_named() -> None:
    with pytest.raises(ValueError, match='missing required parameter "start"'):
        CronTrigger.parse({name: value for name, value in CRON.items() if name != "start"})


@pytest.mark.parametrize(
    ("zone", "start", "end", "now", "active"),
    [
        # Midnight is skipped in Cairo on 26 April 2024: the day of the week still counts from then.
        ("Africa/Cairo", "0 1 * * FRI", "0 2 * * FRI", "2024-04-25T22:30:00Z", True),
        ("Africa/Cairo", "0 1 * * FRI", "0 2 * * FRI", "2024-04-25T23:30:00Z", False),
        # Both day fields restricted: one of them is enough.
        ("UTC", "0 0 13 * FRI", "0 12 13 * FRI", "2024-03-13T01:00:00Z", True),
        ("UTC", "0 0 13 * FRI", "0 12 13 * FRI", "2024-03-15T01:00:00Z", True),
        ("UTC", "0 0 13 * FRI", "0 12 13 * FRI", "2024-03-14T01:00:00Z", False),
        # An end that never comes is the first of all instants: never active.
        ("UTC", "0 0 * * *", "0 0 30 2 *", "2024-03-15T01:00:00Z", False),
    ],
)
def test_windows(zone: str, start: str, end: str, now: str, active: bool) -> None:
    trigger = CronTrigger.parse({"timezone": zone, "start": start, "end": end, "desiredReplicas": "2"})
    assert trigger.observe(parse_rfc3339(now)).active == active


def scaled_object(*triggers: dict[str, Any], **spec: Any) -> ScaledObject:
    document = {
        "apiVersion": ScaledObject.API_VERSION,
        "kind": ScaledObject.KIND,
        "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
        "spec": {"scaleTargetRef": {"name": "web"}, "triggers": list(triggers), **spec},
    }
    return decode(document, ScaledObject)


def test_the_autoscaler_that_is_made() -> None:
    cpu = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}
    made = autoscaler_of(scaled_object(cpu, {"type": "cron", "metadata": CRON}, minReplicaCount=2))
    assert (made.metadata.name, made.metadata.namespace) == ("keda-hpa-web", "shop")
    assert (made.spec.min_replicas, made.spec.max_replicas) == (2, 100)
    resource, external = made.spec.metrics
    assert resource.resource is not None
    assert resource.resource.target.average_utilization == 60
    assert external.external is not None
    assert external.external.metric.name == "s1-cron-UTC-09xxx-017xxx"


def test_triggers_that_are_not_played_are_named() -> None:
    kafka = {"type": "kafka", "metadata": {"topic": "orders"}}
    assert not_played(scaled_object(kafka, {"type": "cron", "metadata": CRON})) == ("kafka",)
