"""User data of Bottlerocket: TOML settings, the class's own with those of the node over them.

The standard library only reads TOML. The layout that is written is that of the Go library whose output users
of Karpenter know from their launch templates: literal strings where they do, tables after the values of the
table above them.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from dovetail.base.errors import InputError
from dovetail.cloud.aws.amifamily.userdata.bootstrap import Bootstrap

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_NOT_LITERAL = re.compile(r"['\x00-\x1f\x7f]")
_ESCAPED = re.compile(r"\\u00([0-9a-f]{2})")
_LARGEST = (1 << 63) - 1


def toml(document: Mapping[str, Any]) -> str:
    """The document in the order of its mappings, but values of a table before the tables below it.

    Raises TypeError for values that TOML does not have.
    """
    text, after_value = "", False
    for line in _lines((), document):
        header = line.startswith("[")
        text += f"\n{line}\n" if header and after_value else f"{line}\n"
        after_value = not header
    return text


def _lines(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[str]:
    for name, value in table.items():
        if not isinstance(value, Mapping) and not _is_tables(value):
            yield f"{_toml_key(name)} = {_toml_value(value)}"
    for name, value in table.items():
        below = (*path, name)
        header = ".".join(map(_toml_key, below))
        if isinstance(value, Mapping):
            yield f"[{header}]"
            yield from _lines(below, value)
        elif _is_tables(value):
            for one in value:
                yield f"[[{header}]]"
                yield from _lines(below, one)


def _is_tables(value: Any) -> bool:
    """True iff the value is written as an array of tables."""
    return isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)


def _toml_key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _toml_text(name)


def _toml_value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _toml_text(value)
        case int():
            return repr(value)
        case float():
            return _toml_number(value)
        case datetime() | date() | time():
            return _toml_time(value)
        case list():
            return f"[{', '.join(map(_toml_value, value))}]"
        case Mapping():
            pairs = (f"{_toml_key(name)} = {_toml_value(item)}" for name, item in value.items())
            return f"{{{', '.join(pairs)}}}"
    raise TypeError(f"TOML has no {type(value).__name__}")


def _toml_number(value: float) -> str:
    """All digits, without an exponent."""
    text = repr(value)
    if "e" in text:
        text = format(Decimal(text), "f")
        return text if "." in text else f"{text}.0"
    return text


def _toml_time(value: datetime | date | time) -> str:
    """UTC as Z, and no zeros at the end of a fraction."""
    text = re.sub(r"(\.\d*?)0+(?!\d)", r"\1", value.isoformat())
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def _toml_text(text: str) -> str:
    if not _NOT_LITERAL.search(text):
        return f"'{text}'"
    quoted = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    return _ESCAPED.sub(lambda found: f"\\u00{found[1].upper()}", quoted)


@dataclass(frozen=True, slots=True)
class _Struct:
    """A table of known settings in their order; others are left out, as the image would refuse them."""

    fields: Mapping[str, Any]
    always: tuple[str, ...] = ()  # written also where they are not set


@dataclass(frozen=True, slots=True)
class _Each:
    """A list (`list`) or a table of any names (`dict`) whose items are all of one kind."""

    outer: type
    item: Any


_TEXTS, _TEXT_BY_NAME = _Each(list, str), _Each(dict, str)
_CREDENTIALS = _Struct(
    {"enabled": bool, "cache-duration": str, "image-patterns": _TEXTS, "environment": _TEXT_BY_NAME},
    always=("image-patterns",),
)
_MEMORY = _Struct({"enabled": bool, "memory": str, "hugepages-2Mi": str, "hugepages-1Gi": str}, ("enabled",))
_COMMAND = _Struct(
    {"commands": _Each(list, _TEXTS), "mode": str, "essential": bool}, ("commands", "mode", "essential")
)

# settings.kubernetes, in the order that it is written in, and the kind of each setting.
KUBERNETES: dict[str, Any] = {
    "api-server": str,
    "cloud-provider": str,
    "cluster-certificate": str,
    "cluster-name": str,
    "cluster-dns-ip": str,
    "credential-providers": _Each(dict, _CREDENTIALS),
    "node-labels": _TEXT_BY_NAME,
    "node-taints": _Each(dict, _TEXTS),
    "max-pods": int,
    "static-pods": _Each(dict, _Struct({"enabled": bool, "manifest": str})),
    "eviction-hard": _TEXT_BY_NAME,
    "eviction-soft": _TEXT_BY_NAME,
    "eviction-soft-grace-period": _TEXT_BY_NAME,
    "eviction-max-pod-grace-period": int,
    "kube-reserved": _TEXT_BY_NAME,
    "system-reserved": _TEXT_BY_NAME,
    "allowed-unsafe-sysctls": _TEXTS,
    "server-tls-bootstrap": bool,
    "registry-qps": int,
    "registry-burst": int,
    "event-qps": int,
    "event-burst": int,
    "kube-api-qps": int,
    "kube-api-burst": int,
    "container-log-max-size": str,
    "container-log-max-files": int,
    "cpu-manager-policy": str,
    "cpu-manager-policy-options": _TEXTS,
    "cpu-manager-reconcile-period": str,
    "memory-manager-policy": str,
    "memory-manager-reserved-memory": _Each(dict, _MEMORY),
    "topology-manager-scope": str,
    "topology-manager-policy": str,
    "topology-manager-policy-options": _Struct(
        {"prefer-closest-numa-nodes": bool, "max-allowable-numa-nodes": int}
    ),
    "image-gc-high-threshold-percent": str,
    "image-gc-low-threshold-percent": str,
    "ids-per-pod": int,
    "cpu-cfs-quota-enforced": bool,
    "shutdown-grace-period": str,
    "shutdown-grace-period-for-critical-pods": str,
    "cluster-domain": str,
    "seccomp-default": bool,
    "pod-pids-limit": int,
    "device-ownership-from-security-context": bool,
    "single-process-oom-kill": bool,
    "container-log-max-workers": int,
    "container-log-monitor-interval": str,
    "hostname-override-source": str,
    "log-level": int,
}
_WORDS = {str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "a table"}
_EMPTY: dict[Any, Any] = {str: "", bool: False}
_MOUNTS_BY_ITSELF = (1, 46, 0)  # older images need a list of what to put on the local disks
_MOUNTED = ["--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]


def bottlerocket(node: Bootstrap) -> str:
    """The settings. Raises InputError for user data that is no TOML or has settings of a wrong type."""
    settings = _own_settings(node.custom)
    own = _own_kubernetes(settings)
    kubernetes = {**own, **_kubernetes(node)}
    kubernetes["node-labels"] = {**own.get("node-labels", {}), **node.labels}
    settings["kubernetes"] = {
        name: _by_name(kubernetes[name]) if isinstance(kind, _Each) else kubernetes[name]
        for name, kind in KUBERNETES.items()
        if kubernetes.get(name) not in (None, {}, [])
    }
    commands = _own_commands(settings)
    if node.raid0:
        commands["000-mount-instance-storage"] = _mount(node)
    if commands:
        settings["bootstrap-commands"] = {name: commands[name] for name in sorted(commands)}
    return toml({"settings": {name: settings[name] for name in sorted(settings)}})


def left_out(custom: str) -> list[str]:
    """Names in settings.kubernetes that the image does not know. Raises InputError as `bottlerocket` does."""
    settings = _own_settings(custom)
    _own_commands(settings)
    written = _table(settings, "kubernetes", "settings.kubernetes")
    known = _own_kubernetes(settings)
    return [name for name in written if name.lower() not in known]


def _own_settings(custom: str) -> dict[str, Any]:
    """The user's, names sorted."""
    try:
        document = tomllib.loads(custom)
    except tomllib.TOMLDecodeError as error:
        raise _broken(str(error)) from None
    sorted_document: dict[str, Any] = _sorted(document)
    return _table(sorted_document, "settings", "settings")


def _table(document: dict[str, Any], name: str, path: str) -> dict[str, Any]:
    """A table of the document, for the caller to change; an empty one where there is none."""
    table = document.get(name, {})
    if isinstance(table, dict):
        return dict(table)
    raise _broken(f"{path} must be a table, not {table!r}")


def _own_kubernetes(settings: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = _typed(_Struct(KUBERNETES), settings.get("kubernetes", {}), "settings.kubernetes")
    level = found.get("log-level", 0)
    if level < 0:
        raise _broken(f"settings.kubernetes.log-level must be at least 0, not {level}")
    return found


def _own_commands(settings: dict[str, Any]) -> dict[str, Any]:
    written = settings.get("bootstrap-commands", {})
    found: dict[str, Any] = _typed(_Each(dict, _COMMAND), written, "settings.bootstrap-commands")
    return found


def _typed(kind: Any, value: Any, path: str) -> Any:
    """The value as the setting takes it. Raises InputError where it is of another type."""
    match kind:
        case _Struct():
            return _known(kind, _checked(dict, value, path), path)
        case _Each(outer=outer, item=item) if outer is list:
            checked = _checked(list, value, path)
            return [_typed(item, one, f"{path}[{place}]") for place, one in enumerate(checked)]
        case _Each(item=item):
            checked = _checked(dict, value, path)
            return {name: _typed(item, one, f"{path}.{name}") for name, one in checked.items()}
    return _checked(kind, value, path)


def _known(struct: _Struct, written: dict[str, Any], path: str) -> dict[str, Any]:
    # Capitals do not count in the names of settings, unless there is one that is written so.
    names = {name.lower(): name for name in struct.fields}
    given = {name if name in struct.fields else names.get(name.lower()): name for name in written}
    found = {}
    for name, kind in struct.fields.items():
        if name in given:
            found[name] = _typed(kind, written[given[name]], f"{path}.{given[name]}")
        elif name in struct.always:
            found[name] = _EMPTY.get(kind, [])
    return found


def _checked(kind: type, value: Any, path: str) -> Any:
    if type(value) is not kind:  # exactly: true is no whole number
        raise _broken(f"{path} must be {_WORDS[kind]}, not {value!r}")
    return value


def _kubernetes(node: Bootstrap) -> dict[str, Any]:
    """What the node decides; of the kubelet's settings only those that the class has."""
    cluster, kubelet = node.cluster, node.kubelet
    decided = {
        "api-server": cluster.endpoint,
        "cluster-certificate": cluster.ca_bundle,
        "cluster-name": cluster.name,
        "cluster-dns-ip": node.dns_ips[0] if node.dns_ips else None,
        "max-pods": kubelet["maxPods"],
        "eviction-hard": kubelet.get("evictionHard"),
        "eviction-soft": kubelet.get("evictionSoft"),
        "eviction-soft-grace-period": node.grace_periods or None,
        "eviction-max-pod-grace-period": kubelet.get("evictionMaxPodGracePeriod"),
        "kube-reserved": kubelet.get("kubeReserved"),
        "system-reserved": kubelet.get("systemReserved"),
        "image-gc-high-threshold-percent": _digits(kubelet.get("imageGCHighThresholdPercent")),
        "image-gc-low-threshold-percent": _digits(kubelet.get("imageGCLowThresholdPercent")),
        "cpu-cfs-quota-enforced": kubelet.get("cpuCFSQuota"),
    }
    taints: dict[str, list[str]] = {}
    for taint in node.taints:
        taints.setdefault(taint.key, []).append(f"{taint.value}:{taint.effect}")
    return {**{name: value for name, value in decided.items() if value is not None}, "node-taints": taints}


def _digits(number: int | None) -> str | None:
    return None if number is None else str(number)


def _mount(node: Bootstrap) -> dict[str, Any]:
    old = node.image_version is not None and node.image_version < _MOUNTS_BY_ITSELF
    bind = ["apiclient", "ephemeral-storage", "bind", *(_MOUNTED if old else [])]
    commands = [["apiclient", "ephemeral-storage", "init"], bind]
    return {"commands": commands, "mode": "always", "essential": True}


def _by_name(value: Any) -> Any:
    return {key: value[key] for key in sorted(value)} if isinstance(value, dict) else value


def _sorted(value: Any) -> Any:
    """With the names of all tables sorted. Raises InputError for a number that TOML does not have."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(one) for one in value]
    if isinstance(value, int) and abs(value) > _LARGEST and value != -_LARGEST - 1:
        raise _broken(f"{value} is too large a number: at most {_LARGEST} is taken")
    return value


def _broken(message: str) -> InputError:
    return InputError(
        f"invalid UserData toml: {message}",
        path="spec.userData",
        remedy="Bottlerocket takes settings as TOML, such as [settings.kubernetes] and then max-pods = 20",
    )
