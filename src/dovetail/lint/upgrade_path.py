"""What of older generations a cluster still holds or refers to, and in which order to leave it behind, "
"and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dovetail.api.generations import workloads
from dovetail.api.generations.alpha_webhook import PROVISIONER_NAME
from dovetail.api.generations.beta_to_v1 import KUBELET, REFERENCE, UBUNTU
from dovetail.api.generations.editing import Editor
from dovetail.api.generations.upgrade import is_old

Document = Mapping[str, Any]
MIGRATED = "karpenter.sh/stored-version-migrated"
_ALPHA_DEFINITIONS = (
    "provisioners.karpenter.sh",
    "machines.karpenter.sh",
    "awsnodetemplates.karpenter.k8s.aws",
)
_BETA_DEFINITIONS = ("nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws")
_WEBHOOKS = re.compile(r"(?:defaulting|validation)\.webhook\.(?:config\.)?karpenter\.(?:sh|k8s\.aws)")
_WEBHOOK_KINDS = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")
# The first patch of each minor from which 1.0 can be left again: they bring v1 and the conversion webhook.
ROLLBACK = {(0, 33): 6, (0, 34): 7, (0, 35): 6, (0, 36): 3, (0, 37): 1}
_MOST_NAMED = 5
_FIRST_OF_V1 = 4  # the step that brings it


class State(StrEnum):
    """Of a step of the way."""

    DONE = "done"
    NEXT = "next"
    LATER = "later"


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something of an older generation: what it is, which objects, and which step takes it away."""

    what: str
    names: tuple[str, ...]
    step: int
    remedy: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the way up; `back` says how it is undone."""

    number: int
    title: str
    commands: tuple[str, ...]
    back: str
    state: State = State.LATER


@dataclass(frozen=True, slots=True)
class Assessment:
    """`release` is that of the controller, as far as its image or labels say; "" otherwise."""

    release: str
    leftovers: tuple[Leftover, ...]
    steps: tuple[Step, ...]

    @property
    def clean(self) -> bool:
        return not self.leftovers


_STEPS = (
    Step(
        1,
        "0.32: both generations side by side",
        (
            "dovetail convert -f provisioners.yaml | dovetail convert -f - --to v1beta1 > nodepools.yaml",
            "kubectl apply -f the definitions of 0.32 (nodepools, nodeclaims, ec2nodeclasses), then "
            "Helm 0.32.x",
            "widen the controller's IAM policy: it makes instance profiles itself now",
            "kubectl apply -f nodepools.yaml, and workloads with karpenter.sh/nodepool in place of "
            "karpenter.sh/provisioner-name",
        ),
        "Helm 0.31.x again; Provisioners and AWSNodeTemplates were never changed",
    ),
    Step(
        2,
        "Nodes of Provisioners go, then their kinds",
        (
            "add the taint karpenter.sh/legacy=true:NoSchedule to each Provisioner, so that nothing new "
            "comes there",
            "kubectl delete node -l karpenter.sh/provisioner-name=NAME, a few at a time; pods move to "
            "the pools",
            "kubectl delete provisioners,awsnodetemplates --all",
            "kubectl delete crd provisioners.karpenter.sh machines.karpenter.sh "
            "awsnodetemplates.karpenter.k8s.aws",
        ),
        "kubectl apply the old definitions and Provisioners again, as long as the release is 0.32",
    ),
    Step(
        3,
        "The newest patch of 0.37, minor by minor",
        (
            "values: settings.aws.* is settings.* from 0.33 on (dovetail check values.yaml)",
            "Helm 0.33.x, 0.34.x, ... 0.37.x, each with its definitions first",
            "stay on a patch from which 1.0 can be left again: 0.33.6, 0.34.7, 0.35.6, 0.36.3, 0.37.1 "
            "or later",
        ),
        "the minor before, with its definitions",
    ),
    Step(
        4,
        "1.0: v1beta1 and v1 served, v1 stored",
        (
            "the definitions of 1.0 with the conversion webhook (webhook.enabled=true), then Helm 1.0.x",
            "budgets first: drift renews nodes whose class gains fields",
            "dovetail convert -f manifests/ --out v1/ and apply what it writes: kubelet is in the "
            "class, expireAfter in "
            "the template, images by alias",
        ),
        "the patch of step 3 with its definitions; budgets' reasons and terminationGracePeriod are "
        "lost, a reference "
        "that was changed since is the old one again",
    ),
    Step(
        5,
        "Nothing stored or written as v1beta1",
        (
            "wait until every NodePool, NodeClaim and EC2NodeClass has the annotation "
            f"{MIGRATED}, or touch each: kubectl get nodepools,nodeclaims,ec2nodeclasses -o name | xargs "
            f"-n1 -I{{}} "
            "kubectl annotate {} dovetail.dev/touched=1 --overwrite",
            "kubectl patch crd NAME --subresource=status --type=merge -p "
            '\'{"status":{"storedVersions":["v1"]}}\'',
            "change charts, GitOps and Terraform to v1: dovetail check -R -f your-repository/ --select "
            "IN008,IN010",
        ),
        "nothing to undo: 1.0 reads both",
    ),
    Step(
        6,
        "1.1 and later, and Dovetail: v1 alone",
        (
            "kubectl delete validatingwebhookconfigurations,mutatingwebhookconfigurations of "
            "webhook.karpenter.sh",
            "for each definition that asks a webhook: kubectl patch crd NAME --type=merge -p "
            '\'{"spec":{"conversion":{"strategy":"None","webhook":null}}}\'',
            "helm install dovetail-crds charts/dovetail-crds --take-ownership (or the definitions of "
            "the release)",
            "dovetail run --observe beside it, for a day; then scale the old controller to 0 and "
            "install charts/dovetail",
        ),
        "scale Dovetail to 0 and the old controller up: the objects are the same, and so are nodes; "
        "below 1.1 install "
        "the definitions of 1.0 with its webhook first",
    ),
)


def assess(documents: Iterable[Document]) -> Assessment:
    """What is left of older generations, and the way from where the cluster is. Raises nothing."""
    every = [item for item in documents if isinstance(item, dict) and isinstance(item.get("metadata"), dict)]
    leftovers = tuple(_leftovers(every))
    release = _release(every)
    following = min((item.step for item in leftovers), default=len(_STEPS) + 1)
    reached = _reached(release)
    if release and (reached < _FIRST_OF_V1 or not leftovers):
        # What is left of a step that the release has passed has to be made good first.
        following = min(following, reached + 1)
    elif not release and following == _FIRST_OF_V1:
        following -= 1  # which patch of which minor it is has to be seen
    steps = tuple(
        Step(
            step.number,
            step.title,
            step.commands,
            step.back,
            State.NEXT
            if step.number == following
            else State.DONE
            if step.number < following
            else State.LATER,
        )
        for step in _STEPS
    )
    return Assessment(release, leftovers, steps)


def _leftovers(documents: Sequence[Document]) -> Iterator[Leftover]:
    yield from _stored(documents)
    alpha = [item for item in documents if is_old(dict(item)) and "v1alpha" in str(item["apiVersion"])]
    if alpha:
        yield _left(
            alpha, "objects of v1alpha5 and v1alpha1", 1, "dovetail convert writes what they are today"
        )
    beta = [item for item in documents if is_old(dict(item)) and "v1beta1" in str(item["apiVersion"])]
    if beta:
        yield _left(beta, "objects of v1beta1", 4, "dovetail convert writes them in v1")
    labelled = [
        item
        for item in documents
        if item.get("kind") in ("Node", "NodeClaim") and PROVISIONER_NAME in _meta(item, "labels")
    ]
    if labelled:
        yield _left(
            labelled, "nodes and claims of Provisioners", 2, "they go when a pool's nodes take their pods"
        )
    naming = [
        item for item in documents if item.get("kind") not in ("Node", "NodeClaim") and _modernised(item)
    ]
    if naming:
        remedy = "dovetail check --fix on their manifests writes today's names; check them before step 2"
        yield _left(naming, "workloads that name old labels, annotations or taints", 1, remedy)
    annotated = [
        item for item in documents if {KUBELET, REFERENCE, UBUNTU} & _meta(item, "annotations").keys()
    ]
    if annotated:
        remedy = "move the kubelet's settings into the class and write the reference as v1 has it"
        yield _left(
            annotated, "objects that keep v1beta1 in annotations (compatibility.karpenter.sh)", 5, remedy
        )
    webhooks = [
        item
        for item in documents
        if item.get("kind") in _WEBHOOK_KINDS and _WEBHOOKS.search(str(item["metadata"].get("name", "")))
    ]
    if webhooks:
        yield _left(
            webhooks, "webhooks of older releases", 6, "delete them: nothing answers there, and writes wait"
        )


def _stored(documents: Sequence[Document]) -> Iterator[Leftover]:
    """What definitions say of old versions."""
    definitions = {
        str(item["metadata"].get("name", "")): item
        for item in documents
        if item.get("kind") == "CustomResourceDefinition"
    }
    alpha = [definitions[name] for name in _ALPHA_DEFINITIONS if name in definitions]
    if alpha:
        yield _left(
            alpha, "definitions of v1alpha5 and v1alpha1", 2, "delete them when no object of theirs is left"
        )
    for name in _BETA_DEFINITIONS:
        item = definitions.get(name)
        if item is None:
            continue
        status = item.get("status")
        stored = status.get("storedVersions") if isinstance(status, dict) else None
        if isinstance(stored, list) and "v1beta1" in stored:
            remedy = "write every object once, then take v1beta1 out of status.storedVersions"
            yield Leftover("v1beta1 is a stored version", (f"CustomResourceDefinition {name}",), 5, remedy)
        if "v1beta1" in _served(item):
            remedy = "the definitions of 1.1 and later, and Dovetail's, serve v1 alone"
            yield Leftover("v1beta1 is served", (f"CustomResourceDefinition {name}",), 6, remedy)


def _served(item: Document) -> list[str]:
    spec = item.get("spec")
    versions = spec.get("versions") if isinstance(spec, dict) else None
    return [
        str(version.get("name"))
        for version in (versions if isinstance(versions, list) else ())
        if isinstance(version, dict) and version.get("served")
    ]


def _modernised(item: Document) -> bool:
    if is_old(dict(item)) or not isinstance(item.get("spec"), dict):
        return False
    edit = Editor(dict(item))
    workloads.modernise(edit)
    return bool(edit.changes()) or any(True for _ in workloads.forgotten(dict(item)))


def _meta(item: Document, field: str) -> dict[str, Any]:
    found = item["metadata"].get(field)
    return found if isinstance(found, dict) else {}


def _left(items: Sequence[Document], what: str, step: int, remedy: str) -> Leftover:
    names = []
    for item in items:
        space = item["metadata"].get("namespace")
        name = item["metadata"].get("name", "")
        names.append(f"{item.get('kind')} {space}/{name}" if space else f"{item.get('kind')} {name}")
    return Leftover(what, tuple(names), step, remedy)


def shown(names: Sequence[str]) -> str:
    """Some of many names."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"


def _release(documents: Sequence[Document]) -> str:
    """That of a controller's Deployment: its image's tag, else its label."""
    for item in documents:
        if item.get("kind") != "Deployment":
            continue
        spec = Editor(dict(item)).get("spec", "template", "spec", "containers", default=())
        images = [str(part.get("image", "")) for part in spec if isinstance(part, dict)]
        own = [image for image in images if re.search(r"karpenter/controller|karpenter-controller", image)]
        label = _meta(item, "labels").get("app.kubernetes.io/name") == "karpenter"
        for text in (
            *own,
            *([str(_meta(item, "labels").get("app.kubernetes.io/version", ""))] if label else ()),
        ):
            match = _VERSION.search(text.rpartition(":")[2].partition("@")[0])
            if match:
                return ".".join(match.groups())
    return ""


def _reached(release: str) -> int:
    """How far up a release is: the last step that it has behind it; 0 for none."""
    match = _VERSION.fullmatch(release)
    if match is None:
        return 0
    major, minor, patch = (int(part) for part in match.groups())
    if (major, minor) >= (1, 1):
        return 6
    if major == 1:
        return 4
    if minor >= 37 and patch >= ROLLBACK[0, 37]:
        return 3
    if minor >= 33:
        return 2
    return 1 if minor == 32 else 0
