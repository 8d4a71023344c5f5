"""PodDisruptionBudgets: their status (how many pods may be disrupted now), and whether they let a pod go."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dovetail.api.core import Pod
from dovetail.api.workloads import Deployment, PodDisruptionBudget, ReplicaSet, StatefulSet
from dovetail.base.errors import ApiError, TooManyRequests
from dovetail.kube.memory.rules import with_condition
from dovetail.kube.memory.selectors import Labels, matches_selector
from dovetail.kube.memory.store import Change, Key, Record, Store
from dovetail.units.timestamp import to_rfc3339

if TYPE_CHECKING:
    from dovetail.kube.memory.server import MemoryServer


Document = Mapping[str, Any]
# Of the uid of a controller of pods: the uid of what is scaled above it, and its replicas; None for nothing.
Scale = Callable[[str], tuple[str, int] | None]

_SCALED = (Deployment, ReplicaSet, StatefulSet)


def budgets_of(store: Store, namespace: str, labels: Labels) -> list[Record[PodDisruptionBudget]]:
    """The budgets that cover a pod with those labels."""
    return [
        record
        for record in store.table(PodDisruptionBudget).select(namespace)
        if matches_selector(record.document["spec"].get("selector"), labels)
    ]


def is_ready(pod: Document) -> bool:
    """Whether the pod's Ready condition is True."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(item["type"] == "Ready" and item.get("status") == "True" for item in conditions)


class Covered:
    """What a budget counts of the pods that it selects, without those that have ended.

    Invariant: `healthy` is how many of `_pods` are ready and stay, `owners` how many each controller has.
    """

    def __init__(self) -> None:
        self._pods: dict[Key, tuple[bool, str]] = {}  # is it healthy, the uid of its controller or ""
        self.healthy = 0
        self.owners: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._pods)

    def put(self, key: Key, pod: Document) -> None:
        """The pod is there, as it is now."""
        self.drop(key)
        healthy = is_ready(pod) and "deletionTimestamp" not in pod["metadata"]
        owner = (_controller(pod) or {}).get("uid", "")
        self._pods[key] = healthy, owner
        self._count(healthy, owner, 1)

    def drop(self, key: Key) -> None:
        """The pod is not there; one that never was is no error."""
        if (known := self._pods.pop(key, None)) is not None:
            self._count(*known, -1)

    def _count(self, healthy: bool, owner: str, sign: int) -> None:
        self.healthy += sign * healthy
        if owner:
            self.owners[owner] += sign
            if not self.owners[owner]:
                del self.owners[owner]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Covered) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # it changes


def budget_status(budget: Document, pods: Covered, scale: Scale) -> dict[str, Any]:
    """The counts of a budget's status over the pods that it selects."""
    spec = budget["spec"]
    expected, desired, known = len(pods), 0, True
    most, least = spec.get("maxUnavailable"), spec.get("minAvailable")
    if isinstance(least, int):
        desired = least
    else:
        scales = [scale(owner) for owner in pods.owners]
        known = None not in scales
        expected = sum(dict(item for item in scales if item is not None).values())
        if most is not None:
            desired = max(0, expected - _scaled(most, expected))
        elif least is not None:
            desired = _scaled(least, expected)
        else:
            expected = 0
    allowed = max(0, pods.healthy - desired) if expected > 0 and known else 0
    return {
        "disruptionsAllowed": allowed,
        "currentHealthy": pods.healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "observedGeneration": budget["metadata"].get("generation", 1),
    }


def _scaled(value: int | str, total: int) -> int:
    """A number, or a percentage of the total rounded up."""
    if isinstance(value, int):
        return value
    return -(-total * int(value.removesuffix("%")) // 100)


def _controller(document: Document) -> Document | None:
    references = document["metadata"].get("ownerReferences") or ()
    return next((item for item in references if item.get("controller")), None)


class DisruptionController:
    """Recomputes the budgets that a change may have touched, when next asked."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        self._touched: dict[Key, None] = {}
        self._covered: dict[Key, Covered] = {}  # by key of a budget; made when it is first needed
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Keep every status up to date, for ever."""
        while True:
            self._news.clear()
            self.sync()
            await self._news.wait()

    def notice(self, change: Change[Any]) -> None:
        """Remember which budgets the change touches."""
        kind, document = change.after.kind, change.after.document
        namespace = document["metadata"].get("namespace", "")
        if kind is Pod:
            states = [change.before.document] if change.before is not None else []
            if change.type != "DELETED":
                states.append(document)
            if len(states) == 2 and _facts(states[0]) == _facts(states[1]):
                return
            self._recount(change, states)
        elif kind is PodDisruptionBudget:
            gone, before = change.type == "DELETED", change.before
            if gone or before is None or before.document["spec"] != document["spec"]:
                self._covered.pop(_key(document), None)
            if not gone:
                self._touch([change.after])
        elif kind in _SCALED and _replicas(change.before) != _replicas(change.after):
            self._touch(list(self._server.store.table(PodDisruptionBudget).select(namespace)))

    def _recount(self, change: Change[Any], states: Sequence[Document]) -> None:
        """A pod was like the first of the states and is like the last one, unless it is gone."""
        document = change.after.document
        key = _key(document)
        for state in states:
            budgets = budgets_of(self._server.store, key[0], state["metadata"].get("labels") or {})
            there = state is document and not _ended(state)
            for budget in budgets:
                pods = self._covered.get(_key(budget.document))
                if pods is not None and there:
                    pods.put(key, document)
                elif pods is not None:
                    pods.drop(key)
            self._touch(budgets)

    def _touch(self, budgets: Sequence[Record[Any]]) -> None:
        for budget in budgets:
            self._touched[_key(budget.document)] = None
            self._news.set()

    def sync(self) -> None:
        """Write the status of every budget that something touched."""
        while self._touched:
            key = next(iter(self._touched))
            del self._touched[key]
            record = self._server.store.table(PodDisruptionBudget).records.get(key)
            if record is not None:
                self._write(record, key)

    def _write(self, record: Record[PodDisruptionBudget], key: Key) -> None:
        budget = record.document
        if key not in self._covered:
            self._covered[key] = self._walk(record)
        status = budget_status(budget, self._covered[key], self._scale)
        old = budget.get("status", {})
        if {name: old.get(name) for name in status} != status:
            status["conditions"] = [self._condition(status, old)]
            self._server.patch(
                PodDisruptionBudget, key[1], key[0], merge_patch={"status": status}, status=True
            )
            self._touched.pop(key, None)  # what just changed is its status alone

    def _walk(self, budget: Record[PodDisruptionBudget]) -> Covered:
        found, selector = Covered(), budget.document["spec"].get("selector")
        for pod in self._server.store.table(Pod).select(_key(budget.document)[0]):
            labels = pod.document["metadata"].get("labels") or {}
            if matches_selector(selector, labels) and not _ended(pod.document):
                found.put(_key(pod.document), pod.document)
        return found

    def check(self) -> None:
        """Assert that what is counted is what a walk over all pods finds; for tests."""
        budgets = self._server.store.table(PodDisruptionBudget).records
        for key, pods in self._covered.items():
            assert pods == self._walk(budgets[key]), key

    def _condition(self, status: Document, old: Document) -> dict[str, Any]:
        enough = status["disruptionsAllowed"] > 0
        verdict = "True" if enough else "False"
        before: Document = next(iter(old.get("conditions") or ()), {})
        since = before.get("lastTransitionTime") if before.get("status") == verdict else None
        return {
            "type": "DisruptionAllowed",
            "status": verdict,
            "reason": "SufficientPods" if enough else "InsufficientPods",
            "message": "",
            "observedGeneration": status["observedGeneration"],
            "lastTransitionTime": since or to_rfc3339(self._server.clock.now()),
        }

    def _scale(self, uid: str) -> tuple[str, int] | None:
        """The controller that is scaled: a Deployment stands above its ReplicaSets."""
        owner: Record[Any] | None = None
        reference: Document | None = {"uid": uid}
        while reference is not None:
            found = self._server.store.find(reference["uid"])
            if found is None or found.kind not in _SCALED:
                break
            owner, reference = found, _controller(found.document)
        return None if owner is None else (owner.uid, _replicas(owner) or 0)


def _facts(pod: Document) -> tuple[object, ...]:
    """All of a pod that budgets look at."""
    meta = pod["metadata"]
    owners = meta.get("ownerReferences")
    return meta.get("labels"), owners, is_ready(pod), "deletionTimestamp" in meta, _ended(pod)


def _ended(pod: Document) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _key(document: Document) -> Key:
    meta = document["metadata"]
    return meta["namespace"], meta["name"]


def _replicas(record: Record[Any] | None) -> int | None:
    if record is None:
        return None
    replicas: int = record.document.get("spec", {}).get("replicas", 1)
    return replicas


SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."


def check_eviction(store: Store, pod: Mapping[str, Any]) -> None:
    """Raises TooManyRequests when a budget forbids the eviction now, ApiError (500) when several match.

    The budgets' status must be up to date.
    """
    meta, status = pod["metadata"], pod.get("status", {})
    # These pods count in no budget, so nothing protects them.
    if "deletionTimestamp" in meta or status.get("phase") in ("Succeeded", "Failed", "Pending"):
        return
    budgets = budgets_of(store, meta["namespace"], meta.get("labels") or {})
    if len(budgets) > 1:
        raise ApiError(SEVERAL)
    if budgets and not _allows(budgets[0].document, ready=is_ready(pod)):
        raise TooManyRequests(VIOLATES)


def evicted(pod: Mapping[str, Any], now: str) -> dict[str, Any]:
    """The pod with the condition that says why it goes; `now` as RFC 3339."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": now,
    }
    return with_condition(pod, condition)


def _allows(budget: Mapping[str, Any], *, ready: bool) -> bool:
    status = budget.get("status", {})
    if not ready:
        if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
            return True
        if status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0:
            return True
    return bool(status.get("disruptionsAllowed", 0) > 0)
