"""Workloads of other groups: whatever makes pods and says which, such as a Rollout of Argo.

They are read as the kind of Kubernetes that makes the same pods. The rule is one for all, known or not
(`podgroups`); kinds that say it in their own way have theirs (`operators`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.reading.operators import Subject, groups_of
from dovetail.reading.podgroups import Document, PodGroup, pod_groups

# How objects of kinds that run to an end say that they are there, in the fields of their status.
_STATES = ("phase", "state", "jobDeploymentStatus", "terminalState")
_ENDED = frozenset(("complete", "completed", "succeeded", "success", "failed", "error"))
_DONE = frozenset(("Complete", "Completed", "Succeeded", "Finished"))
_RUN_TO_AN_END = ("Job", "JobSet", "Run", "Workflow", "Application", "Task")


@dataclass(frozen=True, slots=True)
class Made:
    """A workload of Kubernetes that makes the same pods as a part of an object."""

    path: str  # of the part
    document: Document
    made_up: bool  # True iff the object holds no template of the pods, only what they ask for
    none: str = ""  # why it asks for no pods now


def is_per_node(kind: str, spec: Document) -> bool:
    """Whether a kind runs one pod per node rather than a number of them."""
    return kind in ("DaemonSet", "BroadcastJob") and "replicas" not in spec


def as_workloads(
    document: Document, beside: Sequence[Document] = (), *, templates_only: bool = False
) -> list[Made]:
    """The workloads of Kubernetes that make the same pods; other objects may say more of it.

    With `templates_only` nothing is made of what has no pod template.
    """
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return []
    kind = str(document.get("kind"))
    groups = None if templates_only else groups_of(Subject(document, beside))
    if groups is None:
        groups = list(pod_groups(spec, templates_only=templates_only))
    ended = has_ended(document)
    return [
        Made(
            group.path,
            _workload(document, kind, group, 0 if ended else group.replicas),
            group.made_up,
            "it has ended" if ended else _none(spec) if not group.replicas else "",
        )
        for group in groups
    ]


def _none(spec: Document) -> str:
    strategy = spec.get("runStrategy")
    if isinstance(strategy, str):
        return f"runStrategy: {strategy}"
    if spec.get("running") is False:
        return "running: false"
    run = spec.get("runPolicy")
    held = spec.get("suspend") is True or (isinstance(run, dict) and run.get("suspend") is True)
    return "suspend: true" if held else "replicas: 0"


def has_ended(document: Document) -> bool:
    """True iff an object of a kind that runs to an end says that it is there."""
    kind, status = str(document.get("kind")), document.get("status")
    if not isinstance(status, dict) or not kind.endswith(_RUN_TO_AN_END):
        return False
    states = [status.get(key) for key in _STATES]
    inner = status.get("applicationState")
    states.append(inner.get("state") if isinstance(inner, dict) else None)
    if any(isinstance(state, str) and state.lower() in _ENDED for state in states):
        return True
    conditions: Any = status.get("conditions")
    return any(
        isinstance(one, dict) and one.get("type") in {*_DONE, "Failed"} and one.get("status") == "True"
        for one in (conditions if isinstance(conditions, list) else ())
    )


def _workload(document: Document, kind: str, group: PodGroup, replicas: int) -> Document:
    meta = document["metadata"] if isinstance(document.get("metadata"), dict) else {}
    named = meta.get("name") or str(meta.get("generateName") or "").rstrip("-")
    name = f"{named}-{group.name}".lower() if group.name else named
    template = group.template
    template_meta = template["metadata"] if isinstance(template.get("metadata"), dict) else {}
    labels = template_meta.get("labels")
    labels = labels if isinstance(labels, dict) and labels else {"app": name}
    # Knative and others name containers themselves, and run what ends once in their own way.
    spec = {key: item for key, item in template["spec"].items() if key != "restartPolicy"}
    spec["containers"] = [
        {"name": f"container-{index}", **container} for index, container in enumerate(spec["containers"])
    ]
    made: Document = {
        "selector": {"matchLabels": dict(labels)},
        "template": {"metadata": {**template_meta, "labels": labels}, "spec": spec},
    }
    made["template"]["metadata"].pop("name", None)
    made["template"]["metadata"].pop("creationTimestamp", None)
    result = "Deployment"
    if group.per_node or is_per_node(kind, group.owner):
        result = "DaemonSet"
    else:
        made["replicas"] = replicas
    if kind == "StatefulSet":
        result = kind
        made.update({key: group.owner[key] for key in ("volumeClaimTemplates",) if group.owner.get(key)})
    return {
        "apiVersion": "apps/v1",
        "kind": result,
        "metadata": {**meta, "name": name},
        "spec": made,
    }
