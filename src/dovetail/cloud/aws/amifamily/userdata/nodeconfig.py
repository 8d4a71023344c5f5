"""NodeConfig, the document that nodeadm reads on AL2023: what it takes, and what it silently leaves out.

Field names and types are those of node.eks.aws/v1alpha1. nodeadm refuses wrong types and other kinds; fields
that it does not know have no effect.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import yaml

from dovetail.api.karpenter.common_schema import ANY, BOOLEAN, STRING
from dovetail.api.schema import Schema, unknown_fields, validate, with_defaults
from dovetail.base.errors import InputError
from dovetail.base.guess import meant
from dovetail.cloud.aws.amifamily.kubelet import FIELDS, misfit
from dovetail.reading import Located
from dovetail.reading.yamltext import read_documents
from dovetail.units.duration import parse_duration


@dataclass(frozen=True, slots=True)
class Remark:
    """`fatal` iff no node comes of it; otherwise the node comes, but not as it was meant.

    `line` counts from 1 in the text that was checked, None where it is not known; `path` is a field.
    """

    fatal: bool
    message: str
    line: int | None = None
    path: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        place = "" if self.line is None else f"line {self.line}"
        return ": ".join(part for part in (place, self.path, self.message) if part)


GENERATED = "# Karpenter Generated NodeConfig\n"  # how the part that Dovetail adds begins
_GROUP, _KIND, _VERSION = "node.eks.aws", "NodeConfig", "v1alpha1"
_KUBELET = "spec.kubelet.config"
_BEGINNING = f"begin with apiVersion: {_GROUP}/{_VERSION} and kind: {_KIND}"
_OTHER_FORMATS = "a script begins with #!; other formats of cloud-init go into a MIME archive"
_CHOICES = {
    "strategy": ("RAID0", "RAID10", "Mount"),
    "disabledMounts": ("Containerd", "PodLogs"),
}
# What the part that Dovetail adds always decides, and where to set it instead.
_DECIDED = {
    "maxPods": "set it in spec.kubelet of the EC2NodeClass",
    "registerWithTaints": "set taints in the NodePool",
}


def _object(**properties: Schema) -> Schema:
    return Schema(type="object", properties=properties)


_TEXTS = Schema(type="array", items=STRING)
_SCHEMA = _object(
    apiVersion=STRING,
    kind=STRING,
    metadata=ANY,
    spec=_object(
        cluster=_object(
            name=STRING,
            apiServerEndpoint=STRING,
            certificateAuthority=STRING,
            cidr=STRING,
            enableOutpost=BOOLEAN,
            id=STRING,
        ),
        containerd=_object(config=STRING, baseRuntimeSpec=Schema(type="object", values=ANY)),
        instance=_object(localStorage=_object(strategy=STRING, mountPath=STRING, disabledMounts=_TEXTS)),
        kubelet=_object(config=Schema(type="object", values=ANY), flags=_TEXTS),
        featureGates=Schema(type="object", values=BOOLEAN),
    ),
)


def remarks(text: str) -> Iterator[Remark]:
    """On one document as it is given to nodeadm; lines count within it."""
    try:
        documents = read_documents(text, "")
    except InputError as error:
        # A key that is given twice is a mistake that nodeadm puts up with.
        yield Remark(not _readable(text), error.message, error.line, error.path, error.remedy)
        return
    if not documents:
        yield Remark(True, "it is taken for a NodeConfig and is empty", 1, "", _OTHER_FORMATS)
        return
    first, *others = documents
    foreign = tuple(_foreign(first))
    yield from foreign or sorted(_of_config(first, text), key=lambda item: item.line or 0)
    if others:
        yield Remark(
            False,
            "nodeadm reads the first document alone",
            others[0].line,
            remedy="give the second one a part of its own in a MIME archive",
        )


def _readable(text: str) -> bool:
    try:
        list(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError):  # a date that does not exist is a ValueError
        return False
    return True


def _foreign(document: Located) -> Iterator[Remark]:
    """Why it is no NodeConfig at all."""
    value = document.value
    if not isinstance(value, dict):
        yield Remark(
            True, "it is taken for a NodeConfig, and is no map of fields", document.line, "", _BEGINNING
        )
        return
    group = str(value.get("apiVersion", "")).rpartition("/")[0]
    kind = value.get("kind")
    if (group, kind) == (_GROUP, _KIND):
        return
    given = ", ".join(f"{name}: {value[name]}" for name in ("apiVersion", "kind") if name in value)
    yield Remark(
        True,
        "what can be read as YAML is taken for a NodeConfig, and this has "
        + (given or "neither apiVersion nor kind"),
        document.line_of("kind" if group == _GROUP and kind else "apiVersion"),
        remedy=f"{_BEGINNING}; {_OTHER_FORMATS}",
    )


def _of_config(document: Located, text: str) -> Iterator[Remark]:
    value = document.value
    version = value["apiVersion"].rpartition("/")[2]
    if version != _VERSION:
        yield _at(document, "apiVersion", f"{version} is not known here, {_VERSION} is", fatal=False)
    for cause in validate(_SCHEMA, with_defaults(_SCHEMA, value)):
        if cause.field != "<nil>":
            yield _at(document, cause.field, cause.message.removeprefix("Invalid value: "))
    for path in unknown_fields(_SCHEMA, value):
        yield _unknown(document, path)
    spec = _inside(value, "spec")
    yield from _storage(document, _inside(spec, "instance", "localStorage"))
    yield from _containerd(document, _inside(spec, "containerd").get("config"))
    kubelet = _inside(spec, "kubelet")
    yield from _flags(document, kubelet.get("flags"))
    yield from _kubelet(document, _inside(kubelet, "config"), ours=text.startswith(GENERATED))


def _inside(value: Any, *names: str) -> dict[str, Any]:
    """The map there; an empty one where there is none, or something else."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _unknown(document: Located, path: str) -> Remark:
    parent, _, name = path.rpartition(".")
    schema = _SCHEMA
    for step in parent.split(".") if parent else ():
        schema = schema.child(step) or schema
    remedy = meant(name, schema.properties, f"known here: {', '.join(schema.properties)}")
    return replace(
        _at(document, path, "nodeadm knows no such field and leaves it out", fatal=False), remedy=remedy
    )


def _storage(document: Located, storage: dict[str, Any]) -> Iterator[Remark]:
    for name, choices in _CHOICES.items():
        path = f"spec.instance.localStorage.{name}"
        written = storage.get(name, [])
        for item in written if isinstance(written, list) else [written]:
            if isinstance(item, str) and item not in choices:
                yield _at(document, path, f"{item!r} is none of {', '.join(choices)}", fatal=False)


def _containerd(document: Located, config: Any) -> Iterator[Remark]:
    try:
        tomllib.loads(config if isinstance(config, str) else "")
    except tomllib.TOMLDecodeError as error:
        yield _at(document, "spec.containerd.config", f"this is no TOML: {error}")


def _flags(document: Located, flags: Any) -> Iterator[Remark]:
    for index, flag in enumerate(flags if isinstance(flags, list) else ()):
        if isinstance(flag, str) and not flag.startswith("--"):
            fault = _at(document, f"spec.kubelet.flags[{index}]", f"{flag!r} is no flag of the kubelet")
            yield replace(fault, remedy="write --name=value")


def _kubelet(document: Located, config: dict[str, Any], *, ours: bool) -> Iterator[Remark]:
    for name, value in config.items():
        path = f"{_KUBELET}.{name}"
        if name not in FIELDS:
            fault = _at(document, path, "the kubelet knows no such field and leaves it out", fatal=False)
            yield replace(fault, remedy=meant(name, FIELDS))
        elif value is None:
            continue
        elif wanted := misfit(FIELDS[name], value):
            yield _at(document, path, f"must be {wanted}, not {value!r}")
        elif FIELDS[name] == "d" and (why := _no_duration(value)):
            yield _at(document, path, why)
        elif name in _DECIDED and not ours:
            fault = _at(document, path, "the node's own part comes later and decides it", fatal=False)
            yield replace(fault, remedy=_DECIDED[name])


def _no_duration(text: str) -> str:
    try:
        parse_duration(text)
    except ValueError as error:
        return str(error)
    return ""


def _at(document: Located, path: str, message: str, *, fatal: bool = True) -> Remark:
    return Remark(fatal, message, document.line_of(path), path)
