"""Places that a plan gave to pods which are not bound yet, and to what comes in place of pods that must move.

Without them every round would plan again for pods whose nodes are still coming up, place them otherwise than
the round before, and buy a node that is not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import condition
from dovetail.base.clock import SECOND
from dovetail.base.memo import by_identity
from dovetail.cluster.nodes import Machine, allocatable
from dovetail.model.on_demand import asks, held
from dovetail.model.podtemplate import deployment_of
from dovetail.model.resources import Resources, fits, pod_requests, subtract, total
from dovetail.units.timestamp import parse_rfc3339

# How many windows a promise holds at most while the scheduler binds others: on a machine with five times the
# work that it could do, it bound ten pods a second, and 46 of 300 that it had not come to were planned again
# after one window. A pod that was refused after all others were bound waited 40 s longer for three.
PATIENCE = 3
# Since the scheduler bound a pod with a place last, while others wait for theirs: it is at work on them. On a
# busy machine a real one bound 28 a second.
BINDING = SECOND


@dataclass(frozen=True, slots=True)
class Promise:
    """`pod` (by UID) is planned to run on the claim or node `machine`, since `made` (nanoseconds).

    `turn` is lower than that of pods which got their first promise later; `owner` (by UID, "" for none) is
    what made the pod.
    """

    pod: str
    machine: str
    made: int
    turn: int = 0
    owner: str = ""


@dataclass(frozen=True, slots=True)
class _Vacancy:
    """A place on `machine` for what `owner` makes in place of the pod `left` (by UID), on `node`.

    The owner is a controller by UID, or a Deployment by key: its newest ReplicaSet is another than that of
    `left`, where that one is replaced by a restart. `held`: that pod stays off spot, and the place
    may be none for one that does not.

    It is kept up to the instant `until`; 0 before that pod ends.
    """

    left: str
    node: str
    owner: str
    machine: str
    held: bool = False
    until: int = 0


def ready_since(machine: Machine) -> int | None:
    """Since when pods can be bound there, in nanoseconds; None while it is still coming up."""
    if not machine.initialized:
        return None
    return _initialized_at(machine.claim) if machine.claim is not None else 0


@by_identity(16_384)
def _initialized_at(claim: NodeClaim) -> int:
    initialized = condition(claim.status.conditions, "Initialized")
    known = initialized is not None and initialized.last_transition_time
    return parse_rfc3339(initialized.last_transition_time) if initialized and known else 0


def holds(promise: Promise, machine: Machine, now: int, window: int) -> bool:
    """True while the machine comes up, and for `window` nanoseconds after pods can be bound to it.

    A pod that is pending still by then was refused by the scheduler or lost its room to another pod. What
    lies further ahead than that was written before the clock was set back, and holds no longer.
    """
    since = ready_since(machine)
    return since is None or abs(now - max(since, promise.made)) < window


def with_room(machine: Machine, left: Resources, promised: Iterable[Pod]) -> list[Pod]:
    """Those of the promised pods that the machine still has room for, of which so much is left.

    The scheduler goes by its own scores: it may have filled the machine with pods that were promised another.
    Whatever it will do with the room that is left, it does in the order of its queue. A machine that is
    coming up has all its room.
    """
    if not machine.initialized:
        return list(promised)
    found = []
    for pod in sorted(promised, key=_turn):
        wanted = pod_requests(pod)
        if fits(wanted, left):
            left = subtract(left, wanted)
            found.append(pod)
    return found


def room_left(machine: Machine, bound: Iterable[Pod]) -> Resources:
    """What the machine, which is up, has beside the bound pods."""
    return subtract(allocatable(machine), total(pod_requests(pod) for pod in bound if not pod.terminal))


def _turn(pod: Pod) -> tuple[int, str, str]:
    """Order of the scheduler's queue."""
    return -pod.spec.priority, pod.metadata.creation_timestamp, pod.key


class Promises:
    """The latest promise per pod key. What became void is forgotten when it is looked at.

    Invariant: `_on` has the keys of `_by_pod` by machine, `_of` by owner, and neither has one without any;
    `_began` counts up in the order of `_on`; `_kept` are keys of `_moving`.
    """

    def __init__(self, window: int, changed: Callable[[str], None] = lambda _: None) -> None:
        """`changed` is called with the name of each machine on which a place is given or ends."""
        self._window = window
        self._changed = changed
        self._by_pod: dict[str, Promise] = {}
        self._on: dict[str, dict[str, None]] = {}
        self._of: dict[str, dict[str, None]] = {}
        self._began: dict[str, int] = {}
        self._turn = 0  # the last one
        self._places = 0  # the last of `_began`
        self._moving: dict[str, _Vacancy] = {}  # by key of a pod that runs elsewhere still
        self._kept: dict[str, None] = {}  # those of them that no later plan gives another place
        self._vacant: dict[str, _Vacancy] = {}  # by UID of a pod that ends, in the order in which they did
        self._bound = 0  # the instant at which a pod that had a promise was bound last

    def make(self, pod: Pod, machine: str, now: int) -> None:
        """Promise the pod its place; a later promise replaces an earlier one."""
        key, before = pod.key, self._by_pod.get(pod.key)
        if before is not None:
            self._leave(key, before)
        else:
            self._turn += 1
        turn = self._turn if before is None else before.turn
        owner = made_by.uid if (made_by := pod.metadata.controller()) is not None else ""
        self._by_pod[key] = Promise(pod.metadata.uid, machine, now, turn, owner)
        if machine not in self._on:
            self._places += 1
            self._began[machine] = self._places
        self._on.setdefault(machine, {})[key] = None
        self._of.setdefault(owner, {})[key] = None
        self._changed(machine)

    def _drop(self, key: str) -> bool:
        promise = self._by_pod.pop(key, None)
        if promise is not None:
            self._leave(key, promise)
        return promise is not None

    def _leave(self, key: str, promise: Promise) -> None:
        machine, owner = promise.machine, promise.owner
        del self._on[machine][key], self._of[owner][key]
        if not self._on[machine]:
            del self._on[machine], self._began[machine]
        if not self._of[owner]:
            del self._of[owner]
        self._changed(machine)

    def made(self, pod: Pod) -> bool:
        """True iff the pod had a promise, whether or not it holds; one whose machine went is forgotten."""
        promise = self._by_pod.get(pod.key)
        return promise is not None and promise.pod == pod.metadata.uid

    def on(self, machines: Collection[str]) -> tuple[str, ...]:
        """Keys of the pods with a place on a machine that has one of these names, in the order they came."""
        found = [key for machine in machines for key in self._on.get(machine, ())]
        return tuple(sorted(found, key=lambda key: self._by_pod[key].turn))

    def __len__(self) -> int:
        """How many machines have a place for a pod."""
        return len(self._on)

    def machines(self) -> tuple[str, ...]:
        """The names of all machines with a place for a pod."""
        return tuple(self._on)

    def machines_of(self, owner: str) -> list[str]:
        """Those with a place for a pod of that owner."""
        return list(dict.fromkeys(self._by_pod[key].machine for key in self._of.get(owner, ())))

    def turn_of(self, names: Iterable[str]) -> int:
        """Lower for a machine with one of these names that comes before another among all with a place."""
        return min(self._began[name] for name in names if name in self._began)

    def forget(self, key: str) -> None:
        """The pod is gone."""
        self._drop(key)

    def move(self, pod: Pod, machine: str, *, kept: bool = False) -> None:
        """The pod runs and must move; what comes in its place is planned to run on `machine`, see `kept`."""
        owner = pod.metadata.controller()
        self._kept.pop(pod.key, None)
        if owner is not None:
            if kept:
                self._kept[pod.key] = None
            self._moving[pod.key] = _Vacancy(
                pod.metadata.uid, pod.spec.node_name, owner.uid, machine, held(pod)
            )

    def moves_to(self, pod: Pod) -> str:
        """Where what comes in the running pod's place is planned to run; "" if nothing is planned."""
        known = self._moving.get(pod.key)
        return known.machine if known is not None and known.left == pod.metadata.uid else ""

    def kept(self) -> tuple[str, ...]:
        """Keys of running pods that move to the place that they have: no later plan is about them."""
        return tuple(self._kept)

    def ends(self, pod: Pod, now: int) -> None:
        """The pod is being deleted, or gone: its successor may come from now on.

        A ReplicaSet makes it at once, a StatefulSet once the pod is gone.
        """
        known = self._moving.pop(pod.key, None)
        self._kept.pop(pod.key, None)
        if known is None or known.left != pod.metadata.uid:
            return
        gone = parse_rfc3339(pod.metadata.deletion_timestamp) if pod.deleting else now
        self._vacant[known.left] = replace(known, until=max(gone, now) + self._window)
        while self._vacant and (first := next(iter(self._vacant.values()))).until < now:
            del self._vacant[first.left]

    def surge(self, pod: Pod, deployment: str, until: int) -> None:
        """What comes in the running pod's place comes before it goes: the Deployment makes it."""
        known = self._moving.pop(pod.key, None)
        self._kept.pop(pod.key, None)
        if known is not None and known.left == pod.metadata.uid:
            self._vacant[known.left] = replace(known, owner=deployment, until=until)

    def succeed(self, pod: Pod, now: int) -> bool:
        """Promise a pod that just came the place of one that its owner lost; False: there is none.

        Where some of the owner's pods are kept off spot, it is the place of one of its sort.
        """
        owner = pod.metadata.controller()
        if owner is None:
            return False
        makers, shared = (owner.uid, deployment_of(pod)), asks(pod)
        for one in self._vacant.values():
            if one.owner in makers and one.until >= now and (not shared or one.held == held(pod)):
                del self._vacant[one.left]
                self.make(pod, one.machine, now)
                return True
        return False

    def moving(self) -> bool:
        """True iff running pods are to move anywhere."""
        return bool(self._moving)

    def successors(self, machines: Collection[str]) -> bool:
        """True iff running pods are to move to a machine that has one of these names."""
        return any(one.machine in machines for one in self._moving.values())

    def beside(self, machines: Collection[str], now: int) -> frozenset[str]:
        """Where else pods are to move, still to come, that are or were on nodes with ones that move there."""
        nodes = {one.node for one in self._moving.values() if one.machine in machines}
        vacant = [one for one in self._vacant.values() if one.until >= now]
        return frozenset(
            one.machine
            for one in (*self._moving.values(), *vacant)
            if one.node in nodes and one.machine not in machines
        )

    def coming(self, machines: Collection[str], now: int) -> bool:
        """True iff a pod waits to be bound there, or one is still to come in place of one that ended."""
        if any(name in self._on for name in machines):
            return True
        return any(one.machine in machines and one.until >= now for one in self._vacant.values())

    def binding(self, now: int, pause: int) -> bool:
        """True iff a pod that had a promise was bound within the last `pause` nanoseconds."""
        return abs(now - self._bound) < pause

    def bound(self, key: str, now: int) -> str | None:
        """The pod is bound, wherever that is. Answers the machine that was promised, None for none."""
        promise = self._by_pod.get(key)
        if promise is None:
            return None
        self._drop(key)
        self._bound = now
        return promise.machine

    def place(self, pod: Pod, find: Callable[[str], Machine | None], now: int) -> Machine | None:
        """Where the pod is promised to run, if that still holds; `find` answers machines that stay."""
        promise = self._by_pod.get(pod.key)
        if promise is None:
            return None
        machine = find(promise.machine)
        if machine is None or promise.pod != pod.metadata.uid:
            self.forget(pod.key)
            return None
        if holds(promise, machine, now, self._window):
            return machine
        # The last of 1,980 pods had their turn after 24 s: 55 that were refused before had lost their places.
        waits = abs(now - self._bound) < (self._window if _untried(pod, machine) else BINDING)
        return machine if waits and holds(promise, machine, now, PATIENCE * self._window) else None

    def check(self) -> None:
        """Assert the invariant; for tests."""
        found = {key: machine for machine, keys in self._on.items() for key in keys}
        assert found == {key: promise.machine for key, promise in self._by_pod.items()}
        assert all(self._on.values())
        assert sorted(self._began, key=self._began.__getitem__) == list(self._on)
        owners = {key: owner for owner, keys in self._of.items() for key in keys}
        assert owners == {key: promise.owner for key, promise in self._by_pod.items()}
        assert all(self._of.values())
        turns = [promise.turn for promise in self._by_pod.values()]
        assert turns == sorted(set(turns))
        assert self._kept.keys() <= self._moving.keys()


def _untried(pod: Pod, machine: Machine) -> bool:
    """True iff the pod is nominated to the machine: the scheduler has not refused it since then."""
    nominated = pod.status.nominated_node_name
    return bool(nominated) and machine.node is not None and nominated == machine.node.metadata.name
