"""What each kind keeps, resets and forbids: pure functions over documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dovetail.api.meta import Object
from dovetail.api.scheme import BY_GVK
from dovetail.base.clock import SECOND
from dovetail.base.errors import BadRequest, Cause, Conflict
from dovetail.kube.memory.texts import conflict, forbidden_cause, invalid

Document = dict[str, Any]

# Status is a subresource of all other kinds; those lose a status given at creation, nodes excepted.
WITHOUT_STATUS = frozenset(
    {
        "Event",
        "StorageClass",
        "CSINode",
        "PriorityClass",
        "RuntimeClass",
        "LimitRange",
        "Lease",
        "PodTemplate",
    }
)
KEEPS_STATUS = frozenset({"Node"}) | WITHOUT_STATUS
# Groups of kinds that CustomResourceDefinitions define.
CUSTOM = frozenset(
    {"autoscaling.x-k8s.io", "karpenter.sh", "karpenter.k8s.aws", "karpenter.kwok.sh", "keda.sh"}
)
# Kinds whose generation counts the changes of what is wanted.
GENERATIONAL = frozenset(
    {
        "Pod",
        "Deployment",
        "ReplicaSet",
        "StatefulSet",
        "DaemonSet",
        "Job",
        "CronJob",
        "PodDisruptionBudget",
        "NodePool",
        "NodeClaim",
        "CapacityBuffer",
        "PodTemplate",
        "NodeOverlay",
        "EC2NodeClass",
        "KWOKNodeClass",
    }
)
_FIRST_STATUS: dict[str, Document] = {
    "Pod": {"phase": "Pending"},
    "PersistentVolume": {"phase": "Pending"},
    "PersistentVolumeClaim": {"phase": "Pending"},
    "Namespace": {"phase": "Active"},
}
# Set by the server alone; whatever a patch says about them is dropped.
_SERVERS_OWN = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_POD_SPEC_FORBIDDEN = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations`"
    " (only additions to existing tolerations),`spec.terminationGracePeriodSeconds`"
    " (allow it to be set to 1 if it was previously negative)"
)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_OF_A_TERM = ("matchExpressions", "matchFields")


def kind_of(document: Mapping[str, Any]) -> type[Object]:
    """The kind that the document says it is; raises BadRequest when the scheme does not know it."""
    api_version, kind = document.get("apiVersion"), document.get("kind")
    found = BY_GVK.get((str(api_version), str(kind)))
    if found is None:
        raise BadRequest(f'no matches for kind "{kind}" in version "{api_version}"')
    return found


def has_status(kind: type[Object]) -> bool:
    """Whether the kind has a status subresource."""
    return kind.KIND not in WITHOUT_STATUS


def prepare_creation(kind: type[Object], document: Document) -> None:
    """Drop what a creation may not set; changes the document, which is the server's own copy."""
    meta = document["metadata"]
    for field in (*_SERVERS_OWN, "uid", "resourceVersion"):
        meta.pop(field, None)
    if kind.KIND in GENERATIONAL:
        meta["generation"] = 1
    if kind.KIND == "Pod" and document.get("spec", {}).get("terminationGracePeriodSeconds", 0) < 0:
        document["spec"]["terminationGracePeriodSeconds"] = 1
    if kind.KIND not in KEEPS_STATUS:
        document.pop("status", None)
        if kind.KIND in _FIRST_STATUS:
            document["status"] = dict(_FIRST_STATUS[kind.KIND])


def prepare_update(kind: type[Object], old: Document, new: Document, *, status: bool) -> Document:
    """The document that an update really asks for: the parts of old that it may not touch put back.

    Raises Conflict, BadRequest or Invalid when it asks for what no update may do.
    """
    if status:
        asked = new.get("metadata") or {}
        _check_identity(kind, old["metadata"], asked)
        result = {**old}
        if asked is not old["metadata"] and kind.API_VERSION.partition("/")[0] not in CUSTOM:
            # Of Kubernetes' own kinds the labels and whatever else may change go along with the status.
            result["metadata"] = _metadata(kind, old["metadata"], asked)
        result.pop("status", None)
        return {**result, "status": new["status"]} if new.get("status") is not None else result
    meta = _metadata(kind, old["metadata"], new.get("metadata") or {})
    result = {**new, "apiVersion": old["apiVersion"], "kind": old["kind"], "metadata": meta}
    if has_status(kind):
        result.pop("status", None)
        if "status" in old:
            result["status"] = old["status"]
    return result


def share(old: Document, new: Document) -> Document:
    """The new document with its equal top-level parts taken from the old one: versions share memory."""
    return {key: old[key] if key in old and old[key] == value else value for key, value in new.items()}


def wanted_changed(old: Document, new: Document) -> bool:
    """Whether anything but metadata and status differs."""
    parts = {*old, *new} - {"metadata", "status"}
    return any(old.get(part) != new.get(part) for part in parts)


def _metadata(kind: type[Object], old: Document, asked: Mapping[str, Any]) -> Document:
    _check_identity(kind, old, asked)
    meta = {**asked, "name": old["name"], "uid": old["uid"], "resourceVersion": old["resourceVersion"]}
    for field in ("namespace", "generateName", *_SERVERS_OWN):
        meta.pop(field, None)
        if field in old:
            meta[field] = old[field]
    for field in ("finalizers", "labels", "annotations", "ownerReferences"):
        if not meta.get(field):
            meta.pop(field, None)
    if "deletionTimestamp" in old:
        added = [item for item in meta.get("finalizers", ()) if item not in old.get("finalizers", ())]
        if added:
            found = ", ".join(f'"{item}"' for item in added)
            why = (
                "no new finalizers can be added if the object is being deleted,"
                f" found new finalizers []string{{{found}}}"
            )
            raise invalid(kind, old["name"], forbidden_cause("metadata.finalizers", why))
    return meta


def _check_identity(kind: type[Object], old: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    name = old["name"]
    for field, noun in (("name", "name"), ("namespace", "namespace")):
        if asked.get(field, old.get(field)) != old.get(field):
            raise BadRequest(
                f"the {noun} of the object ({asked[field]}) does not match"
                f" the {noun} on the URL ({old.get(field, '')})"
            )
    if asked.get("uid", old["uid"]) != old["uid"]:
        why = f'Invalid value: "{asked["uid"]}": field is immutable'
        raise invalid(kind, name, Cause("metadata.uid", why))
    if asked.get("resourceVersion", old["resourceVersion"]) != old["resourceVersion"]:
        raise conflict(kind, name)


def check_pod_update(kind: type[Object], old: Document, new: Document) -> None:
    """Raises Invalid: a spec is fixed but for images, deadlines, more tolerations and fewer gates, and for
    narrower rules on nodes as long as there is a gate.
    """
    before, after = old.get("spec", {}), new.get("spec", {})
    if before == after:
        return
    gates = after.get("schedulingGates") or []
    kept = [gate for gate in before.get("schedulingGates") or [] if gate in gates]
    tolerations = after.get("tolerations") or []
    fine = gates == kept and all(item in tolerations for item in before.get("tolerations") or [])
    if before.get("schedulingGates"):
        before = _with_rules_of(before, after)
    if not fine or _fixed(before) != _fixed(after):
        cause = forbidden_cause("spec", _POD_SPEC_FORBIDDEN)
        raise invalid(kind, new["metadata"]["name"], cause)


def _with_rules_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was before, with the rules on nodes that came, as far as a gated pod may be given them.

    A node selector may have more; required terms may have more in each, and come where there were none;
    preferred terms may be any.
    """
    found = dict(before)
    asked = after.get("nodeSelector") or {}
    if (before.get("nodeSelector") or {}).items() <= asked.items() and asked:
        found["nodeSelector"] = asked
    old, new = (_node_affinity(spec) for spec in (before, after))
    terms, narrowed = ((part.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [] for part in (old, new))
    fine = len(terms) == len(narrowed) and all(map(_narrows, narrowed, terms))
    if fine or not terms:
        rest = {key: value for key, value in (before.get("affinity") or {}).items() if key != "nodeAffinity"}
        affinity = {**rest, **({"nodeAffinity": new} if new else {})}
        found.pop("affinity", None)
        if affinity or "affinity" in after:
            found["affinity"] = affinity
    return found


def _node_affinity(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return (spec.get("affinity") or {}).get("nodeAffinity") or {}


def _narrows(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """True iff the term asks for all that the old one did; one of nothing stays as it is."""
    if not any(old.get(field) for field in _OF_A_TERM):
        return new == old
    return all(item in (new.get(field) or []) for field in _OF_A_TERM for item in old.get(field) or [])


def _fixed(spec: Mapping[str, Any]) -> Document:
    """The part of a pod's spec that no update may change."""
    loose = ("tolerations", "schedulingGates", "activeDeadlineSeconds", "containers", "initContainers")
    rest = {key: value for key, value in spec.items() if key not in loose}
    for field in ("containers", "initContainers"):
        rest[field] = [
            {key: value for key, value in container.items() if key != "image"}
            for container in spec.get(field) or ()
        ]
    return rest


def pod_grace(document: Mapping[str, Any], asked: int | None) -> int:
    """Seconds that a deleted pod keeps: none before it has a node or after it ended."""
    spec = document.get("spec", {})
    if not spec.get("nodeName") or document.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    grace = asked if asked is not None else spec.get("terminationGracePeriodSeconds", 30)
    return grace if grace >= 0 else 1


def deletion_instant(now: int, grace: int) -> int:
    """When a deletion is due, in nanoseconds. What an int64 of nanoseconds does not hold wraps around, as it
    does in Go: the longest grace there is was over a second ago.
    """
    lasts = grace * SECOND
    return now + (lasts + 2**63) % 2**64 - 2**63


def set_propagation(meta: Document, finalizer: str) -> None:
    """Make the garbage collector's finalizer the only one of its own; empty for background deletion."""
    finalizers = [item for item in meta.get("finalizers", ()) if item not in ("foregroundDeletion", "orphan")]
    if finalizer:
        finalizers.append(finalizer)
    meta.pop("finalizers", None)
    if finalizers:
        meta["finalizers"] = finalizers


def check_binding(kind: type[Object], document: Mapping[str, Any], node: str) -> None:
    """Raises Conflict when the pod may not be bound, BadRequest without a node."""
    meta, spec = document["metadata"], document.get("spec", {})
    name = meta["name"]
    if not node:
        raise BadRequest("a binding needs the name of a node")
    why = ""
    if "deletionTimestamp" in meta:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise binding_conflict(kind, name, why)


def binding_conflict(kind: type[Object], name: str, why: str) -> Conflict:
    return conflict(kind, name, why, subresource="binding")


def name_required(kind: type[Object]) -> Exception:
    cause = Cause("metadata.name", "Required value: name or generateName is required", "FieldValueRequired")
    return invalid(kind, "", cause)


def with_condition(document: Mapping[str, Any], condition: Mapping[str, Any]) -> dict[str, Any]:
    """The document with this status condition in the place of the one of its type."""
    status = document.get("status") or {}
    kept = [item for item in status.get("conditions") or () if item["type"] != condition["type"]]
    return {**document, "status": {**status, "conditions": [*kept, condition]}}
