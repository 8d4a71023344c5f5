"""The patches that `dovetail rightsize` proposes: requests of workloads, and targets of their autoscalers."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dovetail.base.writing import unwritten, whole_folder, write_whole
from dovetail.base.yaml_writing import written
from dovetail.cli.rightsize_input import Scaling
from dovetail.cli.rightsize_output import Answer
from dovetail.explain.sizes import Owner, Size
from dovetail.model.resources import quantities

Document = dict[str, Any]
_VERSIONS = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "ReplicaSet": "apps/v1",
    "ReplicationController": "v1",
    "CronJob": "batch/v1",
    "Pod": "v1",
}


def patchable(owner: Owner) -> bool:
    """False where a strategic merge patch does nothing: objects of other groups, and Jobs, whose templates
    stay as they are.
    """
    return owner.kind in _VERSIONS


def patches(answer: Answer) -> list[tuple[str, Document]]:
    """By the name of their file; strategic merge patches, which Kustomize takes as well."""
    by_owner: dict[Owner, list[Size]] = {}
    for size in answer.sizes:
        if size.changed and patchable(size.owner):
            by_owner.setdefault(size.owner, []).append(size)
    found = [(_file(owner.kind, owner), _patch(owner, sizes)) for owner, sizes in by_owner.items()]
    for one, percent in answer.targets.items():
        file = _file(one.kind, Owner(one.kind, one.namespace, one.name))
        earlier = next((document for name, document in found if name == file), None)
        if earlier is None:
            found.append((file, _scaling(one, percent, None)))
        else:
            _scaling(one, percent, earlier)
    return found


def _file(kind: str, owner: Owner) -> str:
    parts = (re.sub(r"[^a-z0-9.-]", "_", part.lower()) for part in (owner.namespace, kind, owner.name))
    return f"{'-'.join(parts)[:240]}.yaml"


def _patch(owner: Owner, sizes: Iterable[Size]) -> Document:
    containers: dict[str, dict[str, Document]] = {"containers": {}, "initContainers": {}}
    for size in sizes:
        place = containers["initContainers" if size.sidecar else "containers"]
        resources = place.setdefault(size.container, {"name": size.container, "resources": {}})["resources"]
        for kind, amount, before in (
            ("requests", size.right, size.now),
            ("limits", size.right_limit, size.limit),
        ):
            if amount is not None and amount != before:
                text = str(quantities({size.resource: amount})[size.resource])
                resources.setdefault(kind, {})[size.resource] = text
    spec: Document = {name: list(found.values()) for name, found in containers.items() if found}
    if owner.kind != "Pod":
        spec = {"template": {"spec": spec}}
    if owner.kind == "CronJob":
        spec = {"jobTemplate": {"spec": spec}}
    return {
        "apiVersion": _VERSIONS[owner.kind],
        "kind": owner.kind,
        "metadata": {"name": owner.name, "namespace": owner.namespace},
        "spec": spec,
    }


def _scaling(one: Scaling, percent: int, document: Document | None) -> Document:
    """With another percentage: the list of metrics is replaced as a whole."""
    assert one.document is not None
    if document is None:
        document = {
            "apiVersion": one.document.get("apiVersion"),
            "kind": one.kind,
            "metadata": {"name": one.name, "namespace": one.namespace},
            "spec": {"metrics": copy.deepcopy(one.metrics)},
        }
    metric = document["spec"]["metrics"][one.place]
    inner = metric["containerResource" if "containerResource" in metric else "resource"]
    inner["target"]["averageUtilization"] = percent
    return document


def write_patches(found: Iterable[tuple[str, Document]], folder: Path) -> int:
    """Into a new folder; how many there are. Raises InputError."""
    count = 0
    try:
        with whole_folder(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for name, document in found:
                write_whole(folder / name, written(document))
                count += 1
    except OSError as error:
        raise unwritten(error, f"--write {folder}", "name a new folder") from None
    return count
