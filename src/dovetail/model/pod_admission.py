"""What the admission plugins of an API server make of a new pod, as far as it says where it may go. Pure.

In the server's order: LimitRanger, ExtendedResourceToleration, RuntimeClass, ResourceQuota. The second is off
in Kubernetes unless it is asked for; EKS has had it since 1.19.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from dovetail.api.codec import encode
from dovetail.api.core import Pod, PodSpec, Toleration
from dovetail.api.core_rules import matched_twice
from dovetail.api.namespaces import LimitRange
from dovetail.api.pod_resources import extended
from dovetail.api.workloads import RuntimeClass
from dovetail.model.allowances import Quotas, filled, refusal


class PodAdmission:
    """For some namespaces, with their ranges in order of name."""

    def __init__(
        self,
        ranges: Mapping[str, Iterable[LimitRange]],
        runtimes: Mapping[str, RuntimeClass],
        quotas: Quotas,
    ) -> None:
        self._ranges = {namespace: tuple(found) for namespace, found in ranges.items()}
        self._runtimes = runtimes
        self._quotas = quotas
        # By namespace and the identity of a spec, which is kept: what became of it, and why it is refused.
        self._known: dict[tuple[str, int], tuple[PodSpec, PodSpec, str]] = {}

    def admitted(self, pod: Pod) -> tuple[Pod, str]:
        """The pod as it is made, and why it is refused; "" if it is not, and the quotas count it."""
        made, why = self.filled(pod)
        why = why or _matched_twice(pod)
        own = self._ranges.get(pod.metadata.namespace, ())
        return made, why or (refusal(made, own) if own else "") or self._quotas.refusal(made)

    def filled(self, pod: Pod) -> tuple[Pod, str]:
        """The same before its namespace is asked. Pods that share a spec share what comes of it."""
        key = pod.metadata.namespace, id(pod.spec)
        known = self._known.get(key)
        if known is None:
            ranges = self._ranges.get(pod.metadata.namespace, ())
            known = self._known[key] = (pod.spec, *completed(pod.spec, ranges, self._runtimes))
        _, spec, why = known
        return (pod if spec is pod.spec else msgspec.structs.replace(pod, spec=spec)), why


def _matched_twice(pod: Pod) -> str:
    """See `matched_twice`; nearly no pod has such keys."""
    affinity = pod.spec.affinity
    rules = [item for item in (affinity.pod_affinity, affinity.pod_anti_affinity) if item] if affinity else []
    keys = any(item.match_label_keys for item in pod.spec.topology_spread_constraints) or any(
        term.match_label_keys
        for one in rules
        for term in (*one.required, *[item.pod_affinity_term for item in one.preferred])
    )
    return matched_twice(encode(pod)) if keys else ""


def completed(
    spec: PodSpec, ranges: Iterable[LimitRange], runtimes: Mapping[str, RuntimeClass]
) -> tuple[PodSpec, str]:
    """With what the ranges of its namespace, devices and its RuntimeClass add, and why it is refused."""
    return in_runtime(tolerating(filled(spec, ranges)), runtimes)


def tolerating(spec: PodSpec) -> PodSpec:
    """With tolerations of taints that are called as the devices that the pod asks for."""
    asked = {
        name
        for one in (*spec.containers, *spec.init_containers)
        for name in one.resources.requests
        if extended(name)
    }
    return _with_tolerations(
        spec, (Toleration(key=name, operator="Exists", effect="NoSchedule") for name in sorted(asked))
    )


def in_runtime(spec: PodSpec, classes: Mapping[str, RuntimeClass]) -> tuple[PodSpec, str]:
    """With what its RuntimeClass adds, and why it is refused; "" if it is not."""
    name = spec.runtime_class_name
    runtime = classes.get(name) if name else RuntimeClass()
    if runtime is None:
        return spec, f'pod rejected: RuntimeClass "{name}" not found'
    fixed = runtime.overhead.pod_fixed if runtime.overhead else {}
    if spec.overhead and spec.overhead != fixed:
        return spec, (
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            if runtime.overhead
            else "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        )
    wanted = runtime.scheduling.node_selector
    for key, value in wanted.items():
        if (own := spec.node_selector.get(key, value)) != value:
            return spec, (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {own}"
            )
    if not spec.overhead and fixed:
        spec = msgspec.structs.replace(spec, overhead=fixed)
    if not wanted.items() <= spec.node_selector.items():
        spec = msgspec.structs.replace(spec, node_selector={**spec.node_selector, **wanted})
    return _with_tolerations(spec, runtime.scheduling.tolerations), ""


def _with_tolerations(spec: PodSpec, more: Iterable[Toleration]) -> PodSpec:
    """The very same spec where it has them already."""
    lacking = tuple(one for one in more if one not in spec.tolerations)
    return msgspec.structs.replace(spec, tolerations=(*spec.tolerations, *lacking)) if lacking else spec
