"""Says in `status.nominatedNodeName` where pods are meant to go: the scheduler keeps their room there.

A nomination counts from when its Node exists, and any failed attempt to schedule the pod takes it away, which
wakes those that it kept from the room: set again at once, all of them would be tried for ever. So nodes that
are bought for pods register with a taint. Once no other one is left that goes by itself, their pods are
nominated, and once all of them are at one moment the taint goes, of all nodes that are as far together: to
each node that opens the scheduler tries all pods that wait. From then on a nomination that was taken away is
set again ever more seldom while the place holds. A node that is bought in place of another is held until
those of its pods that go elsewhere are there: the scheduler comes to new pods before they are nominated, and
goes by its scores.

An annotation that is written with it marks Dovetail's own nominations, not the scheduler's, which are for
pods that evict others: those are never touched. A later process takes up the places that it finds so.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

from dovetail.api.core import Namespace, Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object, condition
from dovetail.base.clock import MINUTE, SECOND, within
from dovetail.base.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from dovetail.base.metrics import Metric
from dovetail.cluster.nodes import Machine, is_ephemeral
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.register import OPENING
from dovetail.controllers.nodeclaim.status import REGISTERED
from dovetail.controllers.provisioning.apart import Apart
from dovetail.controllers.provisioning.bootstrap import Bootstrap
from dovetail.controllers.provisioning.causes import leans
from dovetail.controllers.provisioning.daemons import DaemonPods, closed_to, of_daemons
from dovetail.controllers.provisioning.exchange import Exchange
from dovetail.controllers.provisioning.openings import (
    FEW_PODS,
    MOST_AT_ONCE,
    MOST_BESIDE,
    MOST_NODES,
    Groups,
    Openings,
    in_queue,
    one_by_one,
    planned_first,
    resolver,
)
from dovetail.controllers.provisioning.planned import planned_turn
from dovetail.controllers.provisioning.pods import evicts
from dovetail.controllers.provisioning.turns import Turns
from dovetail.kube.client import ChangeType
from dovetail.model import labels
from dovetail.model.cluster_view import ClusterView, NodeView
from dovetail.units.timestamp import parse_rfc3339

NOMINATIONS = Metric(
    "dovetail_pod_nominations_total",
    "counter",
    "Nominations of pods to nodes that were written, by whether they were set or taken away, or refused.",
    ("outcome",),
)
ALL = (NOMINATIONS,)
SET, CLEARED, REFUSED = "set", "cleared", "refused"
AT_ONCE = 50  # requests, as when claims are created: a burst takes as long as the server needs
LOOK_AGAIN = 10 * SECOND  # as often as a pod that waits triggers a plan: the place may not hold any more
# Before a nomination that was taken away is set again, doubling. At once was 5 times per pod, for 500 pods
# and 91 new nodes on a real scheduler; so it was 2 for 300 pods and 35 nodes. Of 453 simulated pods that must
# be spread over zones, 99.1 % ran on the first plan's nodes; 98.7 % with pauses that began with a second.
FIRST_PAUSE, LONGEST_PAUSE = SECOND // 10, 16 * SECOND
WITHOUT_RIGHT = 5 * MINUTE  # before it is tried again, after the API server said that it is not allowed

# A node is held for so long after it registered. Of 131 pods that must be spread over zones, 100 % ran on the
# first plan's nodes with it, 96 % with half of it: the first node came after 20 s, the last one after 65.
LONGEST_HOLD = 60 * SECOND
# A node that is up waits for so long at most for pods that go elsewhere first: budgets may hold them back.
LONGEST_WAIT = 5 * SECOND
LONGEST_SHOW = SECOND // 2  # until the watch shows what was nominated, before its nodes open
CALM = SECOND // 5  # without a nomination that is taken away: the scheduler may have tried all pods
LONGEST_CALM = 10 * SECOND  # for which that is waited for, before nodes open
SETTLED = SECOND // 5  # since a pod got a place: the scheduler has come to it
# Where nothing is nominated the next nodes open when the scheduler has tried all pods, if it has written to
# each that it refused; else so long after the last one was bound or refused, and so much for each that waits.
# The simulated one takes 5 ms for a pod; a real one bound 70 a second. Never longer than the last of these.
TRY, LONGEST_FILL = SECOND // 100, 3 * SECOND // 2
LONGEST_BACKOFF = 10 * SECOND  # of the scheduler's: until it tries a pod again that it refused often
ALL_NODES = "all"  # the one key of the queue that opens nodes

Operations = Sequence[Mapping[str, Any]]
_STATUS, _ANNOTATIONS = "/status/nominatedNodeName", "/metadata/annotations"
_MARK = f"{_ANNOTATIONS}/{labels.NOMINATED.replace('/', '~1')}"


def nomination(pod: Pod, node: str) -> Operations:
    """The JSON patch of the pod's status after which it is nominated to that node, "" being none; empty if
    nothing has to change, or nothing may.

    It fails where the pod was bound, nominated by another component, or replaced since it was seen. Pure.
    """
    now, mark = pod.status.nominated_node_name, pod.metadata.annotations.get(labels.NOMINATED, "")
    if pod.spec.node_name or pod.deleting or pod.terminal or evicts(pod) or (now, mark) == (node, node):
        return ()
    tests = [
        _test("/metadata/uid", pod.metadata.uid),
        _test("/spec/nodeName", None),
        _test(_STATUS, now or None),
    ]
    if not node:
        gone = ((_STATUS, now), (_MARK, mark))
        return [*tests, *({"op": "remove", "path": path} for path, there in gone if there)]
    if pod.metadata.annotations:
        marks = [_add(_MARK, node)]
    else:
        marks = [_test(_ANNOTATIONS, None), _add(_ANNOTATIONS, {labels.NOMINATED: node})]
    return [*tests, *marks, _add(_STATUS, node)]


def up(machine: Machine) -> bool:
    """True iff nothing but this module's own taint keeps pods off its node that goes by itself. Pure.

    Startup taints are not waited for: pods that take them away may not tolerate this one.
    """
    taints = machine.node.spec.taints if machine.node is not None else ()
    return machine.registered and not any(taint != OPENING and is_ephemeral(taint) for taint in taints)


def _test(path: str, value: object) -> Mapping[str, Any]:
    return {"op": "test", "path": path, "value": value}


def _add(path: str, value: object) -> Mapping[str, Any]:
    return {"op": "add", "path": path, "value": value}


class Nominator:
    """Keeps the nominations of pods that wait as their promised places are; opens the nodes that are held.

    One that is not `enabled` nominates nothing; it opens what another process held. Nor does it hold any
    nodes unless it `holds`: those then that pods are to go to, until all of these are up. They open in an
    order in which the pods find room (see `openings`), each once the scheduler has filled those before; those
    that were planned to open at once do so. Where there are too many pods for that, those are held on
    which pods lean that must be spread or be near others.
    """

    def __init__(self, context: Context, *, enabled: bool = True, holds: bool = True) -> None:
        self._enabled = enabled
        self._holds = holds
        self._context = context
        self._state = context.state
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._set: dict[str, tuple[int, int]] = {}  # by pod key: not before this instant, and the next pause
        self._turns = Turns()
        # By name of a node that was opened, its uid and the version that was written, until the watch shows
        # it. A node with the taint in a later version got it again.
        self._opened: dict[str, tuple[str, int]] = {}
        self._changed = self._state.follow()  # machines to look at before nodes open
        self._held: dict[str, Node] = {}  # the nodes that have the taint, as far as is known
        self._closed: set[str] = set()  # names of those that are not up
        self._leaning: set[str] = set()  # of those that are, on which something leaned when it was looked at
        # When each is held for long enough, the earliest first; one of which something changed is in it anew.
        self._overdue: list[tuple[int, str]] = []
        self._coming: dict[str, None] = {}  # names of machines that others may have to wait for
        self._up: dict[str, int] = {}  # nodes that are held for others alone, and since when
        self._latest = 0  # when a pod got a place last, by the monotonic clock
        self._not_before = 0  # the instant from which it may be tried again after it was not allowed
        self._order: Groups = ()  # of nodes that open one after the other, those that are left
        # By the monotonic clock, when nodes were opened last that pods fit on, when a pod was bound last, and
        # when the taints of a node changed last, which has the scheduler try all pods once more.
        self._filling = self._bound = self._stirred = 0
        # Pods with places that the scheduler refused since nodes were opened last, and when it did so last.
        self._tried, self._refused = set[str](), 0
        self._lost = 0  # when a nomination was taken away last, by the monotonic clock
        self._unseen: dict[str, int] = {}  # by pod key a version that was written, until the watch shows it
        self._all_seen = asyncio.Event()
        self.queue = context.queue("pod.nomination", self.reconcile, of=Pod, concurrency=AT_ONCE)
        self.openings = context.queue("node.opening", self.open_nodes, concurrency=1)
        self._state.subscribe(self._notice)
        self._state.on_promise(self._placed)
        self._exchange = Exchange(self._state, context.clock.monotonic)
        self._bootstrap, self._apart = Bootstrap(self._state), Apart(self._state)
        self._daemons = DaemonPods(self._state, context.clock.now)

    def _placed(self, key: str) -> None:
        self._latest = self._context.clock.monotonic()
        self._set.pop(key, None)
        self.queue.add(key)
        pod = self._state.get(Pod, key)
        if pod is not None and self._enabled:
            self._bootstrap.placed(pod)
        if self._held:
            self.openings.add(ALL_NODES)

    def _notice(self, kind: type[Object], _: ChangeType, old: Object | None, new: Object | None) -> None:
        if isinstance(new, Node) and OPENING in new.spec.taints:
            self.openings.add(ALL_NODES)
        if isinstance(old or new, Pod):
            before, pod = cast("Pod | None", old), cast("Pod | None", new)
            for follow in (self._see, self._apart.follow, self._pass_on):
                follow(before, pod)
        if isinstance(new, Pod) and not new.spec.node_name:
            if new.status.nominated_node_name and not self._state.news():
                self._resume(new)
            if self._wanted(new):
                self.queue.add(new.key)
            tried = isinstance(old, Pod) and old.status.conditions != new.status.conditions
            if tried and self._state.promised(new) is not None:
                self._refused = self._context.clock.monotonic()
                if not self._enabled:
                    self._tried.add(new.key)
        elif isinstance(old, Pod):
            self._set.pop(old.key, None)
            if isinstance(new, Pod) and not old.spec.node_name:
                self._bound = self._context.clock.monotonic()
            if isinstance(new, Pod) and not old.spec.node_name and self._bootstrap.bound(new) and self._held:
                self.openings.add(ALL_NODES)
        elif kind is Node or kind is NodeClaim:
            self._look_at(old, new)
            if new is None:
                self._look()  # so that nothing is kept of what is gone, even where no node is ever held

    def _see(self, old: Pod | None, new: Pod | None) -> None:
        """Whether a nomination is gone, and whether one that was written shows."""
        nominated = old is not None and bool(old.status.nominated_node_name)
        if nominated and new is not None and not new.spec.node_name and not new.status.nominated_node_name:
            self._lost = self._context.clock.monotonic()
            self._exchange.lost(new)
        self._daemons.follow(old, new)
        pod = new or old
        if pod is None or pod.key not in self._unseen:
            return
        if new is None or int(new.metadata.resource_version) >= self._unseen[pod.key]:
            del self._unseen[pod.key]
        if not self._unseen:
            self._all_seen.set()

    def _pass_on(self, old: Pod | None, new: Pod | None) -> None:
        """The turn of those that wait for this one to be tried; what was bound makes their attempts new."""
        for key in self._turns.follow(old, new):
            if new is not None and new.spec.node_name:
                self._set.pop(key, None)
            self.queue.add(key)

    def _look_at(self, old: Object | None, new: Object | None) -> None:
        """Pods of a machine whose node came or has fewer taints, or that goes."""
        came = isinstance(new, Node) and (not isinstance(old, Node) or old.spec.taints != new.spec.taints)
        goes = old is not None and not old.deleting and (new is None or new.deleting)
        if came:
            self._stirred = self._context.clock.monotonic()
        if came or goes:
            node, claim = self._machine(new or old)
            for key in self._state.promised_on(Machine(node, claim)):
                self._set.pop(key, None)
                pod = self._state.get(Pod, key)
                if pod is not None and self._wanted(pod):
                    self.queue.add(key)
        if goes and isinstance(old, Node):
            self._add(pod for pod in self._state.pods_on("") if _named(pod, old.metadata.name))

    def _machine(self, found: Object | None) -> tuple[Node | None, NodeClaim | None]:
        if isinstance(found, Node):
            return found, self._state.claim_of(found)
        assert isinstance(found, NodeClaim)
        return self._state.node_of(found), found

    def _add(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self.queue.add(pod.key)

    def _resume(self, pod: Pod) -> None:
        """A place that an earlier process gave the pod is promised still."""
        name = pod.status.nominated_node_name
        if name and not evicts(pod) and self._state.get(Node, name) is not None and not of_daemons(pod):
            self._state.promise(pod, name)

    def _wanted(self, pod: Pod) -> bool:
        """True iff something is to be written. While taints keep the pod off its node they are waited for:
        at each attempt the scheduler says anew why such a pod fits nowhere.
        """
        node = self._destination(pod)
        if node is not None and closed_to(pod, node):
            return False
        return bool(nomination(pod, _name(node)))

    def _destination(self, pod: Pod) -> Node | None:
        """The node that the pod is to be nominated to: None before that is there."""
        if of_daemons(pod):
            return self._daemons.node(pod)
        place = self._state.promised(pod)
        return place.node if place is not None else None

    async def reconcile(self, key: str) -> int | None:
        """Write what the pod's nomination should be; come back while it has one of ours."""
        pod = self._state.get(Pod, key)
        if pod is None or pod.spec.node_name or not self._enabled:
            return None
        node = self._destination(pod)
        name = _name(node)
        wanted = nomination(pod, name)
        if not wanted:
            return LOOK_AGAIN if name and not evicts(pod) else None
        if node is not None:
            if closed_to(pod, node):
                return None  # its taints are waited for
            now = self._context.clock.monotonic()
            if (left := self._turns.wait(pod, name, now)) > 0 or (left := self._pause(key)) > 0:
                return left
        await self._write(pod, wanted)
        return LOOK_AGAIN

    def _pause(self, key: str) -> int:
        """Nanoseconds until the pod may be nominated once more; none starts the next pause."""
        now = self._context.clock.monotonic()
        due, pause = self._set.get(key, (0, FIRST_PAUSE))
        if now < due:
            return due - now
        self._set[key] = now + pause, min(2 * pause, LONGEST_PAUSE)
        return 0

    def held(self, claim: NodeClaim, node: Node) -> bool:
        """True iff the node is not to open before its pods are nominated, or, where they may not be, before
        nodes that they must be spread over are there.
        """
        machine = Machine(node, claim)
        if not self._enabled or self._context.clock.monotonic() < self._not_before:
            one_by_one = self._in_turn(machine) and bool(self._state.promised_on(machine))
            return one_by_one or (self._holds and self._leans(machine))
        return bool(self._state.promised_on(machine) or self._state.successors_on(machine))

    async def open_nodes(self, _: str) -> int | None:
        """Nominate the pods of all nodes that are ready to open, and open them; come back while any is held.

        Whatever fails with a pod, the node opens: the pod is tried again by itself.
        """
        self._look()
        self._bootstrap.look(self._held.keys(), self._closed, self._context.clock.monotonic())
        if not self._held:
            self._up.clear()
            return None
        if not self._any_opens():
            return SECOND
        behind = self._holds and self._behind() and not self._late()
        self._apart.look(lambda machine: up(machine) and not (behind and self._leans(machine)))
        ready = {name: self._held[name] for name in self._candidates(behind) if self._opens(name, behind)}
        ready |= {name: self._held[name] for name in self._bootstrap.first()}
        rests = False
        claims = {name: self._state.claim_of(node) for name, node in ready.items()}
        turned = {n: node for n, node in ready.items() if self._in_turn(Machine(node, claims[n]))}
        if turned and not self._state.moving():
            following = await self._next(turned)
            ready = {name: node for name, node in ready.items() if name in following or name not in turned}
            rests = not following
        self._up = {name: since for name, since in self._up.items() if name not in ready}
        nominated = await self._nominate(ready)
        last = {
            n for n, one in ready.items() if self._enabled and self._apart.follows(Machine(one, claims[n]))
        }
        for names in (ready.keys() - last, last):
            await asyncio.gather(*(self._open(node) for name, node in ready.items() if name in names))
        if ready:
            self._context.log.record("nodes.opened", nodes=sorted(ready), nominated=nominated)
        return SETTLED if self._up or self._order or rests else SECOND

    def _in_turn(self, machine: Machine) -> bool:
        """True iff the node opens once others are full. With many pods: only what was bought for that."""
        if self._enabled or not self._holds:
            return False
        most = MOST_AT_ONCE if planned_turn(machine) else FEW_PODS
        return len(self._state.pods_on("")) <= most

    async def _next(self, ready: Mapping[str, Node]) -> dict[str, Node]:
        """Those of the nodes that open next: none while the scheduler fills what was opened last."""
        state, clock = self._state, self._context.clock
        waiting = in_queue(pod for pod, _ in state.places(state.pods_on("")))
        idle = bool(self._order) and self._bound < self._filling
        pause = LONGEST_BACKOFF if idle else min(SETTLED + TRY * len(waiting), LONGEST_FILL)
        ends = [until for name in ready if (until := self._held_until(name)) is not None]
        overdue = bool(ends) and clock.now() >= min(ends) and not self._order
        # Opened while the scheduler tries pods in vain, a node would be filled from the middle of its queue.
        tried = bool(self._order) and not idle and all(pod.key in self._tried for pod in waiting)
        latest = max(self._filling, self._bound, self._stirred, self._refused)
        if clock.monotonic() - latest < (SETTLED if tried else pause) and not overdue:
            return {}
        planned = self._planned(ready)
        first = planned_first(planned)
        if len(first) > 1:
            return self._began(ready, (first, *one_by_one(name for name in planned if name not in first)))
        few = 1 < len(ready) <= MOST_NODES and not idle
        openings = self._openings(ready, waiting) if few else None
        if openings is None:
            self._order = ()
            return dict(ready)
        order: Groups = ()
        given = [name for names in self._order for name in names]
        for found in openings.search(given or tuple(planned)):
            order = found.order
            await asyncio.sleep(0)  # others have their turn between two plays
        return self._began(ready, order)

    def _began(self, ready: Mapping[str, Node], order: Groups) -> dict[str, Node]:
        """The nodes that open first in this order; those after them are remembered."""
        self._order = order[1:]
        self._filling = self._context.clock.monotonic()
        self._tried.clear()
        return {name: ready[name] for name in order[0]}

    def _planned(self, ready: Mapping[str, Node]) -> dict[str, int]:
        """When each of the nodes was planned to open, in that order, as far as it is known."""
        turns = {one.name: planned_turn(one) for one in self._state.promised_machines() if one.name in ready}
        # Claims that are created at once are promised in the order of the answers.
        return {name: turn for name, turn in sorted(turns.items(), key=lambda one: one[1]) if turn}

    def _openings(self, ready: Mapping[str, Node], waiting: Sequence[Pod]) -> Openings | None:
        """What may become of the pods that wait; None where too much would have to be looked at."""
        state = self._state
        nodes = state.all(Node)
        if not waiting or len(nodes) > MOST_BESIDE:
            return None
        bound = [pod for node in nodes for pod in state.standing(node.metadata.name)]
        if len(bound) > MOST_BESIDE:
            return None
        volumes = state.volumes()
        spaces = {one.metadata.name: one.metadata.labels for one in state.all(Namespace)}
        view = ClusterView(map(NodeView.of, nodes), spaces, volumes, resolver())
        for pod in bound:
            view.add_pod(pod)
        planned = [machine.name for machine in state.promised_machines() if machine.name in ready]
        return Openings(view, waiting, dict.fromkeys((*planned, *sorted(ready))))

    async def _nominate(self, ready: Mapping[str, Node]) -> int:
        """Nominate the pods of these nodes, so that all of them are at one moment; answers how many were.

        The scheduler may be trying pods, as a node that comes up wakes them all: while their nodes are closed
        each attempt takes a nomination away, and that wakes those which failed before. So what is gone by the
        time the last one shows is set again once no more go, and the woken ones were tried too, which takes
        as long once more.
        """
        clock, keys = self._context.clock, set[str]()
        until = clock.monotonic() + LONGEST_CALM
        machines = (Machine(node, self._state.claim_of(node)) for node in ready.values())
        if self._enabled and any(map(self._leans, machines)):
            await self._passed(until)
        while writes := self._missing(ready):
            begun = clock.monotonic()
            keys.update(pod.key for pod, _ in writes)
            tried = await asyncio.gather(*(self._try(pod, wanted) for pod, wanted in writes))
            written = [pod for pod in tried if pod is not None]
            await self._shown(written)
            if not written or clock.monotonic() >= until:
                break
            if self._missing(ready):
                while (left := min(self._calm(begun), until) - clock.monotonic()) > 0:
                    await clock.sleep(left)
        return len(keys)

    async def _passed(self, until: int) -> None:
        """Wait until the scheduler may have tried all pods that the last change of a node woke, or `until`.

        A pod that it comes to once it is nominated loses the nomination, which wakes all others again: of 500
        pods some were tried all the time for LONGEST_CALM. On a real control plane half of them were bound 12
        to 30 s after the last node had registered (18 in the mean of 16 plays); 12 to 18 with this (14, 8).
        Pods that need not lean on others take any room: half of 489 were bound 5 s later with it (simulated).
        """
        clock, stirred = self._context.clock, self._stirred
        pause = min(SETTLED + TRY * len(self._state.pods_on("")), LONGEST_FILL)
        while (left := min(max(stirred + pause, self._refused + CALM), until) - clock.monotonic()) > 0:
            await clock.sleep(left)

    def _calm(self, begun: int) -> int:
        """The instant at which it is, if no nomination of those since `begun` goes from now on."""
        return self._lost + max(CALM, self._lost - begun)

    def _missing(self, ready: Mapping[str, Node]) -> list[tuple[Pod, Operations]]:
        """What is to be written so that the pods of these nodes are nominated."""
        planned = [(pod, place.name) for pod, place in self._places(ready.values()) if place.name in ready]
        if self._enabled:
            planned += [(pod, name) for name in ready for pod in self._daemons.on(name)]
        return [(pod, wanted) for pod, name in planned if (wanted := nomination(pod, name))]

    def _places(self, nodes: Iterable[Node]) -> list[tuple[Pod, Machine]]:
        """The places on these nodes that hold, in order of the pods' keys."""
        if not self._enabled:
            return []
        machines = (Machine(node, self._state.claim_of(node)) for node in nodes)
        keys = {key for machine in machines for key in self._state.promised_on(machine)}
        pods = (self._state.get(Pod, key) for key in sorted(keys))
        return self._state.places(pod for pod in pods if pod is not None and not pod.spec.node_name)

    # Which nodes open is asked at each change of one that is held. Only those of which something changed
    # since, and those whose time has come, are looked at: there may be thousands.

    def _look(self) -> None:
        """Take in what changed of machines."""
        for name in self._changed:
            self._bootstrap.changed(name)
            if self._holds and self._state.staying(name) is not None:
                self._coming[name] = None
            else:
                self._coming.pop(name, None)
            node = self._state.get(Node, name)
            if node is None or not self._taken(node):
                self._drop(name)
                continue
            machine = Machine(node, self._state.claim_of(node))
            self._held[name] = node
            self._leaning.discard(name)
            self._closed.discard(name)
            if not up(machine):
                self._closed.add(name)
            if (registered := self._registered(machine)) is not None:
                heapq.heappush(self._overdue, (registered + LONGEST_HOLD, name))
        self._changed.clear()
        if not self._held:
            self._overdue.clear()

    def _taken(self, node: Node) -> bool:
        """True iff the node has the taint, as far as is known."""
        uid, version = self._opened.get(node.metadata.name, ("", 0))
        if uid == node.metadata.uid and version > int(node.metadata.resource_version):
            return False
        self._opened.pop(node.metadata.name, None)  # that it was opened shows
        return OPENING in node.spec.taints

    def _drop(self, name: str) -> None:
        """The node is not held any more."""
        self._held.pop(name, None)
        self._closed.discard(name)
        self._leaning.discard(name)
        if self._state.get(Node, name) is None:
            self._opened.pop(name, None)

    def _any_opens(self) -> bool:
        """True iff a node may open if no machine is behind."""
        if self._state.moving():
            return any(self._opens(name, False) for name in sorted(self._held))
        return len(self._closed) < len(self._held) or bool(self._due())

    def _candidates(self, behind: bool) -> list[str]:
        """Names of the held nodes that may open, in order."""
        if self._state.moving():
            return sorted(self._held)
        waiting = self._leaning if behind else ()
        return sorted((self._held.keys() - self._closed).difference(waiting) | self._due())

    def _due(self) -> set[str]:
        """Names of the held nodes that were held for long enough."""
        now = self._context.clock.now()
        found = set[str]()
        while self._overdue and self._overdue[0][0] <= now:
            since, name = heapq.heappop(self._overdue)
            if name in self._held and self._held_until(name) == since:
                found.add(name)
        for name in found:
            heapq.heappush(self._overdue, (self._held_until(name) or 0, name))
        return found

    def _late(self) -> bool:
        """True iff a node that waits for its turn was held for long enough: all that are up open in theirs.

        By itself it would be filled with the pods that come first, and the others open in the middle of the
        queue: of 1,803 pods on 213 nodes 139 that had come first were left over.
        """
        machines = (Machine(self._held[n], self._state.claim_of(self._held[n])) for n in self._due())
        return any(up(machine) and self._in_turn(machine) for machine in machines)

    def _held_until(self, name: str) -> int | None:
        """The instant at which a held node opens, whatever it waits for; None: that is not known yet."""
        node = self._held[name]
        registered = self._registered(Machine(node, self._state.claim_of(node)))
        return registered + LONGEST_HOLD if registered is not None else None

    def _behind(self) -> bool:
        """True iff a machine with a place for a pod is not up yet."""
        for name in list(self._coming):
            machine = self._state.staying(name)
            if machine is not None and not up(machine) and self._state.promised_on(machine):
                if self._awaited(machine):
                    return True
            else:
                del self._coming[name]  # until something of it changes
        return False

    def _awaited(self, machine: Machine) -> bool:
        """True iff the machine has a place for a pod that waits."""
        pods = map(partial(self._state.get, Pod), self._state.promised_on(machine))
        waiting = (pod for pod in pods if pod is not None and not pod.spec.node_name)
        return any(self._state.promised(pod) is not None for pod in waiting)

    def _leans(self, machine: Machine) -> bool:
        """True iff a pod with a place on the machine leans."""
        name, pods = machine.name, map(partial(self._state.get, Pod), self._state.promised_on(machine))
        waiting = (pod for pod in pods if pod is not None and not pod.spec.node_name and leans(pod))
        return any((place := self._state.promised(pod)) is not None and place.name == name for pod in waiting)

    def _opens(self, name: str, behind: bool) -> bool:
        """True iff the held node is up, and waits for no other, or it was held for long enough.

        Pods that must be spread over more than nodes, or be near others, are refused while others of them
        have no place yet, and lose their nominations: any pod whose own node is not open takes the room. So a
        machine for such pods opens with all others: not while one is `behind`. One that the first of pods
        which must be near each other may go to waits for that one's own.

        What takes the other taints away may itself be pods that the taint keeps off.
        """
        machine = Machine(self._held[name], self._state.claim_of(self._held[name]))
        leaning = behind and up(machine) and (self._in_turn(machine) or self._leans(machine))
        if leaning and not machine.initialized:  # else the places there hold for a while only
            self._leaning.add(name)
        kept = leaning or self._waits(machine) or self._bootstrap.keeps(machine)
        if up(machine) and not (kept or (self._enabled and self._apart.keeps(machine))):
            return True
        until = self._held_until(name)
        return until is not None and self._context.clock.now() >= until

    def _waits(self, machine: Machine) -> bool:
        """True iff pods are to move to the machine from nodes that others leave first, for elsewhere."""
        if not self._enabled or not self._state.successors_on(machine):
            return False
        now = self._context.clock.monotonic()
        if now - self._up.setdefault(machine.name, now) >= LONGEST_WAIT:
            return False
        return now - self._latest < SETTLED or self._state.others_first(machine)

    def _registered(self, machine: Machine) -> int | None:
        """The instant at which it registered: None, where that is still to be written; 0 without a claim."""
        if machine.claim is None:
            return 0
        found = condition(machine.claim.status.conditions, REGISTERED)
        done = found is not None and found.status == "True"
        return parse_rfc3339(found.last_transition_time) if found and done else None

    async def _open(self, node: Node) -> None:
        """Take the taint away. Where the taints changed meanwhile, it is tried again when that shows.

        Kubelets write to new nodes all the time: a write that is bound to the version would often be in vain.
        """
        taint = f"/spec/taints/{node.spec.taints.index(OPENING)}"
        operations = [_test(f"{taint}/key", OPENING.key), {"op": "remove", "path": taint}]
        with suppress(Invalid, NotFound):
            written = await self._context.client.patch(Node, node.metadata.name, json=operations)
            self._opened[node.metadata.name] = node.metadata.uid, int(written.metadata.resource_version)
            self._changed[node.metadata.name] = None

    async def _shown(self, written: Iterable[Pod]) -> None:
        """Wait until the watch shows these pods as they were written: by then the scheduler's may, too.

        It has nodes from a watch of their own. On a busy machine it saw them open before it knew what was
        nominated to them, and filled them with pods whose own nodes were still to open.
        """
        known = ((pod, self._state.get(Pod, pod.key)) for pod in written)
        self._unseen = {
            pod.key: version
            for pod, seen in known
            if seen is not None
            and int(seen.metadata.resource_version) < (version := int(pod.metadata.resource_version))
        }
        if self._unseen:
            self._all_seen.clear()
            await within(self._context.clock, self._all_seen, LONGEST_SHOW)
            self._unseen.clear()

    async def _try(self, pod: Pod, wanted: Operations) -> Pod | None:
        try:
            return await self._write(pod, wanted)
        except ApiError:
            self.queue.add(pod.key)
            return None

    async def _write(self, pod: Pod, wanted: Operations) -> Pod | None:
        """The pod as it was written. None where it is not as it was seen: once that shows it is looked at.

        Raises other ApiErrors.
        """
        clock, metrics, name = self._context.clock, self._context.metrics, pod.metadata.name
        async with self._slots:
            if clock.monotonic() < self._not_before:
                return None
            space = pod.metadata.namespace
            try:
                written = await self._context.client.patch(Pod, name, space, json=wanted, status=True)
            except (Conflict, Invalid, NotFound):
                metrics.add(NOMINATIONS, outcome=REFUSED)
                return None
            except Forbidden as error:
                if clock.monotonic() >= self._not_before:
                    self._not_before = clock.monotonic() + WITHOUT_RIGHT
                    self._context.log.record("nominations.forbidden", message=str(error))
                return None
        metrics.add(NOMINATIONS, outcome=CLEARED if wanted[-1]["op"] == "remove" else SET)
        return written


def _name(node: Node | None) -> str:
    return node.metadata.name if node is not None else ""


def _named(pod: Pod, node: str) -> bool:
    return node in (pod.status.nominated_node_name, pod.metadata.annotations.get(labels.NOMINATED))
