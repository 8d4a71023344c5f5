"""Objects that stand for others which lie elsewhere: what a tool installs, what an operator makes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from dovetail.reading.kinds import DEFAULT_NAMESPACE
from dovetail.reading.located import Located
from dovetail.reading.podgroups import COUNTS
from dovetail.reading.refusals import subject
from dovetail.reading.sources import STDIN
from dovetail.reading.workloads import has_ended

_PODS = "kubectl get pods -A -o yaml"
# Of (group, kind): what is not here, and the command that prints it.
_MAKERS = {
    ("argoproj.io", "Application"): ("what it installs", "argocd app manifests NAME"),
    ("argoproj.io", "ApplicationSet"): ("what its Applications install", "argocd app manifests APPLICATION"),
    ("eksctl.io", "ClusterConfig"): (
        "what its cluster has",
        "kubectl get nodes,pods -A -o yaml",
    ),
    ("helm.toolkit.fluxcd.io", "HelmRelease"): ("what it installs", "helm get manifest NAME -n NAMESPACE"),
    ("kustomize.config.k8s.io", "Kustomization"): ("what it builds", "kubectl kustomize FOLDER"),
    ("kustomize.toolkit.fluxcd.io", "Kustomization"): (
        "what it builds",
        "flux build kustomization NAME --path FOLDER",
    ),
    ("template.openshift.io", "Template"): ("what it makes", "oc process -f FILE -o yaml"),
}
# What is counted in these is other than pods: copies of data, machines, pods that another object makes.
_NOT_OF_PODS = {
    ("kafka.strimzi.io", "KafkaTopic"),
    ("kueue.x-k8s.io", "Workload"),
    *(("cluster.x-k8s.io", kind) for kind in ("MachineDeployment", "MachineSet", "MachinePool")),
    *(("machine.openshift.io", kind) for kind in ("MachineSet", "ControlPlaneMachineSet")),
    ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane"),
}
# Of which the object alone does not say what they ask for, with no count to show it.
_RUN = {("kubevirt.io", "VirtualMachine"), ("kubevirt.io", "VirtualMachineInstance")}
_CONTAINERS = ("container", "containers", "steps")
_DEEPEST = 6
_PARTS = ("metadata", "spec")


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """An object, what is not here of it, and the command that prints that."""

    located: Located
    what: str
    command: str
    counted: bool = False  # True iff something of it is
    called: str = ""  # what has no kind

    @property
    def not_here(self) -> str:
        return f"{self.what} is not here ({self.command})"

    @property
    def written(self) -> str:
        """Kind and name."""
        named = subject(self.located.value)
        return self.called or f"{named['kind']} {named['name']}".strip()

    def filled(self) -> str:
        """The command with the object's own name, and the folder that it names or lies in."""
        document, source = self.located.value, self.located.source
        meta, spec = (found if isinstance(found := document.get(key), dict) else {} for key in _PARTS)
        words = {
            "NAME": str(meta.get("name") or "NAME"),
            "NAMESPACE": str(meta.get("namespace") or DEFAULT_NAMESPACE),
            "FOLDER": str(spec.get("path") or ("FOLDER" if source == STDIN else PurePath(source).parent)),
        }
        return " ".join(words.get(word, word) for word in self.command.split(" "))


def of_node_groups(located: Located, what: str) -> Elsewhere:
    """The pods of node groups, of which `what` tells."""
    command = "kubectl get nodes,pods -A -o yaml"
    return Elsewhere(located, "what runs there", command, counted=True, called=what)


def stands_for_others(group: str, kind: str) -> bool:
    """True iff the objects of a kind are what a tool makes others of, by what it has elsewhere."""
    return (group, kind) in _MAKERS


def elsewhere(located: Located, group: str, kind: str, counted: Collection[str] = ()) -> Elsewhere | None:
    """What an object of another group stands for beside what is `counted` of it, the paths of its parts.

    None if for nothing that is known.
    """
    known = _MAKERS.get((group, kind))
    if known is not None:
        return None if counted else Elsewhere(located, *known)
    if (group, kind) in _NOT_OF_PODS or has_ended(located.value):
        return None
    if (group, kind) in _RUN and not counted:
        return Elsewhere(located, "the pod that it runs in", _PODS)
    path = next(_signs(located.value.get("spec"), "spec", 0, counted), None)
    return (
        None
        if path is None
        else Elsewhere(located, f"what its operator makes ({path})", _PODS, bool(counted))
    )


def _signs(value: Any, path: str, depth: int, counted: Collection[str]) -> Iterator[str]:
    """Paths at which pods seem to be asked for: their number, what they ask for, or containers."""
    if depth > _DEEPEST or path in counted:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _signs(item, f"{path}[{index}]", depth + 1, counted)
    elif isinstance(value, dict):
        for key, item in value.items():
            if _is_sign(key, item) and not any(one.startswith(f"{path}.") for one in counted):
                yield f"{path}.{key}"
            yield from _signs(item, f"{path}.{key}", depth + 1, counted)


def _is_sign(key: str, item: Any) -> bool:
    if key in COUNTS:
        return type(item) is int and item > 0
    if key in _CONTAINERS:
        found = item[:1] if isinstance(item, list) else [item]
        return any(isinstance(one, dict) and "image" in one for one in found)
    return key == "resources" and isinstance(item, dict) and bool(item.keys() & {"requests", "limits"})
