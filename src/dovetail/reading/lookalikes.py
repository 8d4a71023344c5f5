"""What is given in place of manifests by mistake: told by how the text begins, or by its keys."""

from __future__ import annotations

import re
from typing import Any

from dovetail.base.errors import InputError
from dovetail.reading.sources import Text

_LOOKED_AT = 4096  # bytes, for what a text is
_SHOWN = 160  # characters of the text that a remedy repeats
_OBJECTS = "kubectl get ... -o yaml prints objects"
_APPLIED = "what it applied comes from kubectl get nodepools,ec2nodeclasses -o yaml"

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
            r"error: |Error: |Error from server|Unable to connect to the server|The connection to the server"
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
# Notes of a chart, after its manifests: no text within a manifest begins in the first column.
_NOTES = b"\nNOTES:\n"


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
            return InputError(f"{what}, not manifests", source=text.source, line=1, remedy=remedy or said)
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
