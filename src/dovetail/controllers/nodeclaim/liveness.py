"""Giving up on claims that come to nothing."""

from __future__ import annotations

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE
from dovetail.controllers.nodeclaim.status import LAUNCHED, REGISTERED, since, status_of

LAUNCH_TIMEOUT = 5 * MINUTE
REGISTRATION_TIMEOUT = 15 * MINUTE


def time_left(claim: NodeClaim, now: int) -> int | None:
    """Nanoseconds until the claim must be given up, 0 or less when it is time; None once it is registered.

    A node that registered but never initialises has no time-out.
    """
    if status_of(claim, REGISTERED) == "True":
        return None
    if status_of(claim, LAUNCHED) != "True":
        return since(claim, LAUNCHED) + LAUNCH_TIMEOUT - now
    return since(claim, REGISTERED) + REGISTRATION_TIMEOUT - now
