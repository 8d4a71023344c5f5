"""What the acting controller does, as its claims show it."""

from __future__ import annotations

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object, condition, is_true
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.status import DISRUPTION_REASON, LAUNCHED
from dovetail.controllers.observation.tally import Tally
from dovetail.controllers.prices import offer_of
from dovetail.controllers.provisioning.pods import provisionable
from dovetail.kube.client import ChangeType
from dovetail.model import labels


class Rival:
    """Subscribed to a State; what was there at the start is not counted.

    A claim that comes while some pod waits was made for pods; any other one takes the place of a node.
    """

    def __init__(self, context: Context, tally: Tally) -> None:
        self._context = context
        self._tally = tally
        self._coming: dict[str, bool] = {}  # UID of a claim that is not launched yet -> made for pods
        self._known: dict[str, int] = {}  # UID -> nano-dollars per hour, of claims whose offer was seen
        context.state.subscribe(self.notice, NodePool, NodeClaim)

    def notice(self, kind: type[Object], change: ChangeType, old: Object | None, new: Object | None) -> None:
        """See State."""
        if kind is NodePool and new is None and old is not None:
            self._context.forget_prices(old.metadata.name)
        if kind is not NodeClaim:
            return
        claim = new if new is not None else old
        assert isinstance(claim, NodeClaim)
        uid, news = claim.metadata.uid, self._context.state.news()
        if new is None:
            self._coming.pop(uid, None)
            price = self._known.pop(uid, 0)
            if news and is_true(claim.status.conditions, LAUNCHED):
                self._removed(claim, price)
            return
        if change == "ADDED" and news:
            self._coming[uid] = any(provisionable(pod) for pod in self._context.state.pods_on(""))
        if uid not in self._known and is_true(claim.status.conditions, LAUNCHED):
            price = self._price(claim)
            self._known[uid] = price
            if uid in self._coming:
                self._launched(claim, price, for_pods=self._coming.pop(uid))

    def _launched(self, claim: NodeClaim, price: int, *, for_pods: bool) -> None:
        pool = claim.metadata.labels.get(labels.NODEPOOL, "")
        self._tally.launched(pool, price, for_pods=for_pods)
        instance_type, zone, capacity_type = offer_of(claim)
        self._context.log.record(
            "acting.launched",
            claim=claim.metadata.name,
            instanceType=instance_type,
            zone=zone,
            capacityType=capacity_type,
            hourly=price,
            forPods=for_pods,
        )

    def _removed(self, claim: NodeClaim, price: int) -> None:
        because = condition(claim.status.conditions, DISRUPTION_REASON)
        reason = because.reason if because is not None else "Other"
        self._tally.removed(price, reason)
        self._context.log.record("acting.removed", claim=claim.metadata.name, hourly=price, reason=reason)

    def _price(self, claim: NodeClaim) -> int:
        """Nano-dollars per hour; 0 for an offer that no pool of ours has."""
        pool = self._context.state.get(NodePool, claim.metadata.labels.get(labels.NODEPOOL, ""))
        if pool is None:
            return 0
        table = self._context.prices.of(pool.metadata.name, self._context.instance_types(pool))
        instance = table.get(offer_of(claim))
        return 0 if instance is None else instance + self._context.volume_price(pool)
