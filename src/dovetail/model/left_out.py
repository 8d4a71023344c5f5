"""Pods that no node can help, whatever is bought."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.api.core import Pod
from dovetail.model.devices import claims_devices
from dovetail.model.resources import CPU, excess, pod_requests, quantities
from dovetail.model.volumes import VolumeIndex, ignored_reason

DEVICES = "pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter"
_SHOWN = 24  # characters of an amount that are read at a glance; larger ones are written as powers of ten


def left_out(pod: Pod, index: VolumeIndex, *, devices: bool = False) -> str:
    """Why no plan is made for the pod as it and its claims are now; "" when nothing stands against it.

    `devices`: plans know which devices there are.
    """
    if not devices and claims_devices(pod):
        return DEVICES
    name = excess(pod)
    return _too_much(pod, name) if name else ignored_reason(pod, index)


def all_left_out(pods: Iterable[Pod], index: VolumeIndex) -> dict[str, str]:
    """By pod, why no plan is made for it, of those for which none is."""
    found: dict[str, str] = {}
    fine: set[int] = set()  # specs, which copies of a pod may share; volumes have names by pod
    for pod in pods:
        spec = pod.spec
        if id(spec) in fine:
            continue
        if reason := left_out(pod, index):
            found[pod.key] = reason
        elif not spec.volumes:
            fine.add(id(spec))
    return found


def _too_much(pod: Pod, name: str) -> str:
    amount = pod_requests(pod)[name]
    text = str(quantities({name: amount})[name])
    if len(text) > _SHOWN:
        text = f"about 1e{len(str(amount // 1000 if name == CPU else amount)) - 1}"
    return f"pod requests more {name} than any node has ({text})"
