"""Workloads, and the pods that a real control plane of 1.36 makes of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

Document = dict[str, Any]

NODE = "n1"
_CONTAINERS = [{"name": "c", "image": "registry.k8s.io/pause:3.9"}]
_ONCE = {"restartPolicy": "Never"}
_AN_HOUR = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
_LINUX = {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}


def _template(app: str, **spec: Any) -> Document:
    meta = {"labels": {"app": app}, "annotations": {"of": app}}
    return {"metadata": meta, "spec": {"containers": _CONTAINERS, **spec}}


def _of(version: str, kind: str, name: str, **spec: Any) -> Document:
    meta = {"name": name, "namespace": "default", "labels": {"own": name}, "annotations": {"own": name}}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}


def _apps(kind: str, name: str, *, pod: Document | None = None, **spec: Any) -> Document:
    selector = {"matchLabels": {"app": name}}
    return _of("apps/v1", kind, name, selector=selector, template=_template(name, **(pod or {})), **spec)


def _job(name: str, **spec: Any) -> Document:
    return _of("batch/v1", "Job", name, template=_template(name, **_ONCE), **spec)


_CLAIM = {
    "metadata": {"name": "data", "labels": {"of": "claim"}, "annotations": {"of": "claim"}},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
_EVERY_MINUTE = {
    "metadata": {"labels": {"of": "job"}, "annotations": {"of": "job"}},
    "spec": {"template": _template("minutely", **_ONCE)},
}
WORKLOADS: tuple[Document, ...] = (
    _apps("Deployment", "web", replicas=2),
    _apps("ReplicaSet", "set"),
    _apps(
        "StatefulSet",
        "db",
        pod={"volumes": [{"name": "data", "emptyDir": {}}]},
        serviceName="db",
        replicas=2,
        ordinals={"start": 3},
        podManagementPolicy="Parallel",
        volumeClaimTemplates=[_CLAIM],
    ),
    _apps(
        "DaemonSet",
        "agent",
        pod={
            "tolerations": [{**_AN_HOUR, "tolerationSeconds": 3600}, {"key": "team", "operator": "Exists"}],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_LINUX]}
                }
            },
        },
    ),
    _apps("DaemonSet", "network", pod={"hostNetwork": True}),
    _job("twice", parallelism=2, completions=3),
    _job("numbered", parallelism=2, completions=3, completionMode="Indexed"),
    _job("patient", parallelism=1, completions=2, completionMode="Indexed", backoffLimitPerIndex=1),
    _job("held", suspend=True),
    _of(
        "batch/v1",
        "CronJob",
        "minutely",
        schedule="* * * * *",
        concurrencyPolicy="Forbid",
        jobTemplate=_EVERY_MINUTE,
    ),
)

# No pod but those of DaemonSets goes there, so that the others stay as they were made.
NODE_DOCUMENT: Document = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": NODE, "labels": {"kubernetes.io/os": "linux"}},
    "spec": {"unschedulable": True},
    "status": {key: {"cpu": "4", "memory": "16Gi", "pods": "110"} for key in ("capacity", "allocatable")},
}

_ALWAYS = [
    {**_AN_HOUR},
    {**_AN_HOUR, "key": "node.kubernetes.io/unreachable"},
    *(
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoSchedule"}
        for key in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
    ),
]
_NO_NETWORK = {**_ALWAYS[-1], "key": "node.kubernetes.io/network-unavailable"}
_HERE = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE]}]}
_PINNED = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_HERE]}}}
_DAEMON = {"controller-revision-hash": "HASH", "pod-template-generation": "1"}


def _by_job(name: str, index: int | None = None) -> Document:
    labels = {"controller-uid": "UID", "job-name": name}
    labels |= {f"batch.kubernetes.io/{key}": value for key, value in labels.items()}
    number = {} if index is None else {_INDEX: str(index)}
    return labels | number


def _pod(name: str, app: str, labels: Document, **more: Any) -> Document:
    annotations = {"of": app, **more.pop("annotations", {})}
    return {"name": name, "labels": {"app": app, **labels}, "annotations": annotations, **more}


def _stateful(number: int) -> Document:
    name = f"db-{number}"
    labels = {
        "controller-revision-hash": "db-HASH",
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(number),
    }
    return _pod(name, "db", labels, owner="StatefulSet/db", claims={"data": f"data-{name}"})


_INDEX = "batch.kubernetes.io/job-completion-index"
_MINUTELY = {"of": "job", "batch.kubernetes.io/cronjob-scheduled-timestamp": "TIME"}
# By the pods' label "app", in the order of their names; whatever is by chance or by the hour is in capitals.
PODS: dict[str, list[Document]] = {
    "web": 2 * [_pod("web-HASH-RANDOM", "web", {"pod-template-hash": "HASH"}, owner="ReplicaSet/web-HASH")],
    "set": [_pod("set-RANDOM", "set", {}, owner="ReplicaSet/set")],
    "db": [_stateful(3), _stateful(4)],
    "agent": [
        _pod(
            "agent-RANDOM",
            "agent",
            _DAEMON,
            owner="DaemonSet/agent",
            affinity=_PINNED,
            tolerations=[_ALWAYS[0], {"key": "team", "operator": "Exists"}, *_ALWAYS[1:]],
        )
    ],
    "network": [
        _pod(
            "network-RANDOM",
            "network",
            _DAEMON,
            owner="DaemonSet/network",
            affinity=_PINNED,
            tolerations=[*_ALWAYS, _NO_NETWORK],
        )
    ],
    "twice": 2 * [_pod("twice-RANDOM", "twice", _by_job("twice"), owner="Job/twice")],
    "numbered": [
        _pod(
            f"numbered-{index}-RANDOM",
            "numbered",
            _by_job("numbered", index),
            owner="Job/numbered",
            annotations={_INDEX: str(index)},
        )
        for index in range(2)
    ],
    "patient": [
        _pod(
            "patient-0-RANDOM",
            "patient",
            _by_job("patient", 0),
            owner="Job/patient",
            annotations={_INDEX: "0", "batch.kubernetes.io/job-index-failure-count": "0"},
        )
    ],
    "held": [],
    "minutely": [
        _pod("minutely-TIME-RANDOM", "minutely", _by_job("minutely-TIME"), owner="Job/minutely-TIME")
    ],
}
# (kind, name) -> labels and annotations of what is made besides pods.
OTHERS: dict[tuple[str, str], tuple[Document, Document]] = {
    **{
        ("PersistentVolumeClaim", f"data-db-{number}"): ({"of": "claim", "app": "db"}, {"of": "claim"})
        for number in (3, 4)
    },
    ("Job", "minutely-TIME"): ({"of": "job"}, _MINUTELY),
}

_BY_CHANCE = (
    (re.compile(r"-\d{8,}"), "-TIME"),  # the minute of a run since 1970
    (re.compile(r"\d{4}-\d\d-\d\dT\S*"), "TIME"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-\S{22}"), "UID"),
)
_RANDOM = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")
_HASHES = ("pod-template-hash", "controller-revision-hash")
_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")  # copied from the node


def _plain(text: str, hashed: str = "") -> str:
    for pattern, word in _BY_CHANCE:
        text = pattern.sub(word, text)
    return text.replace(hashed, "HASH") if hashed else text


def _seen(pod: Document) -> Document:
    """What is compared of a pod, with what is by chance named for what it is."""
    meta, spec = pod["metadata"], pod["spec"]
    labels, owner = meta.get("labels", {}), meta["ownerReferences"][0]
    hashed = next((labels[key].rpartition("-")[2] for key in _HASHES if key in labels), "")
    made = {
        "name": _plain(_RANDOM.sub("-RANDOM", meta["name"]), hashed),
        "labels": {key: _plain(value, hashed) for key, value in labels.items() if key not in _TOPOLOGY},
        "annotations": {key: _plain(value) for key, value in meta.get("annotations", {}).items()},
        "owner": _plain(f"{owner['kind']}/{owner['name']}", hashed),
        "claims": {
            one["name"]: one["persistentVolumeClaim"]["claimName"]
            for one in spec.get("volumes", ())
            if "persistentVolumeClaim" in one
        },
        "affinity": spec.get("affinity"),
        # Without what every pod tolerates for a while.
        "tolerations": [one for one in spec.get("tolerations", ()) if one.get("tolerationSeconds") != 300],
    }
    return {key: value for key, value in made.items() if value or key in ("labels", "annotations")}


def by_app(pods: Iterable[Document]) -> dict[str, list[Document]]:
    """What is seen of pods, as in PODS."""
    found: dict[str, list[Document]] = {app: [] for app in PODS}
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        found[pod["metadata"]["labels"]["app"]].append(_seen(pod))
    return found


def others_seen(made: Document) -> tuple[tuple[str, str], tuple[Document, Document]]:
    """(kind, name) of a claim or a job, and its labels and annotations."""
    meta = made["metadata"]
    annotations = {
        key: _plain(value)
        for key, value in meta.get("annotations", {}).items()
        if not key.startswith(("kubectl.", "volume.", "pv."))
    }
    return (made["kind"], _plain(meta["name"])), (meta.get("labels", {}), annotations)
