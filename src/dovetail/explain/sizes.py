"""Requests as they should be: what containers used, what they would ask for, and pods that ask for it.

Pure. Amounts are milli-CPU and bytes, as in `model.resources`; instants nanoseconds since the epoch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from msgspec.structs import replace as with_fields

from dovetail.api.core import Container, Pod, PodSpec
from dovetail.api.workloads import DaemonSet
from dovetail.model.problem import Problem
from dovetail.model.resources import CPU, LARGEST, MEMORY, Resources, amounts, pod_requests, quantities

RESOURCES = (CPU, MEMORY)
# The 95th percentile of fewer samples is their maximum: pods that lived so shortly count only where a
# workload has no others.
ENOUGH = 20
_NEAR = 0.1  # of a request: what would change by less is kept, as VerticalPodAutoscaler's updater does
_MI = 1 << 20


class Owner(NamedTuple):
    """What made pods, and what would be changed: a Deployment, not its ReplicaSets."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Use:
    """What a container used of a resource. `high` is the percentile that was asked for.

    `start` and `end` are those of the samples; the same for a single moment.
    """

    samples: int
    median: int
    high: int
    most: int
    start: int
    end: int
    source: str  # "prometheus", "metrics-server"

    @staticmethod
    def of(values: Sequence[tuple[int, float]], percentile: float, source: str) -> Use | None:
        """Of (instant, amount) in any order; None where nothing is left without what is below 0."""
        sound = [(at, min(amount, LARGEST)) for at, amount in values if amount >= 0]
        if not sound:
            return None
        ordered = sorted(amount for _, amount in sound)
        instants = [at for at, _ in sound]
        return Use(
            len(sound),
            _whole(_quantile(ordered, 0.5)),
            _whole(_quantile(ordered, percentile / 100)),
            _whole(ordered[-1]),
            min(instants),
            max(instants),
            source,
        )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Between two samples in proportion, as quantile_over_time of Prometheus."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _whole(amount: float) -> int:
    return math.ceil(amount - 1e-6)


# (namespace, pod, container, resource): of pods that are gone as well
Measured = Mapping[tuple[str, str, str, str], Use]


@dataclass(frozen=True, slots=True)
class Advice:
    """What a VerticalPodAutoscaler recommends for one resource of a container."""

    target: int
    lower: int | None = None
    upper: int | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """How requests follow from use; headrooms and `near` are shares."""

    percentile: float = 95.0  # of CPU
    cpu_headroom: float = 0.15
    memory_headroom: float = 0.15
    least: Resources = field(default_factory=lambda: {CPU: 10, MEMORY: 100 * _MI})
    limits: Literal["keep", "scale"] = "keep"

    def basis(self, resource: str, use: Use) -> int:
        """What a request has to cover at least."""
        return use.high if resource == CPU else use.most

    def wanted(self, resource: str, use: Use) -> int:
        """With headroom, in round figures, and no less than the least."""
        more = self.cpu_headroom if resource == CPU else self.memory_headroom
        amount = self.basis(resource, use) * (1 + more)
        return max(self.least.get(resource, 0), rounded(resource, amount))


def rounded(resource: str, amount: float) -> int:
    """Up to milli-CPUs, tens of them from 100 on; up to MiB, sixteen of them from 1 GiB on."""
    if resource == CPU:
        step = 1 if amount < 100 else 10
    else:
        step = _MI if amount < 1024 * _MI else 16 * _MI
    return math.ceil(round(amount / step, 6)) * step


@dataclass(frozen=True, slots=True)
class Part:
    """A container of a workload, as most of its pods have it. `sidecar`: an init container that stays."""

    name: str
    requests: Resources
    limits: Resources
    sidecar: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """Pods of one owner. `whole` are resources that its pods ask for as a whole, not by container."""

    owner: Owner
    pods: tuple[str, ...]  # namespace/name
    parts: tuple[Part, ...]
    per_node: bool = False
    whole: frozenset[str] = frozenset()


OwnerOf = Callable[[Pod], Owner]


def works(problem: Problem, owner_of: OwnerOf) -> dict[Owner, Work]:
    """All that have pods, pending or on nodes, but those of nodes themselves; and all DaemonSets."""
    found: dict[Owner, list[Pod]] = {}
    for pod in (*problem.pods, *(pod for node in problem.nodes for pod in node.pods)):
        owner = owner_of(pod)
        if owner.kind != "Node":
            found.setdefault(owner, []).append(pod)
    known = {owner: _work(owner, pods) for owner, pods in found.items()}
    for one in problem.daemonsets:
        owner = _owner(one)
        if owner not in known:
            known[owner] = replace(_work(owner, [_of_daemons(one)]), pods=())
        known[owner] = replace(known[owner], per_node=True)
    return dict(sorted(known.items()))


def _owner(one: DaemonSet) -> Owner:
    return Owner(one.KIND, one.metadata.namespace, one.metadata.name)


def _of_daemons(one: DaemonSet) -> Pod:
    return Pod(metadata=one.metadata, spec=one.spec.template.spec)


def _work(owner: Owner, pods: Sequence[Pod]) -> Work:
    """What most pods have: in the middle of a rollout, or beside a webhook, not all are alike."""
    seen: dict[str, Counter[tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...], bool]]] = {}
    for spec, count in _specs(pods):
        for one, sidecar in _staying(spec):
            asked, most = (
                tuple(sorted(amounts(each).items()))
                for each in (one.resources.requests, one.resources.limits)
            )
            seen.setdefault(one.name, Counter())[asked, most, sidecar] += count
    parts = []
    for name, counted in seen.items():
        (asked, most, sidecar), _ = counted.most_common(1)[0]
        parts.append(Part(name, dict(asked), dict(most), sidecar))
    whole = {name for pod in pods if pod.spec.resources is not None for name in pod.spec.resources.requests}
    return Work(owner, tuple(pod.key for pod in pods), tuple(parts), whole=frozenset(whole))


def _specs(pods: Iterable[Pod]) -> Iterable[tuple[PodSpec, int]]:
    """Each spec once, with its number: pods that a template makes share theirs."""
    found: dict[int, tuple[PodSpec, int]] = {}
    for pod in pods:
        spec, count = found.get(id(pod.spec), (pod.spec, 0))
        found[id(pod.spec)] = spec, count + 1
    return found.values()


def _staying(spec: PodSpec) -> Iterable[tuple[Container, bool]]:
    """Containers that run as long as the pod, and whether each is a sidecar."""
    yield from ((one, False) for one in spec.containers)
    yield from ((one, True) for one in spec.init_containers if one.restart_policy == "Always")


@dataclass(frozen=True, slots=True)
class Size:
    """One resource of one container. `right` is `now` where nothing is to change; None: no request.

    `why` says why nothing was recommended, if nothing was. `advice` was taken where there is no `use`.
    """

    owner: Owner
    container: str
    resource: str
    now: int | None
    right: int | None
    limit: int | None = None
    right_limit: int | None = None
    use: Use | None = None
    advice: Advice | None = None
    too_small: bool = False  # less than what it has to cover: throttled under pressure, or evicted, or killed
    sidecar: bool = False
    why: str = ""

    @property
    def changed(self) -> bool:
        return self.right != self.now or self.right_limit != self.limit

    @property
    def change(self) -> int:
        """By how much the request of one pod grows."""
        return (self.right or 0) - (self.now or 0)


# Makes of an amount of (owner, resource), and the limit that stays beside it, what its namespace admits.
Allowed = Callable[[Owner, str, int, int | None], int]
NOT_MEASURED = "not measured"
AS_A_WHOLE = "its pods ask for it as a whole"


def recommend(
    found: Iterable[Work],
    uses: Mapping[tuple[Owner, str, str], Use],
    advice: Mapping[tuple[Owner, str, str], Advice],
    rules: Rules,
    kept: Mapping[tuple[Owner, str], str] | None = None,
    allowed: Allowed | None = None,
) -> tuple[Size, ...]:
    """A size for each container and resource. What was measured goes before what an autoscaler recommends.

    `kept` says why a resource of an owner stays as it is.
    """
    sizes = []
    for work in found:
        for part in work.parts:
            for resource in RESOURCES:
                key = work.owner, part.name, resource
                sizes.append(
                    _size(work, part, resource, uses.get(key), advice.get(key), rules, kept or {}, allowed)
                )
    return tuple(sizes)


def _size(
    work: Work,
    part: Part,
    resource: str,
    use: Use | None,
    advice: Advice | None,
    rules: Rules,
    kept: Mapping[tuple[Owner, str], str],
    allowed: Allowed | None,
) -> Size:
    now, limit = part.requests.get(resource), part.limits.get(resource)
    size = Size(work.owner, part.name, resource, now, now, limit, limit, use, advice, False, part.sidecar)
    if use is not None:
        need, want = rules.basis(resource, use), rules.wanted(resource, use)
    elif advice is not None:
        need, want = advice.lower if advice.lower is not None else advice.target, advice.target
    else:
        return replace(size, why=NOT_MEASURED)
    size = replace(size, too_small=(now or 0) < need)
    why = AS_A_WHOLE if resource in work.whole else kept.get((work.owner, resource), "")
    if why:
        return replace(size, why=why)
    if now is not None and need <= now:
        if want > now and want <= rules.least.get(resource, 0):
            return size  # the least is no reason to raise what is enough
        if abs(want - now) <= _NEAR * now:
            return size
    right = want
    if allowed is not None:
        right = allowed(work.owner, resource, want, limit if rules.limits == "keep" else None)
    if right == now or (size.too_small and right < (now or 0)):
        return size
    return replace(size, right=right, right_limit=_limit(now, right, limit, rules))


def _limit(now: int | None, right: int, limit: int | None, rules: Rules) -> int | None:
    """In proportion where that is wanted, or where the request would be above it."""
    if limit is None or (rules.limits == "keep" and right <= limit):
        return limit
    return max(right, -(-limit * right // now)) if now else max(limit, right)


def used(
    found: Mapping[Owner, Work], measured: Measured, owners: Callable[[str, str, str], Owner | None]
) -> tuple[dict[tuple[Owner, str, str], Use], int]:
    """What containers used, of all pods of each owner; and how many series belong to nothing here.

    A request is the same for all pods, so the pod that uses most counts: of those with enough samples, or of
    all where none has. `owners` answers what (namespace, pod, container) belongs to.
    """
    by: dict[tuple[Owner, str, str], list[Use]] = {}
    strange = 0
    for (namespace, pod, container, resource), use in measured.items():
        owner = owners(namespace, pod, container)
        work = found.get(owner) if owner is not None else None
        if owner is None or work is None or all(part.name != container for part in work.parts):
            strange += 1
        else:
            by.setdefault((owner, container, resource), []).append(use)
    return {key: _together(uses) for key, uses in by.items()}, strange


def _together(uses: Sequence[Use]) -> Use:
    long = [use for use in uses if use.samples >= ENOUGH] or uses
    medians = sorted(use.median for use in long)
    return Use(
        sum(use.samples for use in uses),
        medians[len(medians) // 2],
        max(use.high for use in long),
        max(use.most for use in long),
        min(use.start for use in uses),
        max(use.end for use in uses),
        uses[0].source,
    )


Requests = Mapping[Owner, Mapping[str, Resources]]  # by container: those that change


def changes(sizes: Iterable[Size]) -> dict[Owner, dict[str, dict[str, int]]]:
    """The requests that are to be others."""
    found: dict[Owner, dict[str, dict[str, int]]] = {}
    for size in sizes:
        if size.right is not None and size.right != size.now:
            found.setdefault(size.owner, {}).setdefault(size.container, {})[size.resource] = size.right
    return found


def resized(problem: Problem, requests: Requests, owner_of: OwnerOf) -> Problem:
    """The problem whose pods, pending or on nodes, ask for that; DaemonSets make such pods, too."""
    made: dict[tuple[int, Owner], tuple[PodSpec, PodSpec]] = {}  # the first keeps the identity its own

    def spec_of(owner: Owner, spec: PodSpec) -> PodSpec:
        key = id(spec), owner
        if key not in made:
            made[key] = spec, _with_requests(spec, requests[owner])
        return made[key][1]

    def pod_of(pod: Pod) -> Pod:
        owner = owner_of(pod)
        if owner not in requests:
            return pod
        # What its containers have been given is of the requests before.
        status = with_fields(pod.status, container_statuses=(), init_container_statuses=())
        return with_fields(pod, spec=spec_of(owner, pod.spec), status=status)

    def pods_of(pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
        return tuple(map(pod_of, pods))

    def daemons_of(one: DaemonSet) -> DaemonSet:
        if (owner := _owner(one)) not in requests:
            return one
        template = one.spec.template
        template = with_fields(template, spec=spec_of(owner, template.spec))
        return with_fields(one, spec=with_fields(one.spec, template=template))

    return replace(
        problem,
        pods=pods_of(problem.pods),
        nodes=tuple(replace(node, pods=pods_of(node.pods)) for node in problem.nodes),
        daemonsets=tuple(map(daemons_of, problem.daemonsets)),
    )


def _with_requests(spec: PodSpec, wanted: Mapping[str, Resources]) -> PodSpec:
    def sized(one: Container, *, stays: bool = True) -> Container:
        if one.name not in wanted or not stays:
            return one
        asked = {**one.resources.requests, **quantities(wanted[one.name])}
        return with_fields(one, resources=with_fields(one.resources, requests=asked))

    return with_fields(
        spec,
        containers=tuple(map(sized, spec.containers)),
        init_containers=tuple(
            sized(one, stays=one.restart_policy == "Always") for one in spec.init_containers
        ),
    )


def held_by_init(problem: Problem, requests: Requests, owner_of: OwnerOf) -> dict[Owner, tuple[str, ...]]:
    """Owners whose pods do not ask for less although their containers do: an init container, which runs
    before them, asks for more. With the resources.
    """
    found: dict[Owner, tuple[str, ...]] = {}
    seen: set[int] = set()
    for pod in (*problem.pods, *(pod for node in problem.nodes for pod in node.pods)):
        owner = owner_of(pod)
        if owner not in requests or id(pod.spec) in seen or owner in found or not pod.spec.init_containers:
            continue
        seen.add(id(pod.spec))
        spec = _with_requests(pod.spec, requests[owner])
        after = pod_requests(with_fields(pod, spec=spec))
        alone = tuple(one for one in spec.init_containers if one.restart_policy == "Always")
        free = pod_requests(with_fields(pod, spec=with_fields(spec, init_containers=alone)))
        held = tuple(
            name
            for name in RESOURCES
            if after.get(name, 0) > free.get(name, 0)
            and any(name in asked for asked in requests[owner].values())
        )
        if held:
            found[owner] = held
    return found
