"""CreateFleet: equal requests are merged, each is made once, and every claim gets its share of the answer."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field

from dovetail.base.clock import MINUTE, SECOND, Clock
from dovetail.cloud.aws.api import Ec2, FleetAnswer, FleetInstances
from dovetail.cloud.aws.errors import AwsError, Refusal
from dovetail.cloud.aws.instance.batcher import MILLISECOND, Window
from dovetail.cloud.aws.instance.fleet_errors import FleetError
from dovetail.cloud.aws.launchtemplate.template import Document
from dovetail.cloud.aws.metrics import Figures

WINDOW = Window(35 * MILLISECOND, SECOND, 1_000)
_PAUSES = (SECOND, 2 * SECOND)  # before a call that was not answered is made again
_RETRIED = (Refusal.UNREACHABLE, Refusal.SERVER, Refusal.THROTTLED)
# After these a fleet may have been launched all the same.
_UNSURE = (Refusal.UNREACHABLE, Refusal.SERVER)
_REFUSED = (Refusal.REQUEST, Refusal.NOT_FOUND, Refusal.EXISTS)
# For so long a fleet that was never answered is asked for again, before anything is launched in its place.
_UNANSWERED = 10 * MINUTE
_REMEMBERED = 20_000  # askers
_OTHER_REQUEST = "IdempotentParameterMismatch"


@dataclass(frozen=True, slots=True)
class Share:
    """What a claim got of a fleet: an instance and where it runs, or none, and the errors of the call."""

    instance: str
    given: FleetInstances | None
    errors: tuple[FleetError, ...]


@dataclass(slots=True)
class _Batch:
    request: Document
    asked: int
    entities: list[str] = field(default_factory=list)
    token: str = ""
    unsure: bool = False  # True iff one of its calls may have been done without an answer
    answer: FleetAnswer | None = None
    call: asyncio.Task[FleetAnswer] | None = None


class Fleets:
    """An asker is named, and asks for one instance at a time.

    The token of a call is made of its askers. A call that was never answered may have launched all the same:
    the next time one of its askers comes, the very same call is made first, which launches nothing twice.
    """

    def __init__(self, ec2: Ec2, clock: Clock, figures: Figures, *, window: Window = WINDOW) -> None:
        self._ec2 = ec2
        self._figures = figures
        self._clock = clock
        self._window = window
        self._open: dict[str, _Batch] = {}  # by request
        self._unanswered: dict[str, _Batch] = {}  # by asker
        self._asked: Counter[str] = Counter()  # how often each asker came, the most recent ones last

    async def launch(self, request: Document, entity: str) -> Share:
        """One instance of the fleet that the request describes. Raises AwsError."""
        batch = self._unanswered.get(entity)
        if batch is None or self._clock.monotonic() - batch.asked > _UNANSWERED:
            self._unanswered.pop(entity, None)
            batch = self._join(request, entity)
        if batch.call is None or (batch.call.done() and batch.answer is None):
            batch.call = asyncio.get_running_loop().create_task(self._make(batch), name="aws: CreateFleet")
        try:
            # The call is shared: one asker that is cancelled leaves it to the others.
            answer = await asyncio.shield(batch.call)
        except AwsError as error:
            # A call before the last may have been done; one that EC2 looked at and refused was not.
            if batch.unsure and error.refusal not in _REFUSED:
                self._unanswered[entity] = batch
            else:
                self._unanswered.pop(entity, None)
            raise
        self._unanswered.pop(entity, None)
        return _share(answer, batch.entities.index(entity))

    def _join(self, request: Document, entity: str) -> _Batch:
        key = json.dumps(request, sort_keys=True)
        batch = self._open.get(key)
        if batch is None or len(batch.entities) >= self._window.most or entity in batch.entities:
            batch = self._open[key] = _Batch(request, self._clock.monotonic())
        batch.entities.append(entity)
        return batch

    async def _make(self, batch: _Batch) -> FleetAnswer:
        if not batch.token:
            await self._window.close(self._clock, lambda: len(batch.entities))
            self._figures.batch("create_fleet", len(batch.entities), self._clock.monotonic() - batch.asked)
            self._open = {key: other for key, other in self._open.items() if other is not batch}
            batch.request = copy.deepcopy(batch.request)
            batch.request["TargetCapacitySpecification"]["TotalTargetCapacity"] = len(batch.entities)
            batch.token = self._token(batch)
        for pause in (*_PAUSES, None):
            try:
                batch.answer = await self._ec2.create_fleet(batch.request, token=batch.token)
                self._figures.refused(batch.answer.errors)
                return batch.answer
            except AwsError as error:
                batch.unsure = batch.unsure or error.refusal in _UNSURE
                if error.code == _OTHER_REQUEST:
                    # An earlier process asked for something else with it.
                    batch.token = self._token(batch)
                elif error.refusal not in _RETRIED or pause is None:
                    raise
                else:
                    await self._clock.sleep(pause)
        raise AwsError("CreateFleet", _OTHER_REQUEST, "every client token was taken")

    def _token(self, batch: _Batch) -> str:
        self._asked.update(batch.entities)
        for forgotten in list(self._asked)[:-_REMEMBERED]:
            del self._asked[forgotten]
        text = "|".join(f"{entity}/{self._asked[entity]}" for entity in sorted(batch.entities))
        return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


def _share(answer: FleetAnswer, position: int) -> Share:
    """Instances are shared out in the order in which claims asked."""
    for given in answer.instances:
        if position < len(given.ids):
            return Share(given.ids[position], given, answer.errors)
        position -= len(given.ids)
    return Share("", None, answer.errors)
