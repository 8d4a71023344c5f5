"""What the controller would not buy, by what manifests say of their NodePools and node classes.

A pool that is not Ready buys nothing, and neither does one whose class cannot find what it selects. Where a
server's status names the images, a launch leaves out types that none of them starts on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dovetail.api.codec import decode
from dovetail.api.core import SelectorRequirement
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclass import NodeClass
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import condition
from dovetail.cloud.unready import unexpanded, why_unready
from dovetail.model.offering import InstanceType
from dovetail.model.plan import Plan, Unschedulable
from dovetail.model.requirement import Requirements
from dovetail.reading import Manifest

Closed = Mapping[str, str]  # name of a NodePool -> why nothing is bought from it


def closed_pools(manifests: Sequence[Manifest]) -> Closed:
    """Pools that the controller would leave alone, by name; conditions that are not there stand in no way."""
    classes = {item.object.key: item.object for item in manifests if isinstance(item.object, NodeClass)}
    found = {}
    for item in manifests:
        if isinstance(item.object, NodePool):
            reference = item.object.spec.template.spec.node_class_ref
            if why := _closed(item.object, classes.get(reference.name)):
                found[item.object.metadata.name] = why
    return dict(sorted(found.items()))


def _closed(pool: NodePool, node_class: NodeClass | None) -> str:
    if isinstance(node_class, EC2NodeClass) and (literal := unexpanded(node_class)):
        return ", ".join(literal)
    for conditions in (pool.status.conditions, node_class.status.conditions if node_class else ()):
        ready = condition(conditions, "Ready")
        if ready is not None and ready.status != "True":
            return why_unready(ready, pool, node_class)
    return ""


def remarks_on_classes(manifests: Sequence[Manifest], closed: Closed) -> Iterator[str]:
    """What a user should know of pools that buy nothing, and of classes that no pool names."""
    for name, why in closed.items():
        remedy = "; fill in the variables, such as with envsubst" if "${" in why else ""
        yield f"nothing is bought from NodePool {name}, which is not Ready: {why}{remedy}"
    named = {
        item.object.spec.template.spec.node_class_ref.name
        for item in manifests
        if isinstance(item.object, NodePool)
    }
    for item in manifests:
        if isinstance(item.object, EC2NodeClass) and item.object.metadata.name not in named:
            yield f"EC2NodeClass {item.object.metadata.name} is of no NodePool, so nothing is bought with it"


def on_its_images(types: Sequence[InstanceType], manifest: Manifest) -> tuple[InstanceType, ...]:
    """Those that start with an image of the class's status; all where that names none."""
    status = manifest.document.get("status") or {}
    images = [_terms(image) for image in status.get("amis") or ()]
    if not images:
        return tuple(types)
    return tuple(item for item in types if any(not item.requirements.intersects(image) for image in images))


def _terms(image: Mapping[str, Any]) -> Requirements:
    terms = decode(image.get("requirements") or [], tuple[SelectorRequirement, ...])
    return Requirements.read(terms)


def reasoned(plan: Plan, closed: Closed) -> Plan:
    """The plan with what keeps closed pools from its pods, in the words of the controller's event."""
    if not closed or not plan.unschedulable:
        return plan
    return replace(plan, unschedulable=tuple(_reasoned(one, closed) for one in plan.unschedulable))


def _reasoned(one: Unschedulable, closed: Closed) -> Unschedulable:
    if one.pools or one.untried:
        return replace(one, pools={**one.pools, **closed}) if one.pools else one
    whys = "; ".join(f"{name}: {why}" for name, why in closed.items())
    return replace(one, reason=f"{one.reason} ({whys})")
