"""A scenario's manifests, put into the API server: at the start, or changed while the scenario plays.

Where one is refused, the error names the manifest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.api.core import Namespace
from dovetail.api.core_schema import pod_specs
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import BUILT_IN_PRIORITIES
from dovetail.base.clock import Clock
from dovetail.base.errors import AlreadyExists, ApiError, InputError, NotFound
from dovetail.base.eventlog import EventLog
from dovetail.kube.memory.server import MemoryServer
from dovetail.reading import Manifest

# What others refer to comes first; everything else follows in the order of the files.
_FIRST = (
    *("Namespace", "PriorityClass", "RuntimeClass", "LimitRange", "ResourceQuota"),
    *("StorageClass", "PersistentVolume", "EC2NodeClass", "NodePool"),
)
# In a manifest from `kubectl get -o yaml` they are those of another server, which this one would refuse.
_OF_A_SERVER = ("uid", "resourceVersion", "managedFields", "selfLink")


def apply(server: MemoryServer, manifests: Iterable[Manifest]) -> None:
    """Create all objects; raises InputError for one that the server refuses or that refers to nothing."""
    for manifest in in_order(manifests):
        _create_namespace(server, manifest)
        try:
            server.create(wanted(manifest))
        except AlreadyExists:
            if not isinstance(manifest.object, Namespace):
                raise _refused(manifest, "an object of that kind and name was given before") from None
        except ApiError as error:
            raise _refused(manifest, str(error)) from None


def wanted(manifest: Manifest) -> dict[str, Any]:
    """The document without what says which object of which server it was."""
    return _plain(manifest.document)


def laid_over(manifest: Manifest) -> dict[str, Any]:
    """The merge patch for an object that is there: what the manifest has replaces what the object has."""
    fields = _plain(manifest.given)
    return {key: value for key, value in fields.items() if key not in ("apiVersion", "kind", "status")}


def _plain(document: Mapping[str, Any]) -> dict[str, Any]:
    meta = {key: value for key, value in document["metadata"].items() if key not in _OF_A_SERVER}
    return {**document, "metadata": meta}


def in_order(manifests: Iterable[Manifest]) -> list[Manifest]:
    """As they are to be created; raises InputError for one that refers to nothing."""
    ordered = sorted(manifests, key=_rank)
    _check_references(ordered)
    return ordered


def _rank(manifest: Manifest) -> int:
    kind = manifest.object.KIND
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)


def _create_namespace(server: MemoryServer, manifest: Manifest) -> None:
    """A namespace that a manifest uses need not be among the manifests."""
    name = manifest.object.metadata.namespace
    if not name:
        return
    document: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    try:
        server.create(document)
    except AlreadyExists:
        return


def _check_references(manifests: Iterable[Manifest]) -> None:
    """Of classes: without one a pool buys nothing, and pods are refused, of which a summary shows none."""
    known = {(item.object.KIND, item.object.metadata.name) for item in manifests}
    known |= {("PriorityClass", name) for name in BUILT_IN_PRIORITIES}
    for manifest in manifests:
        if isinstance(manifest.object, NodePool):
            reference = manifest.object.spec.template.spec.node_class_ref
            path = "spec.template.spec.nodeClassRef.name"
            _check_class(manifest, reference.kind, reference.name, path, known)
        for spec in pod_specs(manifest.document):
            if name := spec.get("priorityClassName"):
                _check_class(manifest, "PriorityClass", name, "priorityClassName", known)
            if name := spec.get("runtimeClassName"):
                _check_class(manifest, "RuntimeClass", name, "runtimeClassName", known)


def _check_class(manifest: Manifest, kind: str, name: str, path: str, known: set[tuple[str, str]]) -> None:
    if (kind, name) in known:
        return
    names = sorted(each for of, each in known if of == kind)
    there = f"there is {', '.join(names)}" if names else f"there is no {kind} at all"
    raise InputError(
        f"{manifest.object.KIND} {manifest.object.metadata.name} names the {kind} {name}, "
        "which is not among the manifests",
        source=manifest.source,
        line=manifest.line,
        path=path,
        remedy=f"{there}; add the class, or name one that exists",
    )


def _refused(manifest: Manifest, why: str) -> InputError:
    kind, key = manifest.object.KIND, manifest.object.key
    return InputError(f"{kind} {key}: {why}", source=manifest.source, line=manifest.line)


@dataclass(frozen=True, slots=True)
class Change:
    """At `at` (ns since the epoch) these manifests are applied."""

    at: int
    manifests: tuple[Manifest, ...]


async def make_changes(clock: Clock, server: MemoryServer, log: EventLog, changes: Sequence[Change]) -> None:
    """Each at its time. Raises InputError for a manifest that the server refuses then."""
    for change in sorted(changes, key=lambda change: change.at):
        await clock.sleep(max(0, change.at - clock.now()))
        for manifest in change.manifests:
            try:
                _apply(server, manifest)
            except ApiError as error:
                kind, key = manifest.object.KIND, manifest.object.key
                raise InputError(
                    f"{kind} {key}: {error}", source=manifest.source, line=manifest.line
                ) from None
            log.record("change", what=manifest.object.KIND, name=manifest.object.key)


def _apply(server: MemoryServer, manifest: Manifest) -> None:
    """An object that is not there is created."""
    meta, kind = manifest.object.metadata, type(manifest.object)
    try:
        server.get(kind, meta.name, meta.namespace)
    except NotFound:
        server.create(wanted(manifest))
        return
    server.patch(kind, meta.name, meta.namespace, merge_patch=laid_over(manifest))
