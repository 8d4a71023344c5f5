"""Pods that no node can help, whatever is bought."""

from __future__ import annotations

from dovetail.api.core import Pod
from dovetail.model.volumes import VolumeIndex, ignored_reason

DEVICES = "pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter"


def left_out(pod: Pod, index: VolumeIndex) -> str:
    """Why no plan is made for the pod as it and its claims are now; "" when nothing stands against it."""
    return DEVICES if pod.spec.resource_claims else ignored_reason(pod, index)
