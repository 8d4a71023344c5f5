"""Admission rules of what is in a pod: containers, ports, variables, probes, volumes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from dovetail.api.names import label_key_faults, label_name_faults
from dovetail.api.rules import Rule, at_least, rule
from dovetail.units.quantity import nanos_if_any

Value = dict[str, Any]

_PORTS, _HOST_PORTS = range(1, 65_536), range(65_536)  # 0: none
_PORT_NAME = re.compile(r"(?!-)(?!.*--)(?=.*[a-z])[-a-z0-9]{1,15}(?<!-)")
_PORT_NAME_WORDS = (
    "must be 1 to 15 lower case letters, digits or hyphens with at least one letter, "
    "no hyphen at an end and no two together"
)
_VARIABLE_NAME = re.compile(r"[ -<>-~]+")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
# What fieldRef of a variable may name; labels and annotations also by key.
_FIELDS = re.compile(
    r"metadata\.(name|namespace|uid|(labels|annotations)\['(?P<key>[^']+)'\])|spec\.(nodeName|serviceAccountName)"
    r"|status\.(hostIP|hostIPs|podIP|podIPs)"
)


def _named(field: str) -> Rule:
    """The name of a part of a pod is a label of DNS."""
    return Rule(
        f"{field}_named", explain=lambda part: next(iter(label_name_faults(part["name"])), ""), at="name"
    )


def _twice(names: Iterator[str]) -> str:
    return next((f'duplicate value: "{name}"' for name, count in Counter(names).items() if count > 1), "")


port_names_differ = Rule(
    "port_names_differ",
    explain=lambda container: _twice(port["name"] for port in container.get("ports", ()) if port.get("name")),
    at="ports",
)
volume_names_differ = Rule(
    "volume_names_differ",
    explain=lambda spec: _twice(volume["name"] for volume in spec.get("volumes", ())),
    at="volumes",
)


def mounts_have_volumes(at: str) -> Rule:
    """That what is mounted is there, of a pod or of the template of a workload, by the path of its spec."""

    def fault(owner: Value) -> str:
        spec = owner
        for step in at.split("."):
            spec = spec.get(step) or {}
        # A StatefulSet has a volume for each template of a claim.
        claims = {claim.get("metadata", {}).get("name") for claim in owner.get("volumeClaimTemplates", ())}
        volumes = claims.union(volume["name"] for volume in spec.get("volumes", ()))
        for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
            for part in ("volumeMounts", "volumeDevices"):
                for mount in container.get(part, ()):
                    if (name := mount["name"]) not in volumes:
                        return f'{part} of container {container["name"]}: there is no volume "{name}"'
        return ""

    return Rule("mounts_have_volumes", explain=fault, at=at)


@rule("must be 1", at="livenessProbe.successThreshold")
def one_success_lives(container: Value) -> bool:
    return bool(container.get("livenessProbe", {}).get("successThreshold", 1) in (0, 1))


@rule("must be 1", at="startupProbe.successThreshold")
def one_success_starts(container: Value) -> bool:
    return bool(container.get("startupProbe", {}).get("successThreshold", 1) in (0, 1))


@rule("must be between 1 and 65535, inclusive", at="containerPort")
def port_in_range(port: Value) -> bool:
    return port["containerPort"] in _PORTS


@rule("must be between 1 and 65535, inclusive", at="hostPort")
def host_port_in_range(port: Value) -> bool:
    return port.get("hostPort", 0) in _HOST_PORTS


@rule(_PORT_NAME_WORDS, at="name")
def port_named(port: Value) -> bool:
    return not port.get("name") or bool(_PORT_NAME.fullmatch(port["name"]))


@rule(_PORT_NAME_WORDS, at="port")
def probed_port_named(action: Value) -> bool:
    port = action.get("port")
    return port in _PORTS if isinstance(port, int) else bool(_PORT_NAME.fullmatch(str(port)))


@rule("must be printable ASCII characters other than '=', at least one", at="name")
def variable_named(variable: Value) -> bool:
    return bool(_VARIABLE_NAME.fullmatch(variable["name"]))


@rule("may not be specified when `value` is not empty", at="valueFrom")
def variable_has_one_value(variable: Value) -> bool:
    return not (variable.get("value") and "valueFrom" in variable)


@rule("must specify one of: fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef or fileKeyRef")
def variable_has_one_source(source: Value) -> bool:
    return len(source) == 1


@rule("is no field of a pod that a variable can have", at="fieldRef.fieldPath")
def variable_has_a_field(source: Value) -> bool:
    if "fieldRef" not in source:
        return True
    found = _FIELDS.fullmatch(source["fieldRef"]["fieldPath"])
    return found is not None and not (found["key"] and label_key_faults(found["key"].lower()))


def _handler_fault(probe: Value) -> str:
    given = [handler for handler in _HANDLERS if handler in probe]
    if not given:
        return "must specify a handler type: exec, httpGet, tcpSocket or grpc"
    return "may not specify more than 1 handler type" if len(given) > 1 else ""


@rule("what is run must be given", at="command")
def command_given(action: Value) -> bool:
    return bool(action.get("command"))


@rule("may not specify more than 1 volume type")
def volume_of_one_type(volume: Value) -> bool:
    return len(volume) <= 2  # its name and what it is


@rule("must be greater than or equal to 0", at="sizeLimit")
def size_limit_not_negative(source: Value) -> bool:
    return (nanos_if_any(source.get("sizeLimit", 0)) or 0) >= 0


@rule("must be between 1 and 2147483647, inclusive", at="activeDeadlineSeconds")
def pod_deadline_in_range(spec: Value) -> bool:
    return bool(1 <= spec.get("activeDeadlineSeconds", 1) < 1 << 31)


_SECONDS = ("initialDelaySeconds", "periodSeconds", "timeoutSeconds", "successThreshold", "failureThreshold")
_WORKLOADS = ("V1DeploymentSpec", "V1ReplicaSetSpec", "V1StatefulSetSpec", "V1DaemonSetSpec", "V1JobSpec")
_CONTAINER = (_named("container"), port_names_differ, one_success_lives, one_success_starts)

# Type name of the field tables -> its rules.
RULES: dict[str, tuple[Rule, ...]] = {
    "V1Pod": (mounts_have_volumes("spec"),),
    **dict.fromkeys(_WORKLOADS, (mounts_have_volumes("template.spec"),)),
    "V1PodSpec": (volume_names_differ, pod_deadline_in_range),
    "V1Container": _CONTAINER,
    "V1ContainerPort": (port_in_range, host_port_in_range, port_named),
    "V1EnvVar": (variable_named, variable_has_one_value),
    "V1EnvVarSource": (variable_has_one_source, variable_has_a_field),
    "V1Probe": (Rule("one_handler", explain=_handler_fault), *(at_least(0, field) for field in _SECONDS)),
    "V1ExecAction": (command_given,),
    "V1HTTPGetAction": (probed_port_named,),
    "V1TCPSocketAction": (probed_port_named,),
    "V1Volume": (_named("volume"), volume_of_one_type),
    "V1EmptyDirVolumeSource": (size_limit_not_negative,),
}
