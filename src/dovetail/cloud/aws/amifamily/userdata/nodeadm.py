"""User data of AL2023: a MIME archive whose last part is the NodeConfig for nodeadm."""

from __future__ import annotations

from typing import Any

import yaml

from dovetail.api.core import Taint
from dovetail.base.errors import InputError
from dovetail.cloud.aws.amifamily.userdata import mime
from dovetail.cloud.aws.amifamily.userdata.bootstrap import Bootstrap
from dovetail.cloud.aws.amifamily.userdata.nodeconfig import GENERATED
from dovetail.cloud.aws.amifamily.userdata.scripts import node_labels

_TEXT = "tag:yaml.org,2002:str"
NODE_CONFIG = "application/node.eks.aws"
_FAULTS = mime.Faults(no_type="archive doesn't have Content-Type header,", content="parsing content, ")


class _Writer(yaml.SafeDumper):
    """Quotes what would not be read back as text, in double quotes as Go does."""


def _text(writer: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    tag = writer.resolve(yaml.ScalarNode, value, (True, False))  # type: ignore[no-untyped-call]  # untyped in its stubs
    return writer.represent_scalar(_TEXT, value, style=None if tag == _TEXT else '"')


_Writer.add_representer(str, _text)


def al2023(node: Bootstrap) -> str:
    """The archive. nodeadm merges documents key by key, later ones win, so ours comes last.

    Raises InputError for a broken archive, and where the cluster's CIDR is not known yet.
    """
    config = GENERATED + _written(_node_config(node))
    ours = mime.Part.of(NODE_CONFIG, config)
    return mime.write((*own_parts(node.custom), ours))


def means_document(text: str) -> bool:
    """True iff somebody wrote a NodeConfig, whether or not it can be read."""
    lines = [line.strip() for line in text.splitlines()]
    named = any(line.startswith("apiVersion:") and "node.eks.aws/" in line for line in lines)
    return named and not text.startswith("#!")


def own_parts(custom: str) -> list[mime.Part]:
    """What the image makes of the user's own text. Raises InputError for a broken archive."""
    if not custom:
        return []
    if mime.is_archive(custom):
        parts = mime.read(custom, "parsing custom UserData,", _FAULTS)
        return [mime.Part.of(part.content_type, part.body) for part in parts]
    # Broken YAML goes to the shell without complaint, as Karpenter has it.
    return [mime.Part.of(NODE_CONFIG, custom) if _is_document(custom) else mime.Part.shell(custom)]


def _is_document(text: str) -> bool:
    try:
        document = next(iter(yaml.safe_load_all(text)), None)
    except (yaml.YAMLError, ValueError):  # a date that does not exist is a ValueError
        return False
    return document is None or isinstance(document, dict)


def _node_config(node: Bootstrap) -> dict[str, Any]:
    cluster = node.cluster
    if cluster.cidr is None:
        raise InputError("generating NodeConfig, NodeClassRef not ready, resolving cluster CIDR")
    described = {"apiServerEndpoint": cluster.endpoint, "cidr": cluster.cidr, "name": cluster.name}
    if cluster.ca_bundle:
        described["certificateAuthority"] = cluster.ca_bundle
    kubelet = {**node.kubelet, "registerWithTaints": [_taint(taint) for taint in node.taints]}
    return {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "metadata": {},
        "spec": {
            "cluster": described,
            "containerd": {},
            "instance": {"localStorage": {"strategy": "RAID0"} if node.raid0 else {}},
            "kubelet": {"config": kubelet, "flags": [node_labels(node.labels)] if node.labels else []},
        },
    }


def _taint(taint: Taint) -> dict[str, str]:
    written = {"effect": taint.effect, "key": taint.key}
    return {**written, "value": taint.value} if taint.value else written


def _written(document: dict[str, Any]) -> str:
    text = yaml.dump(document, Dumper=_Writer, default_flow_style=False, width=1 << 30, allow_unicode=True)
    return str(text)
