"""Whose turn it is: which of the pods that wait are planned in this round. Pure.

All together, as long as a plan for all is quickly made: that is cheapest. Otherwise each namespace gets an
equal share of the round, what is quick to plan first, and the rest has its turn in the rounds that follow at
once; so have those that a plan had no time for. Pods for which no plan could be made are looked for by
halves, beside the others, and those that are found are tried alone, after longer and longer waits.
"""

from __future__ import annotations

from collections.abc import Iterable, KeysView, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from dovetail.api.core import Pod
from dovetail.base.clock import MINUTE, SECOND
from dovetail.model.gangs import Gang
from dovetail.model.pod_sorts import Reader

# What one round may cost, in units of about the time that one plain class of pods takes. Measured against 150
# instance types on one core: 3,000 plain classes take 0.7 s of a deadline of 1 s.
ROUND = 2_000
# From here on a class is hard: it has a round of its own, after all others.
HARD = ROUND // 4
_TOPOLOGY = 3  # units of a rule about other pods, which makes domains
_PORTS = 32  # host ports in a unit: a plan of 100 pods with 1,000 each takes 3 s
_EXPRESSIONS = 20  # expressions about nodes in a unit: a plan with 10,000 takes some seconds
_SLOW = "it takes long to plan, and there was no place for it"
FIRST_BACKOFF = 10 * SECOND
LONGEST_BACKOFF = 10 * MINUTE


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that waits. Pods of one `kind` are the same to a plan, and have their turn together."""

    pod: str
    namespace: str
    kind: bytes
    cost: int  # of its kind, in units of ROUND


@dataclass(frozen=True, slots=True)
class Aside:
    """A kind that no plan can be made for, or one that is hard to plan and found no place."""

    failures: int
    until: int  # instant in nanoseconds from which on it may be tried, alone
    cause: str  # as an event says it


@dataclass(frozen=True, slots=True)
class Ledger:
    """What is remembered from round to round. Kinds that no pod waits for are forgotten."""

    had: frozenset[bytes] = frozenset()  # kinds that had their turn since all had
    doubted: bool = False  # the last plan of pods without suspicion failed: it is tried once more as it is
    suspects: tuple[tuple[bytes, ...], ...] = ()  # groups of kinds, of each of which a plan failed
    waited: bool = False  # suspects waited for the last round: the next is theirs
    late: frozenset[bytes] = frozenset()  # kinds that the plan of their last turn did not come to
    aside: Mapping[bytes, Aside] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Turn:
    """What is planned now. `later` have their turn in the next rounds, `aside` after a wait."""

    kinds: tuple[bytes, ...]
    kind_of: dict[str, bytes]  # by pod
    later: tuple[str, ...] = ()
    aside: Mapping[str, Aside] = field(default_factory=dict)
    suspected: bool = False  # it is for a group of suspects, or for one that was set aside
    hard: bool = False  # it is for one class that is hard to plan

    @property
    def pods(self) -> KeysView[str]:
        """The pods whose turn it is."""
        return self.kind_of.keys()


def cost_of(pod: Pod) -> int:
    """About how long a plan takes for pods like this one: each rule that may be given up is one more try."""
    spec, affinity = pod.spec, pod.spec.affinity
    units = 1 + _TOPOLOGY * len(spec.topology_spread_constraints)
    units += sum(len(container.ports) for container in spec.containers) // _PORTS
    if affinity is None:
        return units
    if affinity.node_affinity is not None:
        required = affinity.node_affinity.required
        terms = [*required.node_selector_terms] if required else []
        terms += [item.preference for item in affinity.node_affinity.preferred]
        units += len(terms) + sum(len(term.match_expressions) for term in terms) // _EXPRESSIONS
    for part in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if part is not None:
            units += _TOPOLOGY * (len(part.required) + len(part.preferred))
    return units


class WaitingList:
    """The pods that wait, as turns see them. One that waited before and did not change is not read again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Pod, Candidate]] = {}  # of the round before, by key

    def candidates(self, pods: Iterable[Pod], gangs: Iterable[Gang] = ()) -> list[Candidate]:
        """One that cannot be read is a kind of its own; those of a gang are of one kind together."""
        reader, before, now = Reader(), self._known, dict[str, tuple[Pod, Candidate]]()
        for pod in pods:
            known = before.get(pod.key)
            now[pod.key] = known if known and known[0] is pod else (pod, _candidate(pod, reader))
        self._known = now
        found = {key: candidate for key, (_, candidate) in now.items()}
        for gang in gangs:
            own = [found[key] for key in gang.pods if key in found]
            cost = sum({one.kind: one.cost for one in own}.values())
            kind = sha256(repr(gang.key).encode()).digest()
            found.update({one.pod: replace(one, kind=kind, cost=cost) for one in own})
        return list(found.values())


def _candidate(pod: Pod, reader: Reader) -> Candidate:
    try:
        kind, cost = sha256(reader.read(pod).fingerprint).digest(), cost_of(pod)
    except Exception:  # whatever it is, the plan for it fails as well, and says why
        kind, cost = pod.key.encode(), 1
    return Candidate(pod.key, pod.metadata.namespace, kind, cost)


def take_turn(waiting: Sequence[Candidate], ledger: Ledger, now: int) -> tuple[Turn, Ledger]:
    """Whose turn it is, and the ledger without kinds that no pod is of. Time: O(n log n)."""
    kinds: dict[bytes, Candidate] = {}
    for item in waiting:
        kinds.setdefault(item.kind, item)
    groups = tuple(
        some for group in ledger.suspects if (some := tuple(kind for kind in group if kind in kinds))
    )
    aside = {kind: entry for kind, entry in ledger.aside.items() if kind in kinds}
    known = kinds.keys()
    ledger = replace(ledger, had=ledger.had & known, late=ledger.late & known, suspects=groups, aside=aside)
    suspected = {kind for group in groups for kind in group}
    clean = [item for kind, item in kinds.items() if kind not in suspected and kind not in aside]
    due = [kind for kind, entry in aside.items() if entry.until <= now]
    if clean and not (ledger.waited and (groups or due)):
        ledger = replace(ledger, waited=bool(groups or due))
        chosen, ledger = _fair(clean, ledger)
        return _turn(waiting, chosen, ledger, suspected=False), ledger
    ledger = replace(ledger, waited=False)
    first = groups[0] if groups else (min(due, key=lambda kind: (aside[kind].until, kind)),) if due else ()
    return _turn(waiting, first, ledger, suspected=True), ledger


def settled(
    ledger: Ledger,
    turn: Turn,
    failure: str,
    now: int,
    left: frozenset[str] = frozenset(),
    late: frozenset[str] = frozenset(),
) -> Ledger:
    """The ledger after the plan of that turn, which failed for a cause, or did not ("").

    `left` are pods that it found no place for, `late` those among them that it did not come to: the rounds
    that follow are theirs. A class that is hard to plan, or late beside others, is not looked at each time
    that the cluster changes while there is no place for it: its turns come as seldom as those of pods without
    a plan.
    """
    if not failure:
        slow = turn.hard or (len(turn.kinds) == 1 and _is_slow(ledger, turn.kinds[0]))
        stuck = turn.pods <= left if late else bool(left & turn.pods)
        missed = {turn.kind_of[pod] for pod in late}
        ledger = replace(
            ledger,
            had=ledger.had.union(turn.kinds) - missed,
            late=ledger.late.difference(turn.kinds) | missed,
        )
        if slow and stuck:
            return _set_aside(replace(ledger, doubted=False), turn.kinds[0], _SLOW, now)
    if not turn.suspected:
        if not failure:
            return replace(ledger, doubted=False)
        if not ledger.doubted:
            return replace(ledger, doubted=True)
        ledger = replace(ledger, doubted=False)
    rest = tuple(group for group in ledger.suspects if group != turn.kinds)
    aside = {kind: entry for kind, entry in ledger.aside.items() if kind not in turn.kinds}
    if not failure:
        return replace(ledger, suspects=rest, aside=aside)
    if len(turn.kinds) > 1:
        middle = len(turn.kinds) // 2
        return replace(ledger, suspects=(*rest, turn.kinds[:middle], turn.kinds[middle:]), aside=aside)
    ledger = replace(ledger, suspects=rest)
    return _set_aside(ledger, turn.kinds[0], f"no plan could be made for it ({failure})", now)


def _is_slow(ledger: Ledger, kind: bytes) -> bool:
    return kind in ledger.late or (kind in ledger.aside and ledger.aside[kind].cause == _SLOW)


def _set_aside(ledger: Ledger, kind: bytes, cause: str, now: int) -> Ledger:
    failures = ledger.aside[kind].failures + 1 if kind in ledger.aside else 1
    wait = min(LONGEST_BACKOFF, FIRST_BACKOFF << min(failures - 1, 20))
    return replace(ledger, aside={**ledger.aside, kind: Aside(failures, now + wait, cause)})


def _fair(clean: Sequence[Candidate], ledger: Ledger) -> tuple[tuple[bytes, ...], Ledger]:
    """Kinds for one round: all, or those that have not had their turn, a share for each namespace."""
    crowded = sum(item.cost for item in clean) > ROUND and len({item.namespace for item in clean}) > 1
    # The solver leaves pods with hundreds of rules about others to a plan of their own: without a turn alone
    # they would wait for as long as anything else does.
    if not (crowded or any(item.cost >= HARD or item.kind in ledger.late for item in clean)):
        return tuple(item.kind for item in clean), replace(ledger, had=frozenset())
    left = [item for item in clean if item.kind not in ledger.had]
    if not left:
        ledger, left = replace(ledger, had=frozenset()), list(clean)
    ordinary = [item for item in left if item.cost < HARD]
    if not ordinary:
        return (min(left, key=lambda item: (item.cost, item.kind)).kind,), ledger
    by_namespace: dict[str, list[Candidate]] = {}
    for item in sorted(ordinary, key=lambda item: (item.cost, item.pod)):
        by_namespace.setdefault(item.namespace, []).append(item)
    # Those that ask for little leave the rest of their share to the others.
    rest, chosen = ROUND, dict[bytes, None]()
    queues = sorted(by_namespace.values(), key=lambda items: (sum(item.cost for item in items), items[0].pod))
    for number, items in enumerate(queues):
        share = rest // (len(queues) - number)
        for item in items:
            if item.cost > share:
                break
            share, rest = share - item.cost, rest - item.cost
            chosen[item.kind] = None
    if not chosen:  # more namespaces than units: those that come first by name of their pods
        chosen[min(ordinary, key=lambda item: (item.cost, item.pod)).kind] = None
    return tuple(chosen), ledger


def _turn(waiting: Iterable[Candidate], kinds: tuple[bytes, ...], ledger: Ledger, *, suspected: bool) -> Turn:
    chosen = frozenset(kinds)
    kind_of, later, aside = dict[str, bytes](), [], {}
    hard = False
    for item in waiting:
        if item.kind in chosen:
            kind_of[item.pod] = item.kind
            hard = len(kinds) == 1 and item.cost >= HARD
        elif item.kind in ledger.aside:
            aside[item.pod] = ledger.aside[item.kind]
        elif suspected or item.kind not in ledger.had:
            later.append(item.pod)
    return Turn(kinds, kind_of, tuple(later), aside, suspected, hard)
