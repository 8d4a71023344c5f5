"""`dovetail check cluster`: what a cluster holds of older generations, and the way up and back."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from dovetail.base.errors import InputError, InputErrors

if TYPE_CHECKING:
    from dovetail.api.meta import Object
    from dovetail.lint.upgrade_path import Assessment

_LEFT = 1  # the exit code where something of an older generation is left


_ALPHA, _WEBHOOKS = "karpenter.sh/v1alpha5", "admissionregistration.k8s.io/v1"
_GONE = (
    (_ALPHA, "Provisioner", "provisioners"),
    (_ALPHA, "Machine", "machines"),
    ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate", "awsnodetemplates"),
    (_WEBHOOKS, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    (_WEBHOOKS, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
)
# Before v1 was served, the same kinds have to be asked for by their older version.
_OLDER = (
    ("karpenter.sh/v1beta1", "NodePool", "nodepools"),
    ("karpenter.k8s.aws/v1beta1", "EC2NodeClass", "ec2nodeclasses"),
)


def cluster(
    *,
    filename: Annotated[
        tuple[str, ...], Parameter(name=("--filename", "--file", "-f"), negative="", show_default=False)
    ] = (),
    recursive: Annotated[bool, Parameter(alias="-R", negative="")] = False,
    kubeconfig: Path | None = None,
    context: str = "",
    output: Annotated[Literal["table", "json"], Parameter(alias="-o")] = "table",
) -> None:
    """Find out what of Karpenter's older generations a cluster still holds, and in which order to upgrade.

    Looked at are stored and served versions of the definitions, objects of v1alpha5 and v1beta1, nodes of
    Provisioners, workloads that name old labels, annotations or taints, what v1 keeps of v1beta1 in
    annotations, and webhooks of older releases. The answer is the way from 0.27 by 0.32 and 1.0 to today,
    where this cluster is on it, and for each step the way back. Only reads, by get and list.

    Ends with code 1 when something is left.

    Examples:

    - `dovetail check cluster` with your kubeconfig, or `--context prod`
    - `kubectl get crd,provisioners,nodepools,nodes,deployments -A -o yaml | dovetail check cluster -f -`

    Parameters
    ----------
    filename
        Files or folders with a cluster's objects, or -, instead of a cluster. May be repeated.
    recursive
        Read sub-folders too.
    kubeconfig
        The kubeconfig file to use. Otherwise KUBECONFIG, the pod's service account, or ~/.kube/config.
    context
        The context of the kubeconfig; its current one by default.
    output
        Lines to read, or JSON.
    """
    from dovetail.lint.upgrade_path import assess

    if filename and (kubeconfig is not None or context):
        raise InputError("give files or a cluster, not both", source="--filename")
    given = _of_files(filename, recursive) if filename else _of_cluster(kubeconfig, context)
    found = assess(given)
    print(_json(found) if output == "json" else _text(found))
    if not found.clean:
        raise SystemExit(_LEFT)


def _viewed() -> tuple[type[Object], ...]:
    """The kinds of today whose objects may still be as an older generation wrote them."""
    from dovetail.api.apiextensions import CustomResourceDefinition
    from dovetail.api.core import Node, Pod
    from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
    from dovetail.api.karpenter.nodeclaim import NodeClaim
    from dovetail.api.karpenter.nodepool import NodePool
    from dovetail.api.workloads import CronJob, DaemonSet, Deployment, Job, StatefulSet

    return (
        CustomResourceDefinition,
        NodePool,
        NodeClaim,
        EC2NodeClass,
        Node,
        Deployment,
        StatefulSet,
        DaemonSet,
        Job,
        CronJob,
        Pod,
    )


def _of_files(paths: tuple[str, ...], recursive: bool) -> list[Mapping[str, Any]]:
    from dovetail.cli import messages
    from dovetail.reading import documents

    faults: list[InputError] = []
    found = [
        item.value for item in documents(paths, recursive=recursive, note=messages.note, fault=faults.append)
    ]
    if faults:
        raise InputErrors.of(tuple(faults))
    return found


def _of_cluster(kubeconfig: Path | None, context: str) -> list[Mapping[str, Any]]:
    import asyncio

    from dovetail.api.karpenter.nodepool import NodePool
    from dovetail.cli import messages
    from dovetail.kube.http.dump import Dump, Listed, dump
    from dovetail.kube.http.kubeconfig import locate

    access = locate(os.environ, kubeconfig=kubeconfig, context=context)

    async def ask() -> tuple[Dump, Dump]:
        kinds = [*map(Listed.of, _viewed()), *(Listed(*kind) for kind in _GONE)]
        found = await dump(access, _kept, kinds)
        older = [Listed(*kind) for kind in _OLDER] if NodePool.KIND in found.absent else []
        return found, await dump(access, _kept, older)

    found, older = asyncio.run(ask())
    if found.denied:
        messages.note(f"this user may not list {', '.join(found.denied)}, so the answer is without them")
    return [*found.documents, *older.documents]


def _kept(document: Mapping[str, Any]) -> dict[str, Any]:
    """What is looked at: of a definition, not its schemas."""
    from dovetail.api.apiextensions import CustomResourceDefinition

    kept = dict(document)
    if kept.get("kind") == CustomResourceDefinition.KIND:
        spec = kept.get("spec") or {}
        kept["spec"] = {
            "versions": [
                {key: version.get(key) for key in ("name", "served", "storage")}
                for version in spec.get("versions", ())
            ]
        }
    return kept


def _text(found: Assessment) -> str:
    from dovetail.cli import messages
    from dovetail.lint.upgrade_path import State, shown

    marks = {State.DONE: "done", State.NEXT: "NEXT", State.LATER: "later"}
    lines = [
        f"Karpenter {found.release} runs here."
        if found.release
        else "No controller of Karpenter's is among this."
    ]
    lines.append("Left of older generations:" if found.leftovers else "Nothing of older generations is left.")
    for item in found.leftovers:
        lines.append(f"  {item.what}: {shown(item.names)}")
        lines.append(f"    step {item.step}: {item.remedy}")
    lines.append("\nThe way up, and back:")
    for step in found.steps:
        lines.append(f"  {step.number}. [{marks[step.state]}] {step.title}")
        if step.state is not State.DONE:
            lines += [f"       {command}" for command in step.commands]
        lines.append(f"       back: {step.back}")
    return messages.visible("\n".join(lines))


def _json(found: Assessment) -> str:
    document = {
        "release": found.release,
        "leftovers": [
            {"what": item.what, "objects": list(item.names), "step": item.step, "remedy": item.remedy}
            for item in found.leftovers
        ],
        "steps": [
            {
                "number": step.number,
                "title": step.title,
                "state": step.state.value,
                "commands": list(step.commands),
                "back": step.back,
            }
            for step in found.steps
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)
