"""The AWS port, with faults."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, cast

from dovetail.cloud.aws.api import Aws, Ec2, Eks, Iam, Pricing, ServiceQuotas, Sqs, Ssm, Sts, ZonalShift
from dovetail.cloud.aws.errors import UNREACHABLE, AwsError
from dovetail.simulate.faults import kinds
from dovetail.simulate.faults.account import AccountFaults
from dovetail.simulate.faults.dice import Dice
from dovetail.simulate.faults.epoch import Epoch

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
                self._epoch.kill(crash.lasts)  # before it hears what was launched
            self._epoch.step()  # a dead process does not hear of errors either
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
