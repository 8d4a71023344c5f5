"""The rule on limits that NodePools share: what a claim may become, beside all that stays, is within them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.memo import by_identity
from dovetail.disrupt.command import REPLACES
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering, by_name
from dovetail.model.requirement import Requirements
from dovetail.model.resources import amounts
from dovetail.model.shared_limits import HOURLY_COST, NODES, SharedLimit
from dovetail.simulate.violations.mirror import Change, Mirror
from dovetail.verify import Violation

_RULE = "shared limit"
_CLAIMS = 16_384  # whose requirements are remembered


@dataclass(frozen=True, slots=True)
class Shared:
    """The limits that hold. `sold` says of which types the cloud would make a claim at this moment, and what
    volumes of its class cost (nano-dollars per hour).
    """

    limits: tuple[SharedLimit, ...]
    sold: Callable[[NodeClaim], tuple[tuple[InstanceType, ...], int]]

    def within(self, mirror: Mirror, change: Change) -> Iterator[Violation]:
        """A claim is made that stays within all limits, whatever the cloud makes of it. Called after `apply`.

        Above a limit, as prices may bring about, what replaces nodes takes no more than all that go. Of two
        leaders that act at once neither can know what the other one just made. O(claims).
        """
        found = change.of(NodeClaim)
        claim, old = found or (None, None)
        if claim is None or old is not None or claim.status.capacity or mirror.several():
            return
        overlapping = mirror.overlapped.keys() - {claim.key}
        stay = [mirror.claims[key] for key in mirror.usage.counted if key not in overlapping]
        for limit in self.limits:
            if not _holds(mirror, limit, claim):
                continue
            for name, most in limit.limits:
                total = self._sum(mirror, limit, name, stay)
                if total <= most or self._replaces(mirror, limit, name, claim):
                    continue
                text = f"{claim.key} may bring {name} to {total}, over {most}"
                yield Violation(_RULE, limit.name, text)

    def _replaces(self, mirror: Mirror, limit: SharedLimit, name: str, claim: NodeClaim) -> bool:
        if REPLACES not in claim.metadata.annotations:
            return False
        going = [other for key, other in mirror.claims.items() if key not in mirror.usage.counted]
        return self._of(claim, name) <= self._sum(mirror, limit, name, going)

    def _sum(self, mirror: Mirror, limit: SharedLimit, name: str, claims: Sequence[NodeClaim]) -> int:
        return sum(self._of(one, name) for one in claims if _holds(mirror, limit, one))

    def _of(self, claim: NodeClaim, name: str) -> int:
        """What the claim takes of it: as it is, or at most while the cloud has not said what it is."""
        if name == NODES:
            return 1
        if claim.status.capacity and name != HOURLY_COST:
            return amounts(claim.status.capacity).get(name, 0)
        types, volumes = self.sold(claim)
        return max(
            (
                one.asked + volumes if name == HOURLY_COST else kind.capacity.get(name, 0)
                for kind, one in _ways(claim, types)
            ),
            default=0,
        )


def _ways(claim: NodeClaim, types: tuple[InstanceType, ...]) -> Iterator[tuple[InstanceType, Offering]]:
    """As what it may come up; of one that has been launched what its labels say that it is."""
    wanted = _launched(claim) if claim.status.capacity else _wanted(claim)
    kinds, zones, sold_as = (
        wanted.get(key) for key in (labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE)
    )
    known = by_name(types)
    for name in known if kinds.complement else kinds.values:
        kind = known.get(name)
        if kind is None or not kinds.has(name):
            continue
        for one in kind.offerings:
            if zones.has(one.zone) and sold_as.has(one.capacity_type):
                yield kind, one


def _holds(mirror: Mirror, limit: SharedLimit, claim: NodeClaim) -> bool:
    name = claim.metadata.labels.get(labels.NODEPOOL, "")
    pool = mirror.pools.get(name)
    return bool(name) and limit.holds(name, pool.metadata.labels if pool is not None else {})


@by_identity(_CLAIMS)
def _wanted(claim: NodeClaim) -> Requirements:
    return Requirements.read(claim.spec.requirements)


@by_identity(_CLAIMS)
def _launched(claim: NodeClaim) -> Requirements:
    return Requirements.from_labels(claim.metadata.labels)
