"""Spread constraints that the cluster's scheduler gives to pods without any of their own. Pure.

As kube-scheduler does it: which pods count is deduced for each pod, from the Services that select it and from
its controller. A pod of which nothing is deduced (of a Job, or bare, without a Service) gets no constraint.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from msgspec.structs import replace

from dovetail.api.core import Pod, TopologySpreadConstraint
from dovetail.api.meta import LabelSelector, LabelSelectorRequirement, Object
from dovetail.api.services import ReplicationController, Service
from dovetail.api.workloads import ReplicaSet, StatefulSet

Owner = ReplicationController | ReplicaSet | StatefulSet
SELECTING: tuple[type[Object], ...] = (Service, ReplicationController, ReplicaSet, StatefulSet)

_Constraints = tuple[TopologySpreadConstraint, ...]
_Controller = tuple[str, str, str]  # apiVersion, kind, key
_NOBODY = ("", "", "")


@dataclass(frozen=True)
class DefaultSpreads:
    """The constraints, without selectors, and all that selectors are deduced from.

    Nothing is worked out twice for pods with the same labels and the same controller.
    """

    constraints: _Constraints = ()
    services: tuple[Service, ...] = ()
    owners: tuple[Owner, ...] = ()

    def given(self, pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
        """The pods as they are scheduled: those without constraints with the defaults, the others as is."""
        return tuple(map(self._given, pods)) if self.constraints else pods

    def _given(self, pod: Pod) -> Pod:
        if pod.spec.topology_spread_constraints:
            return pod
        meta, owner = pod.metadata, _controller(pod)
        alike = (meta.namespace, tuple(sorted(meta.labels.items())), owner)
        found = self._known.get(alike)
        if found is None:
            selector = deduced(pod, self._services.get(meta.namespace, ()), self._owners.get(owner))
            found = self._known[alike] = self._over(selector)
        return replace(pod, spec=replace(pod.spec, topology_spread_constraints=found)) if found else pod

    def _over(self, selector: LabelSelector | None) -> _Constraints:
        if selector is None:
            return ()
        return tuple(replace(item, label_selector=selector) for item in self.constraints)

    @cached_property
    def _services(self) -> dict[str, list[Service]]:
        """By namespace."""
        found: dict[str, list[Service]] = {}
        for item in self.services:
            found.setdefault(item.metadata.namespace, []).append(item)
        return found

    @cached_property
    def _owners(self) -> dict[_Controller, Owner]:
        return {(item.API_VERSION, item.KIND, item.key): item for item in self.owners}

    @cached_property
    def _known(self) -> dict[tuple[object, ...], _Constraints]:
        return {}


def deduced(pod: Pod, services: Iterable[Service], owner: Owner | None) -> LabelSelector | None:
    """The pods that count for this one, None if that is unknown. `services` are of its namespace."""
    labels: dict[str, str] = {}
    for service in services:
        chosen = service.spec.selector or {}
        if chosen.items() <= pod.metadata.labels.items():
            labels |= chosen
    if isinstance(owner, ReplicationController):
        labels |= owner.spec.selector or {}
    expressions: tuple[LabelSelectorRequirement, ...] = ()
    if isinstance(owner, ReplicaSet | StatefulSet):
        selector = owner.spec.selector
        # As expressions, which hold beside the Services' labels instead of replacing them.
        exact = (
            LabelSelectorRequirement(key=key, operator="In", values=(value,))
            for key, value in selector.match_labels.items()
        )
        expressions = (*exact, *selector.match_expressions)
    if not labels and not expressions:
        return None
    return LabelSelector(match_labels=labels, match_expressions=expressions)


def _controller(pod: Pod) -> _Controller:
    owner = pod.metadata.controller()
    if owner is None:
        return _NOBODY
    return owner.api_version, owner.kind, f"{pod.metadata.namespace}/{owner.name}"
