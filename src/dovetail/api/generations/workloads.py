"""Old labels, annotations and taints that workloads and nodes still name, and what they are called today."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dovetail.api.generations.alpha_webhook import CAPACITY_TYPE, PROVISIONER_NAME
from dovetail.api.generations.beta_to_v1 import NODE_POOL_LABEL
from dovetail.api.generations.editing import Document, Editor, Path

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
OLD_ANNOTATIONS = {
    "karpenter.sh/do-not-evict": "do-not-evict of pods is called do-not-disrupt since v1beta1",
    "karpenter.sh/do-not-consolidate": "do-not-consolidate of nodes is called do-not-disrupt since v1beta1",
}
OLD_TAINT, TAINT = "karpenter.sh/disruption", "karpenter.sh/disrupted"
# The label of v1alpha5 that no node has since.
PODS_LABEL = "karpenter.k8s.aws/instance-pods"
_LABEL_WHY = "provisioners are node pools since v1beta1: no node has the old label"
_CAPACITY_TYPES = {
    "ON_DEMAND": "on-demand",
    "ondemand": "on-demand",
    "on_demand": "on-demand",
    "SPOT": "spot",
}


def modernise(edit: Editor) -> None:
    """Rename what the object names in an old way; other objects are left as they are."""
    if edit.get("kind") == "Node":
        _labels(edit, ("metadata", "labels"))
        _annotations(edit, ("metadata", "annotations"))
        for index, taint in enumerate(_list(edit.get("spec", "taints"))):
            if isinstance(taint, dict) and taint.get("key") == OLD_TAINT:
                _taint(edit, ("spec", "taints", index))
        return
    if edit.get("kind") == "NodePool":
        _annotations(edit, ("spec", "template", "metadata", "annotations"))
        return
    for meta, spec in pods(edit.document):
        _annotations(edit, (*meta, "annotations"))
        _pod_spec(edit, spec)


def forgotten(document: Document) -> Iterator[Path]:
    """Where an object asks for a label that no node has any more and that nothing replaces."""
    for _, spec in pods(document):
        pod = Editor(document).get(*spec)
        if isinstance(pod, dict) and Editor(pod).has("nodeSelector", PODS_LABEL):
            yield (*spec, "nodeSelector", PODS_LABEL)
        for path, item in _expressions(Editor(document), spec):
            if item.get("key") == PODS_LABEL:
                yield (*path, "key")


def pods(document: Document) -> Iterator[tuple[Path, Path]]:
    """(metadata, spec) of the pods inside an object: of a Pod, of a workload's template."""
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return
    at: Path = ("spec",)
    if document.get("kind") == "Pod":
        yield ("metadata",), at
        return
    if document.get("kind") == "CronJob":
        job = spec.get("jobTemplate")
        spec, at = job.get("spec") if isinstance(job, dict) else None, ("spec", "jobTemplate", "spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    pod = template.get("spec") if isinstance(template, dict) else None
    if isinstance(pod, dict) and "containers" in pod:
        yield (*at, "template", "metadata"), (*at, "template", "spec")


def _labels(edit: Editor, where: Path) -> None:
    edit.rename((*where, PROVISIONER_NAME), NODE_POOL_LABEL, _LABEL_WHY)


def _annotations(edit: Editor, where: Path) -> None:
    for old, why in OLD_ANNOTATIONS.items():
        edit.rename((*where, old), DO_NOT_DISRUPT, why)


def _taint(edit: Editor, where: Path) -> None:
    why = "the taint of a node that is being emptied, as v1 calls it; it has no value"
    edit.set((*where, "key"), TAINT, why)
    edit.drop((*where, "value"), why)
    if edit.get(*where, "operator", default="") == "Equal":
        edit.set((*where, "operator"), "Exists", why)


def _pod_spec(edit: Editor, spec: Path) -> None:
    edit.rename((*spec, "nodeSelector", PROVISIONER_NAME), NODE_POOL_LABEL, _LABEL_WHY)
    wanted = edit.get(*spec, "nodeSelector", CAPACITY_TYPE)
    if isinstance(wanted, str) and wanted in _CAPACITY_TYPES:
        where: Path = (*spec, "nodeSelector", CAPACITY_TYPE)
        edit.set(where, _CAPACITY_TYPES[wanted], "as nodes are labelled")
    for path, item in _expressions(edit, spec):
        if item.get("key") == PROVISIONER_NAME:
            edit.set((*path, "key"), NODE_POOL_LABEL, _LABEL_WHY)
        if item.get("key") == CAPACITY_TYPE:
            for index, value in enumerate(_list(item.get("values"))):
                if isinstance(value, str) and value in _CAPACITY_TYPES:
                    edit.set((*path, "values", index), _CAPACITY_TYPES[value], "as nodes are labelled")
    for path in _topology_keys(edit, spec):
        if edit.get(*path) == PROVISIONER_NAME:
            edit.set(path, NODE_POOL_LABEL, _LABEL_WHY)
    for index, toleration in enumerate(_list(edit.get(*spec, "tolerations"))):
        if isinstance(toleration, dict) and toleration.get("key") == OLD_TAINT:
            if toleration.get("operator", "Equal") == "Equal":
                edit.set((*spec, "tolerations", index, "operator"), "Exists", "today's taint has no value")
            _taint(edit, (*spec, "tolerations", index))


def _expressions(edit: Editor, spec: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every expression of the node affinity."""
    affinity: Path = (*spec, "affinity", "nodeAffinity")
    required: Path = (*affinity, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    preferred: Path = (*affinity, "preferredDuringSchedulingIgnoredDuringExecution")
    terms = [(*required, index) for index in range(len(_list(edit.get(*required))))]
    terms += [(*preferred, index, "preference") for index in range(len(_list(edit.get(*preferred))))]
    for term in terms:
        for index, item in enumerate(_list(edit.get(*term, "matchExpressions"))):
            if isinstance(item, dict):
                yield (*term, "matchExpressions", index), item


def _topology_keys(edit: Editor, spec: Path) -> Iterator[Path]:
    for index in range(len(_list(edit.get(*spec, "topologySpreadConstraints")))):
        yield (*spec, "topologySpreadConstraints", index, "topologyKey")
    for kind in ("podAffinity", "podAntiAffinity"):
        base: Path = (*spec, "affinity", kind)
        required: Path = (*base, "requiredDuringSchedulingIgnoredDuringExecution")
        preferred: Path = (*base, "preferredDuringSchedulingIgnoredDuringExecution")
        for index in range(len(_list(edit.get(*required)))):
            yield (*required, index, "topologyKey")
        for index in range(len(_list(edit.get(*preferred)))):
            yield (*preferred, index, "podAffinityTerm", "topologyKey")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
