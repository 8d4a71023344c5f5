"""Moves of pods that nothing forced: counted on the NodePools, so that a restart does not forget them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.errors import ApiError
from dovetail.controllers.context import Context
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.command import DRIFTED, EXPIRED, UNDERUTILIZED, UNHEALTHY, Command
from dovetail.disrupt.consolidation.churn import MOVED_PODS, Arrival, Entry, Ledger, Moves, Present
from dovetail.disrupt.pods import reschedulable

_MOVING = (UNDERUTILIZED, DRIFTED, EXPIRED, UNHEALTHY)


class MoveBook:
    """The ledger of this controller. It reads the annotations once, and they follow it from then on."""

    def __init__(self, context: Context, per_pod: int) -> None:
        self._context = context
        self._ledger = Ledger(per_pod)
        self._read = False
        # What was left given the pods of these nodes, and up to when; None once moves are recorded.
        self._known: tuple[tuple[NodeView, ...], int, Moves] | None = None
        self._present = Present()
        self._views: dict[str, NodeView] = {}  # whose pods those are, by the claim's name

    def left(self, views: tuple[NodeView, ...]) -> Moves:
        """How many more moves may be made, given all pods that there are. Needs a state that is synced."""
        self._open()
        now, known = self._context.clock.now(), self._known
        if known is None or known[0] is not views or now >= known[1]:
            self._follow(views)
            moves = self._ledger.left(self._present, now)
            known = self._known = views, self._ledger.same_until(), moves
        return known[2]

    def lately(self, views: tuple[NodeView, ...]) -> Mapping[str, Arrival]:
        """Pods that came by a move within the hour, whatever moved them, by UID."""
        self._open()
        self._follow(views)
        return self._ledger.lately(self._present, self._context.clock.now())

    def _follow(self, views: tuple[NodeView, ...]) -> None:
        """Only the pods of nodes that changed are looked at."""
        before, self._views = self._views, {view.claim.metadata.name: view for view in views}
        for name, view in self._views.items():
            old = before.pop(name, None)
            if old is None:
                self._present.add(view.pods)
            elif old.pods is not view.pods:
                gone, come = set(map(id, old.pods)), set(map(id, view.pods))
                self._present.remove(pod for pod in old.pods if id(pod) not in come)
                self._present.add(pod for pod in view.pods if id(pod) not in gone)
        for view in before.values():
            self._present.remove(view.pods)

    async def record(self, command: Command) -> tuple[Entry, ...]:
        """The command begins to move pods: count them, whether that saves money or brings nodes up to date.

        Nothing but consolidation waits for the count: what drifted or is too old has to go in any case.
        """
        return await self.resume(command, self._context.clock.now())

    async def resume(self, command: Command, since: int) -> tuple[Entry, ...]:
        """The moves of a command that was begun at `since`; they are counted now where they were not yet."""
        if command.reason not in _MOVING:
            return ()
        self._open()
        self._known = None
        moved: dict[str, list[Pod]] = {}
        for view in command.candidates:
            moved.setdefault(view.pool_name, []).extend(view.moving)
        now, forced = self._context.clock.now(), command.reason != UNDERUTILIZED
        entries = []
        for pool, pods in sorted(moved.items()):
            known = self._ledger.find(pool, pods, since) if since < now else None
            entries.append(known or self._ledger.record(pool, pods, now, forced=forced))
        await self._write([entry.pool for entry in entries])
        return tuple(entries)

    async def take_back(self, entries: tuple[Entry, ...]) -> None:
        """The command was undone before it moved any pod."""
        self._known = None
        for entry in entries:
            self._ledger.take_back(entry)
        await self._write([entry.pool for entry in entries])

    async def give_back(self, pool: str, pods: Iterable[Pod], since: int) -> None:
        """A command of an earlier process, begun at `since`, did not come to move these pods."""
        self._open()
        self._known = None
        self._ledger.give_back(pool, [pod for pod in pods if reschedulable(pod)], since)
        await self._write([pool])

    def _open(self) -> None:
        if not self._read:
            self._read = True
            now = self._context.clock.now()
            for pool in self._context.state.all(NodePool):
                self._ledger.read(pool.metadata.name, pool.metadata.annotations.get(MOVED_PODS, "{}"), now)

    async def _write(self, pools: Iterable[str]) -> None:
        now = self._context.clock.now()
        for pool in dict.fromkeys(pools):
            merge = {"metadata": {"annotations": {MOVED_PODS: self._ledger.text(pool, now)}}}
            try:
                await self._context.client.patch(NodePool, pool, merge=merge)
            except ApiError:
                continue  # it is written with the next command


def same_but_moves(old: NodePool, new: NodePool) -> bool:
    """True iff they differ in their status and the counted moves alone: for nodes nothing follows from it."""
    one, two = old.metadata, new.metadata
    return (
        (old.spec is new.spec or old.spec == new.spec)
        and (one.uid, one.generation, one.labels) == (two.uid, two.generation, two.labels)
        and _but_moves(old) == _but_moves(new)
    )


def _but_moves(pool: NodePool) -> dict[str, str]:
    return {key: text for key, text in pool.metadata.annotations.items() if key != MOVED_PODS}


class SteadyPools:
    """NodePools, each the same object until more of it changes than its status and the counted moves.

    Each command writes the moves and each node the status: what follows from pools was worked out anew for
    all their nodes.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[NodePool, NodePool]] = {}  # by name: as seen last, and the steady one

    def of(self, pool: NodePool) -> NodePool:
        """The pool, or how it was first seen with all but that."""
        name = pool.metadata.name
        seen, steady = self._known.get(name, (None, pool))
        if seen is not pool:
            steady = steady if same_but_moves(steady, pool) else pool
            self._known[name] = pool, steady
        return steady

    def keep(self, names: Container[str]) -> None:
        """Nothing is held of pools with other names, which may be gone."""
        self._known = {name: each for name, each in self._known.items() if name in names}
