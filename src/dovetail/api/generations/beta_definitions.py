"""The definitions of a cluster on its way to v1: v1beta1 beside v1, as the original's 1.0 served them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dovetail.api.crd import CustomKind, WebhookService, definition, fields, serving_older
from dovetail.api.generations import beta_schema
from dovetail.api.generations.review import PATHS
from dovetail.api.karpenter.definitions import DEFINITIONS, EC2_NODE_CLASS, NODE_CLAIM, NODE_POOL

# A NodePool says what is of the node one level deeper than a NodeClaim.
_WORDS = {
    "kubelet": "Settings of the kubelet by their own names; in v1 they belong to the EC2NodeClass.",
    "nodeClassRef.apiVersion": "The class's API group and version; v1 refers to the group alone.",
    "resources": "What the node's pods asked for.",
    "resources.requests": "Requests by resource.",
}
_EXPIRY = {"spec.disruption.expireAfter": "Age at which a node is replaced, such as 720h, or Never."}


def _older(kind: CustomKind, key: tuple[str, str]) -> CustomKind:
    """The kind as v1beta1 has it, but with v1's status: none is lost where it is written as v1beta1."""
    schema = beta_schema.schemas(beta_schema.V1_0)[key]
    older = replace(kind, api_version=key[0], schema=schema, scale=None)
    levels = [f"{level}.{path}" for level in ("spec", "spec.template.spec") for path in _WORDS]
    words = {**dict(zip(levels, [*_WORDS.values()] * 2, strict=True)), **_EXPIRY, **kind.words}
    return replace(older, words={path: words[path] for path in fields(older) if path in words})


OLDER = {
    kind.name: _older(kind, key)
    for kind, key in (
        (NODE_POOL, beta_schema.NODE_POOL),
        (NODE_CLAIM, beta_schema.NODE_CLAIM),
        (EC2_NODE_CLASS, beta_schema.EC2_NODE_CLASS),
    )
}


def definitions(namespace: str, name: str, port: int) -> list[dict[str, Any]]:
    """Those of all kinds, with the Service of the webhook that converts the three that have two versions."""
    made: list[dict[str, Any]] = []
    for kind in DEFINITIONS:
        document = definition(kind)
        if kind.name in OLDER:
            path = PATHS[kind.api_version.partition("/")[0]]
            document = serving_older(document, OLDER[kind.name], WebhookService(namespace, name, port, path))
        made.append(document)
    return made
