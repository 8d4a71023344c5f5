"""CustomResourceDefinitions from the schemas of admission: the same fields, defaults, rules, messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dovetail.api.rules import Rule
from dovetail.api.schema import UNSET, Schema, join

Document = dict[str, Any]

# With a definition all its objects go, and with the objects the nodes: Helm must not take it away.
_KEEP = {"helm.sh/resource-policy": "keep"}

# What a node of a schema says in OpenAPI, where it says anything.
_BOUNDS = (
    ("pattern", "pattern"),
    ("format", "format"),
    ("min_length", "minLength"),
    ("max_length", "maxLength"),
    ("minimum", "minimum"),
    ("maximum", "maximum"),
    ("min_items", "minItems"),
    ("max_items", "maxItems"),
    ("max_properties", "maxProperties"),
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; wide ones are only shown with `-o wide`."""

    name: str
    path: str  # JSONPath
    type: str = "string"
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomKind:
    """A version of a kind that Kubernetes learns of by a CustomResourceDefinition."""

    api_version: str
    kind: str
    plural: str
    schema: Schema  # of what users write, its status left open
    status: Schema
    words: Mapping[str, str]  # path of a field (`spec.budgets[].nodes`) to what `kubectl explain` says
    columns: tuple[Column, ...]
    namespaced: bool = False
    short_names: tuple[str, ...] = ()
    category: str = "karpenter"
    scale: tuple[str, str] | None = None  # JSONPaths of the wanted and the actual number

    @property
    def name(self) -> str:
        """The name of the definition: plural and group."""
        return f"{self.plural}.{self.api_version.partition('/')[0]}"


@dataclass(frozen=True, slots=True)
class WebhookService:
    """The Service of the webhook that converts a kind's versions."""

    namespace: str
    name: str
    port: int
    path: str


def definition(kind: CustomKind) -> Document:
    """The CustomResourceDefinition of a kind, with its one version."""
    group, _, version = kind.api_version.partition("/")
    names: Document = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
        "categories": [kind.category],
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.name, "annotations": dict(_KEEP)},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [_version(kind, version, storage=True)],
        },
    }


def serving_older(document: Document, older: CustomKind, service: WebhookService) -> Document:
    """The definition of a kind that serves an older version too, which a webhook converts."""
    version = older.api_version.partition("/")[2]
    spec = document["spec"]
    client = {
        "service": {
            "name": service.name,
            "namespace": service.namespace,
            "port": service.port,
            "path": service.path,
        }
    }
    conversion = {
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client},
    }
    versions = [*spec["versions"], _version(older, version, storage=False)]
    return {**document, "spec": {**spec, "versions": versions, "conversion": conversion}}


def _version(kind: CustomKind, version: str, *, storage: bool) -> Document:
    return {
        "name": version,
        "served": True,
        "storage": storage,
        "subresources": _subresources(kind),
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
        "schema": {"openAPIV3Schema": _root(kind)},
    }


def fields(kind: CustomKind) -> Iterator[str]:
    """Paths of all fields of a kind, as `words` names them."""
    yield ""
    for part in ("spec", "status"):
        yield from _paths(_part(kind, part), part)


def _part(kind: CustomKind, part: str) -> Schema:
    return kind.status if part == "status" else kind.schema.properties[part]


def _paths(schema: Schema, path: str) -> Iterator[str]:
    yield path
    for key, child in schema.properties.items():
        yield from _paths(child, join(path, key))
    if schema.items is not None:
        yield from _paths_below(schema.items, f"{path}[]")


def _paths_below(schema: Schema, path: str) -> Iterator[str]:
    """Paths of the fields of a list's items; the items themselves come with the list."""
    for key, child in schema.properties.items():
        yield from _paths(child, join(path, key))


def _root(kind: CustomKind) -> Document:
    return {
        "description": kind.words[""],
        "type": "object",
        **({"required": list(kind.schema.required)} if kind.schema.required else {}),
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            **{part: _open_api(_part(kind, part), part, kind.words) for part in ("spec", "status")},
        },
    }


def _open_api(schema: Schema, path: str, words: Mapping[str, str]) -> Document:
    result: Document = {"description": words[path]} if path in words else {}
    result |= _type(schema)
    if schema.default is not UNSET:
        result["default"] = schema.default
    if schema.enum:
        result["enum"] = list(schema.enum)
    result |= {
        theirs: getattr(schema, ours) for ours, theirs in _BOUNDS if getattr(schema, ours) not in (None, "")
    }
    if schema.unique:
        result["x-kubernetes-list-type"] = "set"
    if schema.required:
        result["required"] = list(schema.required)
    if schema.properties:
        result["properties"] = {
            key: _open_api(child, join(path, key), words) for key, child in schema.properties.items()
        }
    if schema.values is not None and schema.values.type == "any":
        # Of the values alone a schema could only say that they are objects.
        result["x-kubernetes-preserve-unknown-fields"] = True
    elif schema.values is not None:
        result["additionalProperties"] = _open_api(schema.values, f"{path}{{}}", words)
    if schema.items is not None:
        result["items"] = _open_api(schema.items, f"{path}[]", words)
    if schema.rules:
        result["x-kubernetes-validations"] = [_rule(rule) for rule in schema.rules]
    return result


def _type(schema: Schema) -> Document:
    if schema.type == "any":
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if schema.type == "int-or-string":
        return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
    return {"type": schema.type}


def _rule(rule: Rule) -> Document:
    return {"rule": rule.cel, "message": rule.message}


def _subresources(kind: CustomKind) -> Document:
    if kind.scale is None:
        return {"status": {}}
    wanted, actual = kind.scale
    return {"status": {}, "scale": {"specReplicasPath": wanted, "statusReplicasPath": actual}}


def _column(column: Column) -> Document:
    shown = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return {**shown, "priority": 1} if column.wide else shown
