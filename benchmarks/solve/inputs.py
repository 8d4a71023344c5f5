"""Pods, instance types and pools that the cases are made of. Same arguments, same input."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.cloud.catalog.file import parse_instance_types
from dovetail.cluster.problem import ClusterObjects, build, well_known_keys
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.problem import Options, Problem

Document = dict[str, Any]
CPUS = (100, 250, 500, 1000, 1500)  # milli-CPU
MEMORY = (100, 256, 512, 1024, 2048, 4096)  # MiB
ZONES = ("zone-1", "zone-2", "zone-3")
_REFERENCE = {"group": "example.com", "kind": "NodeClass", "name": "default"}


def pod(number: int, cpu: int, memory: int, own: Mapping[str, str] | None = None, **spec: object) -> Document:
    """A pod's manifest: milli-CPU, MiB, its labels and what else its spec says."""
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    meta = {"name": f"pod-{number:06}", "namespace": "default", "labels": dict(own or {})}
    return {
        "metadata": meta,
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}], **spec},
    }


def size(draw: random.Random) -> tuple[int, int]:
    """Milli-CPU and MiB of a pod of the mix."""
    return draw.choice(CPUS), draw.choice(MEMORY)


def spread(key: str, selected: Mapping[str, str], skew: int = 1) -> Document:
    """A topology spread constraint that must hold."""
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": dict(selected)},
    }


def near(kind: str, key: str, selected: Mapping[str, str]) -> Document:
    """The affinity section with one required term; `kind` is podAffinity or podAntiAffinity."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": dict(selected)}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def linear_types(count: int = 400) -> tuple[InstanceType, ...]:
    """1 to `count` CPUs, 2 GiB, 10 pods and $0.04 per CPU, on demand in three zones."""
    return parse_instance_types([_linear(cpus) for cpus in range(1, count + 1)])


def _linear(cpus: int) -> Document:
    values = {labels.INSTANCE_TYPE: f"type-{cpus}", labels.ARCH: "amd64", labels.OS: "linux"}
    return {
        "name": f"type-{cpus}",
        "requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in values.items()],
        "offerings": [
            {"price": cpus * 0.04, "requirements": {labels.ZONE: zone, labels.CAPACITY_TYPE: "on-demand"}}
            for zone in ZONES
        ],
        "capacity": {"cpu": str(cpus), "memory": f"{2 * cpus}Gi", "pods": str(10 * cpus)},
    }


def problem(
    pods: Iterable[Document] | Sequence[Pod],
    types: tuple[InstanceType, ...],
    *,
    requirements: Sequence[Document] = (),
    objects: ClusterObjects | None = None,
    respect_preferences: bool = True,
) -> Problem:
    """The pods as decoded objects of their own, and one pool without limits over the types.

    `objects` are those of the cluster; its pools are replaced.
    """
    template = {"spec": {"nodeClassRef": _REFERENCE, "requirements": list(requirements)}}
    pool = decode({"metadata": {"name": "default"}, "spec": {"template": template}}, NodePool)
    held = objects or ClusterObjects()
    return build(
        replace(held, pools=(pool,)),
        tuple(item if isinstance(item, Pod) else decode(item, Pod) for item in pods),
        lambda _: types,
        Options(respect_preferences=respect_preferences, well_known=_known(types)),
        require_ready=False,
    )


def _known(types: tuple[InstanceType, ...]) -> frozenset[str]:
    return well_known_keys(types) | labels.AWS_WELL_KNOWN
