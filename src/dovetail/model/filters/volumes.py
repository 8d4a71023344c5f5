"""Volumes: where they can be reached, and how many a node can attach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dovetail.model import labels
from dovetail.model.filters.reason import Reason, Reasons
from dovetail.model.filters.view import NodeView, PodFacts
from dovetail.model.selector import node_term, node_terms
from dovetail.model.volumes import ClaimUse, VolumeIndex, claim_uses, volume_limit_error

_TOO_MANY = (Reason("node(s) exceed max volume count", helpless=False),)
_ELSEWHERE = (Reason("node(s) didn't match PersistentVolume's node affinity"),)
_NONE_HERE = (Reason("node(s) didn't find available persistent volumes to bind"),)
_WRONG_ZONE = (Reason("node(s) had no available volume zone"),)
_EBS_ZONE = "topology.ebs.csi.aws.com/zone"


def pod_reason(facts: PodFacts, index: VolumeIndex) -> str:
    """Why no node can be considered at all, whatever the nodes are; '' usually."""
    waiting = False
    for use in claim_uses(facts.pod, index) if facts.pod.spec.volumes else ():
        if use.claim is None:
            name = use.key.partition("/")[2]
            if use.ephemeral:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            return f'persistentvolumeclaim "{name}" not found'
        if use.claim.deleting:
            return f'persistentvolumeclaim "{use.claim.metadata.name}" is being deleted'
        mode = use.storage_class.volume_binding_mode if use.storage_class else "Immediate"
        waiting = waiting or (not use.bound and mode == "Immediate")
    return "pod has unbound immediate PersistentVolumeClaims" if waiting else ""


def volume_limits(facts: PodFacts, node: NodeView, _index: VolumeIndex) -> Reasons:
    """Each CSI driver attaches only so many volumes; one that is there already costs nothing."""
    if not facts.attachments:
        return ()
    used: dict[str, frozenset[str]] = {}
    for other in node.pods.values():
        for driver, items in other.attachments.items():
            used[driver] = used.get(driver, frozenset()) | items
    return _TOO_MANY if volume_limit_error(facts.attachments, used, node.volume_limits) else ()


def volume_binding(facts: PodFacts, node: NodeView, index: VolumeIndex) -> Reasons:
    """Bound volumes must be reachable from the node, unbound ones must be allowed where it is."""
    if not facts.pod.spec.volumes:
        return ()
    there = _with_driver_labels(node.labels)
    uses = list(claim_uses(facts.pod, index))
    if not all(_reaches(use, node.name, there) for use in uses):
        return _ELSEWHERE
    return () if all(_allowed(use, node.name, there) for use in uses) else _NONE_HERE


def volume_zone(facts: PodFacts, node: NodeView, index: VolumeIndex) -> Reasons:
    """Zone and region labels on a bound volume must be the node's."""
    if not facts.pod.spec.volumes:
        return ()
    for use in claim_uses(facts.pod, index):
        if use.volume is not None and not _same_zone(use.volume.metadata.labels, node.labels):
            return _WRONG_ZONE
    return ()


def _with_driver_labels(node: Mapping[str, str]) -> Mapping[str, str]:
    """The EBS driver repeats the zone under a name of its own once it runs on the node."""
    if labels.ZONE in node and _EBS_ZONE not in node:
        return {**node, _EBS_ZONE: node[labels.ZONE]}
    return node


def _reaches(use: ClaimUse, name: str, node: Mapping[str, str]) -> bool:
    affinity = use.volume.spec.node_affinity if use.volume else None
    if affinity is None or affinity.required is None:
        return True
    return any(term.matches(name, node) for term in node_terms(affinity.required))


def _allowed(use: ClaimUse, name: str, node: Mapping[str, str]) -> bool:
    if use.bound or use.storage_class is None or not use.storage_class.allowed_topologies:
        return True
    terms = (item.as_node_selector_term() for item in use.storage_class.allowed_topologies)
    return any(node_term(term).matches(name, node) for term in terms)


def _same_zone(volume: Mapping[str, str], node: Mapping[str, str]) -> bool:
    keys: Iterable[str] = (labels.ZONE, labels.REGION)
    if not any(key in node for key in keys):
        return True
    return all(node.get(key) in volume[key].split("__") for key in keys if key in volume)
