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
from datetime import date, datetime, time
from typing import Any

from dovetail.base.errors import InputError
from dovetail.cloud.aws.amifamily.userdata.bootstrap import Bootstrap

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_NOT_LITERAL = re.compile(r"['\x00-\x08\x0a-\x1f\x7f]")


def toml(document: Mapping[str, Any]) -> str:
    """The document in the order of its mappings. Raises TypeError for values that TOML does not have."""
    return "".join(_toml_table((), document))


def _toml_table(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[str]:
    if path:
        yield f"[{'.'.join(map(_toml_key, path))}]\n"
    values = {name: value for name, value in table.items() if not isinstance(value, Mapping)}
    for name, value in values.items():
        yield f"{_toml_key(name)} = {_toml_value(value)}\n"
    after = bool(values)
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from ("\n",) if after else ()
            yield from _toml_table((*path, name), value)
            after = True


def _toml_key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _toml_text(name)


def _toml_value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _toml_text(value)
        case int() | float():
            return repr(value)
        case datetime() | date() | time():
            return value.isoformat()
        case list():
            return f"[{', '.join(map(_toml_value, value))}]"
        case Mapping():
            pairs = (f"{_toml_key(name)} = {_toml_value(item)}" for name, item in value.items())
            return f"{{{', '.join(pairs)}}}"
    raise TypeError(f"TOML has no {type(value).__name__}")


def _toml_text(text: str) -> str:
    if not _NOT_LITERAL.search(text):
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


# settings.kubernetes, in the order that it is written in, and the type of each setting. What is not here is
# left out: the image would refuse to start with a setting that it does not know.
KUBERNETES: dict[str, type] = {
    "api-server": str,
    "cloud-provider": str,
    "cluster-certificate": str,
    "cluster-name": str,
    "cluster-dns-ip": str,
    "credential-providers": dict,
    "node-labels": dict,
    "node-taints": dict,
    "max-pods": int,
    "static-pods": dict,
    "eviction-hard": dict,
    "eviction-soft": dict,
    "eviction-soft-grace-period": dict,
    "eviction-max-pod-grace-period": int,
    "kube-reserved": dict,
    "system-reserved": dict,
    "allowed-unsafe-sysctls": list,
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
    "cpu-manager-policy-options": list,
    "cpu-manager-reconcile-period": str,
    "memory-manager-policy": str,
    "memory-manager-reserved-memory": dict,
    "topology-manager-scope": str,
    "topology-manager-policy": str,
    "topology-manager-policy-options": dict,
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
    "hostname-override-source": str,
    "log-level": int,
}
_COMMAND = ("commands", "mode", "essential")
_TYPES = {str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "a table"}
_MOUNTS_BY_ITSELF = (1, 46, 0)  # older images must be told what to put on the local disks
_MOUNTED = ["--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]


def bottlerocket(node: Bootstrap) -> str:
    """The settings. Raises InputError for user data that is no TOML or has settings of a wrong type."""
    settings = _own_settings(node.custom)
    kubernetes = {**_own_kubernetes(settings), **_kubernetes(node)}
    kubernetes["node-labels"] = {**_own_kubernetes(settings).get("node-labels", {}), **node.labels}
    settings["kubernetes"] = {
        name: _sorted(kubernetes[name]) for name in KUBERNETES if kubernetes.get(name) not in (None, {})
    }
    commands = _own_table(settings, "bootstrap-commands")
    if node.raid0:
        commands["000-mount-instance-storage"] = _mount(node)
    if commands:
        settings["bootstrap-commands"] = {name: _command(commands, name) for name in sorted(commands)}
    return toml({"settings": {name: settings[name] for name in sorted(settings)}})


def left_out(custom: str) -> list[str]:
    """Names in settings.kubernetes that the image does not know. Raises InputError as `bottlerocket` does."""
    settings = _own_settings(custom)
    commands = _own_table(settings, "bootstrap-commands")
    for name in commands:
        _command(commands, name)
    return [name for name in _own_kubernetes(settings) if name not in KUBERNETES]


def _own_settings(custom: str) -> dict[str, Any]:
    try:
        return _table(tomllib.loads(custom), "settings", "settings")
    except tomllib.TOMLDecodeError as error:
        raise _broken(str(error)) from None


def _own_table(settings: dict[str, Any], name: str) -> dict[str, Any]:
    return _table(settings, name, f"settings.{name}")


def _table(document: dict[str, Any], name: str, path: str) -> dict[str, Any]:
    """A table of the document, for the caller to change; an empty one where there is none."""
    table = document.get(name, {})
    if isinstance(table, dict):
        return dict(table)
    raise _broken(f"{path} must be a table, not {table!r}")


def _own_kubernetes(settings: dict[str, Any]) -> dict[str, Any]:
    own = _own_table(settings, "kubernetes")
    for name, kind in KUBERNETES.items():
        # Exactly: true is no whole number.
        if name in own and type(own[name]) is not kind:
            raise _broken(f"settings.kubernetes.{name} must be {_TYPES[kind]}, not {own[name]!r}")
    return own


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


def _command(commands: dict[str, Any], name: str) -> dict[str, Any]:
    written = _table(commands, name, f"settings.bootstrap-commands.{name}")
    known = [name for name in _COMMAND if name in written]
    return {name: written[name] for name in (*known, *sorted(written.keys() - set(known)))}


def _sorted(value: Any) -> Any:
    return {key: value[key] for key in sorted(value)} if isinstance(value, dict) else value


def _broken(message: str) -> InputError:
    return InputError(
        f"invalid UserData toml: {message}",
        path="spec.userData",
        remedy="Bottlerocket takes settings as TOML, such as [settings.kubernetes] and then max-pods = 20",
    )
