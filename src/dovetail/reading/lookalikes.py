"""What is given in place of manifests by mistake: told by how the text begins, or by its keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dovetail.base.errors import InputError
from dovetail.reading.sources import Text

_LOOKED_AT = 4096  # bytes, for what a text is
_OF_AN_ANSWER = 3  # keys that one of the AWS CLI has at most: what was asked for, a token, an owner
_SHOWN = 160  # characters of the text that a remedy repeats
_OBJECTS = "kubectl get ... -o yaml prints objects"
_APPLIED = "what it applied comes from kubectl get nodepools,ec2nodeclasses -o yaml"

_NODES = "what runs there comes from kubectl get nodes,pods -A -o yaml"
_POOLS = (
    "its nodes come from kubectl get nodes,pods -A -o yaml, for which dovetail plan assumes a NodePool that "
    "buys alike"
)
_CATALOG = "dovetail catalog has the types of a region; --instance-types takes a list of your own"
_PRICES = "--prices takes AWS's offer file of EC2, or a CSV with instanceType,price"
_SUBNETS = "dovetail check aws asks for them itself; classes come from kubectl get ec2nodeclasses -o yaml"
# What answers of the AWS CLI hold -> the command, and what to give instead.
_OF_AWS = {
    "Reservations": ("aws ec2 describe-instances", _NODES),
    "Instances": ("aws ec2 run-instances", _NODES),
    "InstanceStatuses": ("aws ec2 describe-instance-status", _NODES),
    "AutoScalingGroups": ("aws autoscaling describe-auto-scaling-groups", _POOLS),
    "LaunchTemplates": ("aws ec2 describe-launch-templates", _POOLS),
    "LaunchTemplateVersions": ("aws ec2 describe-launch-template-versions", _POOLS),
    "nodegroup": ("aws eks describe-nodegroup", _POOLS),
    "nodegroups": ("aws eks list-nodegroups", _POOLS),
    "cluster": ("aws eks describe-cluster", "--kubeconfig reads the cluster: aws eks update-kubeconfig"),
    "clusters": ("aws eks list-clusters", "--kubeconfig reads a cluster: aws eks update-kubeconfig"),
    "InstanceTypes": ("aws ec2 describe-instance-types", _CATALOG),
    "InstanceTypeOfferings": ("aws ec2 describe-instance-type-offerings", _CATALOG),
    "PriceList": ("aws pricing get-products", _PRICES),
    "SpotPriceHistory": ("aws ec2 describe-spot-price-history", _PRICES),
    "ResultsByTime": ("aws ce get-cost-and-usage", "dovetail cost says what a cluster's past cost"),
    "SavingsPlans": ("aws savingsplans describe-savings-plans", "plan --savings-plan takes dollars an hour"),
    "Subnets": ("aws ec2 describe-subnets", _SUBNETS),
    "SecurityGroups": ("aws ec2 describe-security-groups", _SUBNETS),
    "Images": ("aws ec2 describe-images", _SUBNETS),
}

# What makes manifests when it runs, and is named in place of these.
_PROGRAMS = {
    ".tf": ("the file is Terraform", f"dovetail check reads it; {_APPLIED}"),
    ".sh": (
        "the file is a script of the shell",
        "keep what is between <<EOF and EOF, with its variables filled in",
    ),
}
# (how the text begins, what it is, what to give instead); none of these begins a manifest.
_BEGINNINGS = (
    (
        re.compile(
            r"error: |Error: |An error occurred \(|Unable to locate credentials"
            r"|Error from server|Unable to connect to the server|The connection to the server"
            r"|You must be logged in|Unauthorized$",
            re.MULTILINE,
        ),
        "the file is an error of the command that wrote it",
        "",
    ),
    (
        re.compile(r"No resources found"),
        "the file is kubectl's word that it found nothing",
        "ask for all namespaces (-A), or of another --context",
    ),
    (
        re.compile(r"<(?:!doctype html|html)", re.IGNORECASE),
        "the file is a web page",
        "a login or a page that shows the file, it seems: fetch the raw one, with curl -f",
    ),
    (re.compile(r"<\?xml"), "the file is XML", _OBJECTS),
    (re.compile(r"(?:NAMESPACE +)?NAME +[A-Z]|LAST SEEN +[A-Z]"), "the file is a table for people", _OBJECTS),
    (
        re.compile(r"Name: {2,}\S+\n(?:Namespace|Roles|Labels|Annotations|API Version): "),
        "the file is what kubectl describe prints",
        _OBJECTS,
    ),
    (
        re.compile(r"NAME: \S+\nLAST DEPLOYED: "),
        "the file is what helm prints of a release",
        "helm template CHART and helm get manifest NAME print the manifests alone",
    ),
    (
        re.compile(r"""[\w"' ./()-]+(?:[,;\t][\w"' ./()-]*)+\r?\n[^\n,;\t]+[,;\t]"""),
        "the file is a table of values (CSV)",
        _OBJECTS,
    ),
)
# What kubectl tells its user, which lies before the objects where both streams went into the file.
_WARNING = re.compile(rb"(?:Warning: |[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ )[^\n]*")
# Notes of a chart, after its manifests: no text within a manifest begins in the first column.
_NOTES = b"\nNOTES:\n"


def without_warnings(text: Text, note: Callable[[str], None]) -> Text:
    """The text without lines before it that are warnings; `note` is told, and lines keep their numbers."""
    written, end, lines = text.written, 0, []
    while found := _WARNING.match(written, end):
        lines.append(found[0].decode(errors="replace").strip())
        end = found.end() + 1
    if not lines:
        return text
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    note(f"{text.source}:1: left out, no part of a manifest: {lines[0][:_SHOWN]}{more}")
    return replace(text, written=b"\n" * len(lines) + written[end:])


def lookalike(text: Text) -> InputError | None:
    """Why a text cannot be manifests, where its name, its beginning or its end says so."""
    for ending, (what, remedy) in _PROGRAMS.items():
        if text.source.endswith(ending):
            return InputError(f"{what}, not manifests", source=text.source, remedy=remedy)
    begin = text.written[:_LOOKED_AT].lstrip().decode(errors="ignore")
    if begin.startswith(("{", "[")):
        return None
    for pattern, what, remedy in _BEGINNINGS:
        if pattern.match(begin):
            said = f"it says: {begin.splitlines()[0].strip()[:_SHOWN]}"
            line = text.written[:_LOOKED_AT].count(b"\n", 0, text.written.find(begin[:1].encode())) + 1
            return InputError(f"{what}, not manifests", source=text.source, line=line, remedy=remedy or said)
    notes = text.written.find(_NOTES)
    if notes >= 0:
        return InputError(
            "the notes of a chart begin here, which are no manifest",
            source=text.source,
            line=text.written.count(b"\n", 0, notes) + 2,
            remedy="leave them out: helm template CHART prints the manifests alone",
        )
    return None


def what_it_is(document: dict[str, Any], source: str) -> tuple[str, str] | None:
    """(what it is, what to give instead) of a map that has no kind, or one that no cluster keeps."""
    match document:
        case {"apiVersion": "v1", "kind": "Config", **rest} if rest.keys() & {"clusters", "contexts"}:
            return "a kubeconfig", f"--kubeconfig {source} reads its cluster"
        case {"apiVersion": "v1", "kind": "Status", **rest}:
            said = f"it says: {str(rest.get('message') or rest.get('reason') or '')[:_SHOWN]}"
            return "an API server's answer that something failed", said
        case {"kind": _}:
            return None
        case {"apiVersion": "v1" | "v2", "name": str(), "version": _}:
            return "the Chart.yaml of a chart of Helm", "helm template FOLDER | dovetail plan -f -"
        case {"apiVersion": _}:
            return None
        case {**answer} if len(answer) <= _OF_AN_ANSWER and (asked := answer.keys() & _OF_AWS.keys()):
            command, remedy = _OF_AWS[min(asked)]
            return f"the answer of {command}", remedy
        case {"terraform_version": _} | {"planned_values": _}:
            return "a plan or a state of Terraform", _APPLIED
        case {"AWSTemplateFormatVersion": _}:
            return "a template of CloudFormation", _APPLIED
        case {"services": dict()}:
            return "of Docker Compose", f"kompose convert -f {source} --stdout | dovetail plan -f -"
        case {"resources": [str(), *_]}:
            return "a kustomization", "kubectl kustomize FOLDER | dovetail plan -f -"
        case {"replicaCount": _} | {"image": {"repository": _}}:
            return _values(source)
        case _ if "values" in source.rpartition("/")[2]:
            return _values(source)
    return None


def _values(source: str) -> tuple[str, str]:
    return "the values of a chart, it seems", f"helm template CHART -f {source} | dovetail plan -f -"
