"""Pods that no node can help, whatever is bought."""

from __future__ import annotations

from dovetail.api.core import Pod
from dovetail.model.resources import CPU, excess, pod_requests, quantities
from dovetail.model.volumes import VolumeIndex, ignored_reason

DEVICES = "pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter"
_SHOWN = 24  # characters of an amount that are read at a glance; larger ones are written as powers of ten


def left_out(pod: Pod, index: VolumeIndex) -> str:
    """Why no plan is made for the pod as it and its claims are now; "" when nothing stands against it."""
    if pod.spec.resource_claims:
        return DEVICES
    name = excess(pod)
    return _too_much(pod, name) if name else ignored_reason(pod, index)


def _too_much(pod: Pod, name: str) -> str:
    amount = pod_requests(pod)[name]
    text = str(quantities({name: amount})[name])
    if len(text) > _SHOWN:
        text = f"about 1e{len(str(amount // 1000 if name == CPU else amount)) - 1}"
    return f"pod requests more {name} than any node has ({text})"
