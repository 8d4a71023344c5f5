"""Pods interned by everything that matters to a solver: work grows with different pods, not with pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dovetail.api.core import Pod
from dovetail.model.ports import HostPort
from dovetail.model.problem import Options
from dovetail.model.requirement import Requirements, pod_requirements
from dovetail.model.resources import CPU, MEMORY
from dovetail.model.volumes import VolumeIndex, csi_volumes, volume_alternatives
from dovetail.solve.demand.asks import Ask, Reader
from dovetail.solve.demand.relax_preferences import OTHER_TERM, levels
from dovetail.solve.demand.rules import Rules, rules_of
from dovetail.solve.demand.topology import Topology
from dovetail.solve.supply.encode import Amounts, Axis


@dataclass(frozen=True, slots=True)
class Level:
    """A shape's demands once so much has been given up."""

    rules: Rules
    words: list[str]  # for all that the pod may give up, in order; one list for all levels
    gone: int  # so many of these are given up
    lost: int  # preferences among them: another alternative of what is required is no loss
    owned: tuple[int, ...]  # topology groups to obey
    alternatives: tuple[Requirements, ...]  # demands on labels, with each way to reach the pod's volumes

    @property
    def given_up(self) -> tuple[str, ...]:
        """The words for what is given up."""
        return tuple(self.words[: self.gone])


@dataclass(slots=True)
class Shape:
    """Pods that no rule can tell apart."""

    index: int
    sample: Pod
    pods: list[str]  # keys, in the order of the problem
    vector: Amounts  # requests, shape (R,)
    ports: tuple[HostPort, ...]
    ladder: int  # equal only where levels and required are
    levels: tuple[Level, ...]
    required: tuple[Requirements, ...]  # strict demands on labels: alternatives
    matching: tuple[int, ...] = ()  # topology groups that count it
    volumes: Mapping[str, frozenset[str]] = field(default_factory=dict)  # CSI driver -> attachments
    value: float = field(default=0.0)  # dollars per hour that one pod is worth at the relaxation's prices

    @property
    def involved(self) -> bool:
        """True iff some topology rule is about its pods."""
        return bool(self.matching) or any(level.owned for level in self.levels)


@dataclass(frozen=True, slots=True, eq=False)
class _Ladder:
    """What pods of the same rules have in common; different ones have different numbers."""

    number: int
    levels: tuple[Level, ...]
    required: tuple[Requirements, ...]


class Interner:
    """Turns pods into shapes; topology groups are registered on the way."""

    def __init__(
        self, options: Options, topology: Topology, volumes: VolumeIndex, *, soft_taints_exist: bool
    ) -> None:
        self.reader = Reader()
        self._options = options
        self._topology = topology
        self._volumes = volumes
        self._soft = soft_taints_exist
        self._levels: dict[tuple[bytes, tuple[str | None, ...], str], _Ladder] = {}
        self._entries: list[tuple[Pod, Ask, _Ladder]] = []

    def read(self, pods: Iterable[Pod]) -> frozenset[str]:
        """Read all pods, which registers their groups; the resources that they ask for."""
        for pod in sorted(pods, key=_age_order):
            ask = self.reader.read(pod)
            self._entries.append((pod, ask, self._levels_of(pod, ask)))
        return frozenset(name for ask in self.reader.different() for name in ask.requests)

    def shapes(self, axis: Axis) -> list[Shape]:
        """The shapes of the pods that were read, the largest requests of CPU, then memory, first."""
        # Groups must all be known before pods can be told apart by the groups that count them.
        found: dict[tuple[bytes, int, tuple[int, ...]], Shape] = {}
        for pod, ask, ladder in self._entries:
            meta = pod.metadata
            matching = self._topology.matching(meta.namespace or "default", meta.labels)
            key = (ask.fingerprint, ladder.number, matching)
            shape = found.get(key)
            if shape is None:
                found[key] = self._shape(pod, ask, axis, ladder, matching)
            else:
                shape.pods.append(pod.key)
        ordered = sorted(found.values(), key=lambda shape: _size_order(shape, axis))
        for index, shape in enumerate(ordered):
            shape.index = index
        return ordered

    def _levels_of(self, pod: Pod, ask: Ask) -> _Ladder:
        labels = pod.metadata.labels
        copied = tuple([labels.get(name) for name in ask.label_keys])
        key = (ask.rules, copied, pod.key if ask.has_claims else "")
        known = self._levels.get(key)
        if known is None:
            known = self._levels[key] = _Ladder(len(self._levels), *self._ladder(pod))
        return known

    def _ladder(self, pod: Pod) -> tuple[tuple[Level, ...], tuple[Requirements, ...]]:
        first = rules_of(pod, respect_preferences=self._options.respect_preferences)
        ways = volume_alternatives(pod, self._volumes) or (Requirements(),)
        required = tuple(item.add(*way) for item in pod_requirements(pod) for way in ways)
        if first.hopeless:
            return (), required
        strict = first.required()
        owners = self._topology.owners(pod, strict)
        steps: list[Level] = []
        words: list[str] = []
        lost = 0
        for rules, fresh in levels(first, soft_taints_exist=self._soft):
            words += fresh
            lost += sum([text != OTHER_TERM for text in fresh])
            if not rules.contradictory:
                alternatives = tuple([rules.wanted().add(*way) for way in ways])
                steps.append(Level(rules, words, len(words), lost, owners.owned(rules), alternatives))
        return tuple(steps), required

    def _shape(self, pod: Pod, ask: Ask, axis: Axis, ladder: _Ladder, matching: tuple[int, ...]) -> Shape:
        return Shape(
            index=0,
            sample=pod,
            pods=[pod.key],
            vector=axis.vector(ask.requests),
            ports=ask.ports,
            ladder=ladder.number,
            levels=ladder.levels,
            required=ladder.required,
            matching=matching,
            volumes=csi_volumes(pod, self._volumes),
        )


def _size_order(shape: Shape, axis: Axis) -> tuple[int, int, str]:
    amounts = dict(zip(axis.names, shape.vector.tolist(), strict=True))
    return (-amounts.get(CPU, 0), -amounts.get(MEMORY, 0), shape.pods[0])


def _age_order(pod: Pod) -> tuple[str, str, str]:
    meta = pod.metadata
    return (meta.creation_timestamp, meta.uid, pod.key)
