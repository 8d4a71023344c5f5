"""What dry runs of launches said of classes, and for how long nobody asks again."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.meta import condition
from dovetail.base.clock import MINUTE, SECOND, Clock
from dovetail.base.errors import CreateFailed
from dovetail.cloud.aws.api import Ec2
from dovetail.cloud.aws.errors import AwsError
from dovetail.cloud.aws.launch import Stage
from dovetail.cloud.aws.nodeclass.memo import Memo
from dovetail.cloud.aws.nodeclass.rehearsal import rehearse
from dovetail.cloud.aws.validation import Fault
from dovetail.cloud.provider import NodeClassResolution

ANSWERED = 30 * MINUTE
# After dry runs that AWS gave no verdict on; doubled each time.
FIRST_PAUSE, LONGEST_PAUSE = 5 * SECOND, 5 * MINUTE
_VALIDATED = "ValidationSucceeded"


@dataclass(frozen=True, slots=True)
class _Silence:
    """AWS could not say: nobody asks before `until`, and then no more often than every `pause`."""

    error: AwsError
    until: int
    pause: int


class DryRuns:
    """The same class that resolves to the same is asked for once in half an hour.

    A faulty one is looked at each time, as what it lacks may be given any moment. While AWS gives no verdict,
    because it is throttling or out of order, a class that was validated before stays so.
    """

    def __init__(self, ec2: Ec2, clock: Clock, memo: Memo) -> None:
        self._ec2 = ec2
        self._clock = clock
        self._memo = memo
        self._silences: dict[str, _Silence] = {}  # by class

    async def faults(
        self, node_class: EC2NodeClass, found: NodeClassResolution, stage: Stage, version: str
    ) -> tuple[Fault, ...]:
        """What launches from the class would fail with. Raises AwsError where that is not known yet."""
        key = (
            _of(node_class.metadata.name),
            msgspec.json.encode(node_class.spec),
            tuple(item.id for item in found.subnets[:1]),
            tuple(item.id for item in found.security_groups),
            tuple(item.id for item in found.images),
            found.instance_profile,
            version,
        )
        try:
            faults = await self._memo.get(key, ANSWERED, lambda: self._ask(node_class, found, stage))
        except AwsError:
            if _validated(node_class):
                return ()
            raise
        if faults:
            self._memo.forget(key)
        return faults

    def forget(self, node_class: str) -> None:
        """The class of that name is gone."""
        self._silences.pop(node_class, None)
        self._memo.forget_about(_of(node_class))

    async def _ask(
        self, node_class: EC2NodeClass, found: NodeClassResolution, stage: Stage
    ) -> tuple[Fault, ...]:
        name = node_class.metadata.name
        silence = self._silences.get(name)
        if silence is not None and self._clock.monotonic() < silence.until:
            raise silence.error
        try:
            fault = await rehearse(self._ec2, node_class, found, stage)
        except CreateFailed as error:
            return (Fault(error.reason, str(error)),)
        except AwsError as error:
            pause = min(2 * silence.pause, LONGEST_PAUSE) if silence is not None else FIRST_PAUSE
            self._silences[name] = _Silence(error, self._clock.monotonic() + pause, pause)
            raise
        self._silences.pop(name, None)
        return (fault,) if fault is not None else ()


def _of(name: str) -> str:
    """What questions about the class of that name begin with."""
    return f"dry run of {name}"


def _validated(node_class: EC2NodeClass) -> bool:
    """True iff the class as it is was found well by an earlier look."""
    found = condition(node_class.status.conditions, _VALIDATED)
    if found is None or found.status != "True":
        return False
    return found.observed_generation == node_class.metadata.generation
