"""v1 -> v1beta1, one object at a time, as the conversion webhook of 1.0 does it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec

from dovetail.api.generations import beta_schema
from dovetail.api.generations.beta_to_v1 import ALIAS_VERSION, ALIASES, KUBELET, REFERENCE, UBUNTU
from dovetail.api.generations.editing import Document, Editor, Path
from dovetail.api.schema import unknown_fields

STORED_VERSION = "karpenter.sh/stored-version-migrated"
LOST = "v1beta1 has no field for it"


class NotConvertible(ValueError):
    """An annotation that keeps what v1 lost cannot be read: it was edited."""


class _Kubelet(msgspec.Struct, rename="camel"):
    """The types of the settings in the annotation."""

    cluster_dns: list[str] | None = msgspec.field(default=None, name="clusterDNS")
    max_pods: int | None = None
    pods_per_core: int | None = None
    system_reserved: dict[str, str | int] | None = None
    kube_reserved: dict[str, str | int] | None = None
    eviction_hard: dict[str, str] | None = None
    eviction_soft: dict[str, str] | None = None
    eviction_soft_grace_period: dict[str, str] | None = None
    eviction_max_pod_grace_period: int | None = None
    image_gc_high_threshold_percent: int | None = msgspec.field(
        default=None, name="imageGCHighThresholdPercent"
    )
    image_gc_low_threshold_percent: int | None = msgspec.field(
        default=None, name="imageGCLowThresholdPercent"
    )
    cpu_cfs_quota: bool | None = msgspec.field(default=None, name="cpuCFSQuota")


class _Reference(msgspec.Struct, rename="camel"):
    name: str = ""
    kind: str | None = None
    api_version: str | None = None


def convert(document: Document) -> Document:
    """The v1beta1 object of a v1 one. The input is left as it is.

    Raises NotConvertible for annotations that cannot be read. What v1beta1 has no field for is lost: budget
    reasons, terminationGracePeriod, the kubelet of a class, a claim's expireAfter.
    """
    editor = Editor(document)
    step(editor)
    return editor.document


def step(edit: Editor) -> None:
    """Make the v1beta1 object of a document under change, in place."""
    _STEPS[edit.get("apiVersion"), edit.get("kind")](edit)
    # Whatever came after v1beta1, however deep it is.
    schema = beta_schema.schemas(beta_schema.V1_0)[edit.get("apiVersion"), edit.get("kind")]
    for path in list(unknown_fields(schema.properties["spec"], edit.get("spec"), "spec")):
        edit.drop(path_of(path), LOST)


def path_of(text: str) -> Path:
    """The steps of `spec.requirements[0].key`, where no key has a dot in it."""
    return tuple(int(step) if step.isdecimal() else step for step in re.findall(r"[^.\[\]]+", text))


def _pool(edit: Editor) -> None:
    _version(edit, "karpenter.sh/v1beta1")
    _spec(edit, ("spec", "template", "spec"))
    expire: Path = ("spec", "template", "spec", "expireAfter")
    edit.move(expire, ("spec", "disruption", "expireAfter"), "v1beta1 has it in disruption")
    _policy(edit)
    _tidy_annotations(edit)


def _policy(edit: Editor) -> None:
    where: Path = ("spec", "disruption", "consolidationPolicy")
    wait: Path = ("spec", "disruption", "consolidateAfter")
    policy = edit.get(*where)
    if policy in ("WhenEmptyOrUnderutilized", "Balanced"):
        why = "the same, as v1beta1 calls it" if policy == "WhenEmptyOrUnderutilized" else LOST
        edit.set(where, "WhenUnderutilized", why)
        edit.drop(wait, "v1beta1 does not wait with that policy" if edit.get(*wait) == "0s" else LOST)
    elif policy is None and edit.get(*wait, default="Never") != "Never":
        edit.drop(wait, "v1beta1 does not wait with the policy that is the default")


# Bounds that include their value came later; of whole numbers there is always another way to say it.
_INCLUSIVE = {"Gte": ("Gt", -1), "Lte": ("Lt", 1)}


def _requirements(edit: Editor, where: Path) -> None:
    for index, item in enumerate(edit.get(*where) or ()):
        bound = _INCLUSIVE.get(item.get("operator"))
        values = item.get("values") or []
        if bound is not None and len(values) == 1 and values[0].isdecimal():
            operator, step = bound
            why = "v1beta1 has no bounds that include their value"
            edit.set((*where, index, "operator"), operator, why)
            edit.set((*where, index, "values", 0), str(int(values[0]) + step), why)


def _claim(edit: Editor) -> None:
    _version(edit, "karpenter.sh/v1beta1")
    _spec(edit, ("spec",))
    edit.drop(("spec", "expireAfter"), "v1beta1 has it in the NodePool")
    edit.drop(("status", "lastPodEventTime"), LOST)
    _tidy_annotations(edit)


def _spec(edit: Editor, spec: Path) -> None:
    text = edit.get("metadata", "annotations", KUBELET)
    if text is not None:
        kubelet = _read(text, _Kubelet, "kubelet config")
        if kubelet is not None:
            edit.set((*spec, "kubelet"), kubelet, "kept in an annotation until now")
        edit.drop(("metadata", "annotations", KUBELET), "it is a field of v1beta1")
    _requirements(edit, (*spec, "requirements"))
    kept = edit.get("metadata", "annotations", REFERENCE)
    if kept is None:
        edit.drop((*spec, "nodeClassRef", "group"), "v1beta1 refers by kind and name")
        return
    reference = _read(kept, _Reference, "nodeClassRef")
    why = "as it was before it became v1, kept in an annotation"
    edit.set((*spec, "nodeClassRef"), reference or {"name": ""}, why)
    edit.drop(("metadata", "annotations", REFERENCE), "it is in nodeClassRef again")


def _read(text: str, kind: type, what: str) -> Any:
    """The document of an annotation, its types checked, in the words of Go's decoder."""
    fault = f"unmarshaling {what} annotation, "
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise NotConvertible(fault + _malformed(text, error)) from None
    try:
        msgspec.convert(document, kind | None)
    except msgspec.ValidationError as error:
        raise NotConvertible(fault + _wrong_type(str(error), what)) from None
    return document


_GO_VALUES = {"str": "string", "int": "number", "float": "number", "object": "object", "array": "array"}
_GO_TYPES = {
    "int": "int32",
    "str": "string",
    "object": "map[string]string",
    "array": "[]string",
    "bool": "bool",
}


def _wrong_type(complaint: str, what: str) -> str:
    """What Go's decoder says where ours expected another type at a path."""
    found = re.match(r"Expected `(\w+)[^`]*`, got `(\w+)`(?: - at `\$\.?(.*)`)?", complaint)
    if found is None:
        return f"json: {complaint}"
    wanted, got, path = found.groups()
    struct = "KubeletConfiguration" if what.startswith("kubelet") else "NodeClassReference"
    at = f" Go struct field {struct}.{path}" if path else ""
    kind = _GO_TYPES.get(wanted, wanted) if path else f"v1beta1.{struct}"
    return f"json: cannot unmarshal {_GO_VALUES.get(got, got)} into{at or ' Go value'} of type {kind}"


def _malformed(text: str, error: json.JSONDecodeError) -> str:
    rest = text[error.pos :].lstrip()
    if not rest:
        return "unexpected end of JSON input"
    if error.msg.startswith("Expecting property name"):
        return f"invalid character {rest[0]!r} looking for beginning of object key string"
    if error.msg.startswith("Expecting value"):
        return f"invalid character {rest[0]!r} looking for beginning of value"
    return f"{error.msg} at character {error.pos + 1}"


def _class(edit: Editor) -> None:
    _version(edit, "karpenter.k8s.aws/v1beta1")
    terms = edit.get("spec", "amiSelectorTerms") or []
    alias = next((term["alias"] for term in terms if "alias" in term), "")
    name, _, version = alias.partition("@")
    families = {short: family for family, short in ALIASES.items()}
    if alias:
        why = "v1beta1 has no alias: a family without terms means its newest image"
        left = [term for term in terms if "alias" not in term]
        edit.set(("spec", "amiSelectorTerms"), left, why)
        if not left:
            edit.drop(("spec", "amiSelectorTerms"), why)
        if version not in ("latest", ""):
            edit.set(("metadata", "annotations", ALIAS_VERSION), version, "kept for the way to v1")
    if not edit.get("spec", "amiFamily"):
        family = families.get(name.lower(), "Custom")
        edit.set(("spec", "amiFamily"), family, "v1beta1 wants it said")
    lost = edit.get("metadata", "annotations", UBUNTU)
    if lost is not None:
        edit.set(("spec", "amiFamily"), "Ubuntu", "as it was before it became v1")
        parts = lost.split(",")
        if "incompatible" in parts:
            edit.drop(("spec", "amiSelectorTerms"), "a placeholder that only v1 needs")
        if "blockDeviceMappings" in parts:
            edit.drop(("spec", "blockDeviceMappings"), "what Ubuntu had without saying it")
        edit.drop(("metadata", "annotations", UBUNTU), "it is in the fields again")
    _tidy_annotations(edit)


def _version(edit: Editor, version: str) -> None:
    edit.set(("apiVersion",), version, "the generation that was asked for")
    edit.drop(("metadata", "annotations", STORED_VERSION), "it is about objects stored as v1")


def _tidy_annotations(edit: Editor) -> None:
    edit.tidy("metadata", "annotations")


_STEPS: dict[tuple[str, str], Callable[[Editor], None]] = {
    ("karpenter.sh/v1", beta_schema.NODE_POOL[1]): _pool,
    ("karpenter.sh/v1", beta_schema.NODE_CLAIM[1]): _claim,
    ("karpenter.k8s.aws/v1", beta_schema.EC2_NODE_CLASS[1]): _class,
}

KINDS = frozenset(_STEPS)
