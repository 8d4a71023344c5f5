"""v1beta1 -> v1, one object at a time, as the conversion webhook of 1.0 does it.

What v1 has no field for goes to annotations, by which `v1_to_beta` gives it back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from dovetail.api.generations import beta_schema
from dovetail.api.generations.editing import Document, Editor, Path
from dovetail.units.duration import format_duration, parse_duration

KUBELET = "compatibility.karpenter.sh/v1beta1-kubelet-conversion"
REFERENCE = "compatibility.karpenter.sh/v1beta1-nodeclass-reference"
ALIAS_VERSION = "compatibility.karpenter.k8s.aws/v1-alias-version"
UBUNTU = "compatibility.karpenter.k8s.aws/v1beta1-ubuntu"
NODE_POOL_LABEL = "karpenter.sh/nodepool"
# Families that an alias names, as they are called in it.
ALIASES = {
    "AL2": "al2",
    "AL2023": "al2023",
    "Bottlerocket": "bottlerocket",
    "Windows2019": "windows2019",
    "Windows2022": "windows2022",
}
PLACEHOLDER_IMAGE = "ami-placeholder"
_CLASS_KIND, _CLASS_GROUP = "EC2NodeClass", "karpenter.k8s.aws"
# What Go's encoder writes, in its order.
_KUBELET_ORDER = (
    "clusterDNS",
    "maxPods",
    "podsPerCore",
    "systemReserved",
    "kubeReserved",
    "evictionHard",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "evictionMaxPodGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "cpuCFSQuota",
)
_REFERENCE_ORDER = ("kind", "name", "apiVersion")
_UBUNTU_ROOT = {
    "deviceName": "/dev/sda1",
    "rootVolume": True,
    "ebs": {"encrypted": True, "volumeType": "gp3", "volumeSize": "20Gi"},
}


def convert(document: Document, pools: Mapping[str, Document] | None = None) -> Document:
    """The v1 object of a v1beta1 one; `pools` are v1 NodePools by name, of which claims take expireAfter.

    The input is left as it is. It is taken as admitted: what is wrong in it stays wrong.
    """
    editor = Editor(document)
    step = _STEPS[str(document["apiVersion"]), str(document["kind"])]
    step(editor, pools or {})
    return editor.document


def _pool(edit: Editor) -> None:
    pool_fields(edit)
    keep_kubelet(edit, ("spec", "template", "spec"))
    keep_reference(edit, ("spec", "template", "spec"))


def pool_fields(edit: Editor) -> None:
    """What of a NodePool has a field in v1."""
    edit.set(("apiVersion",), "karpenter.sh/v1", "no longer served")
    policy = edit.get("spec", "disruption", "consolidationPolicy")
    where: Path = ("spec", "disruption", "consolidateAfter")
    if policy == "WhenUnderutilized":
        edit.set(
            ("spec", "disruption", "consolidationPolicy"),
            "WhenEmptyOrUnderutilized",
            "WhenUnderutilized always removed empty nodes too, and is called so in v1",
        )
        why = "v1 wants it said up to Karpenter 1.14; WhenUnderutilized did not wait for pods to settle"
        edit.set(where, "0s", why)
    elif not edit.has(*where):
        edit.set(where, "Never", "it was off, and v1 takes it to be 0s")
    expire: Path = ("spec", "disruption", "expireAfter")
    new: Path = ("spec", "template", "spec", "expireAfter")
    if edit.has(*expire):
        edit.move(expire, new, "it belongs to the node now: forceful, and part of drift")
    elif not edit.has(*new):
        edit.set(new, "Never", "it was not set, and v1 would take 720h")


def _claim(edit: Editor, pools: Mapping[str, Document]) -> None:
    claim_fields(edit, pools)
    keep_kubelet(edit, ("spec",))
    keep_reference(edit, ("spec",))


def claim_fields(edit: Editor, pools: Mapping[str, Document]) -> None:
    """What of a NodeClaim has a field in v1."""
    edit.set(("apiVersion",), "karpenter.sh/v1", "no longer served")
    pool = pools.get(str(edit.get("metadata", "labels", NODE_POOL_LABEL, default="")), {})
    template = pool.get("spec", {}).get("template", {}).get("spec", {})
    expire_after = template.get("expireAfter", "Never")
    edit.set(("spec", "expireAfter"), expire_after, "v1beta1 kept it in the NodePool only")


def keep_kubelet(edit: Editor, spec: Path) -> None:
    """The kubelet's settings go to an annotation, from which the node is configured until 1.0."""
    kubelet = edit.get(*spec, "kubelet")
    where: Path = ("metadata", "annotations", KUBELET)
    if kubelet is None:
        edit.drop(where, "there are no kubelet settings any more")
        edit.tidy("metadata", "annotations")
        return
    edit.drop((*spec, "kubelet"), "v1 has it in the EC2NodeClass")
    edit.set(where, _compact(as_go_writes_kubelet(kubelet), _KUBELET_ORDER), "kept for the way back")


def as_go_writes_kubelet(kubelet: dict[str, Any]) -> dict[str, Any]:
    """With its durations as Go writes them."""
    grace = kubelet.get("evictionSoftGracePeriod")
    if not isinstance(grace, dict):
        return dict(kubelet)
    return {**kubelet, "evictionSoftGracePeriod": {key: go_duration(value) for key, value in grace.items()}}


def go_duration(text: str) -> str:
    """A duration as Go writes it (1m -> 1m0s); what is none stays as it is."""
    try:
        return format_duration(parse_duration(text))
    except ValueError:
        return text


def keep_reference(edit: Editor, spec: Path) -> None:
    """The reference to the class in v1's form; as it was, it goes to an annotation."""
    reference = edit.get(*spec, "nodeClassRef")
    text = "null" if reference is None else _compact(reference, _REFERENCE_ORDER)
    reference_fields(edit, spec)
    edit.set(("metadata", "annotations", REFERENCE), text, "kept for the way back")


def reference_fields(edit: Editor, spec: Path) -> None:
    """group and kind instead of apiVersion and kind."""
    where: Path = (*spec, "nodeClassRef")
    reference = edit.get(*where)
    if not isinstance(reference, dict):
        edit.set(where, {"group": "", "kind": "", "name": ""}, "v1 wants group, kind and name")
        return
    given = str(reference.get("apiVersion") or "")
    # A version without a group becomes the group, as in the original.
    group = given.partition("/")[0] if given else _CLASS_GROUP
    edit.move((*where, "apiVersion"), (*where, "group"), "v1 refers to a group, not to a version of it")
    edit.set((*where, "group"), group, "v1 wants the group said")
    if not reference.get("kind"):
        edit.set((*where, "kind"), _CLASS_KIND, "v1 wants the kind said")


def _compact(value: dict[str, Any], order: tuple[str, ...]) -> str:
    ordered = {key: value[key] for key in order if key in value}
    return json.dumps({**ordered, **value}, separators=(",", ":"), ensure_ascii=False)


def class_fields(edit: Editor) -> None:
    """An EC2NodeClass: images without terms become an alias, Ubuntu a family of its own no more."""
    edit.set(("apiVersion",), "karpenter.k8s.aws/v1", "no longer served")
    family, terms = edit.get("spec", "amiFamily"), edit.get("spec", "amiSelectorTerms")
    version = edit.get("metadata", "annotations", ALIAS_VERSION, default="latest")
    edit.drop(("metadata", "annotations", ALIAS_VERSION), "it is in the alias now")
    edit.tidy("metadata", "annotations")
    if family == "Ubuntu":
        _ubuntu(edit, bool(terms))
    elif family not in ALIASES:
        edit.set(("spec", "amiFamily"), "Custom", "v1 does not know the family")
    elif not terms:
        alias = f"{ALIASES[family]}@{version}"
        why = f"no terms meant the newest image of {family}; in v1 that is said, and can be pinned"
        edit.drop(("spec", "amiSelectorTerms"), "")
        edit.move(("spec", "amiFamily"), ("spec", "amiSelectorTerms"), why)
        edit.set(("spec", "amiSelectorTerms"), [{"alias": alias}], why)


def _ubuntu(edit: Editor, terms: bool) -> None:
    lost = ["amiFamily"]
    edit.set(("spec", "amiFamily"), "AL2", "v1 has no Ubuntu; its nodes are set up as AL2's are")
    if not edit.has("spec", "blockDeviceMappings"):
        edit.set(("spec", "blockDeviceMappings"), [deepcopy(_UBUNTU_ROOT)], "Ubuntu's root device, not AL2's")
        lost.append("blockDeviceMappings")
    if not terms:
        lost.append("incompatible")
        edit.set(
            ("spec", "amiSelectorTerms"), [{"id": PLACEHOLDER_IMAGE}], "v1 finds no Ubuntu images by itself"
        )
    edit.set(("metadata", "annotations", UBUNTU), ",".join(lost), "kept for the way back")


_STEPS: dict[tuple[str, str], Callable[[Editor, Mapping[str, Document]], None]] = {
    beta_schema.NODE_POOL: lambda edit, _: _pool(edit),
    beta_schema.NODE_CLAIM: _claim,
    beta_schema.EC2_NODE_CLASS: lambda edit, _: class_fields(edit),
}
