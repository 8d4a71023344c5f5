"""Workloads of other groups: whatever carries a pod template and replicas, such as a Rollout of Argo.

They are read as the kind of Kubernetes that makes the same pods. The rule is one for all, known or not:
below `spec`, every map that holds `template.spec.containers` stands for as many pods as its own `replicas`
and those of the maps around it say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]

# Knative counts by annotations of the template.
_MIN_SCALES = ("autoscaling.knative.dev/min-scale", "autoscaling.knative.dev/minScale")
_COUNTS = ("replicas", "parallelism", "count")  # the last is Elasticsearch's
_TEMPLATES = ("template", "podTemplate")
_DEEPEST = 12


@dataclass(frozen=True, slots=True)
class _Group:
    """Copies of one pod template: where it was found below the object, and how many."""

    path: str
    name: str  # what distinguishes it from other groups of the object; empty for `spec` itself
    owner: Document  # the map that holds the template
    template: Document
    replicas: int


def is_per_node(kind: str, spec: Document) -> bool:
    """Whether a kind runs one pod per node rather than a number of them."""
    return kind in ("DaemonSet", "BroadcastJob") and "replicas" not in spec


def as_workloads(document: Document) -> list[tuple[str, Document]]:
    """The workloads of Kubernetes that make the same pods, each with the path of its part, if any."""
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return []
    kind = str(document.get("kind"))
    groups = list(_groups(spec, "spec", "", 1, 0))
    return [(group.path, _workload(document, kind, group)) for group in groups]


def _groups(value: Any, path: str, name: str, copies: int, depth: int) -> Iterator[_Group]:
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            own = item.get("name") if isinstance(item, dict) else None
            label = str(own) if isinstance(own, str) and own else str(index)
            yield from _groups(item, f"{path}[{index}]", label, copies, depth + 1)
        return
    if not isinstance(value, dict):
        return
    counts = [value[key] for key in _COUNTS if type(value.get(key)) is int and value[key] >= 0]
    copies *= counts[0] if counts else 1
    for key, item in value.items():
        if key in _TEMPLATES and _is_pod_template(item):
            replicas = copies if counts else _min_scale(item, copies)
            yield _Group(path, name, value, item, replicas)
        elif isinstance(item, dict | list):
            yield from _groups(
                item, f"{path}.{key}", name if key in (*_TEMPLATES, "spec") else key, copies, depth + 1
            )


def _is_pod_template(value: Any) -> bool:
    spec = value.get("spec") if isinstance(value, dict) else None
    containers = spec.get("containers") if isinstance(spec, dict) else None
    return (
        isinstance(containers, list) and bool(containers) and all(isinstance(one, dict) for one in containers)
    )


def _min_scale(template: Document, otherwise: int) -> int:
    meta = template.get("metadata")
    annotations = meta.get("annotations") if isinstance(meta, dict) else None
    for key in _MIN_SCALES:
        text = annotations.get(key) if isinstance(annotations, dict) else None
        if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 10:
            return max(int(text), 1)
    return otherwise


def _workload(document: Document, kind: str, group: _Group) -> Document:
    meta = document["metadata"] if isinstance(document.get("metadata"), dict) else {}
    name = f"{meta.get('name', '')}-{group.name}".lower() if group.name else meta.get("name", "")
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
    if is_per_node(kind, group.owner):
        result = "DaemonSet"
    else:
        made["replicas"] = group.replicas
    if kind == "StatefulSet":
        result = kind
        made.update({key: group.owner[key] for key in ("volumeClaimTemplates",) if group.owner.get(key)})
    return {
        "apiVersion": "apps/v1",
        "kind": result,
        "metadata": {**meta, "name": name},
        "spec": made,
    }
