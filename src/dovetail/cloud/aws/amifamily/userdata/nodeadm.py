"""User data of AL2023: a MIME archive whose last part is the NodeConfig for nodeadm."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from string import ascii_letters, digits
from typing import Any

import yaml

from dovetail.api.core import Taint
from dovetail.base.errors import InputError
from dovetail.base.memo import by_weight
from dovetail.cloud.aws.amifamily.userdata import mime
from dovetail.cloud.aws.amifamily.userdata.bootstrap import Bootstrap
from dovetail.cloud.aws.amifamily.userdata.nodeconfig import GENERATED
from dovetail.cloud.aws.amifamily.userdata.scripts import node_labels

# Characters of base64, and how many of four there must be before padding fills the rest.
_BASE64 = frozenset(ascii_letters + digits + "+/")
_FEWEST_BEFORE_PADDING = 2
_REMEMBERED = 1 << 20  # characters of documents and their texts: some 200 of them
_TEXT = "tag:yaml.org,2002:str"
NODE_CONFIG = "application/node.eks.aws"
_FAULTS = mime.Faults(
    no_type="archive doesn't have Content-Type header,",
    not_multipart="archive is not in multipart format, %!w(<nil>)",  # Go's mark of an error that is none
    content="parsing content, ",
    shows_rest=True,
)


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
    """True iff a NodeConfig was written, whether or not it can be read."""
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
        described["certificateAuthority"] = _authority(cluster.ca_bundle)
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


def _authority(bundle: str) -> str:
    """The bundle, without line breaks. Raises InputError where it is not base64, and says at which byte."""
    if (wrong := _no_base64(bundle)) is not None:
        raise InputError(
            f"generating NodeConfig, decoding CABundle, illegal base64 data at input byte {wrong}",
            remedy="cluster-ca-bundle takes the base64 text of the cluster's CA certificate",
        )
    return b64encode(b64decode(bundle)).decode()


def _no_base64(text: str) -> int | None:
    """Index of the first byte that cannot be, None if there is none; it is where Go's decoder stops."""
    data, held, end = text.encode(), 0, None
    for index, byte in enumerate(data):
        if byte in b"\r\n":
            continue
        if end == "whole":
            return index
        if byte == ord("="):
            if held < _FEWEST_BEFORE_PADDING:
                return index
            end = "padding" if held == _FEWEST_BEFORE_PADDING and end is None else "whole"
        elif end == "padding":
            return index - 1
        elif chr(byte) not in _BASE64:
            return index
        else:
            held = (held + 1) % 4
    if end == "padding":
        return len(data)
    return len(data) - held if held and end is None else None


def _taint(taint: Taint) -> dict[str, str]:
    written = {"effect": taint.effect, "key": taint.key}
    return {**written, "value": taint.value} if taint.value else written


def _written(document: dict[str, Any]) -> str:
    return _as_yaml(json.dumps(document))


# Dumping takes 4 ms, and a launch asks for each of its types, most of which get the same text: 16 of 197 s of
# CPU of a simulated half hour in which 63 nodes were launched.
@by_weight(_REMEMBERED, lambda args, answer: len(args[0]) + len(answer))
def _as_yaml(document: str) -> str:
    """The YAML of a document in JSON: a text can be looked up, a document cannot."""
    found = json.loads(document)
    text = yaml.dump(found, Dumper=_Writer, default_flow_style=False, width=1 << 30, allow_unicode=True)
    return str(text)
