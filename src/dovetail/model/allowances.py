"""What LimitRanges and ResourceQuotas make of the pods of their namespace, as the API server has it. Pure.

Read off a real API server of 1.36: what it fills in, in which order, what it refuses and in which words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from dovetail.api.core import Container, Pod, PodSpec, ResourceList
from dovetail.api.namespaces import LimitRange, LimitRangeItem, ResourceQuota, ScopeRequirement
from dovetail.api.pod_resources import of_the_whole
from dovetail.model.resources import CPU, MEMORY, amounts, pod_limits, pod_requests, quantities
from dovetail.units.quantity import Quantity

_LIMITS, _REQUESTS = "limits.", "requests."
# Of a quota: what each container of a pod must say then.
_TOLD = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
# Scopes of pods that no quota here is about: they end by a deadline of their own, or reach other namespaces.
_OTHERS = ("Terminating", "CrossNamespacePodAffinity")


def filled(spec: PodSpec, ranges: Iterable[LimitRange]) -> PodSpec:
    """The spec with the limits and requests that containers lack; the very same where they lack none."""
    for one in ranges:
        limits: ResourceList = {}
        requests: ResourceList = {}
        for item in one.spec.limits:
            if item.type == "Container":
                default = {**item.max, **item.default}
                limits.update(default)
                requests.update({**item.min, **default, **item.default_request})
        containers = tuple(_filled(each, requests, limits) for each in spec.containers)
        first = tuple(_filled(each, requests, limits) for each in spec.init_containers)
        spec = msgspec.structs.replace(spec, containers=containers, init_containers=first)
    return spec


def _filled(container: Container, requests: ResourceList, limits: ResourceList) -> Container:
    made = msgspec.structs.replace(
        container.resources,
        requests={**requests, **container.resources.requests},
        limits={**limits, **container.resources.limits},
    )
    return msgspec.structs.replace(container, resources=made)


def refusal(pod: Pod, ranges: Sequence[LimitRange]) -> str:
    """Why the namespace's LimitRanges do not allow the pod, after `filled`; "" if they do."""
    spec, found = pod.spec, []
    # What a RuntimeClass adds counts for quotas alone.
    bare = (
        msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, overhead={}))
        if spec.overhead
        else pod
    )
    for number, one in enumerate(spec.containers):
        resources = one.resources
        found += [
            f'spec.containers[{number}].resources.requests: Invalid value: "{amount}": must be less than or '
            f"equal to {name} limit of {resources.limits[name]}"
            for name, amount in resources.requests.items()
            if name in resources.limits and amount.nanos > resources.limits[name].nanos
        ]
    for item in (item for one in ranges for item in one.spec.limits):
        if item.type == "Container":
            for one in (*spec.containers, *spec.init_containers):
                found += _broken(item, one.resources.requests, one.resources.limits)
        elif item.type == "Pod":
            found += _broken(item, quantities(pod_requests(bare)), quantities(pod_limits(bare)))
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]" if found else ""


def _broken(item: LimitRangeItem, requests: ResourceList, limits: ResourceList) -> Iterator[str]:
    for name, least in item.min.items():
        rule = f"minimum {name} usage per {item.type} is {least}"
        if name not in requests:
            yield f"{rule}.  No request is specified"
        elif requests[name].nanos < least.nanos:
            yield f"{rule}, but request is {requests[name]}"
        elif name in limits and limits[name].nanos < least.nanos:
            yield f"{rule}, but limit is {limits[name]}"
    for name, most in item.max.items():
        rule = f"maximum {name} usage per {item.type} is {most}"
        if name not in limits:
            yield f"{rule}.  No limit is specified"
        elif limits[name].nanos > most.nanos:
            yield f"{rule}, but limit is {limits[name]}"
        elif name in requests and requests[name].nanos > most.nanos:
            yield f"{rule}, but request is {requests[name]}"
    for name, ratio in item.max_limit_request_ratio.items():
        rule = f"{name} max limit to request ratio per {item.type} is {ratio}"
        asked = requests[name].nanos if name in requests else 0
        allowed = limits[name].nanos if name in limits else 0
        if not asked:
            yield f"{rule}, but no request is specified or request is 0"
        elif not allowed:
            yield f"{rule}, but no limit is specified or limit is 0"
        elif allowed * 1_000_000_000 > ratio.nanos * asked:
            yield f"{rule}, but provided ratio is {allowed / asked:f}"


class Quotas:
    """The ResourceQuotas of some namespaces, and what is used of each."""

    def __init__(self, quotas: Iterable[ResourceQuota], pods: Iterable[Pod]) -> None:
        """`pods` are those that are there; one that has ended counts no more."""
        self._used: dict[str, list[tuple[ResourceQuota, dict[str, int]]]] = {}
        for quota in sorted(quotas, key=lambda one: one.key):
            self._used.setdefault(quota.metadata.namespace, []).append((quota, {}))
        for pod in pods:
            if not pod.terminal:
                self._count(pod)

    def refusal(self, pod: Pod) -> str:
        """Why there is no room for one more such pod in its namespace; "" if there is, and it counts then."""
        for quota, used in self._used.get(pod.metadata.namespace, ()):
            if not _within(quota, pod):
                continue
            hard = quota.spec.hard
            # Whoever says it for the pod as a whole need not say it for its containers.
            lacking = [
                f"{name} for: {','.join(sorted(of))}"
                for name in _TOLD
                if name in hard and not _says_whole(pod) and (of := _lack(pod, name))
            ]
            if lacking:
                return f"failed quota: {quota.metadata.name}: must specify {'; '.join(sorted(lacking))}"
            wanted = {name: amount for name, amount in _use(pod).items() if name in hard and amount}
            over = sorted(
                name for name, amount in wanted.items() if used.get(name, 0) + amount > _hard(hard, name)
            )
            if over:
                parts = [
                    f"{title}: {','.join(f'{name}={_shown(name, each[name])}' for name in over)}"
                    for title, each in (
                        ("requested", wanted),
                        ("used", {name: used.get(name, 0) for name in over}),
                        ("limited", {name: _hard(hard, name) for name in over}),
                    )
                ]
                return f"exceeded quota: {quota.metadata.name}, {', '.join(parts)}"
        self._count(pod)
        return ""

    def _count(self, pod: Pod) -> None:
        for quota, used in self._used.get(pod.metadata.namespace, ()):
            if _within(quota, pod):
                for name, amount in _use(pod).items():
                    used[name] = used.get(name, 0) + amount


def _use(pod: Pod) -> dict[str, int]:
    """What a quota counts of a pod, under all its names."""
    asked, most = pod_requests(pod), pod_limits(pod)
    found = {"pods": 1, "count/pods": 1}
    for name, amount in asked.items():
        if name != "pods":
            found[_REQUESTS + name] = amount
            if name in (CPU, MEMORY, "ephemeral-storage"):
                found[name] = amount
    found.update({_LIMITS + name: amount for name, amount in most.items() if name != "pods"})
    return found


def _bare(name: str) -> str:
    return name.removeprefix(_LIMITS).removeprefix(_REQUESTS)


def _hard(hard: ResourceList, name: str) -> int:
    """The quota in the units of `amounts`."""
    return amounts({_bare(name): hard[name]})[_bare(name)]


def _shown(name: str, amount: int) -> Quantity:
    return quantities({_bare(name): amount})[_bare(name)]


def _lack(pod: Pod, name: str) -> list[str]:
    """Containers that do not say how much of it they want."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    said = (
        (one.name, one.resources.limits if name.startswith(_LIMITS) else one.resources.requests)
        for one in containers
    )
    return [one for one, given in said if _bare(name) not in given]


def _says_whole(pod: Pod) -> bool:
    whole = pod.spec.resources
    return whole is not None and any(map(of_the_whole, (*whole.requests, *whole.limits)))


def _best_effort(spec: PodSpec) -> bool:
    """True iff neither the pod nor a container says how much CPU or memory it needs or may have."""
    parts = [one.resources for one in (*spec.containers, *spec.init_containers)]
    parts += [spec.resources] if spec.resources is not None else []
    given = (
        amounts.get(name) for one in parts for amounts in (one.requests, one.limits) for name in (CPU, MEMORY)
    )
    return not any(amount is not None and amount.nanos > 0 for amount in given)


def _within(quota: ResourceQuota, pod: Pod) -> bool:
    """True iff the quota's scopes are about the pod."""
    plain = (ScopeRequirement(scope_name=name, operator="Exists") for name in quota.spec.scopes)
    return all(_holds(one, pod) for one in (*plain, *quota.spec.scope_selector.match_expressions))


def _holds(scope: ScopeRequirement, pod: Pod) -> bool:
    if scope.scope_name in _OTHERS:
        return False
    if scope.scope_name.endswith("BestEffort"):
        return _best_effort(pod.spec) is (scope.scope_name == "BestEffort")
    if scope.scope_name != "PriorityClass":
        return True
    name = pod.spec.priority_class_name
    match scope.operator:
        case "In":
            return name in scope.values
        case "NotIn":
            return name not in scope.values
        case "DoesNotExist":
            return not name
        case _:
            return bool(name)
