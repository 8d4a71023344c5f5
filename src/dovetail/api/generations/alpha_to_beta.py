"""v1alpha5 and v1alpha1 -> v1beta1, one object at a time, as the original's migration tool does it.

Where that tool changes what a manifest means, this one keeps it: a pool that never removed nodes goes on
doing so, an instance profile is kept, references point at what the class has become.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from dovetail.api.generations import alpha_schema, beta_schema
from dovetail.api.generations.alpha_webhook import (
    PROVISIONER_NAME,
    default_requirements,
    undecodable,
)
from dovetail.api.generations.beta_to_v1 import NODE_POOL_LABEL, go_duration
from dovetail.api.generations.editing import Document, Editor, Path

# Stands for the node's role where nothing says which it is, as the original's tool writes it.
ROLE_PLACEHOLDER = "$KARPENTER_NODE_ROLE"
_KEPT_METADATA = ("name", "generateName", "labels", "annotations", "finalizers")


class NotConvertible(ValueError):
    """The object has no counterpart in v1beta1; the text says what of it."""


def convert(document: Document, *, defaults: bool = True) -> tuple[Document, ...]:
    """The v1beta1 objects of one: a Provisioner with an inline provider becomes two, a pool and its class.

    `defaults`: write out what the defaulting webhook filled in. The input is left as it is. Raises
    NotConvertible.
    """
    return tuple(editor.document for editor in editors(document, defaults=defaults))


def editors(document: Document, *, defaults: bool = True) -> tuple[Editor, ...]:
    """The v1beta1 objects of one as documents under change, of which a second one is new."""
    editor = Editor(document)
    return _STEPS[str(document["apiVersion"]), str(document["kind"])](editor, defaults)


def _metadata(edit: Editor) -> None:
    for key in list(edit.get("metadata") or {}):
        if key not in _KEPT_METADATA:
            edit.drop(("metadata", key), "written by the server of the old object")
    edit.drop(("status",), "it was about the old object")


def _renamed(edit: Editor, kind: tuple[str, str]) -> None:
    edit.set(("apiVersion",), kind[0], "no longer served")
    edit.set(("kind",), kind[1], f"{edit.get('kind')}s are called so since v1beta1")


def _provisioner(edit: Editor, defaults: bool) -> tuple[Editor, ...]:
    name = str(edit.get("metadata", "name", default=""))
    _renamed(edit, beta_schema.NODE_POOL)
    _metadata(edit)
    inline = _inline(edit, name)
    if defaults:
        _default_requirements(edit)
    template: Path = ("spec", "template", "spec")
    _disruption(edit)
    for field in ("labels", "annotations"):
        edit.move(("spec", field), ("spec", "template", "metadata", field), "of the node, so in the template")
    if inline is not None:
        edit.drop(("spec", "providerRef"), "the inline provider won")
        edit.set((*template, "nodeClassRef"), {"name": name}, "the class made of the inline provider")
    else:
        edit.move(("spec", "providerRef"), (*template, "nodeClassRef"), "the class of the node")
        _reference(edit, (*template, "nodeClassRef"))
    for field in ("taints", "startupTaints", "requirements"):
        edit.move(("spec", field), (*template, field), "of the node, so in the template")
    _kubelet(edit, ("spec", "kubeletConfiguration"), (*template, "kubelet"))
    _labels_in_requirements(edit, (*template, "requirements"))
    limits = edit.get("spec", "limits", "resources", default=None)
    if limits is not None:
        edit.move(("spec", "limits", "resources"), ("spec", "resources"), "")
        edit.drop(("spec", "limits"), "")
        edit.move(("spec", "resources"), ("spec", "limits"), "limits hold resources and nothing else")
    elif edit.has("spec", "limits"):
        edit.drop(("spec", "limits"), "it says nothing")
    return (edit,) if inline is None else (edit, inline)


def _inline(edit: Editor, name: str) -> Editor | None:
    if not edit.has("spec", "provider"):
        return None
    provider = edit.get("spec", "provider")
    fault = undecodable(provider)
    if fault:
        raise NotConvertible(f"converting spec.provider for Provisioner, {fault}")
    edit.drop(("spec", "provider"), f"it is EC2NodeClass {name} now")
    made = Editor(
        {
            "apiVersion": beta_schema.EC2_NODE_CLASS[0],
            "kind": beta_schema.EC2_NODE_CLASS[1],
            "metadata": {"name": name},
            "spec": dict(provider),
        }
    )
    _class_fields(made, "converting spec.provider for Provisioner")
    return made


def _default_requirements(edit: Editor) -> None:
    given = edit.get("spec", "requirements") or []
    why = "the old webhook filled it in; nothing does today"
    if not edit.has("spec", "requirements"):
        edit.set(("spec", "requirements"), default_requirements(given), why)
        return
    for item in default_requirements(given):
        edit.set(("spec", "requirements", len(edit.get("spec", "requirements"))), item, why)


def _disruption(edit: Editor) -> None:
    enabled = edit.get("spec", "consolidation", "enabled")
    empty, expired = edit.get("spec", "ttlSecondsAfterEmpty"), edit.get("spec", "ttlSecondsUntilExpired")
    policy: Path = ("spec", "disruption", "consolidationPolicy")
    wait: Path = ("spec", "disruption", "consolidateAfter")
    if enabled:
        edit.move(("spec", "consolidation", "enabled"), policy, "consolidation is a policy now")
        edit.set(policy, "WhenUnderutilized", "consolidation is a policy now")
        edit.drop(("spec", "ttlSecondsAfterEmpty"), "consolidation removes empty nodes")
    elif empty is not None:
        edit.set(policy, "WhenEmpty", "ttlSecondsAfterEmpty removed nodes only when they were empty")
        edit.move(("spec", "ttlSecondsAfterEmpty"), wait, "it is a duration now")
        edit.set(wait, go_duration(f"{empty}s"), "it is a duration now")
    else:
        never = "neither consolidation nor ttlSecondsAfterEmpty was on: nodes were never removed"
        edit.set(policy, "WhenEmpty", never)
        edit.set(wait, "Never", never)
    edit.drop(("spec", "consolidation"), "it was off" if not enabled else "")
    expire: Path = ("spec", "disruption", "expireAfter")
    if expired is None:
        edit.set(expire, "Never", "ttlSecondsUntilExpired was not set: nodes did not expire")
    else:
        edit.move(("spec", "ttlSecondsUntilExpired"), expire, "it is a duration now")
        edit.set(expire, go_duration(f"{expired}s"), "it is a duration now")


def _reference(edit: Editor, where: Path) -> None:
    """What was an AWSNodeTemplate is an EC2NodeClass; the original's tool left it pointing nowhere."""
    if edit.get(*where, "kind") == "AWSNodeTemplate":
        edit.set((*where, "kind"), beta_schema.EC2_NODE_CLASS[1], "AWSNodeTemplates are EC2NodeClasses now")
    if str(edit.get(*where, "apiVersion", default="")).startswith("karpenter.k8s.aws/"):
        edit.set((*where, "apiVersion"), beta_schema.EC2_NODE_CLASS[0], "the class's next generation")


def _kubelet(edit: Editor, old: Path, new: Path) -> None:
    edit.drop((*old, "containerRuntime"), "containerd is the only one since Kubernetes 1.24")
    edit.move(old, new, "of the node, so in the template")


def _labels_in_requirements(edit: Editor, where: Path) -> None:
    for index, item in enumerate(edit.get(*where) or ()):
        if isinstance(item, dict) and item.get("key") == PROVISIONER_NAME:
            edit.set((*where, index, "key"), NODE_POOL_LABEL, "provisioners are node pools now")


def _machine(edit: Editor) -> tuple[Editor, ...]:
    _renamed(edit, beta_schema.NODE_CLAIM)
    _metadata(edit)
    edit.move(("spec", "machineTemplateRef"), ("spec", "nodeClassRef"), "called so since v1beta1")
    _reference(edit, ("spec", "nodeClassRef"))
    edit.drop(("spec", "kubelet", "containerRuntime"), "containerd is the only one since Kubernetes 1.24")
    _labels_in_requirements(edit, ("spec", "requirements"))
    label: Path = ("metadata", "labels", PROVISIONER_NAME)
    edit.move(label, ("metadata", "labels", NODE_POOL_LABEL), "provisioners are node pools now")
    return (edit,)


def _node_template(edit: Editor) -> tuple[Editor, ...]:
    _renamed(edit, beta_schema.EC2_NODE_CLASS)
    _metadata(edit)
    _class_fields(edit, "converting AWSNodeTemplate")
    return (edit,)


def _class_fields(edit: Editor, where: str) -> None:
    if edit.has("spec", "launchTemplate"):
        raise NotConvertible(f'{where}, cannot convert with "spec.launchTemplate"')
    for field in ("apiVersion", "kind"):
        edit.drop(("spec", field), "it says nothing")
    if not edit.get("spec", "amiFamily"):
        edit.set(("spec", "amiFamily"), "AL2", "it was not set, which meant AL2")
    for old, new in (
        ("amiSelector", "amiSelectorTerms"),
        ("subnetSelector", "subnetSelectorTerms"),
        ("securityGroupSelector", "securityGroupSelectorTerms"),
    ):
        selector = edit.get("spec", old)
        if selector is None:
            continue
        edit.move(("spec", old), ("spec", new), "selectors are lists of terms now")
        terms = list(_image_terms(selector) if old == "amiSelector" else _terms(selector))
        edit.set(("spec", new), terms, "selectors are lists of terms now")
    if not edit.has("spec", "instanceProfile"):
        why = "the role that the old default instance profile holds: write its name here"
        edit.set(("spec", "role"), ROLE_PLACEHOLDER, why)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _terms(selector: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Ids times sets of tags: a comma in a value stands for "or"."""
    ids = [name for key in ("aws-ids", "aws::ids") if key in selector for name in _split(selector[key])]
    for tags in _tag_sets(selector):
        for name in ids or [""]:
            yield {**({"id": name} if name else {}), **({"tags": tags} if tags else {})}


def _image_terms(selector: dict[str, str]) -> Iterator[dict[str, Any]]:
    ids = [name for key in ("aws-ids", "aws::ids") if key in selector for name in _split(selector[key])]
    names, owners = _split(selector.get("aws::name", "")), _split(selector.get("aws::owners", ""))
    for owner, name, image, tags in product(owners, ids or [""], names, _tag_sets(selector)):
        fields = {"id": name, "name": image, "owner": owner, "tags": tags}
        yield {key: value for key, value in fields.items() if value}


def _tag_sets(selector: dict[str, str]) -> list[dict[str, str]]:
    """Every combination of the values of the tags, the first tag's changing fastest."""
    keys = sorted(key for key in selector if not key.startswith("aws::") and key != "aws-ids")
    sets: list[dict[str, str]] = [{}]
    for key in keys:
        sets = [{**tags, key: value} for value in _split(selector[key]) for tags in sets]
    return sets


_STEPS: dict[tuple[str, str], Callable[[Editor, bool], tuple[Editor, ...]]] = {
    alpha_schema.PROVISIONER: _provisioner,
    alpha_schema.MACHINE: lambda edit, _: _machine(edit),
    alpha_schema.NODE_TEMPLATE: lambda edit, _: _node_template(edit),
}
