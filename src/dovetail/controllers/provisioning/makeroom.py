"""Room for pods that lost theirs: what took it and has not started yet goes back to where room is left.

A plan's nodes hold all of its pods, but not in any order. A large pod that must be spread waits for its turn,
small ones take parts of its room, and theirs stays free elsewhere. Once the last one is bound no place can
change hands, and a node would be bought for what only lies in pieces. A pod whose image is still being pulled
loses nothing by being made anew, so a few of those are evicted, their successors nominated to the room that
is left, and the large pod to theirs. What has started, or may have, is never touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.base.clock import SECOND, within
from dovetail.base.errors import ApiError
from dovetail.cluster.nodes import Machine
from dovetail.cluster.promises import BINDING
from dovetail.controllers.context import Context
from dovetail.controllers.node.evict import EVICTIONS
from dovetail.controllers.provisioning.causes import leans
from dovetail.controllers.provisioning.census import Apart, Census, ahead, behind, zone_rules
from dovetail.controllers.provisioning.exchange import movable, owner_of, size, suits, zone_of
from dovetail.controllers.provisioning.remarks import nominate
from dovetail.disrupt.budgets import allows_any
from dovetail.disrupt.command import UNDERUTILIZED
from dovetail.disrupt.pods import do_not_disrupt
from dovetail.kube.client import ChangeType
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.model.resources import CPU, MEMORY, Resources, add, fits, pod_requests, subtract, total

MOST = 4  # pods that are made anew for one that lost its room
FEW = 32  # nodes that are looked at for one
MOST_PODS = 16  # that room is made for in one plan
# That room is made for at a time, as soon as they lose theirs: of 500 on a control plane seven waited.
AT_ONCE = 8
# Until a pod is nominated: one whose like is nominated there waits for its turn, of a second.
LONGEST_NAMING = 2 * SECOND
CALM = SECOND // 10  # for which it has to be: as the nomination changes, the scheduler may try it at once
LONGEST_BINDING = SECOND // 2  # until a pod that is made anew is bound, before the next one is evicted
# For which a pod that room was made for is left alone: on a control plane it was bound after 0.03 to 0.2 s.
LONGEST_SERVING = SECOND
LONGEST = 5 * SECOND  # for which plans wait for room to be made
LOOK_AGAIN = SECOND // 2  # at what may leave by then, for a pod that has lost its room
TIMES = 3  # for one pod: what is made anew may take the room again before it is nominated


@dataclass(frozen=True, slots=True)
class Swap:
    """`pod` gets room on the machine of that name once these pods have left it, each for the named one."""

    pod: Pod
    machine: str
    leaving: tuple[tuple[Pod, str], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A machine that is up, what is free there beside pods with a place, and the pods that may leave it."""

    machine: Machine
    free: Resources
    young: tuple[Pod, ...]

    @property
    def name(self) -> str:
        return self.machine.name


def swap_for(pod: Pod, zone: str, places: Mapping[str, Place], scarce: Collection[str] = ()) -> Swap | None:
    """How the pod, which must go to that zone ("" for any), gets room on one of these machines, by name: so
    that the fewest pods leave it, of them the smallest. They go to zones where room is `scarce` only if there
    is none elsewhere. None if there is no way. Pure.
    """
    asked, found = pod_requests(pod), list[Swap]()
    targets = (
        one for one in places.values() if zone in ("", zone_of(one.machine)) and suits(pod, one.machine)
    )
    lacking = sorted(targets, key=lambda one: (_lack(one.free, asked), one.name))
    for target in lacking[:FEW]:
        leaving = _leaving(pod, target, places, scarce)
        if leaving is not None:
            found.append(Swap(pod, target.name, leaving))
    return min(found, key=_price, default=None)


def _price(swap: Swap) -> tuple[int, list[tuple[int, int]], str]:
    return len(swap.leaving), sorted(size(pod) for pod, _ in swap.leaving), swap.machine


def _lack(free: Resources, asked: Resources) -> int:
    """Thousandths of the amounts asked for that are not free."""
    return sum(
        max(0, amount - free.get(name, 0)) * 1_000 // amount for name, amount in asked.items() if amount
    )


def _leaving(
    pod: Pod, target: Place, places: Mapping[str, Place], scarce: Collection[str]
) -> tuple[tuple[Pod, str], ...] | None:
    """Pods to leave the target, with where they go, so that it has room for the pod; None: they are too many.

    One that is enough alone, the smallest of these; else the largest first.
    """
    asked, room = pod_requests(pod), target.free
    if fits(asked, room):
        return ()
    young = sorted((one for one in target.young if one.spec.priority <= pod.spec.priority), key=size)
    for one in young:
        if fits(asked, add(room, pod_requests(one))):
            goal = _goal(one, target, places, {}, scarce)
            if goal:
                return ((one, goal),)
    found, taken = list[tuple[Pod, str]](), dict[str, Resources]()
    for one in reversed(young):
        if len(found) == MOST:
            return None
        goal = _goal(one, target, places, taken, scarce)
        if goal:
            found.append((one, goal))
            taken[goal] = subtract(taken.get(goal, places[goal].free), pod_requests(one))
            room = add(room, pod_requests(one))
            if fits(asked, room):
                return tuple(found)
    return None


def _goal(
    pod: Pod,
    source: Place,
    places: Mapping[str, Place],
    taken: Mapping[str, Resources],
    scarce: Collection[str],
) -> str:
    """The name of the machine with the least room that is enough for the pod; "" for none."""
    asked, same = pod_requests(pod), leans(pod)
    able = []
    for one in places.values():
        if one is source or (same and zone_of(one.machine) != zone_of(source.machine)):
            continue
        room = taken.get(one.name, one.free)
        if fits(asked, room) and suits(pod, one.machine):
            left = subtract(room, asked)
            able.append((zone_of(one.machine) in scarce, left.get(CPU, 0), left.get(MEMORY, 0), one.name))
    return min(able)[-1] if able else ""


def unstarted(pod: Pod, now: int) -> bool:
    """True iff the pod is bound, none of its containers has run, and a ReplicaSet makes another at once if it
    goes. Pure.

    A pod is Pending until all of its containers run: of several, some may have before.
    """
    if pod.status.phase != "Pending":
        return False
    owner = pod.metadata.controller()
    return (
        owner is not None
        and owner.kind == "ReplicaSet"
        and bool(pod.spec.node_name)
        and not pod.deleting
        and len(pod.spec.containers) == 1
        and not (pod.spec.init_containers or pod.spec.resource_claims)
        and not any(port.host_port for port in pod.spec.containers[0].ports)
        and movable(pod)
        and not do_not_disrupt(pod, now)
    )


class Underway:
    """A swap that is being carried out."""

    def __init__(self, swap: Swap) -> None:
        self.swap = swap
        self.named = asyncio.Event()  # the pod is nominated, or waits no more
        self.came = asyncio.Event()  # what was made anew is bound
        self.heir = ""  # what made it, by UID
        # Those whose successors have not come yet, by UID, and where these go.
        self.going = {pod.metadata.uid: (pod, goal) for pod, goal in swap.leaving}


class RoomMaker:
    """Carries swaps out, for pods whose room others took: at once, as what took it starts within seconds, and
    before a node is bought.

    A pod is helped TIMES at most: where that came to nothing its node is bought. Several are at a time, as
    one may wait for its nomination: what others are to leave, and where these go, is kept for each.
    """

    def __init__(self, context: Context, *, enabled: bool = True) -> None:
        self._context = context
        self._state = context.state
        self.enabled = enabled
        self._helped: dict[str, list[Swap]] = {}  # by UID of pods that wait, the latest last
        self._made: dict[str, int] = {}  # when all had left that had to, by UID, by the monotonic clock
        self._apart = Apart()
        self._running = Census()
        # By what made a pod that has lost its room, and its zone: when there was no way to make room for it.
        self._vain: dict[tuple[str, str], int] = {}
        self._now: dict[str, Underway] = {}  # by key of the pod that room is made for
        self._idle = asyncio.Event()  # set while there are none
        self._idle.set()
        # Pods leave one at a time: each that goes wakes all that wait, which takes nominations away. Of those
        # that left side by side, four of six left twice for the same pod in one play (see design note 10).
        self._one = asyncio.Lock()
        # By key of a pod that waits: the key of another, or what made it (by UID), after whose binding it is
        # looked at again.
        self._later: dict[str, str] = {}
        self.queue = context.queue("pod.room", self.reconcile, of=Pod, concurrency=AT_ONCE)
        self._state.subscribe(self._notice, Pod)
        self._state.on_promise(self._placed)

    def _placed(self, key: str) -> None:
        """A pod that has its place on a full machine keeps its nomination while the scheduler leaves it."""
        pod = self._state.get(Pod, key) if self.enabled else None
        place = self._state.promised(pod) if pod is not None else None
        if place is not None and place.initialized:
            self.queue.add(key)

    def _notice(self, _: type[Object], __: ChangeType, old: Object | None, new: Object | None) -> None:
        before, after = cast("Pod | None", old), cast("Pod | None", new)
        self._apart.follow(before, after)
        self._running.follow(before, after)
        pod = after or before
        if pod is None or (before is not None and before.spec.node_name):
            return
        underway = self._now.get(pod.key)
        if after is None or after.spec.node_name:
            self._later.pop(pod.key, None)
            if underway is not None:
                underway.named.set()
            self._bound(pod)
            return
        name = after.status.nominated_node_name
        if underway is not None and underway.swap.machine == name:
            underway.named.set()
        if self.enabled and not name and before is not None and before.status.nominated_node_name:
            self.queue.add(after.key)

    def _bound(self, pod: Pod) -> None:
        """The pod waits no more: whoever waits for that is told."""
        owner = owner_of(pod)
        for underway in self._now.values():
            if underway.heir and underway.heir == owner:
                underway.came.set()
        for key in [key for key, awaited in self._later.items() if awaited in (pod.key, owner)]:
            del self._later[key]
            self.queue.add(key)

    async def reconcile(self, key: str) -> int | None:
        """Make room for a pod that was refused as its place is full; come back while others are being bound.

        Not while a larger one needs room, as that has fewer places to go to: what is free is kept for it.
        """
        pod = self._state.get(Pod, key)
        place = self._state.promised(pod) if pod is not None else None
        if pod is None or place is None or key in self._now or not self._helps(pod):
            return None
        going = self._going()
        if not self._full(place, going):
            return None
        zone, awaited = zone_of(place) if leans(pod) else "", self._larger(pod, going)
        if not awaited and self._ahead(pod, zone):
            zone = self._elsewhere(pod, zone)
            awaited = "" if zone and not self._ahead(pod, zone) else owner_of(pod)
        if awaited:
            self._later[key] = awaited
        elif not self._in_vain(pod, zone) and await self._make(pod, zone, self._pools(), self._scarce(going)):
            return None
        return LOOK_AGAIN if self._state.binding(BINDING) else None

    def _in_vain(self, pod: Pod, zone: str) -> bool:
        """True iff there was no way a moment ago for the pod or one like it."""
        late = self._context.clock.monotonic() - LOOK_AGAIN
        self._vain = {kind: at for kind, at in self._vain.items() if at > late}
        return (owner_of(pod) or pod.key, zone) in self._vain

    def _larger(self, pod: Pod, going: Mapping[str, Sequence[Pod]]) -> str:
        """The key of a larger pod that may need room; "" for none.

        One that is nominated to a machine with room for it does not.
        """
        full, own = dict[str, bool](), size(pod)
        larger = (one for one in self._state.pods_on("") if size(one) > own and one.key not in self._now)
        for one, place in self._state.each_place(larger):
            if place.name not in full:
                full[place.name] = self._full(place, going)
            if full[place.name] or one.status.nominated_node_name != place.name:
                return one.key
        return ""

    def _ahead(self, pod: Pod, zone: str) -> bool:
        return bool(zone) and ahead(pod, zone, self._running, self._state.all(Node))

    def _elsewhere(self, pod: Pod, zone: str) -> str:
        """The zone that the pod has to go to, if it would be refused in its own even when all others are
        where they have their places; "" where it would not.
        """
        rules = zone_rules(pod)
        like = (
            one
            for one in self._state.pods_on("")
            if any(rule.counts(one.metadata.namespace, one.metadata.labels) for rule in rules)
        )
        waiting = [(one, zone_of(place)) for one, place in self._state.places(like)]
        return behind(pod, zone, self._running, self._state.all(Node), waiting)

    def _scarce(self, going: Mapping[str, Sequence[Pod]]) -> frozenset[str]:
        """Zones of machines on which pods have lost their room."""
        machines = self._state.promised_machines()
        return frozenset(zone_of(one) for one in machines if self._full(one, going))

    def _going(self) -> dict[str, list[Pod]]:
        """By machine, the pods that leave it for others and are not gone yet. Were more made to leave
        meanwhile, these would in vain."""
        found: dict[str, list[Pod]] = {}
        for *_, swap in self._helped.values():
            for pod, _ in swap.leaving:
                if self._leaves(pod):
                    found.setdefault(swap.machine, []).append(pod)
        return found

    def _full(self, place: Machine, going: Mapping[str, Sequence[Pod]]) -> bool:
        """True iff more pods have a place on the machine, which is up, than it has room for."""
        if not place.initialized or place.node is None:
            return False
        asked = total(map(pod_requests, self._waiting(place)))
        return not fits(asked, self._room(place, going))

    def _room(self, machine: Machine, going: Mapping[str, Sequence[Pod]]) -> Resources:
        """What the machine has beside the pods there that stay."""
        return add(self._state.room_left(machine), total(map(pod_requests, going.get(machine.name, ()))))

    def _waiting(self, place: Machine) -> list[Pod]:
        """Those that wait and have a place on the machine which holds."""
        pods = (self._state.get(Pod, key) for key in self._state.promised_on(place))
        waiting = self._state.places(pod for pod in pods if pod is not None and not pod.spec.node_name)
        return [pod for pod, machine in waiting if machine.name == place.name]

    async def make_room(self, problem: Problem, plan: Plan) -> frozenset[str]:
        """Keys of those pods that claims of the plan are for and that get room on nodes which are there."""
        asked = {pod.key: pod for pod in problem.pods}
        await within(self._context.clock, self._idle, LONGEST)
        planned = [(asked[key], claim.zone) for claim in plan.claims for key in claim.pods]
        served = frozenset(pod.key for pod, _ in planned if self._served(pod))
        wanted = [
            (pod, zone if leans(pod) else "")
            for pod, zone in planned
            if pod.key not in served | self._now.keys() and self._waits(pod) and self._helps(pod)
        ]
        wanted.sort(key=lambda item: (size(item[0]), item[0].key), reverse=True)
        return served | (await self._help(wanted) if wanted else frozenset())

    def _served(self, pod: Pod) -> bool:
        """True iff the pod is nominated to a machine on which room was made for it a moment ago: were its
        place void, that room would be another's, and the scheduler binds it there all the same.
        """
        made = self._made.get(pod.metadata.uid)
        if made is None or self._context.clock.monotonic() - made > LONGEST_SERVING:
            return False
        return self._names(self._helped[pod.metadata.uid][-1])

    def _waits(self, pod: Pod) -> bool:
        """True iff the pod, as it was seen a while ago, still has no node."""
        now = self._state.get(Pod, pod.key)
        return now is not None and now.metadata.uid == pod.metadata.uid and not now.spec.node_name

    def awaited(self) -> dict[str, str]:
        """By key, the machine of each pod that room is made for, or whose room others are leaving still: it
        keeps its place so long.
        """
        waiting = {pod.metadata.uid: pod for pod in self._state.pods_on("")} if self._helped else {}
        self._helped = {uid: helped for uid, helped in self._helped.items() if uid in waiting}
        self._made = {uid: at for uid, at in self._made.items() if uid in waiting}
        found = {key: underway.swap.machine for key, underway in self._now.items()}
        for uid, helped in self._helped.items():
            swap = helped[-1]
            if any(self._leaves(pod) for pod, _ in swap.leaving):
                found[swap.pod.key] = swap.machine
                if self._state.promised(waiting[uid]) is None:
                    self._state.promise(waiting[uid], swap.machine)
        return found

    def _leaves(self, pod: Pod) -> bool:
        now = self._state.get(Pod, pod.key)
        return now is not None and now.metadata.uid == pod.metadata.uid and now.deleting

    def _helps(self, pod: Pod) -> bool:
        waits = not pod.spec.node_name and self._state.displaced(pod)
        return waits and movable(pod) and self._may_try(pod)

    def _may_try(self, pod: Pod) -> bool:
        return self._tries(pod) < TIMES

    def _tries(self, pod: Pod) -> int:
        return len(self._helped.get(pod.metadata.uid, ()))

    def _pools(self) -> frozenset[str]:
        """Names of the pools whose nodes pods may be taken from now."""
        return frozenset(pool.metadata.name for pool in self._state.all(NodePool) if self._allows(pool))

    async def _help(self, wanted: Sequence[tuple[Pod, str]]) -> frozenset[str]:
        """Make room for the pods, each with its zone; keys of those for which all that were to leave go."""
        pools = self._pools()
        if not pools:
            return frozenset()
        for pod, _ in wanted:  # nominated as before, they would keep each other from their turns
            self._state.withdraw(pod)
        until, done = self._context.clock.monotonic() + LONGEST, set[str]()
        # As things stand: until something is waited for.
        places: dict[str, Place] | None = None
        known: dict[tuple[str, str], bool] = {}  # what makes pods, and their zone: are they ahead?
        rest = list(wanted[:MOST_PODS])
        while rest and self._context.clock.monotonic() < until:
            # One whose zone is ahead would be refused there, lose the room, and another pod would have it.
            # Copies in one zone are ahead alike, and each answer takes a look at all pods.
            alike = {(owner_of(one) or one.key, at): n for n, (one, at) in reversed([*enumerate(rest)])}
            turn = 0
            for kind, n in sorted(alike.items(), key=lambda item: item[1]):
                if kind not in known:
                    known[kind] = self._ahead(*rest[n])
                if not known[kind]:
                    turn = n
                    break
            pod, zone = rest.pop(turn)
            scarce = {other for _, other in (*rest, *wanted[MOST_PODS:])}
            places = self._places(pools, pod.key) if places is None else places
            tries = self._tries(pod)
            if await self._make(pod, zone, pools, scarce, places):
                done.add(pod.key)
            if self._tries(pod) != tries:
                places = None
                known.clear()
        return frozenset(done)

    async def _make(
        self,
        pod: Pod,
        zone: str,
        pools: Collection[str],
        scarce: Collection[str],
        places: Mapping[str, Place] | None = None,
    ) -> bool:
        """True iff room was made for the pod, in that zone ("" for any); `places` are as things stand."""
        while self._may_try(pod):
            # Each is looked for as things stand then: what is to leave may have started meanwhile.
            swap = self._swap(pod, zone, self._places(pools, pod.key) if places is None else places, scarce)
            places = None
            if swap is None:
                self._vain[owner_of(pod) or pod.key, zone] = self._context.clock.monotonic()
                return False
            if await self._carry_out(swap):
                self._record(swap)
                return True
            if not self._names(swap):
                return False  # a nomination that does not come may not be allowed
        return False

    def _swap(self, pod: Pod, zone: str, places: Mapping[str, Place], scarce: Collection[str]) -> Swap | None:
        """How the pod may get room on these machines; None: there is no way, or none that is allowed."""
        if self._apart.keeps(pod):
            return None
        swap = swap_for(pod, zone, places, scarce)
        return swap if swap is not None and not self._context.brakes.move_refused(len(swap.leaving)) else None

    async def _carry_out(self, swap: Swap) -> bool:
        """True iff all leave that have to."""
        pod = swap.pod
        self._helped.setdefault(pod.metadata.uid, []).append(swap)
        underway = self._now[pod.key] = Underway(swap)
        self._idle.clear()
        try:
            await nominate(self._context, (pod.key,), swap.machine)
            done = await self._emptied(underway)
            if done:
                self._made[pod.metadata.uid] = self._context.clock.monotonic()
            return done
        finally:
            del self._now[pod.key]
            if not self._now:
                self._idle.set()

    def _record(self, swap: Swap) -> None:
        """In the log: those for which others left."""
        if swap.leaving:
            leaving = [pod.key for pod, _ in swap.leaving]
            self._context.log.record("room.made", pods=[swap.pod.key], leaving=leaving)

    def _places(self, pools: Collection[str], but: str) -> dict[str, Place]:
        """By name the machines that are up, with what may leave those of the pools; `but` is the key of a pod
        whose place is void. Nothing more leaves a machine that others leave for a pod, and where they go is
        taken.
        """
        found, now, going = {}, self._context.clock.now(), self._going()
        busy = {underway.swap.machine for underway in self._now.values()}
        coming: dict[str, list[Pod]] = {}
        for underway in self._now.values():
            for pod, goal in underway.going.values():
                coming.setdefault(goal, []).append(pod)
        for machine in self._state.machines():
            if not machine.initialized or machine.node is None or self._state.going(machine):
                continue
            bound = self._state.pods_on(machine.name)
            young = tuple(
                pod
                for pod in bound
                if machine.pool in pools
                and machine.name not in busy
                and unstarted(pod, now)
                and not self._apart.keeps(pod)
            )
            others = [pod for pod in self._waiting(machine) if pod.key != but]
            taken = total(pod_requests(pod) for pod in (*others, *coming.get(machine.name, ())))
            found[machine.name] = Place(machine, subtract(self._room(machine, going), taken), young)
        return found

    def _allows(self, pool: NodePool) -> bool:
        """True iff the pool's nodes may be disrupted now, one at least."""
        now, paused = self._context.clock.now(), self._context.brakes.disruption_paused(pool)
        return not paused and allows_any(pool, UNDERUTILIZED, now)

    async def _emptied(self, underway: Underway) -> bool:
        """True iff all leave that have to, one after the other, each while the pod is nominated to the node.

        Any attempt to schedule it takes that away. What is free there by then would be taken by what is made
        anew, to which the scheduler comes before it can be nominated.
        """
        swap = underway.swap
        rest = list(swap.leaving)
        until = self._context.clock.monotonic() + LONGEST_NAMING
        while rest:
            if not await self._has_name(underway, until):
                return False
            async with self._one:
                if not self._names(swap):
                    continue  # lost again while others left
                now = self._context.clock.now()
                pods = [self._state.get(Pod, pod.key) for pod, _ in rest]
                if not all(
                    pod is not None and pod.metadata.uid == before.metadata.uid and unstarted(pod, now)
                    for pod, (before, _) in zip(pods, rest, strict=True)
                ):
                    return False
                pod, goal = cast("Pod", pods[0]), rest.pop(0)[1]
                if not await self._left(underway, pod, goal):
                    return False
            until = self._context.clock.monotonic() + LONGEST_NAMING
        self._context.brakes.moved(len(swap.leaving))
        return True

    async def _left(self, underway: Underway, pod: Pod, goal: str) -> bool:
        """True iff the pod leaves for that machine; what is made anew is waited for."""
        self._state.promise(pod, goal)
        underway.heir = owner_of(pod)
        underway.came.clear()
        if not await self._evict(pod, underway.swap.pod):
            return False
        await within(self._context.clock, underway.came, LONGEST_BINDING)
        underway.heir = ""
        del underway.going[pod.metadata.uid]
        return True

    async def _has_name(self, underway: Underway, until: int) -> bool:
        """True iff the pod is nominated to its machine, and has been for a while: both are waited for."""
        clock, swap = self._context.clock, underway.swap
        while (left := until - clock.monotonic()) > 0:
            if not self._waits(swap.pod):
                return False
            underway.named.clear()
            if not self._names(swap):
                await within(clock, underway.named, left)
            await clock.sleep(CALM)
            if self._names(swap):
                return True
        return False

    def _names(self, swap: Swap) -> bool:
        pod = self._state.get(Pod, swap.pod.key)
        if pod is None or pod.spec.node_name:
            return False
        return pod.status.nominated_node_name == swap.machine

    async def _evict(self, pod: Pod, other: Pod) -> bool:
        """Ask for it as it was seen: if it has started since then, the API server refuses."""
        meta = pod.metadata
        try:
            await self._context.client.evict(
                meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
            )
        except ApiError as error:
            self._context.metrics.add(EVICTIONS, code=str(error.status))
            return False
        self._context.metrics.add(EVICTIONS, code="200")
        message = f"Evicted pod before it started: makes room for {other.key}, another node has room for it"
        await self._context.recorder.publish(pod, "Normal", "Evicted", message, dedupe=(meta.uid,))
        return True
