"""Admission of old generations: each object by the rules and in the words of its own."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from dovetail.api.admission import name_causes
from dovetail.api.core_schema import object_meta
from dovetail.api.generations import alpha_schema, beta_schema
from dovetail.api.generations.alpha_webhook import Fault, faults
from dovetail.api.schema import Schema, validate, with_defaults, with_unchecked
from dovetail.base.errors import Cause

Document = dict[str, Any]


@lru_cache(maxsize=8)
def old_schemas(release: beta_schema.Release = beta_schema.WRITTEN_FOR) -> dict[tuple[str, str], Schema]:
    """The schemas of all kinds of older generations, by apiVersion and kind."""
    found = {**alpha_schema.SCHEMAS, **beta_schema.schemas(release)}
    meta = object_meta()
    return {
        kind: replace(schema, properties={**schema.properties, "metadata": meta})
        for kind, schema in found.items()
    }


def old_schema(document: Document) -> Schema | None:
    """The schema of a document of an older generation; None for any other document."""
    return old_schemas().get(_key(document))


def _key(document: Document) -> tuple[str, str]:
    return str(document.get("apiVersion", "")), str(document.get("kind", ""))


def broken_rules(schema: Schema, document: Document) -> tuple[Cause, ...]:
    """What its own generation refuses an object for: the definition's causes, else the webhook's.

    The webhooks named fields as if a template lay inside a Provisioner; here the paths are those of the file.
    """
    result = with_defaults(schema, document)
    # The webhooks judge names in words of their own.
    names = (
        ()
        if _key(document) in (alpha_schema.PROVISIONER, alpha_schema.NODE_TEMPLATE)
        else name_causes(result)
    )
    causes = with_unchecked((*names, *validate(schema, result)))
    if causes := causes or _types_of_provider(result):
        return causes
    return tuple(cause for fault in faults(result) for cause in _causes(document, fault))


def _types_of_provider(document: Document) -> tuple[Cause, ...]:
    """Types inside an inline provider, which has no schema of its own: the webhook decoded it strictly."""
    provider = (document.get("spec") or {}).get("provider")
    if _key(document) != alpha_schema.PROVISIONER or not isinstance(provider, dict):
        return ()
    schema = alpha_schema.SCHEMAS[alpha_schema.NODE_TEMPLATE].properties["spec"]
    return tuple(
        replace(cause, field=f"spec.provider.{cause.field}")
        for cause in validate(schema, provider)
        if cause.reason == "FieldValueTypeInvalid" or "must be a quantity" in cause.message
    )


def _causes(document: Document, fault: Fault) -> list[Cause]:
    text = f"{fault.message}; {fault.details}" if fault.details else fault.message
    paths = [_path(document, path) for path in fault.paths]
    if fault.message.startswith("expected exactly one"):
        return [Cause(paths[0], f"{text}: {', '.join(paths)}")]
    return [Cause(path, text) for path in paths]


def _path(document: Document, path: str) -> str:
    if document.get("kind") == "AWSNodeTemplate":
        return path.replace("spec.provider.", "spec.", 1)
    return f"spec.{path}" if path.startswith("provider") else path or "spec.provider"
