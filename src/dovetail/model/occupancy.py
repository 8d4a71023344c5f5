"""What follows from a node and the pods on it alone: worked out once, for all questions about the node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from dovetail.api.core import Pod
from dovetail.base.memo import by_weight
from dovetail.model.affinity import required_anti_affinity
from dovetail.model.labels import HOSTNAME
from dovetail.model.ports import HostPort, host_ports
from dovetail.model.requirement import Requirements
from dovetail.model.resources import Resources, pod_requests, total

# Bytes of the labels of different pods that are known, and what each takes besides: some 8,000 usual ones.
_REMEMBERED, _SORT = 4_000_000, 400

Counted = tuple[str, Mapping[str, str], bool]  # a pod that has not ended: namespace, labels, is it deleting?


@dataclass(frozen=True, slots=True)
class Guard:
    """A pod that keeps others away; those of equal `rules` keep the same away."""

    pod: Pod
    rules: bytes


@dataclass(frozen=True, slots=True)
class Occupancy:
    """A node with its pods, whatever is asked about it."""

    labels: Requirements  # the host name is among them
    requests: Resources  # of all its pods
    daemons: Resources  # of those that belong to DaemonSets
    ports: tuple[HostPort, ...]  # that its pods have open
    counted: tuple[Counted, ...]
    alike: tuple[tuple[Counted, int], ...]  # the same, each that differs once, with how many there are
    tags: frozenset[tuple[str, str]]  # the labels of all these together
    guarded: tuple[Guard, ...]  # pods that keep others away
    attached: tuple[Pod, ...]  # pods with volumes


def occupancy(name: str, labels: Mapping[str, str], pods: tuple[Pod, ...]) -> Occupancy:
    """Of a node with these labels and pods."""
    asked = [(pod, pod_requests(pod)) for pod in pods]
    running = [pod for pod in pods if not pod.terminal]
    counted = tuple(
        (pod.metadata.namespace or "default", pod.metadata.labels, pod.deleting) for pod in running
    )
    return Occupancy(
        labels=Requirements.from_labels({HOSTNAME: name, **labels}),
        requests=total(requests for _, requests in asked),
        daemons=total(requests for pod, requests in asked if is_daemon(pod)),
        ports=tuple(port for pod in pods for port in host_ports(pod)),
        counted=counted,
        alike=_alike(counted),
        tags=frozenset(pair for pod in running for pair in pod.metadata.labels.items()),
        guarded=tuple(Guard(pod, rules) for pod in pods if (rules := _guarding(pod))),
        attached=tuple(pod for pod in pods if pod.spec.volumes),
    )


def _alike(counted: tuple[Counted, ...]) -> tuple[tuple[Counted, int], ...]:
    found = Counter((namespace, tuple(labels.items()), deleting) for namespace, labels, deleting in counted)
    return tuple((_sort(*key), number) for key, number in found.items())


@by_weight(_REMEMBERED, lambda args, _: _SORT + sum(len(name) + len(value) for name, value in args[1]))
def _sort(namespace: str, labels: tuple[tuple[str, str], ...], deleting: bool) -> Counted:
    """One object for such pods of all nodes, so that what follows from it is found at once."""
    return namespace, dict(labels), deleting


def is_daemon(pod: Pod) -> bool:
    """True iff a DaemonSet manages the pod."""
    owner = pod.metadata.controller()
    return owner is not None and owner.kind == "DaemonSet"


def _guarding(pod: Pod) -> bytes:
    """All that its required anti-affinity depends on; empty if it has none."""
    terms = required_anti_affinity(pod)
    if not terms:
        return b""
    copying = any(item.match_label_keys or item.mismatch_label_keys for item in terms)
    return _ENCODER.encode([pod.metadata.namespace, terms, pod.metadata.labels if copying else None])


_ENCODER = msgspec.msgpack.Encoder()
