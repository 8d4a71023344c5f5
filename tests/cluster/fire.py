"""A run under fire: a controller that is killed at random moments, beside hostile objects and ordinary pods.

What is done, and when, follows from the seed (`script`). What comes of it depends on the machine, so a run
keeps its history, which is judged afterwards and can be judged again.
"""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any
from urllib.error import HTTPError

from dovetail.base.streams import stream
from dovetail.kube.http.access import Access
from dovetail.kube.http.client import connect
from dovetail.kube.http.kubeconfig import locate
from dovetail.runtime.process.clock import WallClock
from dovetail.simulate.live.history import Broken, Deletion, Entry, Quiet, Stored, watch
from dovetail.simulate.live.judge import PATIENCE
from dovetail.testing.hostile import Place, hostile
from tests.cluster.audit import account_of, deleted_pods
from tests.cluster.hostile import remove, struck, sweep_pods, where
from tests.cluster.running import Controller, eventually
from tests.cluster.world import (
    ACCOUNT_SPACE,
    CLAIMS,
    CLASS,
    NODES,
    POOLS,
    Document,
    World,
    apart,
    budget,
    deployment,
    node_pool,
)

# From the first step to the last. Consolidation looks twice, 15 s apart, before it acts: so there is less to
# see to towards the end, when only kills and what is taken back disturb it.
SECONDS = 50
_BUSY = 20
_KILLS = (1, 4)  # at least and at most
_ATTACKS = 15
_MANY = 4  # objects of an attack by numbers
_SCALINGS = 5
_TAKEN_BACK = 0.5  # share of the hostile objects that their author deletes again
_PARTING = 0.25  # seconds for the connections to part: aiohttp does not wait for TLS to end
_SETTLING = PATIENCE / 10**9 + 30  # seconds; the judge's patience must be over within it
# Lines about something the controller did not expect.
_UNEXPECTED = (
    "unexpected error: what it is about is left alone and tried again later, all else goes on",
    "left an object that cannot be understood out of the plan",
    "the solver raised an exception",
)


@dataclass(frozen=True, slots=True)
class Step:
    """Something that is done at its time (seconds from the start)."""

    at: float
    what: str  # a method of `Fire`
    given: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """What one seed does to a cluster."""

    pool: Document  # what its NodePool has besides the usual
    replicas: dict[str, int]
    steps: tuple[Step, ...]


def script(seed: int, tenant: Place) -> Script:
    """All of it, drawn from the seed alone."""
    draw = stream(seed, "fire", "script")
    replicas = {"web": draw.randint(4, 8), "apart": draw.randint(2, 4), "guarded": 3, "kept": 2}
    kills = draw.randint(*_KILLS)
    steps = [Step(draw.uniform(1, SECONDS), "kill", (draw.uniform(0, 3),)) for _ in range(kills)]
    for _ in range(_SCALINGS):
        name = draw.choice(("web", "apart", "guarded"))
        steps.append(Step(draw.uniform(3, _BUSY), "scale", (name, draw.randint(0, replicas[name] + 2))))
    # Room for consolidation, whatever was drawn.
    steps += [Step(_BUSY, "scale", (name, 1)) for name in ("web", "apart")]
    for what in ("delete_node", "delete_claim", "delete_pods"):
        steps.append(Step(draw.uniform(8, _BUSY), what, (draw.random(),)))
    steps += _attacks(seed, tenant, draw)
    pool = {
        "disruption": {
            "consolidateAfter": draw.choice(("0s", "1s", "2s")),
            "budgets": [{"nodes": draw.choice(("100%", "50%", "1"))}],
        },
        "expireAfter": draw.choice(("Never", "15s", "40s")),
        "terminationGracePeriod": draw.choice((None, "10s", "20s")),
    }
    spec = {key: value for key, value in pool.items() if value is not None}
    return Script(spec, replicas, tuple(sorted(steps, key=lambda step: step.at)))


def _attacks(seed: int, tenant: Place, draw: Random) -> Iterator[Step]:
    for name, document in hostile(seed, _ATTACKS, tenant):
        begin = draw.uniform(0, _BUSY)
        yield Step(begin, "strike", (name, document))
        if draw.random() < _TAKEN_BACK:
            yield Step(draw.uniform(begin, SECONDS), "take_back", (document,))


@dataclass
class Fire:
    """One run. `perform` answers its history."""

    world: World
    seed: int
    entries: list[Entry] = field(default_factory=list)
    struck: list[Document] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what was done, and when, for the reader of a failure

    def __post_init__(self) -> None:
        self.tenant = f"{self.world.name}-tenant"
        chosen = stream(self.seed, "fire", "tenant").choice(({}, {"world": self.world.name}))
        self._place = Place(
            namespace=self.tenant,
            name=f"{self.world.name}-h",
            many=_MANY,
            selector=chosen,
            pool=self.world.name,
            group=CLASS["group"],
            node_class=CLASS["kind"],
        )
        self._begun = time.monotonic()
        self._down_until = 0.0
        self._controller: Controller | None = None
        self._controllers: list[Controller] = []
        self._held = ExitStack()

    def perform(self) -> list[Entry]:
        """The whole run, and what it leaves taken away again."""
        begun = datetime.now(UTC)
        plan = script(self.seed, self._place)
        self.world.plane.run("kubectl", "create", "namespace", self.tenant)
        try:
            with self._held, recorded(self.world, self.entries):
                self._prepare(plan)
                self._begun = time.monotonic()
                self._start()
                for step in plan.steps:
                    self._wait(step.at)
                    getattr(self, f"_{step.what}")(*step.given)
                self._wait(max(SECONDS, self._down_until - self._begun))
                self._settle()
                self._tidy()
        finally:
            self._clear()
        who = account_of(ACCOUNT_SPACE, "e2e")
        for at, pod in deleted_pods(self.world.plane, who, since=begun):
            self.entries.append(Deletion(at, pod))
        return self.entries

    def _prepare(self, plan: Script) -> None:
        world, more = self.world, dict(plan.pool)
        spread = {"apart": {"affinity": apart("apart")}, "kept": {"annotations": _KEPT}}
        world.apply(
            node_pool(world, disruption=more.pop("disruption"), **more),
            budget("guarded", minAvailable=1),
            *(
                deployment(world, name, count, cpu="500m", **spread.get(name, {}))
                for name, count in plan.replicas.items()
            ),
        )

    # What the script does ------------------------------------------------------------------------------

    def _kill(self, down: float) -> None:
        """The process ends without a chance to tidy up; the next one begins after `down` seconds."""
        self._ended_by_itself()
        if self._controller is not None:
            self._controller.stop(signal.SIGKILL)
            self._controller = None
            self._say("killed")
        self._down_until = time.monotonic() + down

    def _scale(self, name: str, replicas: int) -> None:
        path = f"/apis/apps/v1/namespaces/{self.world.name}/deployments/{name}"
        self.world.send("PATCH", path, {"spec": {"replicas": replicas}})
        self._say(f"{name} scaled to {replicas}")

    def _delete_node(self, which: float) -> None:
        self._delete_one(NODES, which)

    def _delete_claim(self, which: float) -> None:
        self._delete_one(CLAIMS, which)

    def _delete_pods(self, which: float) -> None:
        found = self.world.running("web")
        for pod in found[: int(which * len(found))]:
            self._delete(f"/api/v1/namespaces/{self.world.name}/pods/{pod['metadata']['name']}")

    def _strike(self, name: str, document: Document) -> None:
        said = struck(self.world, document)
        if not said:
            self.struck.append(document)
        self._say(f"{name}: {document['kind']} {document['metadata']['name']}{said and ', refused'}")

    def _take_back(self, document: Document) -> None:
        self._delete(f"{where(document)}/{document['metadata']['name']}")

    def _delete_one(self, path: str, which: float) -> None:
        found = self.world.read(path, f"world={self.world.name}")["items"]
        if found:
            name = found[int(which * len(found))]["metadata"]["name"]
            self._delete(f"{path}/{name}")

    def _delete(self, path: str) -> None:
        self._say(f"delete {path}")
        try:
            self.world.send("DELETE", path)
        except HTTPError as error:
            error.close()

    # What keeps it going -------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        self.notes.append(f"{time.monotonic() - self._begun:6.1f} s  {text}")

    def _wait(self, until: float) -> None:
        """Until that time; a controller that is due meanwhile is started."""
        while (now := time.monotonic()) < self._begun + until:
            self._start_if_due()
            time.sleep(min(0.05, self._begun + until - now))

    def _start_if_due(self) -> None:
        self._ended_by_itself()
        if self._controller is None and time.monotonic() >= self._down_until:
            self._start()

    def _start(self) -> None:
        self._controller = self._held.enter_context(self.world.controller())
        self._controllers.append(self._controller)
        self._say("started")

    def _ended_by_itself(self) -> None:
        if self._controller is None or (code := self._controller.ended) is None:
            return
        log = self._controller.log
        self._break("process", str(log), f"ended with {code}: {log.read_text()[-500:]}")
        self._controller = None

    def _break(self, rule: str, subject: str, message: str) -> None:
        self.entries.append(Broken(time.time_ns(), rule, subject, message))

    # How it ends ---------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """From here on nothing goes wrong: all ordinary pods must get to run beside what is still there."""
        quiet = time.time_ns()
        self._start_if_due()
        try:
            unserved = eventually(self._unserved, lambda found: not found, seconds=_SETTLING)
        except AssertionError:
            # Not asked again once all ran: pods go on being moved, and one may just have been made anew.
            unserved = self._unserved()
        with suppress(AssertionError):
            eventually(self._ready, bool, seconds=_SETTLING)
        self._say(f"settled, without a node: {unserved}")
        self.entries.append(Quiet(quiet, time.time_ns()))
        for name in unserved:
            self._break("unserved", name, "an ordinary pod does not run, long after the last fault")
        if not self._ready():
            self._break("process", "readyz", "is not ready after the last fault")

    def _ready(self) -> bool:
        self._start_if_due()
        return self._controller is not None and self._controller.asked("/readyz")[0] == 200

    def _unserved(self) -> list[str]:
        self._start_if_due()
        return [
            pod["metadata"]["name"] for pod in self.world.pods() if pod["status"].get("phase") != "Running"
        ]

    def _tidy(self) -> None:
        """All pods leave: nothing of what was bought may stay."""
        quiet = time.time_ns()
        for document in self.struck:
            self._let_go(f"{where(document)}/{document['metadata']['name']}")
        sweep_pods(self.world, self.tenant)
        for name in ("web", "apart", "guarded", "kept"):
            self._scale(name, 0)
        self._delete(f"{POOLS}/{self.world.name}")
        with suppress(AssertionError):
            eventually(self._left, lambda found: not found, seconds=_SETTLING)
        self._say(f"left: {self._left()}")
        self.entries.append(Quiet(quiet, time.time_ns()))
        for name in self._left():
            self._break("left over", name, "is still there though its pool and all pods are gone")
        assert self._controller is not None
        if (code := self._controller.stop()) != 0:
            self._break("process", "SIGTERM", f"ended with {code}")
        for controller in self._controllers:
            for line in unexpected(controller):
                subject = str(line.get("object") or line.get("name") or "")
                self._break("no reconcile panics", subject, f"{line['message']}: {line.get('error')}")

    def _let_go(self, path: str) -> None:
        """Delete it, with the finalizers of others: those of the controller are its own to take away."""
        try:
            self.world.send("DELETE", path)
            there = self.world.read(path)["metadata"].get("finalizers", ())
            ours = [name for name in there if name.startswith("karpenter")]
            self.world.send("PATCH", path, {"metadata": {"finalizers": ours}})
        except HTTPError as error:
            error.close()

    def _left(self) -> list[str]:
        self._start_if_due()
        return [
            f"{path.rpartition('/')[2]}/{item['metadata']['name']}"
            for path in (CLAIMS, NODES)
            for item in self.world.read(path)["items"]
        ]

    def _clear(self) -> None:
        """Whatever the controller left, and what the world does not know of."""
        self.world.plane.run("kubectl", "delete", "namespace", self.tenant, "--wait=false")
        for document in self.struck:
            if document["metadata"].get("namespace") != self.tenant:
                remove(self.world, f"{where(document)}/{document['metadata']['name']}")
        sweep_pods(self.world, self.tenant)
        for path in (POOLS, CLAIMS, NODES):
            for item in self.world.read(path)["items"]:
                remove(self.world, f"{path}/{item['metadata']['name']}")


_KEPT = {"karpenter.sh/do-not-disrupt": "true"}


def unexpected(controller: Controller) -> list[dict[str, Any]]:
    """Lines of its log about an exception; one that was killed may have begun another line."""
    found = []
    for line in controller.log.read_text().splitlines():
        try:
            read = json.loads(line)
        except json.JSONDecodeError:
            read = {"message": line}
            if "Traceback" not in line:
                continue
        if read["message"] in _UNEXPECTED or "Traceback" in read["message"]:
            found.append(read)
    return found


@contextmanager
def recorded(world: World, entries: list[Entry]) -> Iterator[None]:
    """Watch the cluster while the block lasts. Raises ApiError if changes may have been missed."""
    access = locate({}, kubeconfig=Path(world.plane.kubeconfig))
    ready = threading.Event()
    failed: list[BaseException] = []
    stop: list[Callable[[], object]] = []

    def work() -> None:
        try:
            asyncio.run(_watch(access, entries.append, ready.set, stop.append))
        except asyncio.CancelledError:
            return
        except BaseException as error:
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=work, name="history")
    thread.start()
    ready.wait()
    try:
        yield
    finally:
        for end in stop:
            with suppress(RuntimeError):  # its loop is closed where it failed: that is told below
                end()
        thread.join()
    if failed:
        raise failed[0]


async def _watch(
    access: Access,
    keep: Callable[[Stored], None],
    ready: Callable[[], None],
    stopping: Callable[[Callable[[], object]], None],
) -> None:
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    stopping(lambda: loop.call_soon_threadsafe(task.cancel))
    try:
        async with connect(access) as client:
            await watch(client, WallClock(), keep, ready)
    finally:
        await asyncio.sleep(_PARTING)
