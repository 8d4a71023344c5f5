"""A problem with one thing changed: to try whether what an explanation says would help does help.

Rules are written in templates, so a change is made for all of a template's pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

import msgspec
from msgspec.structs import replace as with_fields

from dovetail.api.core import (
    Affinity,
    Container,
    NodeAffinity,
    NodeSelector,
    Pod,
    PodAffinity,
    PodSpec,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
)
from dovetail.explain.miss import Change
from dovetail.model.label_values import Requirement, integer
from dovetail.model.labels import ALIASES
from dovetail.model.problem import Pool, Problem
from dovetail.model.requirement import Requirements
from dovetail.model.resources import pod_requests, quantities


def template_of(pod: Pod) -> tuple[str, bytes]:
    """Equal for pods of one controller, and for pods without one that have the same labels and rules."""
    reference = pod.metadata.controller()
    if reference is not None:
        return f"{reference.kind} {pod.metadata.namespace}/{reference.name}", b""
    spec = pod.spec
    parts = (
        sorted(pod.metadata.labels.items()),
        sorted(spec.node_selector.items()),
        spec.affinity,
        spec.topology_spread_constraints,
        spec.tolerations,
    )
    return f"Pod in {pod.metadata.namespace}", msgspec.json.encode(parts)


def by_template(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """Pods by what they come from, such as `Deployment shop/web` or `Pod shop/a and 3 like it`."""
    found: dict[tuple[str, bytes], list[Pod]] = {}
    for pod in pods:
        found.setdefault(template_of(pod), []).append(pod)
    named: dict[str, list[Pod]] = {}
    for (name, rules), members in sorted(found.items()):
        if rules:
            others = len(members) - 1
            name = f"Pod {members[0].key}" + (f" and {others} like it" if others else "")
        named[name] = members
    return named


def apply(problem: Problem, key: str, change: Change) -> Problem:
    """The problem with the change made to the pod `key`, or to the pool that the change names."""
    if change.kind == "shared-limit":
        left = problem.commons[change.name] + change.amount
        return replace(problem, commons={**problem.commons, change.name: left})
    if change.kind in _POOL_CHANGES:
        edit = _POOL_CHANGES[change.kind]
        pools = tuple(edit(pool, change) if pool.name == change.pool else pool for pool in problem.pools)
        return replace(problem, pools=pools)
    (template,) = (template_of(pod) for pod in problem.pods if pod.key == key)

    def meant(pod: Pod) -> bool:
        return pod.key == key or (change.kind == "topology" and template_of(pod) == template)

    return for_pods(problem, change, meant)


def for_pods(problem: Problem, change: Change, meant: Callable[[Pod], bool]) -> Problem:
    """The problem with the change made to some pods, pending or on nodes."""
    alter = _POD_CHANGES[change.kind]

    def altered(pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
        return tuple(with_fields(pod, spec=alter(pod, change)) if meant(pod) else pod for pod in pods)

    nodes = tuple(replace(node, pods=altered(node.pods)) for node in problem.nodes)
    return replace(problem, pods=altered(problem.pods), nodes=nodes)


def _limit(pool: Pool, change: Change) -> Pool:
    return replace(pool, limits={**(pool.limits or {}), change.name: change.amount})


def _pool_label(pool: Pool, change: Change) -> Pool:
    """One value more is allowed of a label."""
    by_key = pool.requirements.by_key
    wider = widened(by_key[change.name], change.value)
    return replace(pool, requirements=Requirements({**by_key, change.name: wider}))


def widened(item: Requirement, value: str) -> Requirement:
    """The requirement, with that value allowed as well."""
    if item.has(value):
        return item
    if not item.complement:
        return replace(item, values=item.values | {value})
    number, gte, lte = integer(value), item.gte, item.lte
    if number is None:
        return replace(item, values=item.values - {value}, gte=None, lte=None)
    return replace(
        item,
        values=item.values - {value},
        gte=None if gte is None else min(gte, number),
        lte=None if lte is None else max(lte, number),
    )


def _min_values(pool: Pool, change: Change) -> Pool:
    item = pool.requirements.by_key[change.name]
    lowered = replace(item, min_values=change.amount or None)
    return replace(pool, requirements=Requirements({**pool.requirements.by_key, change.name: lowered}))


def _tolerate(pod: Pod, change: Change) -> PodSpec:
    extra = Toleration(key=change.name, operator="Equal", value=change.value, effect=change.effect)
    return with_fields(pod.spec, tolerations=(*pod.spec.tolerations, extra))


def _request(pod: Pod, change: Change) -> PodSpec:
    """The whole pod's request: what its containers ask for no longer counts, nor does its overhead."""
    amounts = {**pod_requests(pod), change.name: change.amount}
    amounts.pop("pods", None)
    return with_fields(pod.spec, resources=ResourceRequirements(requests=quantities(amounts)), overhead={})


def _ports(pod: Pod, _: Change) -> PodSpec:
    def closed(items: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(with_fields(item, ports=()) for item in items)

    return with_fields(
        pod.spec, containers=closed(pod.spec.containers), init_containers=closed(pod.spec.init_containers)
    )


def _label(pod: Pod, change: Change) -> PodSpec:
    """Nothing is asked of the label any more, in the selector or in the required affinity."""
    spec = pod.spec
    kept = {key: value for key, value in spec.node_selector.items() if ALIASES.get(key, key) != change.name}
    affinity = spec.affinity
    node = affinity.node_affinity if affinity else None
    if affinity is None or node is None or node.required is None:
        return with_fields(spec, node_selector=kept)
    terms = tuple(
        with_fields(
            term,
            match_expressions=tuple(
                item for item in term.match_expressions if ALIASES.get(item.key, item.key) != change.name
            ),
        )
        for term in node.required.node_selector_terms
    )
    # A term that asks for nothing more is met by every node, which an empty term would not be.
    free = any(not term.match_expressions and not term.match_fields for term in terms)
    required = None if free else NodeSelector(node_selector_terms=terms)
    affinity = with_fields(affinity, node_affinity=with_fields(node, required=required))
    return with_fields(spec, node_selector=kept, affinity=affinity)


def _topology(pod: Pod, change: Change) -> PodSpec:
    """Without the rules of one kind over one label."""
    spec = pod.spec
    if change.name == "spread":
        kept = tuple(item for item in spec.topology_spread_constraints if not _hard_over(item, change.value))
        return with_fields(spec, topology_spread_constraints=kept)
    affinity = spec.affinity or Affinity()
    if change.name == "affinity":
        affinity = with_fields(affinity, pod_affinity=_without(affinity.pod_affinity, change.value))
    else:
        affinity = with_fields(affinity, pod_anti_affinity=_without(affinity.pod_anti_affinity, change.value))
    return with_fields(spec, affinity=affinity)


def _hard_over(item: TopologySpreadConstraint, key: str) -> bool:
    return (
        item.when_unsatisfiable != "ScheduleAnyway"
        and ALIASES.get(item.topology_key, item.topology_key) == key
    )


def _without(terms: PodAffinity | None, key: str) -> PodAffinity | None:
    if terms is None:
        return None
    kept = tuple(item for item in terms.required if ALIASES.get(item.topology_key, item.topology_key) != key)
    return with_fields(terms, required=kept)


def _volumes(pod: Pod, _: Change) -> PodSpec:
    return with_fields(pod.spec, volumes=())


def _preferences(pod: Pod, _: Change) -> PodSpec:
    """Nothing is preferred any more."""
    spec = pod.spec
    hard = tuple(
        item for item in spec.topology_spread_constraints if item.when_unsatisfiable != "ScheduleAnyway"
    )
    affinity = spec.affinity
    if affinity is not None:
        affinity = Affinity(
            node_affinity=_unpreferred(affinity.node_affinity),
            pod_affinity=_unpreferred(affinity.pod_affinity),
            pod_anti_affinity=_unpreferred(affinity.pod_anti_affinity),
        )
    return with_fields(spec, topology_spread_constraints=hard, affinity=affinity)


_Terms = TypeVar("_Terms", NodeAffinity, PodAffinity)


def _unpreferred(terms: _Terms | None) -> _Terms | None:
    return with_fields(terms, preferred=()) if terms is not None else None


_POD_CHANGES: dict[str, Callable[[Pod, Change], PodSpec]] = {
    "tolerate": _tolerate,
    "request": _request,
    "ports": _ports,
    "label": _label,
    "topology": _topology,
    "volumes": _volumes,
    "preferences": _preferences,
}
_POOL_CHANGES: dict[str, Callable[[Pool, Change], Pool]] = {
    "limit": _limit,
    "pool-label": _pool_label,
    "min-values": _min_values,
}
