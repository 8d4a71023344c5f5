"""Pods interned by everything that matters to a solver: work grows with different pods, not with pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from dovetail.api.core import Pod
from dovetail.model.ports import HostPort, host_ports
from dovetail.model.problem import Options
from dovetail.model.requirement import Requirements, pod_requirements
from dovetail.model.resources import CPU, MEMORY, pod_requests
from dovetail.model.volumes import VolumeIndex, csi_volumes, volume_alternatives
from dovetail.solve.demand.relax_preferences import levels
from dovetail.solve.demand.rules import Rules, rules_of
from dovetail.solve.demand.topology import Topology
from dovetail.solve.supply.encode import Amounts, Axis
from dovetail.units.quantity import Quantity


@dataclass(frozen=True, slots=True)
class Level:
    """A shape's demands once so much has been given up."""

    rules: Rules
    given_up: tuple[str, ...]
    owned: tuple[int, ...]  # topology groups to obey
    alternatives: tuple[Requirements, ...]  # demands on labels, with each way to reach the pod's volumes


@dataclass(slots=True)
class Shape:
    """Pods that no rule can tell apart."""

    index: int
    sample: Pod
    pods: list[str]  # keys, in the order of the problem
    vector: Amounts  # requests, shape (R,)
    ports: tuple[HostPort, ...]
    levels: tuple[Level, ...]
    required: tuple[Requirements, ...]  # strict demands on labels: alternatives
    matching: tuple[int, ...] = ()  # topology groups that count it
    volumes: Mapping[str, frozenset[str]] = field(default_factory=dict)  # CSI driver -> attachments
    value: float = field(default=0.0)  # dollars per hour that one pod is worth at the relaxation's prices

    @property
    def involved(self) -> bool:
        """True iff some topology rule is about its pods."""
        return bool(self.matching) or any(level.owned for level in self.levels)


_Ladder = tuple[tuple[Rules, tuple[str, ...]], ...]
_ENCODER = msgspec.json.Encoder(enc_hook=lambda value: _nanos(value))


class Interner:
    """Turns pods into shapes; topology groups are registered on the way."""

    def __init__(
        self, options: Options, topology: Topology, volumes: VolumeIndex, *, soft_taints_exist: bool
    ) -> None:
        self._options = options
        self._topology = topology
        self._volumes = volumes
        self._soft = soft_taints_exist
        self._ladders: dict[bytes, _Ladder] = {}
        self._levels: dict[tuple[bytes, str, tuple[tuple[str, str], ...]], tuple[Level, ...]] = {}

    def shapes(self, pods: Iterable[Pod], axis: Axis) -> list[Shape]:
        """The shapes of the pods, the largest requests of CPU, then memory, first."""
        # Groups must all be known before pods can be told apart by the groups that count them.
        ordered_pods = sorted(pods, key=_age_order)
        entries = [(pod, *self._read(pod)) for pod in ordered_pods]
        found: dict[tuple[bytes, tuple[tuple[int, ...], ...], tuple[int, ...], str], Shape] = {}
        for pod, print_, ladder in entries:
            matching = self._topology.matching(pod.metadata.namespace or "default", pod.metadata.labels)
            alone = pod.key if _has_claims(pod) else ""
            owned = tuple(level.owned for level in ladder)
            key = (print_, owned, matching, alone)
            shape = found.get(key)
            if shape is None:
                found[key] = self._shape(pod, axis, ladder, matching)
            else:
                shape.pods.append(pod.key)
        ordered = sorted(found.values(), key=lambda shape: _size_order(shape, axis))
        for index, shape in enumerate(ordered):
            shape.index = index
        return ordered

    def _read(self, pod: Pod) -> tuple[bytes, tuple[Level, ...]]:
        print_ = fingerprint(pod)
        key = (print_, pod.metadata.namespace, tuple(sorted(pod.metadata.labels.items())))
        claims = _has_claims(pod)
        ladder = None if claims else self._levels.get(key)
        if ladder is None:
            ladder = self._ladder(pod, print_)
            if not claims:
                self._levels[key] = ladder
        return print_, ladder

    def _ladder(self, pod: Pod, print_: bytes) -> tuple[Level, ...]:
        steps = self._ladders.get(print_)
        if steps is None:
            first = rules_of(pod, respect_preferences=self._options.respect_preferences)
            ladder = () if first.hopeless else tuple(levels(first, soft_taints_exist=self._soft))
            steps = tuple(step for step in ladder if not step[0].contradictory)
            self._ladders[print_] = steps
        if not steps:
            return ()
        strict = rules_of(pod, respect_preferences=False).required()
        ways = volume_alternatives(pod, self._volumes) or (Requirements(),)
        return tuple(
            Level(
                rules,
                given_up,
                self._topology.owned(pod, rules, strict),
                tuple(rules.wanted().add(*way) for way in ways),
            )
            for rules, given_up in steps
        )

    def _shape(self, pod: Pod, axis: Axis, ladder: tuple[Level, ...], matching: tuple[int, ...]) -> Shape:
        ways = volume_alternatives(pod, self._volumes) or (Requirements(),)
        return Shape(
            index=0,
            sample=pod,
            pods=[pod.key],
            vector=axis.vector(pod_requests(pod)),
            ports=host_ports(pod),
            levels=ladder,
            required=tuple(item.add(*way) for item in pod_requirements(pod) for way in ways),
            matching=matching,
            volumes=csi_volumes(pod, self._volumes),
        )


def fingerprint(pod: Pod) -> bytes:
    """Equal for pods whose specs ask for the same; labels are not part of it."""
    spec = pod.spec
    parts = [
        pod.metadata.namespace,
        pod_requests(pod),
        host_ports(pod),
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        spec.volumes,
    ]
    return _ENCODER.encode(parts)


def _has_claims(pod: Pod) -> bool:
    return any(item.persistent_volume_claim or item.ephemeral for item in pod.spec.volumes)


def _nanos(value: object) -> object:
    if isinstance(value, Quantity):
        return value.nanos
    raise TypeError(f"cannot encode {type(value).__name__}")


def _size_order(shape: Shape, axis: Axis) -> tuple[int, int, str]:
    amounts = dict(zip(axis.names, shape.vector.tolist(), strict=True))
    return (-amounts.get(CPU, 0), -amounts.get(MEMORY, 0), shape.pods[0])


def _age_order(pod: Pod) -> tuple[str, str, str]:
    meta = pod.metadata
    return (meta.creation_timestamp, meta.uid, pod.key)
