"""IN: what cannot be read, and what an API server would refuse, each with what was probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from dovetail.api.generations import workloads
from dovetail.api.generations.editing import Editor, Path, shown
from dovetail.api.generations.upgrade import is_old
from dovetail.api.pod_resources import NOT_OF_CONTAINERS
from dovetail.lint.finding import Remark, Severity, rule
from dovetail.lint.inventory import Fault, Inventory
from dovetail.lint.rules.nodepool import near_label
from dovetail.reading import Located
from dovetail.reading.paths import at, steps

_ERROR, _WARNING = Severity.ERROR, Severity.WARNING
# Where the pods of a workload are.
_PODS_OF = {
    **dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"), "spec.template.spec"),
    "CronJob": "spec.jobTemplate.spec.template.spec",
    "ScaledJob": "spec.jobTargetRef.template.spec",
}
# Fields of pods that are written a level too high, or several.
_OF_PODS = frozenset(
    {
        "affinity",
        "containers",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "priorityClassName",
        "runtimeClassName",
        "schedulerName",
        "serviceAccountName",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
    }
)
# Fields of EC2NodeClass that are written into pools.
_OF_CLASSES = frozenset(
    {
        "amiFamily",
        "amiSelectorTerms",
        "blockDeviceMappings",
        "instanceProfile",
        "kubelet",
        "kubeletConfiguration",
        "metadataOptions",
        "role",
        "securityGroupSelectorTerms",
        "subnetSelectorTerms",
        "tags",
        "userData",
    }
)
_POOLS = frozenset({"NodePool", "Provisioner", "NodeClaim", "Machine"})
# What a field of an older generation is today.
_RENAMED = {
    "ttlSecondsAfterEmpty": "spec.disruption with consolidationPolicy: WhenEmpty and consolidateAfter: 30s",
    "ttlSecondsUntilExpired": "spec.template.spec.expireAfter, such as 720h",
    "consolidation": "spec.disruption.consolidationPolicy: WhenEmptyOrUnderutilized",
    "provider": "an EC2NodeClass, named in spec.template.spec.nodeClassRef",
    "providerRef": "spec.template.spec.nodeClassRef",
    "subnetSelector": "spec.subnetSelectorTerms",
    "securityGroupSelector": "spec.securityGroupSelectorTerms",
    "amiSelector": "spec.amiSelectorTerms",
    "containerRuntime": "nothing: nodes run containerd",
    "expireAfter": "spec.template.spec.expireAfter: v1 has it in the template",
    "apiVersion": "spec.template.spec.nodeClassRef.group, without the version",
    "launchTemplate": "fields of the EC2NodeClass: launch templates of one's own are gone",
}
_DURATIONS = ("expireAfter", "consolidateAfter", "terminationGracePeriod", "duration")
# With a default (`${NAME:-shop}`) too; `<NAME>` is what instructions leave to the reader.
_VARIABLE = re.compile(
    r"\$\{[A-Za-z_][^{}\n]*\}|\$[A-Z_][A-Z0-9_]{2,}\b|\{\{[^}]*\}\}|<%[^%]*%>|<[A-Za-z][A-Za-z0-9_ -]*>"
)


def _faults_of(inventory: Inventory, code: str) -> Iterator[Fault]:
    return (fault for fault in inventory.faults if _code_of(fault) == code)


def _code_of(fault: Fault) -> str:
    """Which rule reports a fault."""
    error, located = fault.error, fault.located
    if located is None:
        return "IN001"
    last = re.sub(r"\[\d+\]$", "", error.path).rpartition(".")[2]
    if error.path in ("kind", "apiVersion") and not error.message.startswith("unknown field"):
        return "IN009" if _is_newer(error.message) else "IN004"
    if error.message.startswith("unknown field") or _is_newer(error.message):
        if last in _OF_PODS and _is_above(error.path.removesuffix(last).rstrip("."), located):
            return "IN005"
        if located.value.get("kind") in _POOLS and last in _OF_CLASSES:
            return "NP002"
        if _is_newer(error.message) or (last in _RENAMED and _is_karpenters(located)):
            return "IN009"
        return "IN003"
    if "must specify exactly one of ['role', 'instanceProfile']" in error.message:
        return "NC002"
    if last in _DURATIONS and re.fullmatch(r"\d+", str(fault.value)):
        return "NP006"
    if "'schedule' must be set with 'duration'" in error.message:
        return "NP010"
    if NOT_OF_CONTAINERS in error.message:
        return "WL014"
    if any(_VARIABLE.search(text) for _, text in _texts(fault.value, ())):
        return "IN007"
    if "must be of type string" in error.message and isinstance(fault.value, int | float):
        return "IN006"
    return "IN002"


def _is_above(path: str, located: Located) -> bool:
    """True iff a path leads to what the pods of a workload are a part of."""
    pods = str(_PODS_OF.get(located.value.get("kind"), ""))
    return bool(pods) and path != pods and f"{pods}.".startswith(f"{path}." if path else "")


def _is_newer(message: str) -> bool:
    return "is a field of" in message


def _is_karpenters(located: Located) -> bool:
    return str(located.value.get("apiVersion", "")).startswith(("karpenter.sh/", "karpenter.k8s.aws/"))


def _nowhere(fault: Fault) -> Located:
    error = fault.error
    return fault.located or Located(
        {"kind": error.kind, "metadata": {"name": error.name}},
        error.source,
        error.line or 0,
        error.column or 1,
    )


def _remark(fault: Fault, what: str, why: str, fix: str = "", mend: Any = None) -> Remark:
    error = fault.error
    place = (error.line or 0, error.column or 1)
    return Remark(
        _nowhere(fault),
        error.path,
        what,
        why,
        fix or error.remedy.replace("dovetail plan", "dovetail check"),
        mend,
        place=place,
    )


@rule("IN001", "unreadable", _ERROR, "A file is no YAML, JSON or text")
def unreadable(inventory: Inventory) -> Iterator[Remark]:
    for fault in _faults_of(inventory, "IN001"):
        yield _remark(fault, fault.error.message, "")


@rule("IN002", "refused", _ERROR, "The API server would refuse the object")
def refused(inventory: Inventory) -> Iterator[Remark]:
    for fault in _faults_of(inventory, "IN002"):
        path = f"{fault.error.path}: " if fault.error.path else ""
        restricted = fault.error.message.endswith("is restricted") and isinstance(fault.value, str)
        near = near_label(fault.value) if restricted else ""
        fix = f"did you mean {near}?" if near else ""
        yield _remark(fault, f"{path}{fault.error.message}", "the API server refuses it", fix)


@rule("IN003", "unknown-field", _ERROR, "A field that its kind does not have")
def unknown_field(inventory: Inventory) -> Iterator[Remark]:
    for fault in _faults_of(inventory, "IN003"):
        message, _, hint = fault.error.message.partition("; ")
        yield _remark(
            fault, f"{fault.error.path}: {message}", "it is refused, or dropped without a word", hint
        )


@rule("IN004", "unknown-kind", _ERROR, "A kind or a version that its group does not have")
def unknown_kind(inventory: Inventory) -> Iterator[Remark]:
    for fault in _faults_of(inventory, "IN004"):
        message, _, hint = fault.error.message.partition("; ")
        yield _remark(fault, message, "no server takes it", hint)


@rule("IN005", "pod-field-outside-template", _ERROR, "A field of pods beside the template instead of in it")
def outside_template(inventory: Inventory) -> Iterator[Remark]:
    for fault in _faults_of(inventory, "IN005"):
        above, _, name = fault.error.path.rpartition(".")
        target: Path = (*_PODS_OF[str(fault.error.kind)].split("."), name)
        free = fault.value is not None and at(_nowhere(fault).value, shown(target)) is None
        yield _remark(
            fault,
            f"{fault.error.path} is a field of pods, not of "
            + (f"a {fault.error.kind}" if above != "spec.template" else "their template"),
            "it is refused, or dropped: then the pods run without it",
            f"move it to {shown(target)}",
            partial(_move, (*above.split("."), name) if above else (name,), target) if free else None,
        )


def _move(old: Path, new: Path, edit: Editor) -> None:
    edit.move(old, new, "")


@rule("IN006", "number-for-text", _ERROR, "A bare number or truth value where text is wanted")
def number_for_text(inventory: Inventory) -> Iterator[Remark]:
    for fault in _faults_of(inventory, "IN006"):
        value = fault.value
        text = str(value).lower() if isinstance(value, bool) else str(value)
        path = steps(_nowhere(fault).value, fault.error.path)
        yield _remark(
            fault,
            f"{fault.error.path} is {'a truth value' if isinstance(value, bool) else 'a number'}",
            "only text is taken here, and YAML reads what has no quotes as something else",
            f'write "{text}"',
            partial(_write, path, text) if path and not isinstance(value, float) else None,
        )


def _write(path: Path, value: Any, edit: Editor) -> None:
    edit.set(path, value, "")


@rule("NP002", "class-setting-in-pool", _ERROR, "A setting of the node class in a pool")
def class_setting_in_pool(inventory: Inventory) -> Iterator[Remark]:
    for fault in _faults_of(inventory, "NP002"):
        last = fault.error.path.rpartition(".")[2]
        old = is_old(_nowhere(fault).value)
        where = (
            "AWSNodeTemplate" if old and fault.error.kind in ("Provisioner", "Machine") else "EC2NodeClass"
        )
        yield _remark(
            fault,
            f"{last} is no field of a {fault.error.kind}",
            f"it belongs to the {where}, so it is refused here",
            f"write it into the {where} as spec.{'kubelet' if last.startswith('kubelet') else last}",
        )


@rule("NC002", "role-and-profile", _ERROR, "A class with both a role and an instance profile, or neither")
def role_and_profile(inventory: Inventory) -> Iterator[Remark]:
    for fault in _faults_of(inventory, "NC002"):
        spec = _nowhere(fault).value.get("spec") or {}
        both = "role" in spec and "instanceProfile" in spec
        yield Remark(
            _nowhere(fault),
            "spec.instanceProfile" if both else "spec",
            "the class has "
            f"{'both role and instanceProfile' if both else 'neither role nor instanceProfile'}",
            "the API server takes exactly one",
            "keep role, the IAM role of the nodes; an instance profile is made for it"
            if both
            else "name the IAM role of the nodes as spec.role",
        )


@rule("NP006", "duration-without-unit", _ERROR, "A duration without its unit")
def duration_without_unit(inventory: Inventory) -> Iterator[Remark]:
    for fault in _faults_of(inventory, "NP006"):
        path = steps(_nowhere(fault).value, fault.error.path)
        yield _remark(
            fault,
            f"{fault.error.path.rpartition('.')[2]} is {fault.value}, without a unit",
            "durations are text such as 30s, 10m or 720h; v1alpha5 counted seconds",
            f"write {fault.value}s if seconds are meant",
            partial(_write, path, f"{fault.value}s") if path else None,
        )


@rule("NP010", "schedule-without-duration", _ERROR, "A budget with a schedule or a duration, but not both")
def schedule_without_duration(inventory: Inventory) -> Iterator[Remark]:
    for fault in _faults_of(inventory, "NP010"):
        for index, budget in enumerate(fault.value if isinstance(fault.value, list) else ()):
            if isinstance(budget, dict) and ("schedule" in budget) != ("duration" in budget):
                has, lacks = ("schedule", "duration") if "schedule" in budget else ("duration", "schedule")
                yield Remark(
                    _nowhere(fault),
                    f"{fault.error.path}[{index}].{has}",
                    f"a budget with a {has} and no {lacks}",
                    "the schedule says when the budget begins to hold, the duration for how long",
                    f"add a {lacks}, such as {'8h' if lacks == 'duration' else repr('0 0 * * *')}",
                )


@rule(
    "IN007", "unexpanded-variable", _ERROR, "A variable of a shell or a template that nothing has filled in"
)
def unexpanded_variable(inventory: Inventory) -> Iterator[Remark]:
    seen: set[tuple[str, int, str]] = set()
    for located in inventory.written:
        for remark in _variables(inventory, located, _roots(located)):
            seen.add((located.source, located.line, remark.path))
            yield remark
    for located in inventory.values:
        if located.source not in inventory.filled:
            yield from _variables(inventory, located, [(key,) for key in located.value])
    # What is refused for it is anywhere in the object.
    for fault in _faults_of(inventory, "IN007"):
        located = _nowhere(fault)
        path = steps(located.value, fault.error.path)
        for remark in _variables(inventory, located, [path] if path else []):
            if (located.source, located.line, remark.path) not in seen:
                yield remark


def _roots(located: Located) -> list[Path]:
    """Where in an object nothing but plain text may stand."""
    if _is_karpenters(located):
        return [("metadata",), ("spec",)]
    pods = [spec for _, spec in workloads.pods(located.value)]
    parts = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints")
    named: list[Path] = [("metadata", "name"), ("spec", "scaleTargetRef")]
    return [*named, *((*spec, part) for spec in pods for part in parts)]


def _variables(inventory: Inventory, located: Located, roots: Sequence[Path]) -> Iterator[Remark]:
    value = located.value
    for root in roots:
        for path, text in _texts(Editor(value).get(*root, default=None), root):
            match = _VARIABLE.search(text)
            if match is not None and match[0].startswith("<") and located.source in inventory.filled:
                continue
            if match is None or path[-1] in ("userData", "description") or "annotations" in path:
                continue
            yield Remark(
                located,
                shown(path),
                f"{shown(path)} holds {match[0]}",
                "nothing has filled the variable in, so it is taken by its letters and matches nothing",
                "fill it in, such as with envsubst, or quote the heredoc's values yourself",
            )


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            if "$" in str(key) or "{{" in str(key):
                yield (*path, key), str(key)
            yield from _texts(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*path, index))


@rule("IN008", "old-generation", _WARNING, "An object of v1alpha5 or v1beta1")
def old_generation(inventory: Inventory) -> Iterator[Remark]:
    for located in inventory.written:
        if is_old(located.value):
            version = located.value["apiVersion"]
            yield Remark(
                located,
                "apiVersion",
                f"{located.value['kind']} of {version}",
                "no current release serves it; here it is read by what it has become",
                "dovetail convert writes it in v1",
            )


@rule("IN009", "renamed-field", _ERROR, "A field by the name that another generation has for it")
def renamed_field(inventory: Inventory) -> Iterator[Remark]:
    for fault in _faults_of(inventory, "IN009"):
        last = fault.error.path.rpartition(".")[2]
        now = _RENAMED.get(last, "")
        message, _, hint = fault.error.message.partition("; ")
        yield _remark(
            fault,
            f"{fault.error.path}: {message}",
            "the apiVersion has no such field",
            f"it is {now}" if now else hint,
        )


@rule("IN010", "old-name", _ERROR, "A label, annotation or taint that v1 calls otherwise")
def old_name(inventory: Inventory) -> Iterator[Remark]:
    for located in inventory.written:
        if is_old(located.value) or not isinstance(located.value.get("spec"), dict):
            continue
        edit = Editor(located.value)
        workloads.modernise(edit)
        for change in edit.changes():
            if change.old is None:
                continue
            old = change.old[-1] if change.old != change.new else change.was
            now = "" if change.new is None else change.new[-1] if change.old != change.new else change.now
            yield Remark(
                located,
                shown(change.old),
                f"{shown(change.old)}: {old} is {now} in v1" if now else f"{old} is gone in v1",
                change.why,
                f"write {now}" if now else "leave it out",
                workloads.modernise,
            )
        for path in workloads.forgotten(located.value):
            yield Remark(
                located,
                shown(path),
                f"no node has the label {workloads.PODS_LABEL}",
                "it went with v1alpha5, so the pods never schedule",
                "ask for karpenter.k8s.aws/instance-cpu or instance-memory instead",
            )


@rule("IN011", "given-twice", _WARNING, "The same object twice in what is checked")
def given_twice(inventory: Inventory) -> Iterator[Remark]:
    seen: dict[tuple[str, str, str], Located] = {}
    for item in inventory.manifests:
        if not item.object.metadata.name:
            continue
        name = (str(item.document.get("apiVersion")), *item.written)
        first = seen.setdefault(name, item.located)
        if first is not item.located and first.source == item.source:
            yield Remark(
                item.located,
                "metadata.name",
                f"{name[1]} {name[2]} is here a second time",
                f"the first is on line {first.line}, and what is applied last wins",
                "keep one of them",
            )


RULES = (
    unreadable,
    refused,
    unknown_field,
    unknown_kind,
    outside_template,
    number_for_text,
    unexpanded_variable,
    old_generation,
    renamed_field,
    old_name,
    given_twice,
    class_setting_in_pool,
    duration_without_unit,
    schedule_without_duration,
    role_and_profile,
)
