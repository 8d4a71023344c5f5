"""Pods interned by everything that matters, so that work grows with pod classes and not with pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain

from dovetail.api.core import Pod
from dovetail.model.arrays import Axis
from dovetail.model.pod_rules import OTHER_TERM, levels, rules_of
from dovetail.model.pod_sorts import Ask, Copies, Reader, age_order, by_sort
from dovetail.model.problem import Options
from dovetail.model.requirement import Requirements, pod_requirements
from dovetail.model.resources import CPU, MEMORY
from dovetail.model.volumes import VolumeIndex, csi_volumes, volume_alternatives
from dovetail.solve.instance.pod_classes import Level, PodClass
from dovetail.solve.instance.topology import Topology
from dovetail.solve.tolerances import FEW

# To read a pod's rules takes about a microsecond for each of so many bytes, and as much as so many more bytes
# for each different pod: with so many in all, there may be no time to plan for all within a second.
_EACH = 60
_CROWD = 150_000
# Spreads and terms about other pods of one pod: with more, it takes over a quarter of a second by itself, so
# it is not planned together with simpler ones.
_RELATIONS = 500
# Groups that any pod may belong to (their selectors name no label that it must have), times different pods,
# for each second: each pair takes about 5 microseconds from reading to counting, so many a third of it.
_PAIRS = 60_000


@dataclass(frozen=True, slots=True, eq=False)
class _Ladder:
    """What pods of the same rules have in common; different ones have different numbers."""

    number: int
    levels: tuple[Level, ...]
    required: tuple[Requirements, ...]


class Interner:
    """Turns pods into pod classes; topology groups are registered on the way."""

    def __init__(
        self,
        options: Options,
        topology: Topology,
        volumes: VolumeIndex,
        *,
        soft_taints_exist: bool,
        reading: Callable[[], Callable[[], bool]] = lambda: lambda: False,
        seconds: int = 1,
    ) -> None:
        """`reading` is called once it is known what is asked for; what it returns tells whether the classes
        that were read so far are all that there is time for, of `seconds` in all."""
        self.reader = Reader()
        self._options = options
        self._topology = topology
        self._volumes = volumes
        self._soft = soft_taints_exist
        self._reading = reading
        self._seconds = seconds
        self._turns: dict[int, int] = {}  # by the identity of what is asked; where all have the same, none
        self.left_out: list[str] = []  # pods that there is no time for
        self._levels: dict[tuple[bytes, tuple[str | None, ...], str], _Ladder] = {}
        self._entries: list[tuple[Copies, Ask, _Ladder]] = []

    def read(self, pods: Iterable[Pod]) -> frozenset[str]:
        """Read the pods, which registers their groups; the resources that they ask for.

        Where they are too many and too different to be sure that there is time for all, the simple ones come
        first, and what asks for too much waits for a plan of its own: see `left_out`.
        """
        asked = [(copies, self.reader.known(sort.ask)) for sort, copies in by_sort(pods).items()]
        names: set[str] = set()
        if not self._crowded():
            for copies, ask in asked:
                self._enter(copies, ask)
            return frozenset(name for ask in self.reader.different() for name in ask.requests)
        enough = self._reading()
        for number, (ask, many) in enumerate(_in_turn(asked)):
            demanding = ask.relations > _RELATIONS or len(names | ask.requests.keys()) > FEW
            pairs = (len(self._turns) + 1) * self._topology.wide
            if self._entries and (demanding or pairs > _PAIRS * self._seconds or enough()):
                self.left_out += [pod.key for copies in many for pod in copies]
                continue
            names |= ask.requests.keys()
            self._turns[id(ask)] = (number // FEW).bit_length()
            for copies in many:
                self._enter(copies, ask)
        return frozenset(names)

    def _crowded(self) -> bool:
        """True iff reading all that was asked for may take much of a second."""
        asks = self.reader.different()
        size = sum([len(rules) for rules in {ask.rules for ask in asks}]) + _EACH * len(asks)
        return size > _CROWD or any(ask.relations > _RELATIONS for ask in asks)

    def pod_classes(self, axis: Axis) -> list[PodClass]:
        """The pod classes of the pods that were read, the largest requests of CPU, then memory, first."""
        # Groups must all be known before pods can be told apart by the groups that count them.
        found: dict[tuple[bytes, int, tuple[int, ...]], tuple[PodClass, list[Copies]]] = {}
        for copies, ask, ladder in self._entries:
            pod = copies[0]
            matching = self._topology.matching(pod.metadata.namespace or "default", pod.metadata.labels)
            key = (ask.fingerprint, ladder.number, matching)
            if key not in found:
                found[key] = self._pod_class(pod, ask, axis, ladder, matching), []
            found[key][1].append(copies)
        for pod_class, members in found.values():
            pods = members[0] if len(members) == 1 else sorted(chain.from_iterable(members), key=age_order)
            pod_class.pods += [pod.key for pod in pods]
        ordered = sorted([one for one, _ in found.values()], key=lambda one: _size_order(one, axis))
        for index, pod_class in enumerate(ordered):
            pod_class.index = index
        return ordered

    def _enter(self, copies: Copies, ask: Ask) -> None:
        """Pods of one sort; each has a ladder of its own where they have claims."""
        for some in [[each] for each in copies] if ask.has_claims else [copies]:
            self._entries.append((some, ask, self._levels_of(some[0], ask)))

    def _levels_of(self, pod: Pod, ask: Ask) -> _Ladder:
        copied = tuple([pod.metadata.labels.get(name) for name in ask.label_keys])
        key = (ask.rules, copied, pod.key if ask.has_claims else "")
        if key not in self._levels:
            self._levels[key] = _Ladder(len(self._levels), *self._ladder(pod))
        return self._levels[key]

    def _ladder(self, pod: Pod) -> tuple[tuple[Level, ...], tuple[Requirements, ...]]:
        first = rules_of(pod, respect_preferences=self._options.respect_preferences)
        ways = volume_alternatives(pod, self._volumes) or (Requirements(),)
        required = tuple(item.add(*way) for item in pod_requirements(pod) for way in ways)
        if first.hopeless:
            return (), required
        owners = self._topology.owners(pod, first.required())
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

    def _pod_class(
        self, pod: Pod, ask: Ask, axis: Axis, ladder: _Ladder, matching: tuple[int, ...]
    ) -> PodClass:
        return PodClass(
            index=0,
            sample=pod,
            pods=[],
            vector=axis.vector(ask.requests),
            ports=ask.ports,
            ladder=ladder.number,
            levels=ladder.levels,
            required=ladder.required,
            matching=matching,
            volumes=csi_volumes(pod, self._volumes),
            turn=self._turns.get(id(ask), 0),
        )


def _size_order(pod_class: PodClass, axis: Axis) -> tuple[int, int, str]:
    amounts = dict(zip(axis.names, pod_class.vector.tolist(), strict=True))
    return (-amounts.get(CPU, 0), -amounts.get(MEMORY, 0), pod_class.pods[0])


def _in_turn(asked: Iterable[tuple[Copies, Ask]]) -> list[tuple[Ask, list[Copies]]]:
    """What is asked for, with the pods: namespaces take turns, in each what is least to read comes first.

    What asks for too much by itself comes last of all: the first one is read whatever it asks for.
    """
    pods: dict[Ask, list[Copies]] = {}
    for copies, ask in asked:
        pods.setdefault(ask, []).append(copies)
    number = {ask: sum(map(len, many)) for ask, many in pods.items()}
    simple = sorted(pods, key=lambda ask: (ask.relations, len(ask.rules), -number[ask]))
    ranks: dict[str, int] = {}
    ordered: list[tuple[bool, int, Ask]] = []
    for ask in simple:
        namespace = pods[ask][0][0].metadata.namespace
        ranks[namespace] = ranks.get(namespace, -1) + 1
        demanding = ask.relations > _RELATIONS or len(ask.requests) > FEW
        ordered.append((demanding, ranks[namespace], ask))
    ordered.sort(key=lambda item: item[:2])
    return [(ask, pods[ask]) for _, _, ask in ordered]
