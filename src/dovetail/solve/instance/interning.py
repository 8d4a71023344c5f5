"""Pods interned by everything that matters, so that work grows with pod classes and not with pods."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import chain
from weakref import WeakValueDictionary

import msgspec

from dovetail.api.core import Pod, PodSpec
from dovetail.base.memo import MOST_PODS, by_identity
from dovetail.model.pod_rules import OTHER_TERM, levels, rules_of
from dovetail.model.ports import HostPort, host_ports
from dovetail.model.problem import Options
from dovetail.model.requirement import Requirements, pod_requirements
from dovetail.model.resources import CPU, MEMORY, Resources, pod_requests
from dovetail.model.volumes import VolumeIndex, claims_alone, csi_volumes, volume_alternatives
from dovetail.solve.instance.arrays import ENDLESS, Axis
from dovetail.solve.instance.pod_classes import Level, PodClass
from dovetail.solve.instance.topology import Topology
from dovetail.solve.tolerances import FEW
from dovetail.units.quantity import Quantity


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """All that a spec and its namespace say; equal specs share one object."""

    fingerprint: bytes  # equal iff nothing that matters to scheduling differs; labels are not part of it
    rules: bytes  # equal iff the rules about nodes and other pods do not differ
    requests: Resources
    ports: tuple[HostPort, ...]
    has_claims: bool  # volumes of its own: such pods are never alike
    relations: int  # spreads and terms about other pods
    label_keys: tuple[str, ...]  # the pod's own labels that its rules copy into their selectors


class Reader:
    """Reads specs. Copies of a pod cost a look at what matters of it, which is a fraction of reading it."""

    def __init__(self) -> None:
        self._asks: dict[bytes, Ask] = {}

    def read(self, pod: Pod) -> Ask:
        """What the pod asks for."""
        return self.known(sort_of(pod).ask)

    def known(self, ask: Ask) -> Ask:
        """The first one of all that are equal."""
        return self._asks.setdefault(ask.fingerprint, ask)

    def different(self) -> Collection[Ask]:
        """Everything read so far, once each, in the order it came up."""
        return self._asks.values()


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Sort:
    """What pods have in common that ask for the same and have the same labels."""

    ask: Ask


_Copies = list[Pod]  # of one sort, the oldest first
_SORTS: WeakValueDictionary[tuple[object, ...], Sort] = WeakValueDictionary()


@by_identity(MOST_PODS)
def sort_of(pod: Pod) -> Sort:
    """The sort of a pod, found once: each question about a cluster has most pods of the one before it."""
    key = _glance(pod), *pod.metadata.labels.items()
    found = _SORTS.get(key)
    return found or _SORTS.setdefault(key, Sort(_ask(pod, claims_alone(pod.spec))))


def _glance(pod: Pod) -> tuple[object, ...]:
    """Equal only for pods that ask for the same; names of containers and images are not part of it."""
    spec = pod.spec
    rules = b""
    if spec.affinity or spec.topology_spread_constraints or spec.tolerations or spec.node_selector:
        rules = _ENCODER.encode(
            (spec.node_selector, spec.affinity, spec.tolerations, spec.topology_spread_constraints)
        )
    whole = spec.resources.requests if spec.resources else {}
    if len(spec.containers) == 1 and not (spec.init_containers or spec.overhead or whole):
        claims = [item for item in spec.volumes if item.persistent_volume_claim or item.ephemeral]
        if not claims:
            only = spec.containers[0]
            requests = [(name, amount.nanos) for name, amount in only.resources.requests.items()]
            return (pod.metadata.namespace, rules, only.ports, *requests)
    return (pod.metadata.namespace, _ENCODER.encode(claims_alone(spec)))


def _ask(pod: Pod, spec: PodSpec) -> Ask:
    requests, ports = pod_requests(pod), host_ports(pod)
    asked = spec.node_selector, spec.affinity, spec.tolerations, spec.topology_spread_constraints
    rules = _ENCODER.encode([pod.metadata.namespace, *asked])
    return Ask(
        fingerprint=_ENCODER.encode([rules, requests, ports, spec.volumes]),
        rules=rules,
        requests=requests,
        ports=ports,
        has_claims=bool(spec.volumes),
        relations=_relations(spec),
        label_keys=_label_keys(pod),
    )


def _relations(spec: PodSpec) -> int:
    affinity = spec.affinity
    parts = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    terms = sum(len(part.required) + len(part.preferred) for part in parts if part)
    return len(spec.topology_spread_constraints) + terms


def _label_keys(pod: Pod) -> tuple[str, ...]:
    spec = pod.spec
    keys = [key for item in spec.topology_spread_constraints for key in item.match_label_keys]
    affinity = spec.affinity
    for part in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ():
        terms = [*part.required, *(item.pod_affinity_term for item in part.preferred)] if part else []
        keys += [key for term in terms for key in (*term.match_label_keys, *term.mismatch_label_keys)]
    return tuple(sorted(set(keys)))


_LARGE = 2 * ENDLESS  # the encoding knows no larger integers


def _nanos(value: object) -> object:
    if isinstance(value, Quantity):
        return value.nanos if abs(value.nanos) < _LARGE else str(value.nanos)
    raise TypeError(f"cannot encode {type(value).__name__}")


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_nanos)


# To read a pod's rules takes about a microsecond for each of so many bytes, and as much as so many more bytes
# for each different pod: with so many in all, there may be no time to plan for all within a second.
_EACH = 60
_CROWD = 150_000
# Spreads and terms about other pods of one pod: with more, it takes over a quarter of a second by itself, so
# it is not planned together with simpler ones.
_RELATIONS = 500
# Groups that any pod may belong to (their selectors name no value), times different pods: each pair takes
# about 5 microseconds from reading to counting, so that in a crowd so many take a third of a second.
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
    ) -> None:
        """`reading` is called once it is known what is asked for; what it returns tells whether the classes
        that were read so far are all that there is time for."""
        self.reader = Reader()
        self._options = options
        self._topology = topology
        self._volumes = volumes
        self._soft = soft_taints_exist
        self._reading = reading
        self._turns: dict[int, int] = {}  # by the identity of what is asked; where all have the same, none
        self.left_out: list[str] = []  # pods that there is no time for
        self._levels: dict[tuple[bytes, tuple[str | None, ...], str], _Ladder] = {}
        self._entries: list[tuple[_Copies, Ask, _Ladder]] = []

    def read(self, pods: Iterable[Pod]) -> frozenset[str]:
        """Read the pods, which registers their groups; the resources that they ask for.

        Where they are too many and too different to be sure that there is time for all, the simple ones come
        first, and what asks for too much waits for a plan of its own: see `left_out`.
        """
        asked = [(copies, self.reader.known(sort.ask)) for sort, copies in _by_sort(pods).items()]
        names: set[str] = set()
        if not self._crowded():
            for copies, ask in asked:
                self._enter(copies, ask)
            return frozenset(name for ask in self.reader.different() for name in ask.requests)
        enough = self._reading()
        for number, (ask, many) in enumerate(_in_turn(asked)):
            demanding = ask.relations > _RELATIONS or len(names | ask.requests.keys()) > FEW
            pairs = (len(self._turns) + 1) * self._topology.wide
            if self._entries and (demanding or pairs > _PAIRS or enough()):
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
        found: dict[tuple[bytes, int, tuple[int, ...]], tuple[PodClass, list[_Copies]]] = {}
        for copies, ask, ladder in self._entries:
            pod = copies[0]
            matching = self._topology.matching(pod.metadata.namespace or "default", pod.metadata.labels)
            key = (ask.fingerprint, ladder.number, matching)
            if key not in found:
                found[key] = self._pod_class(pod, ask, axis, ladder, matching), []
            found[key][1].append(copies)
        for pod_class, members in found.values():
            pods = members[0] if len(members) == 1 else sorted(chain.from_iterable(members), key=_age_order)
            pod_class.pods += [pod.key for pod in pods]
        ordered = [pod_class for pod_class, _ in found.values()]
        ordered.sort(key=lambda pod_class: _size_order(pod_class, axis))
        for index, pod_class in enumerate(ordered):
            pod_class.index = index
        return ordered

    def _enter(self, copies: _Copies, ask: Ask) -> None:
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


def _by_sort(pods: Iterable[Pod]) -> dict[Sort, _Copies]:
    """The oldest first. Copies that share what they ask for and their labels need no look at these."""
    found: dict[Sort, _Copies] = {}
    seen: dict[tuple[int, int, str], _Copies] = {}
    for pod in sorted(pods, key=_age_order):
        meta = pod.metadata
        key = id(pod.spec), id(meta.labels), meta.namespace
        if key not in seen:
            seen[key] = found.setdefault(sort_of(pod), [])
        seen[key].append(pod)
    return found


def _in_turn(asked: Iterable[tuple[_Copies, Ask]]) -> list[tuple[Ask, list[_Copies]]]:
    """What is asked for, with the pods: namespaces take turns, in each what is least to read comes first.

    What asks for too much by itself comes last of all: the first one is read whatever it asks for.
    """
    pods: dict[Ask, list[_Copies]] = {}
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


def _age_order(pod: Pod) -> tuple[str, str, str]:
    return (pod.metadata.creation_timestamp, pod.metadata.uid, pod.key)
