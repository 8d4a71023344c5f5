"""Surges: restarts Deployments of pods whose nodes go, so that another pod is up before one has to leave.

What was done stands on the Deployments; what is remembered besides only bridges the time until the watch
shows it, and holds where a tenant takes the marks off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dovetail.api.core import Node, PersistentVolumeClaim, Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import is_true
from dovetail.api.workloads import Deployment, PodDisruptionBudget, ReplicaSet
from dovetail.base.clock import HOUR, SECOND, Clock
from dovetail.base.errors import ApiError, Conflict, NotFound
from dovetail.base.eventlog import EventLog
from dovetail.base.metrics import Metric, Metrics
from dovetail.cluster.state import State
from dovetail.controllers.panics import Panics
from dovetail.controllers.reconciler import Failure, failure_log
from dovetail.disrupt.pods import budget_allows, budgets_among, do_not_disrupt, evictable
from dovetail.disrupt.surge import (
    LONG_REST,
    PATIENCE,
    Answer,
    Case,
    Past,
    Step,
    decide,
    obstacle,
    one_node_only,
    opted_in,
    owner_fault,
    past_of,
    replaced,
    restart_of,
    restart_patch,
    spares,
    undo_patch,
)
from dovetail.kube.client import Client
from dovetail.kube.recorder import Recorder
from dovetail.model.labels import NODEPOOL
from dovetail.model.podtemplate import deployment_of

NAME = "surge"
RESTARTS = Metric(
    "dovetail_surge_restarts_total",
    "counter",
    "Deployments restarted so that another pod is up before one on a node that goes has to leave.",
)
FAILURES = Metric(
    "dovetail_surge_failures_total",
    "counter",
    "Such restarts that brought up no pod in time, and were taken back.",
)
_REMEMBERED = 10_000  # Deployments, the last that were restarted
_SAID = HOUR  # for so long it is not said again why there is no surge for a pod


class Surges:
    """Answers from the state whether a surge would replace a pod, and has it replaced.

    Where it is not `enabled`, no Deployment is known, and every answer is no.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        log: EventLog,
        state: State,
        recorder: Recorder,
        metrics: Metrics,
        panics: Panics,
        *,
        enabled: bool,
    ) -> None:
        self._client = client
        self._clock = clock
        self._state = state
        self._recorder = recorder
        self._metrics = metrics
        self._panics = panics
        self._log = log
        self._failed = failure_log(log)
        self.enabled = enabled
        self._past: dict[str, Past] = {}  # by key of the Deployment
        self._hurried: dict[str, None] = {}  # UIDs of claims whose machines the cloud takes away

    # What is asked ------------------------------------------------------------------------------------

    def spares(self, pod: Pod, rest: int) -> bool:
        """True iff budgets that keep the pod need not keep its node: see `disrupt.surge.spares`."""
        if not self._wanted(pod):
            return False
        return spares(self._case(pod, ()), self._clock.now(), rest)

    def rests(self, pod: Pod) -> bool:
        """True iff its Deployment was restarted for a node within a day: no move that only saves money."""
        deployment = self._deployment(pod) if self.enabled else None
        if deployment is None or not restart_of(deployment):
            return False
        restarted = self._known(deployment).restarted
        return restarted is not None and self._clock.now() - restarted < LONG_REST

    def replaces(self, pod: Pod) -> bool:
        """True iff a restart for a node replaces the pod: its successor has a place, and it needs none."""
        deployment = self._deployment(pod) if self.enabled else None
        return deployment is not None and replaced(pod, deployment, self._known(deployment))

    def concerns(self, pods: Iterable[Pod]) -> bool:
        """True iff any of them asks for a surge that may be possible."""
        return self.enabled and any(self._wanted(pod) and not obstacle(self._case(pod, ())) for pod in pods)

    def blocked(self, pod: Pod) -> bool:
        """True iff budgets do not allow the pod's eviction now."""
        found = budgets_among(self._state.all(PodDisruptionBudget)).of(pod)
        return len(found) > 1 or any(not budget_allows(budget, pod) for budget in found)

    def hurry(self, claim: str) -> None:
        """The cloud takes the machine of the claim (by UID) away: its pods wait for a minute at most."""
        self._hurried[claim] = None
        if len(self._hurried) > _REMEMBERED:
            del self._hurried[next(iter(self._hurried))]

    def _wanted(self, pod: Pod) -> bool:
        if not self.enabled or not evictable(pod):
            return False
        node = self._state.get(Node, pod.spec.node_name)
        pool = self._state.get(NodePool, node.metadata.labels.get(NODEPOOL, "")) if node is not None else None
        return opted_in(self._deployment(pod), pool)

    def _deployment(self, pod: Pod) -> Deployment | None:
        key = deployment_of(pod)
        return self._state.get(Deployment, key) if key else None

    def _known(self, deployment: Deployment) -> Past:
        return past_of(deployment, self._past.get(deployment.key, Past()), self._clock.now())

    def _case(self, pod: Pod, going: Sequence[str]) -> Case:
        """`going` names nodes that go, besides those that are marked for it."""
        deployment = self._deployment(pod)
        if deployment is None:
            return Case(pod, None, blocked=self.blocked(pod))
        return Case(
            pod,
            deployment,
            self._known(deployment),
            blocked=self.blocked(pod),
            alone=self._alone(pod, deployment, going),
            tied=one_node_only(pod, self._claims_of(pod)),
        )

    def _claims_of(self, pod: Pod) -> Iterator[PersistentVolumeClaim]:
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                key = f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"
                if (claim := self._state.get(PersistentVolumeClaim, key)) is not None:
                    yield claim

    def _alone(self, pod: Pod, deployment: Deployment, going: Sequence[str]) -> bool:
        if not _ready(pod):
            return False
        leaving = sum(_ready(one) for one in self._siblings(deployment.key, going))
        return leaving >= deployment.status.ready_replicas

    def _siblings(self, deployment: str, going: Sequence[str]) -> Iterator[Pod]:
        """Pods of the Deployment on nodes that go."""
        names = dict.fromkeys(going)
        names.update(dict.fromkeys(one.node.metadata.name for one in self._state.leaving() if one.node))
        for name in names:
            for pod in self._state.pods_on(name):
                if not pod.deleting and not pod.terminal and deployment_of(pod) == deployment:
                    yield pod

    # What is done -------------------------------------------------------------------------------------

    async def hold(
        self, pods: Iterable[Pod], going: Sequence[str], begun: int, claim: str = ""
    ) -> frozenset[str]:
        """Restart what is to be restarted for these pods; UIDs of those that need not be evicted yet.

        They are on the nodes `going`, which have been on their way out since `begun` and take no new pods;
        `claim` is the UID of the only node's claim. Raises nothing.
        """
        held: list[str] = []
        begun -= begun % SECOND  # as precise as what is written
        for pod in pods if self.enabled else ():
            if not self._wanted(pod) or do_not_disrupt(pod, self._clock.now()):
                continue
            with self._panics.alone(NAME, pod.key, pod):
                case = self._case(pod, going)
                answer = decide(case, self._clock.now(), begun, hurried=claim in self._hurried)
                if await self._act(case, answer, going):
                    held.append(pod.metadata.uid)
        return frozenset(held)

    async def _act(self, case: Case, answer: Answer, going: Sequence[str]) -> bool:
        """True iff the pod is to be waited for."""
        deployment = case.deployment
        try:
            if answer.step is Step.RESTART and deployment is not None:
                if await self._is_of(case.pod, deployment):
                    await self._restart(case.pod, deployment, going)
                    return True
                answer = Answer(Step.EVICT, owner_fault(case.pod))
            elif answer.step is Step.GIVE_UP and deployment is not None:
                await self._give_up(deployment, answer.why)
        except Conflict:
            return answer.step is Step.RESTART  # it changed meanwhile, and is looked at once more
        except ApiError as error:
            self._failed(Failure(NAME, case.pod.key, error))
            answer = Answer(Step.EVICT, f"its Deployment cannot be restarted ({error})")
        if answer.why and answer.step is not Step.WAIT:
            text = f"No other pod comes before this one goes: {answer.why}"
            dedupe = (case.pod.metadata.uid, answer.why)
            await self._recorder.publish(
                case.pod, "Normal", "SurgeImpossible", text, dedupe=dedupe, ttl=_SAID
            )
        return answer.step is Step.WAIT

    async def _is_of(self, pod: Pod, deployment: Deployment) -> bool:
        """True iff the pod's ReplicaSet is the Deployment's: their names alone anyone may write."""
        owner = pod.metadata.controller()
        if owner is None:
            return False
        try:
            found = await self._client.get(ReplicaSet, owner.name, pod.metadata.namespace)
        except NotFound:
            return False
        above = found.metadata.controller()
        return (
            found.metadata.uid == owner.uid
            and above is not None
            and (above.kind, above.uid) == (Deployment.KIND, deployment.metadata.uid)
        )

    async def _restart(self, pod: Pod, deployment: Deployment, going: Sequence[str]) -> None:
        now, meta = self._clock.now(), deployment.metadata
        patch = restart_patch(deployment, now)
        made = await self._client.patch(Deployment, meta.name, meta.namespace, merge=patch)
        past = self._known(deployment)
        self._remember(made, Past(now - now % SECOND, past.failed, made.metadata.generation))
        for one in self._siblings(deployment.key, going):
            self._state.surge(one, deployment.key, now + PATIENCE)
        self._metrics.add(RESTARTS)
        self._log.record("surge.restarted", deployment=deployment.key, node=pod.spec.node_name, pod=pod.key)
        text = f"Restarted for node {pod.spec.node_name}, which goes: another pod comes before the one there"
        await self._recorder.publish(deployment, "Normal", "SurgeRestarted", text)

    async def _give_up(self, deployment: Deployment, why: str) -> None:
        """Its template is as before again, unless new pods are up: these would only have to go too."""
        now, meta = self._clock.now(), deployment.metadata
        past = self._known(deployment)
        self._remember(deployment, Past(past.restarted, now, past.generation))
        back = not self._any_new(deployment, past)
        patch = undo_patch(deployment, now, back=back)
        made = await self._client.patch(Deployment, meta.name, meta.namespace, merge=patch)
        self._remember(made, Past(past.restarted, now, made.metadata.generation))
        self._metrics.add(FAILURES)
        self._log.record("surge.failed", deployment=deployment.key, message=why, back=back)
        text = f"The restart for a node that goes is given up: {why}. Pods there are evicted as budgets allow"
        await self._recorder.publish(deployment, "Warning", "SurgeFailed", text)

    def _any_new(self, deployment: Deployment, past: Past) -> bool:
        """True iff a pod of the restart is ready."""
        return any(
            _ready(pod) and deployment_of(pod) == deployment.key and not replaced(pod, deployment, past)
            for pod in self._state.all(Pod)
            if pod.metadata.namespace == deployment.metadata.namespace
        )

    def _remember(self, deployment: Deployment, past: Past) -> None:
        self._past.pop(deployment.key, None)
        self._past[deployment.key] = past
        if len(self._past) > _REMEMBERED:
            del self._past[next(iter(self._past))]


def _ready(pod: Pod) -> bool:
    return is_true(pod.status.conditions, "Ready") and not pod.deleting and not pod.terminal
