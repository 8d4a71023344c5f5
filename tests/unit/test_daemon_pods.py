"""DaemonSets as plans see them: what their pods ask for, not what is written in the template."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Affinity, Pod
from dovetail.api.workloads import DaemonSet
from dovetail.cluster.daemons import DaemonPods
from dovetail.model.resources import pod_requests

Document = dict[str, Any]
LIMITED: Document = {"limits": {"cpu": "500m", "memory": "1Gi"}}


def daemonset(
    resources: Document, name: str = "logs", *, generation: str = "", namespace: str = "default"
) -> DaemonSet:
    marks = {"deprecated.daemonset.template.generation": generation} if generation else {}
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "annotations": marks}
    template = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
    return decode({"metadata": meta, "spec": {"template": template}}, DaemonSet)


def pod(
    resources: Document,
    at: int = 0,
    *,
    of: str = "logs",
    generation: str = "",
    namespace: str = "default",
    beside: tuple[Document, ...] = (),
    kind: str = "DaemonSet",
) -> Pod:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": of, "uid": f"uid-{of}", "controller": True}
    meta: Document = {
        "name": f"{of}-{at}",
        "namespace": namespace,
        "uid": f"uid-{of}-{at}",
        "creationTimestamp": f"2026-01-01T00:00:{at:02}Z",
        "ownerReferences": [owner],
        "labels": {"pod-template-generation": generation} if generation else {},
    }
    containers = [{"name": "c", "resources": resources}]
    containers += [{"name": f"s{n}", "resources": one} for n, one in enumerate(beside)]
    return decode({"metadata": meta, "spec": {"nodeName": f"n-{at}", "containers": containers}}, Pod)


def asked(one: DaemonSet) -> tuple[int, int]:
    found = pod_requests(Pod(spec=one.spec.template.spec))
    return found.get("cpu", 0), found.get("memory", 0) // 2**20


def cpu(amount: str) -> Document:
    return {"requests": {"cpu": amount}}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param((), 100, id="no pod yet"),
        pytest.param((pod(cpu("200m")),), 200, id="a LimitRange"),
        pytest.param((pod(cpu("100m"), beside=(cpu("300m"),)),), 400, id="a sidecar"),
        pytest.param((pod(cpu("700m"), 2), pod(cpu("50m"), 1)), 700, id="the newest"),
        pytest.param((pod(cpu("50m"), 2), pod(cpu("700m"), 1)), 50, id="the newest asks for less"),
        pytest.param((pod(cpu("700m"), 1), pod(cpu("200m"), 1)), 200, id="one that was resized"),
        pytest.param((pod(cpu("700m"), namespace="tenant"),), 100, id="of another namespace"),
        pytest.param((pod(cpu("700m"), kind="ReplicaSet"),), 100, id="of another kind"),
        pytest.param((pod(cpu("700m"), of="metrics"),), 100, id="of another DaemonSet"),
        pytest.param((pod(cpu("700m"), generation="2"),), 700, id="of this template"),
        pytest.param((pod(cpu("700m"), generation="1"),), 100, id="of the template before"),
    ],
)
def test_what_the_newest_pod_asks_for(pods: tuple[Pod, ...], expected: int) -> None:
    (found,) = DaemonPods(pods).as_they_run((daemonset(cpu("100m"), generation="2"),))
    assert asked(found) == (expected, 0)


def test_limits_alone_are_requests_as_of_the_pods_themselves() -> None:
    """The API server fills those of pods in, not those of templates."""
    (found,) = DaemonPods().as_they_run((daemonset(LIMITED),))
    assert asked(found) == (500, 1024)
    (found,) = DaemonPods().as_they_run((daemonset({**LIMITED, "requests": {"cpu": "1m"}}),))
    assert asked(found) == (1, 1024)


def test_where_it_runs_is_its_template_s() -> None:
    """A pod is bound to its own node by its affinity."""
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n-0"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}
    own = decode({"nodeAffinity": required}, Affinity)
    one = pod(cpu("200m"))
    one = msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, affinity=own))
    (found,) = DaemonPods((one,)).as_they_run((daemonset(cpu("100m")),))
    assert asked(found) == (200, 0)
    assert (found.spec.template.spec.affinity, found.spec.template.spec.node_name) == (None, "")


def test_what_stays_the_same_is_the_very_same() -> None:
    """Much is remembered by it, and each new node brings a newest pod."""
    plain, filled = daemonset(cpu("100m")), daemonset(cpu("100m"), "metrics")
    pods = DaemonPods((pod(cpu("100m")), pod(cpu("300m"), of="metrics")))
    first, second = pods.as_they_run((plain, filled))
    assert first is plain
    assert asked(second) == (300, 0)
    pods.follow(pod(cpu("100m"), 1))
    pods.follow(pod(cpu("300m"), 1, of="metrics"))
    again = pods.as_they_run((plain, filled))
    assert again[0] is plain
    assert again[1] is second


def test_nothing_is_kept_of_what_is_gone() -> None:
    """Of a DaemonSet; and of pods that name an owner which there never was."""
    pods, known = DaemonPods(), daemonset(cpu("100m"))
    strange = pod(cpu("700m"), of="none")
    pods.follow(pod(cpu("300m")))
    pods.follow(strange)
    pods.as_they_run((known,))
    pods.gone(pod(cpu("300m")))
    pods.gone(strange)
    assert asked(pods.as_they_run((known,))[0]) == (300, 0)  # the next one will be like it
    assert asked(pods.as_they_run((daemonset(cpu("1m"), "none"),))[0]) == (1, 0)
    pods.forget(known)
    assert asked(pods.as_they_run((known,))[0]) == (100, 0)
