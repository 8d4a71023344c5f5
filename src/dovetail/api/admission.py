"""What the API server does with a document before it stores it: defaults, then rules."""

from __future__ import annotations

from typing import Any

from dovetail.api.karpenter import ec2nodeclass_schema, nodeclaim_schema, nodepool_schema
from dovetail.api.schema import Schema, unknown_fields, validate, with_defaults
from dovetail.base.errors import BadRequest, Cause, Invalid

Document = dict[str, Any]

SCHEMAS: dict[tuple[str, str], Schema] = {
    ("karpenter.sh/v1", "NodePool"): nodepool_schema.SCHEMA,
    ("karpenter.sh/v1", "NodeClaim"): nodeclaim_schema.SCHEMA,
    ("karpenter.k8s.aws/v1", "EC2NodeClass"): ec2nodeclass_schema.SCHEMA,
}


def admit(document: Document, old: Document | None = None) -> Document:
    """The document with the server's defaults; `old` is the stored object that an update replaces.

    Raises BadRequest for fields that the kind does not have, Invalid with one cause per broken rule. The
    input is left as it is.
    """
    schema = SCHEMAS.get((document.get("apiVersion", ""), document.get("kind", "")))
    if schema is None:
        return document
    return _admit_custom(schema, document, old)


def _admit_custom(schema: Schema, document: Document, old: Document | None) -> Document:
    unknown = [f'unknown field "{path}"' for path in unknown_fields(schema, document)]
    if unknown:
        kind, version = document["kind"], document["apiVersion"].rpartition("/")[2]
        raise BadRequest(
            f'{kind} in version "{version}" cannot be handled as a {kind}: '
            f"strict decoding error: {', '.join(unknown)}"
        )
    result: Document = with_defaults(schema, document)
    before = None if old is None else with_defaults(schema, old)
    _refuse(result, validate(schema, result, before))
    return result


def _refuse(document: Document, causes: tuple[Cause, ...]) -> None:
    if not causes:
        return
    group = document["apiVersion"].rpartition("/")[0]
    name = document.get("metadata", {}).get("name", "")
    subject = f"{document['kind']}.{group}" if group else document["kind"]
    parts = [f"{cause.field}: {cause.message}" for cause in causes]
    text = parts[0] if len(parts) == 1 else f"[{', '.join(parts)}]"
    raise Invalid(f'{subject} "{name}" is invalid: {text}', causes)
