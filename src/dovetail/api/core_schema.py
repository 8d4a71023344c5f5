"""Schemas of Kubernetes' own kinds, from the generated field tables, and the defaults that are read."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

from dovetail.api.core_rules import ENUMS, RULES
from dovetail.api.karpenter.common_schema import ANY, BOOLEAN, INTEGER, QUANTITY, STRING
from dovetail.api.pod_resources import default_whole
from dovetail.api.schema import UNSET, Schema

_SCALARS = {
    "s": STRING,
    "i": INTEGER,
    "n": Schema(type="number"),
    "b": BOOLEAN,
    # Kubernetes' own kinds take cpu: 0.5 as well; the schemas of CustomResourceDefinitions do not.
    "q": replace(QUANTITY, type="number-or-string"),
    "x": Schema(type="int-or-string"),
    "a": ANY,
}


_ZERO = {"s": "", "q": "0"}


@lru_cache(maxsize=1)
def _tables() -> Any:
    return json.loads((files("dovetail.api") / "data" / "kubernetes.json").read_text("utf-8"))


def kinds() -> tuple[tuple[str, str], ...]:
    """(apiVersion, kind) of everything that Kubernetes itself defines."""
    pairs = (name.split(" ") for name in _tables()["kinds"])
    return tuple((version, kind) for version, kind in pairs)


@lru_cache(maxsize=128)
def core_schema(version: str, kind: str) -> Schema | None:
    """The schema of a kind; None for one that is not Kubernetes' own."""
    name = _tables()["kinds"].get(f"{version} {kind}")
    if name is None:
        return None
    schema = core_type(name)
    # The server wrote the status, not a user.
    return replace(schema, properties={**schema.properties, "status": ANY})


@lru_cache(maxsize=1024)
def core_type(name: str) -> Schema:
    """The schema of one of Kubernetes' types, such as V1JobSpec; raises KeyError for an unknown one."""
    table: dict[str, str] = _tables()["types"][name]
    return Schema(
        type="object",
        properties={key: _field(name, key, text.removeprefix("!")) for key, text in table.items()},
        required=tuple(key for key, text in table.items() if text.startswith("!")),
        rules=RULES.get(name, ()),
    )


def _field(owner: str, key: str, text: str) -> Schema:
    enum = ENUMS.get((owner, key))
    if enum is not None:
        return Schema(type="string", enum=enum)
    if text.startswith("["):
        return Schema(type="array", items=_field("", "", text[1:]))
    if text.startswith("{"):
        values = _field("", "", text[1:])
        # An entry that is null is one with Go's zero value: `{cpu: 1,5}` asks for a resource called 5.
        return Schema(type="object", values=replace(values, default=_ZERO.get(text[1:], UNSET)))
    return _SCALARS.get(text) or core_type(text)


def object_meta() -> Schema:
    """The schema of `metadata`, the same for all kinds."""
    return core_type("V1ObjectMeta")


def pod_specs(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The pod specs inside a document: of a Pod, of a workload's template, of a CronJob's job template."""
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return []
    if document.get("kind") == "Pod":
        return [spec]
    if document.get("kind") == "CronJob":
        spec = spec.get("jobTemplate", {}).get("spec", {})
    inner = spec.get("template", {}).get("spec")
    return [inner] if isinstance(inner, dict) and "containers" in inner else []


def default_pod_spec(spec: dict[str, Any]) -> None:
    """Fill in what the server derives: requests from limits, host ports on the host network. In place."""
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        resources = container.get("resources", {})
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
        if spec.get("hostNetwork"):
            for port in container.get("ports", ()):
                port.setdefault("hostPort", port.get("containerPort", 0))
    if spec.get("resources"):
        default_whole(spec)
