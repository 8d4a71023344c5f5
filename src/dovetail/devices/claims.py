"""Claims made ready for the search: which devices each request takes, and what is wrong with a claim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.api.devices import (
    ALL,
    EXACT_COUNT,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from dovetail.devices.cel import CompileError, EvaluationError, Meter, Selector, selector
from dovetail.devices.cel_library import MOST_STEPS
from dovetail.devices.environment import device_value
from dovetail.devices.pools import Candidate

MOST_DEVICES = 32  # of one claim, as the scheduler has it
MOST_REQUESTS = 32  # of one claim, as the API server admits
# Steps that all evaluations of one expression may take together: 0.05 s. Ordinary ones take up to 800 on the
# devices of 28 of EC2's types. What comes after does not match.
_STEPS_PER_EXPRESSION = 50_000
# And those of all expressions, 1 s; each has a few even then, so that none takes those of others. With it a
# plan for 64 pods, each with a claim of eight costly expressions of its own, on 400 types with devices took
# 26 s of CPU.
_STEPS_TOGETHER, _STEPS_AT_LEAST = 1_000_000, 2_000


class ClaimError(ValueError):
    """The claim can be met by no node, as it is written."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to meet a request: `exactly`, or a sub-request."""

    name: str  # request, or request/subrequest
    selectors: tuple[Selector, ...]
    count: int | None  # None: all that match
    capacity: Mapping[str, int]  # nanos of each that is asked for


@dataclass(frozen=True, slots=True)
class Constraint:
    """Devices of some requests share a value of an attribute."""

    attribute: str
    requests: frozenset[str]  # empty: all

    def covers(self, alternative: str) -> bool:
        return not self.requests or not self.requests.isdisjoint((alternative, alternative.partition("/")[0]))


@dataclass(frozen=True, slots=True)
class ReadyClaim:
    """A claim that is sound."""

    key: str
    name: str
    requests: tuple[tuple[Alternative, ...], ...]  # per request, in the order of preference
    constraints: tuple[Constraint, ...]


def ready(claim: ResourceClaim, classes: Mapping[str, DeviceClass]) -> ReadyClaim:
    """The claim, read; raises ClaimError with Karpenter's words."""
    name = claim.metadata.name
    spec = claim.spec.devices
    if len(spec.requests) > MOST_REQUESTS:
        raise ClaimError(
            f'claim "{name}" has {len(spec.requests)} requests, exceeding maximum of {MOST_REQUESTS}'
        )
    requests = tuple(_request(name, request, classes) for request in spec.requests)
    constraints = tuple(_constraint(name, one) for one in spec.constraints)
    least = sum(min(0 if one.count is None else one.count for one in request) for request in requests)
    if least > MOST_DEVICES:
        raise ClaimError(
            f'claim "{name}" requests {least} total devices, exceeding maximum of {MOST_DEVICES}'
        )
    return ReadyClaim(claim.key, name, requests, constraints)


def _request(
    claim: str, request: DeviceRequest, classes: Mapping[str, DeviceClass]
) -> tuple[Alternative, ...]:
    if request.exactly is not None:
        return (_alternative(claim, request.name, request.exactly, classes),)
    if not request.first_available:
        raise ClaimError(
            f'claim "{claim}" request "{request.name}": '
            "only Exactly and FirstAvailable requests are supported"
        )
    return tuple(
        _alternative(claim, f"{request.name}/{one.name}", one, classes) for one in request.first_available
    )


def _alternative(
    claim: str, name: str, request: ExactDeviceRequest | DeviceSubRequest, classes: Mapping[str, DeviceClass]
) -> Alternative:
    where = f'claim "{claim}" request "{name}"'
    class_name = request.device_class_name
    found = classes.get(class_name)
    if found is None:
        raise ClaimError(
            f'{where}: DeviceClass "{class_name}" not found: '
            f'deviceclasses.resource.k8s.io "{class_name}" not found'
        )
    if request.allocation_mode not in (EXACT_COUNT, ALL, ""):
        raise ClaimError(f'{where}: unsupported allocation mode "{request.allocation_mode}"')
    count = 1 if request.count is None else max(0, request.count)
    asked = request.capacity.requests if request.capacity is not None else {}
    return Alternative(
        name,
        tuple(_selectors(where, (*found.spec.selectors, *request.selectors))),
        None if request.allocation_mode == ALL else count,
        {key: amount.nanos for key, amount in asked.items()},
    )


def _selectors(where: str, selectors: Sequence[DeviceSelector]) -> Iterator[Selector]:
    for one in selectors:
        if one.cel is None:
            raise ClaimError(f"{where}: only CEL selectors are supported")
        try:
            yield selector(one.cel.expression)
        except CompileError as error:
            shown = quoted(one.cel.expression)
            raise ClaimError(f"{where}: CEL expression {shown} failed to compile: {error}") from None


def _constraint(claim: str, constraint: DeviceConstraint) -> Constraint:
    if constraint.match_attribute is not None:
        return Constraint(constraint.match_attribute, frozenset(constraint.requests))
    fault = "unsupported constraint type"
    if constraint.distinct_attribute is not None:
        fault = "DistinctAttribute constraints not done yet"
    raise ClaimError(f'claim "{claim}": {fault}')


def quoted(text: str) -> str:
    """As Go quotes it, for what selectors hold."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


Answer = bool | EvaluationError


class Answers:
    """What selectors say of devices, asked once for all that are of one kind."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, bytes], Mapping[str, Any]] = {}
        self._known: dict[tuple[str, str, bytes], Answer] = {}
        self._used: dict[str, int] = {}
        self._together = _STEPS_TOGETHER

    @property
    def steps(self) -> int:
        """What all evaluations took together."""
        return sum(self._used.values())

    def answer(self, one: Selector, candidate: Candidate) -> Answer:
        key = one.text, candidate.id.driver, candidate.kind
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._asked(one, candidate)
        return known

    def _asked(self, one: Selector, candidate: Candidate) -> Answer:
        kind = candidate.id.driver, candidate.kind
        value = self._values.get(kind)
        if value is None:
            value = self._values[kind] = device_value(candidate.id.driver, candidate.device)
        used = self._used.get(one.text, 0)
        left = (_STEPS_PER_EXPRESSION if self._together > 0 else _STEPS_AT_LEAST) - used
        if left <= 0:
            return EvaluationError("evaluations of this expression took too long together")
        meter = Meter(min(MOST_STEPS, left))
        before = meter.left
        try:
            return one.matches(value, meter)
        except EvaluationError as error:
            return error
        finally:
            taken = before - max(0, meter.left)
            self._used[one.text] = used + taken
            self._together -= taken

    def matches(self, alternative: Alternative, candidate: Candidate) -> bool:
        """True iff all selectors are true; what cannot be evaluated is not."""
        return self.miss(alternative, candidate) is None

    def miss(self, alternative: Alternative, candidate: Candidate) -> tuple[Selector, Answer] | None:
        """The first selector that is not true of the device, with its answer."""
        for one in alternative.selectors:
            found = self.answer(one, candidate)
            if found is not True:
                return one, found
        return None
