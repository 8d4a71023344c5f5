"""Problems and plans between two processes of one machine: pickles in pieces, no type or node twice.

Measured: pickling 10,000 pods takes 0.37 s, which would keep leases and watches waiting; their objects as
MessagePack take 0.03 s. Nothing here takes longer than some 20 ms at a time, however large the problem is.
Of pods that wait, copies are read once: what they ask for and their labels are one object for all. Nor are
the fields of a plan written twice that many of its nodes or of its left-over pods share.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, Generic, TypeVar

import msgspec

from dovetail.api.core import PersistentVolume, PersistentVolumeClaim, Pod, PodSpec
from dovetail.api.meta import Meta
from dovetail.api.workloads import DaemonSet, StorageClass
from dovetail.base.errors import PlannerFailed
from dovetail.model.offering import InstanceType
from dovetail.model.plan import Plan, PlannedClaim, Unschedulable
from dovetail.model.problem import ExistingNode, Problem
from dovetail.model.volumes import claims_alone
from dovetail.units.quantity import Quantity

_PODS = 1_000  # in one piece, those of nodes included
_TYPES = 100
_CLAIMS = 1_000
_LEFT = 10_000
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class NewTypes:
    """Types that the worker has not seen; their numbers count up from `first`."""

    first: int
    types: tuple[InstanceType, ...]


@dataclass(frozen=True, slots=True)
class SomePods:
    """Further pending pods, as far as plans depend on them."""

    sorts: tuple[bytes, ...]  # namespace, labels and spec, once for all copies; numbered within a question
    pods: bytes  # of each the number of its sort, name, uid and the instant of its creation


@dataclass(frozen=True, slots=True)
class SomeNodes:
    """Existing nodes that the worker has not seen; their numbers count up from `first`."""

    first: int
    nodes: tuple[ExistingNode, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """The rest of a problem, and with it the question. Instants and durations are nanoseconds."""

    problem: Problem  # without pods, nodes and types
    types: tuple[tuple[int, ...], ...]  # numbers per pool
    nodes: tuple[int, ...]  # their numbers
    deadline: int
    until: int  # of the monotonic clock, which is one for all processes of a machine


@dataclass(frozen=True, slots=True)
class SomeClaims:
    """Further claims of a plan."""

    shared: tuple[tuple[Any, ...], ...]  # what many may share; numbered within an answer
    claims: bytes  # of each the number of that, name, pods and requests


@dataclass(frozen=True, slots=True)
class SomeLeft:
    """Further pods of a plan that have no place."""

    reasons: tuple[tuple[Any, ...], ...]  # with those per pool; numbered within an answer
    pods: bytes  # of each the number of that, and its name


@dataclass(frozen=True, slots=True)
class Answer:
    """The rest of a plan."""

    plan: Plan  # without claims and left-over pods


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is no plan, and where in the code that was found."""

    message: str
    stack: str = ""


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker has started. What ends it from now on is a question, or comes from outside."""


Part = NewTypes | SomePods | SomeNodes | Question | SomeClaims | SomeLeft | Answer | Fault | Ready


class _Sent(Generic[_Item]):
    """Which objects the worker has, and by which numbers.

    By identity: providers answer with the very same types as long as nothing changed, and what-ifs of one
    search have the very same nodes. The objects are held, so an address is never given to another one.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, tuple[_Item, int]] = {}
        self._next = 0

    def fresh(self, items: Iterable[_Item]) -> tuple[int, tuple[_Item, ...]]:
        """Those of all the items of a question that it does not have, and the number of the first of them.

        What is not among the items is forgotten.
        """
        known, self._numbers = self._numbers, {}
        fresh: list[_Item] = []
        first = self._next
        for item in items:
            if id(item) in self._numbers:
                continue
            if id(item) not in known:
                known[id(item)] = (item, first + len(fresh))
                fresh.append(item)
            self._numbers[id(item)] = known[id(item)]
        self._next += len(fresh)
        return first, tuple(fresh)

    def numbers(self, items: Iterable[_Item]) -> tuple[int, ...]:
        """The numbers of items that were asked for last."""
        return tuple(self._numbers[id(item)][1] for item in items)


class Asking:
    """The asking side. Remembers types and nodes of its last question, so that they are not sent again."""

    def __init__(self) -> None:
        self._types = _Sent[InstanceType]()
        self._nodes = _Sent[ExistingNode]()

    def parts(self, problem: Problem, deadline: int, until: int) -> Iterator[bytes]:
        """The problem in pieces. Each is made when it is asked for; all must be sent, in order."""
        first, types = self._types.fresh(item for pool in problem.pools for item in pool.instance_types)
        for start in range(0, len(types), _TYPES):
            yield pack(NewTypes(first + start, types[start : start + _TYPES]))
        sorts: dict[bytes, int] = {}
        for start in range(0, len(problem.pods), _PODS):
            known, rows = len(sorts), []
            for pod in problem.pods[start : start + _PODS]:
                meta = pod.metadata
                sort = _ENCODER.encode((meta.namespace, meta.labels, claims_alone(pod.spec)))
                rows.append(
                    (sorts.setdefault(sort, len(sorts)), meta.name, meta.uid, meta.creation_timestamp)
                )
            yield pack(SomePods(tuple(sorts)[known:], _ENCODER.encode(rows)))
        first, nodes = self._nodes.fresh(problem.nodes)
        for batch in _batches(nodes):
            yield pack(SomeNodes(first, batch))
            first += len(batch)
        bare = tuple(replace(pool, instance_types=()) for pool in problem.pools)
        numbers = tuple(self._types.numbers(pool.instance_types) for pool in problem.pools)
        rest = replace(problem, pods=(), nodes=(), pools=bare)
        yield pack(Question(rest, numbers, self._nodes.numbers(problem.nodes), deadline, until))


class Hearing:
    """The side that is asked: puts problems together again. Forgets types and nodes that one did not use."""

    def __init__(self) -> None:
        self._types: dict[int, InstanceType] = {}
        self._sorts: list[tuple[str, dict[str, str], PodSpec]] = []
        self._pods: list[Pod] = []
        self._nodes: dict[int, ExistingNode] = {}

    def take(self, part: Part) -> tuple[Problem, Question] | None:
        """Take a piece; with the last one, the whole problem."""
        match part:
            case NewTypes(first, types):
                self._types.update(enumerate(types, first))
            case SomePods(sorts, pods):
                self._sorts += map(_SORTS.decode, sorts)
                self._pods += map(self._pod, _ROWS.decode(pods))
            case SomeNodes(first, nodes):
                self._nodes.update(enumerate(nodes, first))
            case Question():
                return self._whole(part), part
        return None

    def _pod(self, row: tuple[int, str, str, str]) -> Pod:
        namespace, labels, spec = self._sorts[row[0]]
        meta = Meta(name=row[1], namespace=namespace, uid=row[2], creation_timestamp=row[3], labels=labels)
        return Pod(metadata=meta, spec=spec)

    def _whole(self, question: Question) -> Problem:
        rest = question.problem
        pools = tuple(
            replace(pool, instance_types=tuple(self._types[number] for number in numbers))
            for pool, numbers in zip(rest.pools, question.types, strict=True)
        )
        used = dict.fromkeys(number for numbers in question.types for number in numbers)
        self._types = {number: self._types[number] for number in used}
        pods, self._pods, self._sorts = tuple(self._pods), [], []
        self._nodes = {number: self._nodes[number] for number in question.nodes}
        return replace(
            rest, pods=pods, nodes=tuple(self._nodes[number] for number in question.nodes), pools=pools
        )


def answer(plan: Plan) -> Iterator[bytes]:
    """A plan in pieces."""
    for shared, claims in _rows(plan.claims, _SHARED, _OWN, _CLAIMS):
        yield pack(SomeClaims(shared, claims))
    for reasons, pods in _rows(plan.unschedulable, _REASON, _POD, _LEFT):
        yield pack(SomeLeft(reasons, pods))
    yield pack(Answer(replace(plan, claims=(), unschedulable=())))


def _rows(
    items: Sequence[object], shared: attrgetter[Any], own: attrgetter[Any], size: int
) -> Iterator[tuple[tuple[tuple[Any, ...], ...], bytes]]:
    """The items in pieces: what they share as far as it is new, by identity, and rows of all else."""
    numbers: dict[tuple[int, ...], int] = {}
    for start in range(0, len(items), size):
        fresh, rows = [], []
        for item in items[start : start + size]:
            values = shared(item)
            key = tuple(map(id, values))
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(numbers)
                fresh.append(values)
            rows.append((number, own(item)))
        yield tuple(fresh), _ENCODER.encode(rows)


class Answering:
    """Puts the pieces of one plan together."""

    def __init__(self) -> None:
        self._claims: list[PlannedClaim] = []
        self._shared: list[dict[str, Any]] = []
        self._left: list[Unschedulable] = []
        self._reasons: list[tuple[Any, ...]] = []

    def take(self, part: Part) -> Plan | None:
        """Take a piece; with the last one, the whole plan. Raises PlannerFailed for a fault."""
        match part:
            case SomeClaims(shared, claims):
                self._shared += [dict(zip(_SHARED_NAMES, values, strict=True)) for values in shared]
                self._claims += [
                    PlannedClaim(name=name, pods=pods, requests=requests, **self._shared[number])
                    for number, (name, pods, requests) in _NAMED.decode(claims)
                ]
            case SomeLeft(reasons, pods):
                self._reasons += reasons
                self._left += [
                    Unschedulable(pod, *self._reasons[number]) for number, pod in _UNPLACED.decode(pods)
                ]
            case Answer(plan):
                return replace(plan, claims=tuple(self._claims), unschedulable=tuple(self._left))
            case Fault(message, stack):
                raise PlannerFailed(message, stack)
        return None


def pack(part: Part) -> bytes:
    """One piece as bytes."""
    target = io.BytesIO()
    _Pickler(target, protocol=5).dump(part)
    return target.getvalue()


def unpack(data: bytes) -> Part:
    """One piece. Only for bytes of a process that we started, or that started us."""
    part: Part = pickle.loads(data)
    return part


def _batches(nodes: Sequence[ExistingNode]) -> Iterator[tuple[ExistingNode, ...]]:
    batch: list[ExistingNode] = []
    weight = 0
    for node in nodes:
        batch.append(node)
        weight += 1 + len(node.pods)
        if weight >= _PODS:
            yield tuple(batch)
            batch, weight = [], 0
    if batch:
        yield tuple(batch)


def _reduce(value: Any) -> tuple[Any, tuple[type, bytes]]:
    return _decode, (type(value), _ENCODER.encode(value))


def _decode(kind: type, data: bytes) -> Any:
    return _DECODERS[kind].decode(data)


@lru_cache(maxsize=8_192)  # 0.3 KiB each
def _quantity(text: str) -> Quantity:
    nanos, style = text.split()
    return Quantity(int(nanos), style)


_ENCODER = msgspec.msgpack.Encoder(enc_hook=lambda value: f"{value.nanos} {value.style}")
_SORTS = msgspec.msgpack.Decoder(
    tuple[str, dict[str, str], PodSpec], dec_hook=lambda _, text: _quantity(text)
)
_ROWS = msgspec.msgpack.Decoder(list[tuple[int, str, str, str]])
_OWN_NAMES = ("name", "pods", "requests")  # of a claim: what is its own
_SHARED_NAMES = tuple(field.name for field in fields(PlannedClaim) if field.name not in _OWN_NAMES)
_OWN, _SHARED = attrgetter(*_OWN_NAMES), attrgetter(*_SHARED_NAMES)
_NAMED = msgspec.msgpack.Decoder(list[tuple[int, tuple[str, tuple[str, ...], dict[str, int]]]])
_POD, _REASON = attrgetter("pod"), attrgetter("reason", "pools", "gang")
_UNPLACED = msgspec.msgpack.Decoder(list[tuple[int, str]])
# The kinds that a cluster has many of.
_DECODERS: dict[type, msgspec.msgpack.Decoder[Any]] = {
    kind: msgspec.msgpack.Decoder(kind, dec_hook=lambda _, text: _quantity(text))
    for kind in (Pod, DaemonSet, PersistentVolume, PersistentVolumeClaim, StorageClass)
}


class _Pickler(pickle.Pickler):
    """Writes API objects of those kinds as MessagePack, everything else as usual."""

    dispatch_table = dict.fromkeys(_DECODERS, _reduce)
