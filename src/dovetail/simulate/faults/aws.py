"""The AWS port, with faults, and what goes wrong in AWS itself: short fleets, early deaths, late views."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, cast

from dovetail.base.clock import SECOND, Clock
from dovetail.cloud.aws.api import (
    Aws,
    Ec2,
    Eks,
    Iam,
    Instance,
    Pricing,
    ServiceQuotas,
    Sqs,
    Ssm,
    Sts,
    ZonalShift,
)
from dovetail.cloud.aws.errors import UNREACHABLE, AwsError
from dovetail.cloud.aws.fake import MemoryAws
from dovetail.cloud.interruption import Letter
from dovetail.simulate.faults import kinds
from dovetail.simulate.faults.dice import Dice
from dovetail.simulate.faults.epoch import Epoch
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


# Per service: the codes for too many calls, and for credentials that are over.
_CODES = {
    "ec2": ("RequestLimitExceeded", "RequestExpired"),
    "iam": ("Throttling", "ExpiredToken"),
    "sts": ("Throttling", "ExpiredToken"),
}
_USUAL_CODES = ("ThrottlingException", "ExpiredTokenException")


class FaultyAws:
    """The AWS of one process over a good one. What was asked for happens even if the process dies."""

    def __init__(self, aws: Aws, dice: Dice, epoch: Epoch, account: AccountFaults) -> None:
        door = _Door(dice, epoch, account)
        self.region = aws.region
        self.ec2 = cast("Ec2", _Service("ec2", aws.ec2, door))
        self.ssm = cast("Ssm", _Service("ssm", aws.ssm, door))
        self.iam = cast("Iam", _Service("iam", aws.iam, door))
        self.eks = cast("Eks", _Service("eks", aws.eks, door))
        self.sqs = cast("Sqs", _Service("sqs", aws.sqs, door))
        self.zonal_shift = cast("ZonalShift", _Service("arc-zonal-shift", aws.zonal_shift, door))
        self.quotas = cast("ServiceQuotas", _Service("servicequotas", aws.quotas, door))
        self.pricing = cast("Pricing", _Service("pricing", aws.pricing, door))
        self.sts = cast("Sts", _Service("sts", aws.sts, door))


class _Service:
    """One service: whatever the port has, as all its methods are calls that fail in the same ways."""

    def __init__(self, name: str, good: object, door: _Door) -> None:
        self._name = name
        self._good = good
        self._door = door

    def __getattr__(self, call: str) -> Callable[..., Awaitable[Any]]:
        good = getattr(self._good, call)

        @functools.wraps(good)
        async def faulty(*given: Any, **named: Any) -> Any:
            return await self._door.pass_through(self._name, call, lambda: good(*given, **named))

        setattr(self, call, faulty)  # asked for once
        return faulty


class _Door:
    """What every call of one process passes through."""

    def __init__(self, dice: Dice, epoch: Epoch, account: AccountFaults) -> None:
        self._dice = dice
        self._epoch = epoch
        self._account = account

    async def pass_through(self, service: str, call: str, act: Callable[[], Awaitable[Any]]) -> Any:
        """The call with what goes wrong before it and after it. Raises AwsError."""
        self._epoch.step()
        name = f"{service} {call}"
        action = "".join(part.capitalize() for part in call.split("_"))
        self._refuse(service, action, name)
        if call == "create_tags" and self._dice.hit(kinds.TAGS_LOST, name):
            return None
        try:
            answer = await act()
        finally:
            if call == "create_fleet" and (crash := self._dice.hit(kinds.LAUNCH_CRASH, name)) is not None:
                self._epoch.kill(crash.lasts)  # before it gets the answer
            self._epoch.step()  # a dead process does not get errors either
        if self._dice.hit(kinds.AWS_TIMEOUT, name):
            raise AwsError(action, UNREACHABLE, "no answer came within the time allowed")
        if name == "sqs receive":
            for letter in answer:
                self._account.maybe_send_again(letter)
        return answer

    def _refuse(self, service: str, action: str, name: str) -> None:
        throttled, expired = _CODES.get(service, _USUAL_CODES)
        if self._account.credentials_expired:
            raise AwsError(action, expired, "The security token included in the request is expired")
        if self._dice.hit(kinds.AWS_THROTTLE, name):
            raise AwsError(action, throttled, "Request limit exceeded.")
        if self._dice.hit(kinds.AWS_ERROR, name):
            raise AwsError(action, "InternalError", "An internal error has occurred")
