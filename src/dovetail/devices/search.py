"""The search for devices of one instance type, and what is taken while it goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dovetail.api.devices import CapacityPolicy
from dovetail.devices.claims import MOST_DEVICES, Alternative, Answers, ReadyClaim
from dovetail.devices.environment import attribute_of
from dovetail.devices.pools import Candidate, Pool
from dovetail.model.devices import DeviceId
from dovetail.model.requirement import Requirements
from dovetail.units.quantity import Quantity

# Devices that the search for one type looks at: a claim for 32 of 64 devices takes about 600, one that needs
# its choices undone some thousand. 5,000 take 0.1 s. What takes more counts as not found.
MOST_LOOKS = 5_000

TOO_LONG = "looks, after which the search ends"

Consumed = Mapping[str, int]  # dimension -> nanos
PoolCounter = tuple[str, str, str, str]  # driver, pool, counter set, counter


@dataclass(frozen=True, slots=True)
class Given:
    """A device that a request was given."""

    candidate: Candidate
    request: str
    consumed: Consumed | None = None  # of a device that claims share

    @property
    def capacity(self) -> dict[str, Quantity]:
        return {name: Quantity(nanos, "binary") for name, nanos in (self.consumed or {}).items()}


@dataclass(frozen=True, slots=True)
class Miss:
    """Why no device was found for a request on an instance type: how many failed at what."""

    type: str
    claim: str
    request: str
    wanted: int | None  # None: all that match
    found: int  # devices that the search had for the request when it got furthest
    reasons: tuple[tuple[str, int], ...]  # what devices failed at, most of them first

    def __str__(self) -> str:
        wanted = (
            "all matching devices"
            if self.wanted is None
            else f"{self.wanted} device{'s' * (self.wanted != 1)}"
        )
        why = (
            ", ".join(f"{times} {reason}" for reason, times in self.reasons)
            or f"it promises {'no more' if self.found else 'none'}"
        )
        what = f'claim "{self.claim}" request "{self.request}"'
        return f"{what} wants {wanted}, {self.type} has {self.found}: {why}"


@dataclass(slots=True)
class Use:
    """What is taken of devices: those of the cluster, or those of one node as one type."""

    devices: set[DeviceId] = field(default_factory=set)
    consumed: dict[DeviceId, dict[str, int]] = field(default_factory=dict)
    counters: dict[PoolCounter, int] = field(default_factory=dict)

    def add(self, given: Given) -> None:
        one = given.candidate
        fresh = one.id not in self.devices and one.id not in self.consumed
        if given.consumed is None:
            self.devices.add(one.id)
        else:
            held = self.consumed.setdefault(one.id, {})
            for name, nanos in given.consumed.items():
                held[name] = held.get(name, 0) + nanos
        if fresh:
            for key, nanos in one.counters.items():
                full = (one.id.driver, one.id.pool, *key)
                self.counters[full] = self.counters.get(full, 0) + nanos

    def join(self, other: Use) -> None:
        """Both at once."""
        self.devices |= other.devices
        for id_, consumed in other.consumed.items():
            held = self.consumed.setdefault(id_, {})
            for name, nanos in consumed.items():
                held[name] = held.get(name, 0) + nanos
        for key, nanos in other.counters.items():
            self.counters[key] = self.counters.get(key, 0) + nanos

    def either(self, other: Use) -> None:
        """One or the other, whichever takes more."""
        self.devices |= other.devices
        for id_, consumed in other.consumed.items():
            held = self.consumed.setdefault(id_, {})
            for name, nanos in consumed.items():
                held[name] = max(held.get(name, 0), nanos)
        for key, nanos in other.counters.items():
            self.counters[key] = max(self.counters.get(key, 0), nanos)


def used(given: Iterable[Given]) -> Use:
    use = Use()
    for one in given:
        use.add(one)
    return use


def joined(known: Requirements, candidate: Candidate) -> Requirements | None:
    """What must hold of the node where the device is used as well; None if nothing can.

    As Karpenter has it, all terms of the slice's selector hold at once.
    """
    for term in candidate.alternatives or ():
        for item in term:
            if not known.overlaps(Requirements.of((item,))):
                return None
            known = known.add(item)
    return known


def all_joined(known: Requirements, devices: Iterable[Given]) -> Requirements | None:
    both: Requirements | None = known
    for one in devices:
        both = both if both is None else joined(both, one.candidate)
    return both


Slot = tuple[int, int, Alternative]  # claim, request, and the way that was chosen to meet it


@dataclass(slots=True)
class _Furthest:
    """The request where the search came furthest, and what devices failed at there."""

    depth: int = -1
    claim: str = ""
    request: str = ""
    wanted: int | None = None
    found: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


class Search:
    """Depth first, request by request and device by device, for one type of one node.

    Invariant: `chosen`, `use`, `values` and `requirements` belong to each other; what is tried is taken back.
    """

    def __init__(
        self,
        name: str,
        claims: Sequence[ReadyClaim],
        pools: Sequence[Pool],
        answers: Answers,
        use: Use,
        requirements: Requirements,
        looks: int = MOST_LOOKS,
    ) -> None:
        self.name = name
        self.claims = claims
        self.pools = pools
        self.answers = answers
        self.use = use  # what is taken already, to which the search adds
        self.requirements = requirements
        self.limits = {
            (pool.driver, pool.name, *key): nanos for pool in pools for key, nanos in pool.counters.items()
        }
        self.chosen: list[list[Given]] = [[] for _ in claims]
        self.values: dict[tuple[int, int], object] = {}  # of each constraint (claim, number), once it has one
        self.looks = looks
        self.furthest = _Furthest()
        self._matching: dict[int, list[Candidate]] = {}

    def run(self) -> list[tuple[Given, ...]] | None:
        """Devices per claim; None where there are none."""
        if self._request(0, 0):
            return [tuple(one) for one in self.chosen]
        return None

    def miss(self) -> Miss:
        far = self.furthest
        reasons = tuple(far.reasons.most_common())
        if self.looks < 0:
            reasons = ((TOO_LONG, MOST_LOOKS),)
        return Miss(self.name, far.claim, far.request, far.wanted, far.found, reasons)

    def _request(self, claim: int, request: int) -> bool:
        if claim == len(self.claims):
            return True
        requests = self.claims[claim].requests
        if request == len(requests):
            return self._request(claim + 1, 0)
        return any(self._alternative((claim, request, one)) for one in requests[request])

    def _alternative(self, slot: Slot) -> bool:
        claim, _, one = slot
        room = MOST_DEVICES - len(self.chosen[claim])
        if one.count is not None:
            return one.count <= room and self._device(slot, one.count, 0)
        candidates = self._candidates(one)
        if not 0 < len(candidates) <= room:
            reason = "have a claim too many" if candidates else ""
            self._note(slot, 0, Counter({reason: len(candidates)} if reason else self._refusals(one)))
            return False
        return self._every(slot, candidates)

    def _every(self, slot: Slot, candidates: Sequence[Candidate]) -> bool:
        """All of them, or nothing."""
        claim, request, _ = slot
        steps: list[Iterator[None]] = []
        for at, candidate in enumerate(candidates):
            self.looks -= 1
            fault, undo = self._take(slot, candidate)
            if fault:
                self._note(slot, at, Counter({fault: 1}))
                break
            steps.append(undo)
        else:
            if self._request(claim, request + 1):
                return True
        for undo in reversed(steps):
            next(undo, None)
        return False

    def _device(self, slot: Slot, missing: int, start: int) -> bool:
        """One more device of a request, of those from `start` on: what comes before was tried already."""
        claim, request, one = slot
        if missing == 0:
            return self._request(claim, request + 1)
        faults: Counter[str] = Counter()
        failed: set[object] = set()
        candidates = self._candidates(one)
        for at in range(start, len(candidates)):
            candidate = candidates[at]
            self.looks -= 1
            if self.looks < 0:
                return False
            state = self._state(candidate)
            if state in failed:
                continue
            fault, undo = self._take(slot, candidate)
            if fault:
                faults[fault] += 1
                continue
            shared = candidate.device.allow_multiple_allocations
            if self._device(slot, missing - 1, at if shared else at + 1):
                return True
            next(undo, None)
            failed.add(state)
        if not failed:
            self._note(slot, (one.count or 0) - missing, faults + Counter(self._refusals(one)))
        return False

    def _state(self, candidate: Candidate) -> object:
        """Two devices of the same state are as good as each other from here on."""
        consumed = self.use.consumed.get(candidate.id)
        return candidate.likeness, None if consumed is None else tuple(sorted(consumed.items()))

    def _candidates(self, one: Alternative) -> list[Candidate]:
        known = self._matching.get(id(one))
        if known is None:
            answers = self.answers
            known = self._matching[id(one)] = [
                candidate
                for pool in self.pools
                if not pool.fault
                for candidate in pool.candidates
                if answers.matches(one, candidate)
            ]
        return known

    def _refusals(self, one: Alternative) -> dict[str, int]:
        """How many devices each selector refuses, and how many no pool gives away."""
        found: Counter[str] = Counter()
        for pool in self.pools:
            for candidate in pool.candidates:
                miss = self.answers.miss(one, candidate)
                if miss is not None:
                    why = "not matched by" if miss[1] is False else f"without an answer ({miss[1]}) to"
                    found[f"{why} {miss[0].text}"] += 1
                elif pool.fault:
                    found[f"in pool {pool}, which {pool.fault}"] += 1
        return found

    def _note(self, slot: Slot, found: int, reasons: Counter[str]) -> None:
        claim, _, one = slot
        depth = sum(map(len, self.chosen))
        if depth > self.furthest.depth or (depth == self.furthest.depth and not self.furthest.reasons):
            name = self.claims[claim].name
            self.furthest = _Furthest(depth, name, one.name, one.count, found, reasons)

    def _take(self, slot: Slot, candidate: Candidate) -> tuple[str, Iterator[None]]:
        """Take the device, or say why not; what is answered with it takes it back once it is advanced."""
        steps = self._taken(slot, candidate)
        return next(steps), steps  # type: ignore[return-value]

    def _taken(self, slot: Slot, candidate: Candidate) -> Iterator[str]:
        claim, _, one = slot
        use, id_ = self.use, candidate.id
        shared = candidate.device.allow_multiple_allocations
        if not shared and id_ in use.devices:
            yield "taken"
            return
        consumed: dict[str, int] | None = None
        if shared:
            consumed, fault = consumption(candidate, one.capacity, use.consumed.get(id_, {}))
            if consumed is None:
                yield fault
                return
        first = id_ not in use.devices and id_ not in use.consumed
        keys = (
            [((id_.driver, id_.pool, *key), nanos) for key, nanos in candidate.counters.items()]
            if first
            else []
        )
        for key, nanos in keys:
            if use.counters.get(key, 0) + nanos > self.limits.get(key, 0):
                yield f"beyond counter {key[3]} of {key[2]}"
                return
        fresh: list[tuple[tuple[int, int], object]] = []
        for number, constraint in enumerate(self.claims[claim].constraints):
            if not constraint.covers(one.name):
                continue
            value = value_of(candidate, constraint.attribute)
            if value is None:
                yield f"without attribute {constraint.attribute}"
                return
            known = self.values.get((claim, number))
            if known is None:
                fresh.append(((claim, number), value))
            elif known != value:
                yield f"of another {constraint.attribute}"
                return
        before = self.requirements
        if candidate.alternatives is not None:
            both = joined(before, candidate)
            if both is None:
                yield "for nodes elsewhere"
                return
            self.requirements = both
        self.values.update(fresh)
        for key, nanos in keys:
            use.counters[key] = use.counters.get(key, 0) + nanos
        held_before = use.consumed.get(id_)
        if consumed is None:
            use.devices.add(id_)
        else:
            held = dict(held_before or {})
            for name, nanos in consumed.items():
                held[name] = held.get(name, 0) + nanos
            use.consumed[id_] = held
        self.chosen[claim].append(Given(candidate, one.name, consumed))
        yield ""
        self.chosen[claim].pop()
        if consumed is None:
            use.devices.discard(id_)
        elif held_before is None:
            del use.consumed[id_]
        else:
            use.consumed[id_] = held_before
        for key, nanos in keys:
            use.counters[key] -= nanos
        for constrained, _ in fresh:
            del self.values[constrained]
        self.requirements = before


def value_of(candidate: Candidate, attribute: str) -> object | None:
    """What devices must share: a value with its type, or a binding whose value is not known yet."""
    known = attribute_of(candidate.id.driver, candidate.device, attribute)
    if known is not None:
        return known
    group = candidate.groups.get(attribute)
    return None if group is None else ("binding", group)


def consumption(
    candidate: Candidate, asked: Mapping[str, int], held: Consumed
) -> tuple[dict[str, int] | None, str]:
    """What a request takes of each capacity of a shared device; None and why where there is less."""
    found: dict[str, int] = {}
    for name in asked:
        if name not in candidate.device.capacity:
            return None, f"without capacity {name}"
    for name, capacity in candidate.device.capacity.items():
        amount = charged(asked.get(name), capacity.value.nanos, capacity.request_policy)
        if amount is None:
            return None, f"without a valid amount of {name}"
        if held.get(name, 0) + amount > capacity.value.nanos:
            return None, f"with too little {name} left"
        found[name] = amount
    return found, ""


def charged(asked: int | None, whole: int, policy: CapacityPolicy | None) -> int | None:
    """What is taken where so much is asked for, in nanos; None where the policy knows no such amount."""
    if asked is None:
        return whole if policy is None or policy.default is None else policy.default.nanos
    if policy is None:
        return asked
    if policy.valid_values:
        return min((one.nanos for one in policy.valid_values if one.nanos >= asked), default=None)
    if policy.valid_range is None:
        return asked
    least, most, step = policy.valid_range.min.nanos, policy.valid_range.max, policy.valid_range.step
    amount = max(asked, least)
    if step is not None and step.nanos > 0:
        amount = least + -(-(amount - least) // step.nanos) * step.nanos
    return None if most is not None and amount > most.nanos else amount
