"""What a cluster changes of pods as they are made and no manifest holds: proxies of a mesh, and the requests
that VerticalPodAutoscalers recommend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dovetail.api.core import Namespace, Pod, PodTemplateMeta
from dovetail.api.meta import Meta, Object
from dovetail.cli.plan_copies import template_of
from dovetail.model.podtemplate import Workload
from dovetail.reading import Reading

Words = Mapping[str, tuple[str, ...]]  # labels and annotations, and their values; none means any
_SHOWN = 3  # workloads whose requests are changed


@dataclass(frozen=True, slots=True)
class _Mesh:
    """By what it is asked into a pod, or into all of a namespace, and what its proxy asks for."""

    name: str
    of_pods: Words
    of_spaces: Words
    asks: str  # unless it is told otherwise


_ISTIO = _Mesh(
    "Istio",
    {"sidecar.istio.io/inject": ("true",)},
    {"istio-injection": ("enabled",), "istio.io/rev": ()},
    "100m of CPU and 128Mi",
)
_INJECT = {"linkerd.io/inject": ("enabled", "ingress")}
_LINKERD = _Mesh("Linkerd", _INJECT, _INJECT, "what its values say")


def sidecars_of(given: Iterable[Object]) -> str:
    """What is to be said of workloads whose pods get a proxy; "" where none does."""
    objects = list(given)
    spaces = {one.metadata.name: _words(one.metadata) for one in objects if isinstance(one, Namespace)}
    pods = [
        (_words(one.metadata if isinstance(one, Pod) else template_of(one).metadata), one.metadata.namespace)
        for one in objects
        if isinstance(one, Workload) or (isinstance(one, Pod) and _is_new(one))
    ]
    found = []
    for mesh in (_ISTIO, _LINKERD):
        count = sum(_joins(words, spaces.get(space, {}), mesh) for words, space in pods)
        if count:
            which = "1 workload get" if count == 1 else f"{count} workloads get"
            what = f"a proxy of {mesh.name}, which is not counted: {mesh.asks} each by default"
            found.append(f"the pods of {which} {what}")
    return "; ".join(found)


def _joins(pod: Mapping[str, str], space: Mapping[str, str], mesh: _Mesh) -> bool:
    """What a pod says itself goes before what its namespace says."""
    return _asked(pod, mesh.of_pods) if mesh.of_pods.keys() & pod.keys() else _asked(space, mesh.of_spaces)


def _is_new(pod: Pod) -> bool:
    """True iff no server has it: of those that are there the containers are known."""
    return not pod.metadata.uid and not pod.spec.node_name


def _words(meta: Meta | PodTemplateMeta) -> dict[str, str]:
    return {**meta.labels, **meta.annotations}


def _asked(words: Mapping[str, str], by: Words) -> bool:
    return any(key in words and (not values or words[key] in values) for key, values in by.items())


def vertical_remark(reading: Reading) -> str:
    """What is to be said of workloads whose new pods ask for other than is written; "" where none do."""
    here = {item.written for item in reading.manifests if isinstance(item.object, Workload)}
    here |= {item.written for item in reading.manifests if item.object.KIND == "DaemonSet"}
    found = []
    for one in reading.vertical_autoscalers:
        if one.changes_pods and one.recommended and one.target in here:
            asked: dict[str, list[str]] = {}
            for (container, resource), each in sorted(one.recommended.items()):
                asked.setdefault(container, []).append(f"{resource} {each.target}")
            listed = "; ".join(f"{name} {', '.join(parts)}" for name, parts in asked.items())
            found.append(f"{' '.join(one.target)} ({listed})")
    if not found:
        return ""
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return (
        "VerticalPodAutoscalers would change the requests of new pods, which are counted as written: "
        f"{', '.join(found[:_SHOWN])}{more}; dovetail rightsize counts what they recommend"
    )
