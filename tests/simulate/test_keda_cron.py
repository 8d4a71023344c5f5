"""KEDA's cron trigger played on a simulated cluster, to the second of the story."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.api.core import Event
from dovetail.api.keda import PAUSED_REPLICAS, ScaledObject
from dovetail.api.meta import condition
from dovetail.api.workloads import Deployment, HorizontalPodAutoscaler, Job, StatefulSet
from dovetail.base.clock import MINUTE
from tests.simulate.test_workload_controllers import Cluster, play, workload

# Every hour from minute 3 to minute 10, whatever its author meant.
HOURLY = {"timezone": "Asia/Seoul", "start": "03 * * * *", "end": "10 * * * *", "desiredReplicas": "5"}


def scaled(kind: str, name: str, trigger: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"triggers": [{"type": "cron", "metadata": trigger}], **spec},
    }


@pytest.mark.parametrize("kind", [Deployment, StatefulSet])
def test_five_pods_from_minute_three_to_about_fifteen(kind: type[Deployment] | type[StatefulSet]) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.server.create(workload(kind.KIND, "inflate", replicas=0))
        target = {"scaleTargetRef": {"name": "inflate", "kind": kind.KIND}}
        cluster.server.create(scaled("ScaledObject", "keda-over-provioning", HOURLY, **target))
        counts: dict[str, int] = {}
        passed = 0.0
        for minute, second in ((2, 59), (3, 50), (9, 0), (10, 0), (13, 0), (16, 0), (59, 0), (63, 50)):
            await cluster.passes(minute * 60 + second - passed)
            passed = minute * 60 + second
            found = await cluster.client.get(kind, "inflate", "default")
            counts[f"{minute}:{second:02}"] = found.spec.replicas
        assert counts == {
            "2:59": 0,
            "3:50": 5,
            "9:00": 5,
            "10:00": 5,
            "13:00": 5,  # the cooldown, and the HPA's window before it takes pods away
            "16:00": 0,
            "59:00": 0,
            "63:50": 5,
        }
        events = [(event.reason, event.message) for event in (await cluster.client.list(Event)).items]
        name = f"{kind.KIND} default/inflate"
        assert ("KEDAScaleTargetActivated", f"Scaled {name} from 0 to 1, triggered by cronScaler") in events
        # The last look that found the window open was up to 30 s before its end, the HPA's up to 15 s.
        assert ("KEDAScaleTargetDeactivated", f"Deactivated {name} from 5 to 0") in events

    play(story)


def test_a_pause_holds_the_replicas_and_takes_the_autoscaler_away() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.server.create(workload("Deployment", "inflate", replicas=0))
        document = scaled("ScaledObject", "web", HOURLY, scaleTargetRef={"name": "inflate"})
        cluster.server.create(document)
        await cluster.passes(5 * 60)
        assert len((await cluster.client.list(HorizontalPodAutoscaler)).items) == 1
        await cluster.client.patch(
            ScaledObject, "web", "default", merge={"metadata": {"annotations": {PAUSED_REPLICAS: "2"}}}
        )
        await cluster.passes(30)
        assert (await cluster.client.get(Deployment, "inflate", "default")).spec.replicas == 2
        assert not (await cluster.client.list(HorizontalPodAutoscaler)).items
        await cluster.passes(30 * 60)
        assert (await cluster.client.get(Deployment, "inflate", "default")).spec.replicas == 2

    play(story)


@pytest.mark.parametrize(
    ("types", "replicas"),
    [(("cpu",), 3), (("cpu", "memory"), 3), (("memory",), 3), (("cpu", "prometheus"), 0)],
)
def test_what_has_triggers_of_resources_alone_is_never_asleep(types: tuple[str, ...], replicas: int) -> None:
    """As KEDA has it: with another trigger that is not active it goes to zero."""

    async def story(cluster: Cluster) -> None:
        cluster.server.create(workload("Deployment", "web", replicas=3))
        await cluster.passes(60)
        document = scaled("ScaledObject", "web", {}, scaleTargetRef={"name": "web"})
        document["spec"]["triggers"] = [{"type": one, "metadata": {"value": "65"}} for one in types]
        cluster.server.create(document)
        await cluster.passes(10 * 60)
        assert (await cluster.client.get(Deployment, "web", "default")).spec.replicas == replicas

    play(story)


def test_a_zone_that_does_not_exist_is_reported_and_nothing_is_scaled() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.server.create(workload("Deployment", "inflate", replicas=0))
        document = scaled(
            "ScaledObject", "web", {**HOURLY, "timezone": "KST"}, scaleTargetRef={"name": "inflate"}
        )
        cluster.server.create(document)
        await cluster.passes(5 * 60)
        found = await cluster.client.get(ScaledObject, "web", "default")
        ready = condition(found.status.conditions, "Ready")
        assert ready is not None
        assert (ready.status, ready.message) == ("False", "unable to load timezone: unknown time zone KST")
        assert (await cluster.client.get(Deployment, "inflate", "default")).spec.replicas == 0

    play(story)


def test_jobs_are_made_while_the_window_is_open() -> None:
    async def story(cluster: Cluster) -> None:
        template = workload("Job", "batch")["spec"]["template"]
        window = {**HOURLY, "desiredReplicas": "2"}
        document = scaled("ScaledJob", "batch", window, jobTargetRef={"template": template})
        cluster.server.create(document)
        await cluster.passes(2 * 60)
        assert not (await cluster.client.list(Job)).items
        await cluster.passes(2 * 60)
        made = len((await cluster.client.list(Job)).items)
        assert made >= 2
        await cluster.passes(8 * 60)
        closed = len((await cluster.client.list(Job)).items)
        await cluster.passes(30 * 60)
        assert len((await cluster.client.list(Job)).items) == closed

    play(story)


def test_twenty_minutes_of_polling_are_few_writes() -> None:
    """While nothing is active, an object that is looked at every 30 s is not written each time."""

    async def story(cluster: Cluster) -> None:
        cluster.server.create(workload("Deployment", "inflate", replicas=0))
        cluster.server.create(scaled("ScaledObject", "web", HOURLY, scaleTargetRef={"name": "inflate"}))
        await cluster.clock.sleep(20 * MINUTE)
        first = await cluster.client.get(ScaledObject, "web", "default")
        await cluster.clock.sleep(20 * MINUTE)
        second = await cluster.client.get(ScaledObject, "web", "default")
        assert first.metadata.resource_version == second.metadata.resource_version

    play(story)
