"""Where the objects of a board come from: a cluster that is watched, a log, or a simulation that plays."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from dovetail.api.core import Event, Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError, NotFound
from dovetail.kube.client import Client
from dovetail.kube.informer import Informer
from dovetail.kube.memory.store import Change
from dovetail.units.money import NANO_DOLLARS
from dovetail.views.history import LogLines
from dovetail.views.top.board import Board
from dovetail.views.top.records import Record, Replay, follow

KINDS: tuple[type[Object], ...] = (Node, NodeClaim, NodePool, PodDisruptionBudget, Event, Pod)
_LOOK = 0.2  # seconds of real time between two looks at a log that grows
_FRAME, _PATIENCE = 0.1, 1.0  # seconds: between two pictures, and that a simulation waits for one at most
_PIECE = 20_000  # lines of a log that are taken in at once, so that a long one shows itself while it is read
_COST = "dovetail_cluster_cost_dollars_per_hour"
_BOUND = "dovetail_cluster_lower_bound_dollars_per_hour"


class Feed(Protocol):
    """`title` says what is shown, `paced` whether time has a pace that keys change. `run` lets things come
    in; `fill` takes them to the board, now and then.
    """

    title: str
    paced: bool

    async def run(self) -> None:
        """Until there is nothing more to come."""

    def fill(self, board: Board) -> None:
        """Take what came since the last call to the board."""

    def now(self) -> int:
        """Nanoseconds since the epoch: the instant that the board shows."""

    def trouble(self) -> str:
        """What keeps news from coming, "" if nothing does."""

    def pace(self, change: int) -> str:
        """Slower (-1), faster (1), stop or go on (0), where time may be had so; what it is then, or ""."""


class ClusterFeed:
    """Watches a cluster. `least` is asked for the cost and the proven least, if they are known."""

    paced = False

    def __init__(
        self,
        client: Client,
        title: str,
        now: Callable[[], int],
        least: Callable[[], tuple[int, int] | None] = lambda: None,
    ) -> None:
        self.title = title
        self.now = now
        self._least = least
        self._news: deque[tuple[str, Object]] = deque()
        self._refused: dict[str, str] = {}
        self._informers = [self._informer(client, kind) for kind in KINDS]

    def _informer(self, client: Client, kind: type[Object]) -> Informer[Any]:
        def refused(why: str) -> None:
            self._refused[kind.PLURAL] = why

        return Informer(
            client, kind, lambda change, obj: self._news.append((change, obj)), on_refused=refused
        )

    async def run(self) -> None:
        """See Feed."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run())

    def fill(self, board: Board) -> None:
        """See Feed."""
        while self._news:
            board.take(*self._news.popleft())
        board.least = self._least() or board.least

    def trouble(self) -> str:
        """See Feed."""
        for kind, informer in zip(KINDS, self._informers, strict=True):
            if informer.synced:
                self._refused.pop(kind.PLURAL, None)
            seconds, why = informer.trouble
            if self._refused.get(kind.PLURAL) or (seconds > 1 and not informer.synced):
                return f"{kind.PLURAL}: {self._refused.get(kind.PLURAL) or why}"
        return ""

    def pace(self, change: int) -> str:
        """See Feed: a cluster has its own time."""
        del change
        return ""


async def look(client: Client, board: Board) -> None:
    """One look at a cluster. Kinds that it does not know, as without Karpenter, are none. Raises ApiError."""
    for kind in KINDS:
        try:
            listing = await client.list(kind)
        except NotFound:
            continue
        for obj in listing.items:
            board.take("ADDED", obj)


class LogFeed:
    """Reads a log, and follows it while it grows. Raises InputError where there is none to read."""

    def __init__(self, path: Path, until: int | None = None) -> None:
        self.title, self.paced = str(path), False
        self._until = until
        self._news: deque[Record] = deque()
        self._replay: Replay | None = None
        self._lines = LogLines(str(path))
        self._fault = ""
        self._stack = ExitStack()
        try:
            self._file: BinaryIO = self._stack.enter_context(path.open("rb"))
        except OSError as error:
            raise InputError(f"cannot read the log: {error.strerror}", source=str(path)) from None

    async def run(self) -> None:
        """See Feed."""
        with self._stack:
            while not self._fault:
                try:
                    self._news.extend(self._read(_PIECE))
                except InputError as error:
                    self._fault = str(error)
                await asyncio.sleep(_LOOK if not self._news else 0)

    def read(self, board: Board) -> None:
        """All that is there now. Raises InputError for what is no log."""
        with self._stack:
            while found := list(self._read(_PIECE)):
                self._news.extend(found)
                self.fill(board)
            self._lines.close()

    def _read(self, most: int) -> Iterator[Record]:
        for _ in range(most):
            start = self._file.tell()
            line = self._file.readline()
            if not line.endswith(b"\n"):  # its end is not written yet
                self._file.seek(start)
                return
            record = self._lines.read(line)
            if record is not None and (self._until is None or record["t"] <= self._until):
                yield record

    def fill(self, board: Board) -> None:
        """See Feed."""
        if self._replay is None:
            self._replay = Replay(board)
        while self._news:
            self._replay.read(self._news.popleft())

    def now(self) -> int:
        """See Feed: the instant of the last record."""
        return self._replay.now if self._replay is not None else 0

    def trouble(self) -> str:
        """See Feed."""
        return self._fault

    def pace(self, change: int) -> str:
        """See Feed: what is written has happened."""
        del change
        return ""


class Stopped(Exception):
    """Whoever watches a simulation has seen enough."""


class SimulationFeed:
    """A simulation that plays in a thread of its own; a Spectator of it (simulate/run.py).

    What it does is written down there and taken to the board elsewhere, so that the board has one owner.
    """

    paced = True

    _PACES = (1, 10, 60, 300, 1_800, 7_200)  # virtual seconds per second; beyond: as fast as it goes

    def __init__(self, title: str, start: int, play: Callable[[SimulationFeed], None]) -> None:
        self.title = title
        self._play = play
        self._news: deque[tuple[str, Object] | Record] = deque()
        self._now = start
        self._seen_records = 0  # of the log, so far
        self._speed: int | None = None
        self._going = threading.Event()
        self._going.set()
        self._filled = threading.Event()  # since it was waited for
        self._taken = time.monotonic()  # when the board took what there was
        self._running = False
        self._stopped = False
        self._over = False
        self._since = time.monotonic(), start  # real and virtual instant from which the speed counts

    async def run(self) -> None:
        """See Feed. Raises what ends the simulation."""
        self._running = True
        playing = asyncio.get_running_loop().run_in_executor(None, self._play, self)
        try:
            await asyncio.shield(playing)
        except asyncio.CancelledError:  # it ends at its next step, and is waited for: files are closed then
            self._stopped = True
            self._going.set()
            with suppress(Stopped):
                await playing
            raise
        except Stopped:
            pass
        finally:
            self._over = True

    def changed(self, change: Change[Any]) -> None:
        """See Spectator; called by the thread that plays."""
        if change.after.kind in KINDS:
            self._news.append((change.type, change.after.view))

    def progress(self, now: int, records: Sequence[Record]) -> None:
        """See Spectator. Waits where it plays slower than it could. Raises Stopped."""
        self._news.extend(records[self._seen_records :])
        self._seen_records = len(records)
        self._now = now
        self._going.wait()
        if (
            self._running and time.monotonic() - self._taken > _FRAME
        ):  # both threads share one core: the picture comes first
            self._filled.clear()
            self._filled.wait(_PATIENCE)
        while not self._stopped and self._speed is not None:
            begun, virtual = self._since
            ahead = (now - virtual) / SECOND / self._speed - (time.monotonic() - begun)
            if ahead <= 0:
                break
            time.sleep(min(ahead, 0.1))
        if self._stopped:
            raise Stopped

    def fill(self, board: Board) -> None:
        """See Feed."""
        while self._news:
            item = self._news.popleft()
            if isinstance(item, tuple):
                board.take(*item)
            else:
                follow(board, item)
        self._taken = time.monotonic()
        self._filled.set()

    def now(self) -> int:
        """See Feed: virtual time."""
        return self._now

    def trouble(self) -> str:
        """See Feed."""
        return "the simulation is over" if self._over else ""

    def pace(self, change: int) -> str:
        """See Feed."""
        self._since = time.monotonic(), self._now
        if change == 0:
            (self._going.clear if self._going.is_set() else self._going.set)()
            return "goes on" if self._going.is_set() else "paused"
        at = self._PACES.index(self._speed) if self._speed is not None else len(self._PACES)
        at = max(0, at + change)
        self._speed = self._PACES[at] if at < len(self._PACES) else None
        return f"{self._speed} s per second" if self._speed is not None else "as fast as it goes"


def read_least(exposition: str) -> tuple[int, int] | None:
    """Cost and proven least of the metrics (nano-dollars per hour); None where they have neither."""
    found = {}
    for line in exposition.splitlines():
        name, _, value = line.partition(" ")
        if name in (_COST, _BOUND) and isfinite(float(value)):
            found[name] = round(float(value) * NANO_DOLLARS)
    return (found[_COST], found[_BOUND]) if len(found) == 2 else None
