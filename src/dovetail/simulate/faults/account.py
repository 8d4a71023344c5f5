"""What goes wrong in AWS itself, whoever asks: short fleets, instances that die young, late views."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

from dovetail.base.clock import SECOND, Clock
from dovetail.cloud.aws.api import Instance
from dovetail.cloud.aws.fake import MemoryAws
from dovetail.cloud.interruption import Letter
from dovetail.simulate.faults import kinds
from dovetail.simulate.faults.dice import Dice
from dovetail.simulate.faults.plan import Fault, occurrences

_MILLISECOND = SECOND // 1000
_DIED = "Server.InternalError"


class AccountFaults:
    """Disturbs an account in memory, from its beginning on. `parts` has to run beside it."""

    def __init__(self, dice: Dice, clock: Clock, aws: MemoryAws) -> None:
        self._dice = dice
        self._clock = clock
        self._aws = aws
        self._expired = 0  # stretches of time without credentials that are not over
        self._tasks: set[asyncio.Task[None]] = set()
        aws.ec2.launches.withheld = self._withheld
        aws.machines.on_started.append(self._started)

    @property
    def credentials_expired(self) -> bool:
        """True iff AWS takes the controllers' credentials no longer."""
        return self._expired > 0

    def parts(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """What must run, by name."""
        yield kinds.CREDENTIALS_EXPIRE, self._expire_at_times()

    def maybe_send_again(self, letter: Letter) -> None:
        """A message that was given out may be delivered once more, whether it was deleted or not."""
        fault = self._dice.hit(kinds.QUEUE_DUPLICATE, "message", letter.receipt)
        if fault is not None:
            self._later(self._send(letter.body, self._delay(fault)), "sqs: a duplicate")

    def _withheld(self, wanted: int) -> int | None:
        """How many instances a fleet does not get; None where nothing happens to it."""
        if self._dice.hit(kinds.FLEET_SHORTAGE, "fleet", f"{wanted} wanted"):
            return wanted
        if self._dice.hit(kinds.FLEET_PARTIAL, "fleet", f"{wanted} wanted"):
            return wanted // 2
        return None

    def _started(self, instance: Instance) -> None:
        lag = self._dice.hit(kinds.DESCRIBE_LAG, "launch", instance.id)
        machine = self._aws.machines.there(instance.id)
        if lag is not None and machine is not None:
            self._aws.machines.late(machine, self._delay(lag))
        death = self._dice.hit(kinds.LAUNCH_DEATH, "launch", instance.id)
        if death is not None:
            self._later(self._die(instance.id, self._delay(death)), f"ec2: {instance.id} dies")

    async def _die(self, identifier: str, delay: int) -> None:
        await self._clock.sleep(delay)
        machine = self._aws.machines.there(identifier)
        if machine is not None:
            self._aws.machines.lose(machine, _DIED)

    async def _send(self, body: str, delay: int) -> None:
        await self._clock.sleep(delay)
        self._aws.send(body)

    async def _expire_at_times(self) -> None:
        for instant, fault in occurrences(self._dice.faults, kinds.CREDENTIALS_EXPIRE, self._dice.seed):
            await self._clock.sleep(instant - self._clock.now())
            self._dice.happened(kinds.CREDENTIALS_EXPIRE, "the controllers")
            self._later(self._expire(fault.lasts), "aws: no credentials")

    async def _expire(self, lasts: int) -> None:
        self._expired += 1
        await self._clock.sleep(lasts)
        self._expired -= 1

    def _delay(self, fault: Fault) -> int:
        longest = max(1, fault.lasts // _MILLISECOND)
        return self._dice.stream(fault.kind, "how long").randint(1, longest) * _MILLISECOND

    def _later(self, act: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(act, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
