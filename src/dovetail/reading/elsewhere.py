"""Objects that stand for others which lie elsewhere: what a tool installs, what an operator makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from dovetail.reading.kinds import DEFAULT_NAMESPACE
from dovetail.reading.located import Located
from dovetail.reading.refusals import subject
from dovetail.reading.sources import STDIN

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
    ("kubevirt.io", "VirtualMachine"): ("the pod that it runs in", _PODS),
    ("kubevirt.io", "VirtualMachineInstance"): ("the pod that it runs in", _PODS),
    ("kustomize.config.k8s.io", "Kustomization"): ("what it builds", "kubectl kustomize FOLDER"),
    ("kustomize.toolkit.fluxcd.io", "Kustomization"): (
        "what it builds",
        "flux build kustomization NAME --path FOLDER",
    ),
    ("template.openshift.io", "Template"): ("what it makes", "oc process -f FILE -o yaml"),
}
# By which operators are told how many pods to make.
_COUNTS = ("replicas", "instances", "count", "members")
_NOT_OF_PODS = {("kafka.strimzi.io", "KafkaTopic")}  # copies of its data
_DEEPEST = 6
_PARTS = ("metadata", "spec")


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """An object, what is not here of it, and the command that prints that."""

    located: Located
    what: str
    command: str

    @property
    def written(self) -> str:
        """Kind and name."""
        named = subject(self.located.value)
        return f"{named['kind']} {named['name']}".strip()

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


def elsewhere(located: Located, group: str, kind: str) -> Elsewhere | None:
    """What an object of another group, which has no pod template, stands for; None if for nothing known."""
    known = _MAKERS.get((group, kind))
    if known is not None:
        return Elsewhere(located, *known)
    if (group, kind) in _NOT_OF_PODS:
        return None
    path = next(_counts(located.value.get("spec"), "spec", 0), None)
    return None if path is None else Elsewhere(located, f"what its operator makes ({path})", _PODS)


def _counts(value: Any, path: str, depth: int) -> Iterator[str]:
    """Paths at which a number of pods seems to be asked for."""
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _counts(item, f"{path}[{index}]", depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in _COUNTS and type(item) is int and item > 0:
                yield f"{path}.{key}"
            yield from _counts(item, f"{path}.{key}", depth + 1)
