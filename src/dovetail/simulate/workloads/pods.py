"""What every workload controller asks of pods."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, auto

from dovetail.api.core import Pod
from dovetail.api.meta import is_true


def active(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Pods that still count towards a number of replicas: neither finished nor on their way out."""
    return tuple(pod for pod in pods if not pod.terminal and not pod.deleting)


def ready(pod: Pod) -> bool:
    """True iff the pod may receive traffic."""
    return pod.status.phase == "Running" and is_true(pod.status.conditions, "Ready") and not pod.deleting


class Standing(IntEnum):
    """All of a pod that the controllers count. Numbers, since an Enum's hash is worked out in Python."""

    WAITING = auto()  # has no node
    STARTING = auto()  # has a node, is not ready
    READY = auto()
    FINISHED = auto()  # Succeeded or Failed
    LEAVING = auto()  # on its way out


ACTIVE = (Standing.WAITING, Standing.STARTING, Standing.READY)


def standing(pod: Pod) -> Standing:
    """Where the pod stands by what the API server says of it."""
    if pod.deleting:
        return Standing.LEAVING
    if pod.terminal:
        return Standing.FINISHED
    if ready(pod):
        return Standing.READY
    return Standing.STARTING if pod.spec.node_name else Standing.WAITING
