"""Volumes that must come off a node before its instance goes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dovetail.api.core import PersistentVolumeClaim, Pod
from dovetail.api.workloads import VolumeAttachment
from dovetail.cluster.state import State


def blocking(
    attachments: Iterable[VolumeAttachment], node: str, spared: frozenset[str]
) -> tuple[VolumeAttachment, ...]:
    """The attachments that the node's end waits for: all but those of the spared volumes, in their order."""
    return tuple(
        item
        for item in attachments
        if item.spec.node_name == node and item.spec.source.persistent_volume_name not in spared
    )


def volumes_of(pods: Sequence[Pod], state: State) -> frozenset[str]:
    """Names of the volumes that the pods hold through claims."""
    found = set()
    for pod in pods:
        for volume in pod.spec.volumes:
            name = ""
            if volume.persistent_volume_claim is not None:
                name = volume.persistent_volume_claim.claim_name
            elif volume.ephemeral is not None:
                name = f"{pod.metadata.name}-{volume.name}"
            claim = state.get(PersistentVolumeClaim, f"{pod.metadata.namespace}/{name}") if name else None
            if claim is not None and claim.spec.volume_name:
                found.add(claim.spec.volume_name)
    return frozenset(found)
