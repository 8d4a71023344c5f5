"""What plans promised and what became of it: kube-scheduler places pods by its own mind, clouds by theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object, is_true
from dovetail.base.metrics import Metric
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.status import INITIALIZED, LAUNCHED
from dovetail.controllers.prices import offer_of
from dovetail.controllers.provisioning.causes import cause
from dovetail.kube.client import ChangeType
from dovetail.model import labels
from dovetail.model.plan import PlannedClaim
from dovetail.units.money import NANO_DOLLARS

PODS = Metric(
    "dovetail_planned_pods_total",
    "counter",
    "Pods that plans gave a new node to, by what became of them.",
    ("outcome",),
)
NODES = Metric(
    "dovetail_planned_nodes_total",
    "counter",
    "Nodes that plans bought, by whether they joined the cluster.",
    ("outcome",),
)
COST = Metric(
    "dovetail_realised_cost_dollars_per_hour_total",
    "counter",
    "What the instances that the cloud chose for plans cost, all of them together.",
)
ELSEWHERE = Metric(
    "dovetail_planned_pods_elsewhere_total",
    "counter",
    "Pods that went elsewhere than the plan put them, or were planned again, by why.",
    ("cause",),
)
ALL = (PODS, NODES, COST, ELSEWHERE)


class PodOutcome(StrEnum):
    """What became of a pod that was promised a new node."""

    HERE = "here"  # it runs on that node, or changed places with a pod of the same owner
    ELSEWHERE = "elsewhere"  # on another one
    REPLANNED = "replanned"  # a later plan gave it another place
    GONE = "gone"  # it was deleted before it ran anywhere


class NodeOutcome(StrEnum):
    """What became of a node that was bought."""

    JOINED = "joined"
    FAILED = "failed"


FAILED = "failed"  # the cause of a pod whose node never joined, or went before the pod came


@dataclass(slots=True)
class _Account:
    """One plan. It is settled once `claims` and `pods`, those that are still open, are empty."""

    plan: str
    planned: int  # nano-dollars per hour of instances and volumes
    claims: set[str]
    pods: set[str]
    realised: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)  # of pods that went elsewhere or were planned again


@dataclass(frozen=True, slots=True)
class _Promise:
    claim: str
    account: _Account
    owner: str  # what manages the pod, by uid; empty: nothing


class Realised:
    """Follows the claims and pods of every plan to their outcomes. A restart forgets plans that are open.

    Pods of one owner are alike: one that takes the place of another of the same plan leaves it its own.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._by_claim: dict[str, _Account] = {}
        self._by_pod: dict[str, _Promise] = {}
        self._alike: dict[tuple[str, str], dict[str, None]] = {}  # claim, owner -> pods with that promise
        context.state.subscribe(self._notice, Pod, NodeClaim)

    def bought(self, plan: str, claims: Sequence[tuple[str, PlannedClaim]]) -> None:
        """These claims, by name, were created for the plan."""
        planned = sum(one.price - one.surcharge for _, one in claims)
        pods = {pod for _, one in claims for pod in one.pods}
        account = _Account(plan, planned, {name for name, _ in claims}, pods)
        for name, one in claims:
            self._by_claim[name] = account
            for pod in one.pods:
                self._missed(pod)
                self._settle_pod(pod, PodOutcome.REPLANNED)
                self._promise(pod, _Promise(name, account, self._owner(pod)))
                if self._context.state.get(Pod, pod) is None:
                    self._settle_pod(pod, PodOutcome.GONE)  # while the plan was made
            # Much may have happened while others were bought.
            claim = self._context.state.get(NodeClaim, name)
            if claim is None:
                self._settle_claim(name, NodeOutcome.FAILED)
            else:
                self._follow(None, claim)

    def _owner(self, key: str) -> str:
        pod = self._context.state.get(Pod, key)
        owner = pod.metadata.controller() if pod is not None else None
        return owner.uid if owner is not None else ""

    def _promise(self, pod: str, promise: _Promise) -> None:
        self._by_pod[pod] = promise
        if promise.owner:
            self._alike.setdefault((promise.claim, promise.owner), {})[pod] = None

    def _forget(self, pod: str) -> _Promise | None:
        promise = self._by_pod.pop(pod, None)
        alike = self._alike.get((promise.claim, promise.owner)) if promise is not None else None
        if promise is not None and alike is not None:
            del alike[pod]
            if not alike:
                del self._alike[promise.claim, promise.owner]
        return promise

    def _notice(
        self, _kind: type[Object], change: ChangeType, old: Object | None, new: Object | None
    ) -> None:
        if isinstance(new, NodeClaim):
            self._follow(old if isinstance(old, NodeClaim) else None, new)
        elif isinstance(new, Pod):
            # Pods that are to move are bound already, to the node that they leave.
            if new.spec.node_name and not (isinstance(old, Pod) and old.spec.node_name):
                self._bound(new)
        elif change == "DELETED" and isinstance(old, NodeClaim):
            self._settle_claim(old.metadata.name, NodeOutcome.FAILED)
        elif change == "DELETED" and isinstance(old, Pod):
            self._settle_pod(old.key, PodOutcome.GONE)

    def _follow(self, old: NodeClaim | None, claim: NodeClaim) -> None:
        account = self._by_claim.get(claim.metadata.name)
        if account is None:
            return
        before = old is not None and is_true(old.status.conditions, LAUNCHED)
        if is_true(claim.status.conditions, LAUNCHED) and not before:
            price = self._price(claim)
            account.realised += price
            self._context.metrics.add(COST, price / NANO_DOLLARS)
        if is_true(claim.status.conditions, INITIALIZED):
            self._settle_claim(claim.metadata.name, NodeOutcome.JOINED)

    def _bound(self, pod: Pod) -> None:
        promise = self._by_pod.get(pod.key)
        if promise is None:
            return
        node = self._context.state.get(Node, pod.spec.node_name)
        claim = self._context.state.claim_of(node) if node is not None else None
        name = claim.metadata.name if claim is not None else ""
        here = name == promise.claim or self._trade(pod.key, name)
        if not here:
            self._missed(pod.key)
        self._settle_pod(pod.key, PodOutcome.HERE if here else PodOutcome.ELSEWHERE)

    def _missed(self, key: str) -> None:
        """Note why the pod, if a plan is open that gave it a node, is not to run there."""
        promise, pod = self._by_pod.get(key), self._context.state.get(Pod, key)
        if promise is None or pod is None:
            return
        claim = self._context.state.get(NodeClaim, promise.claim)
        node = self._context.state.node_of(claim) if claim is not None else None
        if claim is None or claim.deleting:
            found = FAILED
        else:
            found = cause(pod, node, self._context.state.pods_on(node.metadata.name) if node else ())
        self._context.metrics.add(ELSEWHERE, cause=found)
        promise.account.causes[found] += 1

    def _trade(self, pod: str, claim: str) -> bool:
        """Change places with a pod of the same owner and plan that is promised this claim; False: none."""
        mine = self._by_pod[pod]
        for other in self._alike.get((claim, mine.owner), ()):
            theirs = self._by_pod[other]
            if theirs.account is mine.account:
                for key, promise in ((pod, theirs), (other, mine)):
                    self._forget(key)
                    self._promise(key, promise)
                return True
        return False

    def _settle_claim(self, name: str, outcome: NodeOutcome) -> None:
        account = self._by_claim.pop(name, None)
        if account is not None:
            self._context.metrics.add(NODES, outcome=outcome)
            account.outcomes[outcome] += 1
            account.claims.discard(name)
            self._close(account)

    def _settle_pod(self, key: str, outcome: PodOutcome) -> None:
        promise = self._forget(key)
        if promise is not None:
            self._context.metrics.add(PODS, outcome=outcome)
            promise.account.outcomes[outcome] += 1
            promise.account.pods.discard(key)
            self._close(promise.account)

    def _close(self, account: _Account) -> None:
        if account.claims or account.pods:
            return
        self._context.log.record(
            "plan.realised",
            plan=account.plan,
            planned=account.planned,
            realised=account.realised,
            nodes={str(outcome): account.outcomes[outcome] for outcome in NodeOutcome},
            pods={str(outcome): account.outcomes[outcome] for outcome in PodOutcome},
            causes=dict(sorted(account.causes.items())),
        )

    def _price(self, claim: NodeClaim) -> int:
        """Nano-dollars per hour of what the cloud chose; 0 if that is not for sale any more."""
        name = claim.metadata.labels.get(labels.NODEPOOL, "")
        pool = self._context.state.get(NodePool, name)
        if pool is None:
            return 0
        table = self._context.prices.of(name, self._context.instance_types(pool))
        instance = table.get(offer_of(claim))
        return 0 if instance is None else instance + self._context.volume_price(pool)
