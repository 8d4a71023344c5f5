"""Every kind of fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dovetail.base.clock import MINUTE, SECOND


@dataclass(frozen=True, slots=True)
class Kind:
    """`by` says what makes it fire: `rate` of the calls that it may happen to, or a number of `times`."""

    name: str
    by: Literal["rate", "times"]
    lasts: int | None = None  # the default in nanoseconds; None where the field says nothing
    share: float | None = None  # likewise
    count: int | None = None  # likewise
    zones: bool = False  # whether zones may be named
    condition: bool = False  # whether a condition of nodes and its reason may be named
    aws: bool = False  # True iff it happens between the AWS provider and AWS, or in AWS

    def fields(self) -> tuple[str, ...]:
        """The fields that a section of this kind may have."""
        defaults = (("lasts", self.lasts), ("share", self.share), ("count", self.count))
        named = [name for name, default in defaults if default is not None]
        flags = (("zones", self.zones), ("condition", self.condition), ("reason", self.condition))
        named += [name for name, taken in flags if taken]
        return ("kind", "from", "until", self.by, *named)


API_CONFLICT = "apiConflict"
API_THROTTLE = "apiThrottle"
API_ERROR = "apiError"
API_TIMEOUT = "apiTimeout"
API_SLOW = "apiSlow"
STALE_READ = "staleRead"
WATCH_DROP = "watchDrop"
WATCH_GONE = "watchGone"
WATCH_LAG = "watchLag"
WATCH_DUPLICATE = "watchDuplicate"
WATCH_REORDER = "watchReorder"
CRASH = "crash"
LAUNCH_CRASH = "launchCrash"
LEADER_CHANGE = "leaderChange"
CLOCK_JUMP = "clockJump"
LAUNCH_FAILURE = "launchFailure"
LAUNCH_TIMEOUT = "launchTimeout"
CLOUD_THROTTLE = "cloudThrottle"
ZONE_SHORTAGE = "zoneShortage"
SPOT_STORM = "spotStorm"
NEVER_JOINS = "neverJoins"
KUBELET_DEATH = "kubeletDeath"
NODE_CONDITION = "nodeCondition"
STRAY_INSTANCE = "strayInstance"
HOSTILE_TENANT = "hostileTenant"
AWS_THROTTLE = "awsThrottle"
AWS_ERROR = "awsError"
AWS_TIMEOUT = "awsTimeout"
CREDENTIALS_EXPIRE = "credentialsExpire"
FLEET_SHORTAGE = "fleetShortage"
FLEET_PARTIAL = "fleetPartial"
LAUNCH_DEATH = "launchDeath"
DESCRIBE_LAG = "describeLag"
TAGS_LOST = "tagsLost"
QUEUE_DUPLICATE = "queueDuplicate"

_ALL = (
    Kind(API_CONFLICT, "rate"),
    Kind(API_THROTTLE, "rate", lasts=SECOND),
    Kind(API_ERROR, "rate"),
    Kind(API_TIMEOUT, "rate"),
    Kind(API_SLOW, "rate", lasts=2 * SECOND),
    Kind(STALE_READ, "rate", lasts=5 * SECOND),
    Kind(WATCH_DROP, "rate"),
    Kind(WATCH_GONE, "rate"),
    Kind(WATCH_LAG, "rate", lasts=3 * SECOND),
    Kind(WATCH_DUPLICATE, "rate"),
    Kind(WATCH_REORDER, "rate"),
    Kind(CRASH, "times", lasts=10 * SECOND),
    Kind(LAUNCH_CRASH, "rate", lasts=10 * SECOND),
    Kind(LEADER_CHANGE, "times", lasts=5 * SECOND),
    Kind(CLOCK_JUMP, "times", lasts=5 * MINUTE),
    Kind(LAUNCH_FAILURE, "rate"),
    Kind(LAUNCH_TIMEOUT, "rate"),
    Kind(CLOUD_THROTTLE, "rate"),
    Kind(ZONE_SHORTAGE, "times", lasts=10 * MINUTE, zones=True),
    Kind(SPOT_STORM, "times", share=0.3),
    Kind(NEVER_JOINS, "rate"),
    Kind(KUBELET_DEATH, "times", lasts=10 * MINUTE),
    Kind(NODE_CONDITION, "times", lasts=60 * MINUTE, count=1, condition=True),
    Kind(STRAY_INSTANCE, "times"),
    Kind(HOSTILE_TENANT, "times", lasts=10 * MINUTE, count=10),
    Kind(AWS_THROTTLE, "rate", aws=True),
    Kind(AWS_ERROR, "rate", aws=True),
    Kind(AWS_TIMEOUT, "rate", aws=True),
    Kind(CREDENTIALS_EXPIRE, "times", lasts=2 * MINUTE, aws=True),
    Kind(FLEET_SHORTAGE, "rate", aws=True),
    Kind(FLEET_PARTIAL, "rate", aws=True),
    Kind(LAUNCH_DEATH, "rate", lasts=20 * SECOND, aws=True),
    Kind(DESCRIBE_LAG, "rate", lasts=30 * SECOND, aws=True),
    Kind(TAGS_LOST, "rate", aws=True),
    Kind(QUEUE_DUPLICATE, "rate", lasts=MINUTE, aws=True),
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}
