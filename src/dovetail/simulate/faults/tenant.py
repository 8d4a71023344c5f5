"""A tenant that means harm: objects of the hostile grammar, created and deleted at random moments."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from dovetail.api.codec import decode
from dovetail.api.scheme import BY_GVK
from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import ApiError
from dovetail.base.streams import stream
from dovetail.kube.memory import MemoryServer
from dovetail.simulate.faults import kinds
from dovetail.simulate.faults.dice import Dice
from dovetail.simulate.faults.plan import Fault, occurrences
from dovetail.testing.hostile import Place, hostile

NAMESPACE = "tenant"
_MANY = 20  # objects of an attack by numbers, at most: a cluster of ten nodes feels them, and plays on
_SPREAD = 20  # seconds over which one visit creates its objects, as a script would that calls the API server
_DELETED = 0.5  # share of its objects that the tenant takes back
# Objects that stay, as a quota of its namespace would have it: the oldest go. Without an end, three hours of
# benchmarks.fairness took 13 times the processor time of one, for every node ran dozens of its daemons.
_QUOTA = 100


class HostileTenant:
    """Each visit creates `count` attacks, and takes half of the objects back within `lasts`.

    Of those that stay, it has no more than its quota.
    """

    def __init__(self, dice: Dice, clock: Clock, server: MemoryServer) -> None:
        self._dice = dice
        self._clock = clock
        self._server = server
        self._kept: deque[dict[str, Any]] = deque()  # documents, the oldest in front

    async def run(self) -> None:
        """All visits, at the instants that the seed drew."""
        found = list(occurrences(self._dice.faults, kinds.HOSTILE_TENANT, self._dice.seed))
        if not found:
            return
        self._server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        async with asyncio.TaskGroup() as tasks:
            for number, (instant, fault) in enumerate(found):
                await self._clock.sleep(instant - self._clock.now())
                tasks.create_task(self._visit(number, fault, tasks), name=f"hostile visit {number}")

    async def _visit(self, number: int, fault: Fault, tasks: asyncio.TaskGroup) -> None:
        draws = stream(self._dice.seed, str(number), "visit of a hostile tenant")
        made = list(self._drawn(draws.getrandbits(32), number, fault.count))
        pauses = sorted(draws.randrange(_SPREAD * SECOND) for _ in made)
        begun = self._clock.now()
        for pause, (attack, document) in zip(pauses, made, strict=True):
            await self._clock.sleep(begun + pause - self._clock.now())
            try:
                self._server.create(document)
            except ApiError:
                continue
            self._dice.happened(kinds.HOSTILE_TENANT, f"{document['metadata']['name']}: {attack}")
            if "deletionTimestamp" in document["metadata"]:
                self._delete(document)
            elif draws.random() < _DELETED:
                tasks.create_task(self._take_back(document, draws.randrange(fault.lasts + 1)))
            else:
                self._kept.append(document)
                if len(self._kept) > _QUOTA:
                    self._delete(self._kept.popleft())

    def _drawn(self, seed: int, number: int, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """(attack, object). Objects that nothing can decode are left out: here all parts of the cluster
        are clients of one kind, the simulated scheduler and kubelets too.
        """
        place = Place(namespace=NAMESPACE, name=f"hostile-{number}", many=_MANY)
        for attack, document in hostile(seed, count, place, authors=("tenant",), simulated=True):
            try:
                decode(document, BY_GVK[document["apiVersion"], document["kind"]])
            except msgspec.ValidationError:
                continue
            yield attack, document

    async def _take_back(self, document: dict[str, Any], after: int) -> None:
        await self._clock.sleep(after)
        self._delete(document)

    def _delete(self, document: dict[str, Any]) -> None:
        """Nothing to do where another process was faster."""
        kind, meta = BY_GVK[document["apiVersion"], document["kind"]], document["metadata"]
        try:
            self._server.delete(kind, meta["name"], meta.get("namespace", ""))
        except ApiError:
            return
