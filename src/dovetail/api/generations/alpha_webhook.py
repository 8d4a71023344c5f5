"""What the webhooks of v1alpha5 and v1alpha1 did with an object: defaults first, then their rules.

Their texts are those of the knative library: faults with the same message share one line with all their
paths, lines are in the order of their messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dovetail.api.generations import alpha_schema, beta_rules
from dovetail.api.schema import unknown_fields
from dovetail.units.quantity import parse_quantity

Document = dict[str, Any]
Spec = dict[str, Any]

CAPACITY_TYPE = "karpenter.sh/capacity-type"
PROVISIONER_NAME = "karpenter.sh/provisioner-name"
CATEGORY, GENERATION = "karpenter.k8s.aws/instance-category", "karpenter.k8s.aws/instance-generation"
# Labels of old clusters, and what they are called today.
STABLE_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}
_SINGLE_DEFAULTS = (
    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
    {"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
)
# Any of these says which instances are meant; else it is these two defaults.
_KINDS_OF_INSTANCES = frozenset(
    {
        "node.kubernetes.io/instance-type",
        "karpenter.k8s.aws/instance-family",
        CATEGORY,
        GENERATION,
    }
)
_INSTANCE_DEFAULTS = (
    {"key": CATEGORY, "operator": "In", "values": ["c", "m", "r"]},
    {"key": GENERATION, "operator": "Gt", "values": ["2"]},
)


def default_requirements(requirements: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The requirements that the defaulting webhook adds at the end, in its order."""
    keys = {STABLE_LABELS.get(key, key) for key in (item.get("key", "") for item in requirements)}
    added = [item for item in _SINGLE_DEFAULTS if item["key"] not in keys]
    if not keys & _KINDS_OF_INSTANCES:
        added += _INSTANCE_DEFAULTS
    return [{**item, "values": list(item["values"])} for item in added]


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken rule: where it is and what the webhook says of it."""

    message: str
    paths: tuple[str, ...]
    details: str = ""


def faults(document: Document) -> tuple[Fault, ...]:
    """The broken rules of a Provisioner or an AWSNodeTemplate that its definition admits, in order.

    Other kinds had no rules. Defaults are taken as filled in.
    """
    kind = (str(document.get("apiVersion")), str(document.get("kind")))
    spec = document.get("spec") or {}
    rules: dict[tuple[str, str], Callable[[Spec], Iterator[Fault]]] = {
        alpha_schema.PROVISIONER: _provisioner,
        alpha_schema.NODE_TEMPLATE: _node_template,
    }
    if kind not in rules:
        return ()
    return _merged([*_metadata(document.get("metadata") or {}), *rules[kind](spec)])


def refusal_text(found: tuple[Fault, ...]) -> str:
    """The text with which the webhook refuses."""
    return "\n".join(
        f"{fault.message}: {', '.join(fault.paths)}" + (f"\n{fault.details}" if fault.details else "")
        for fault in found
    )


def _merged(found: list[Fault]) -> tuple[Fault, ...]:
    together: dict[tuple[str, str], set[str]] = {}
    for fault in found:
        together.setdefault((fault.message, fault.details), set()).update(fault.paths)
    return tuple(
        Fault(message, tuple(sorted(paths)), details)
        for (message, details), paths in sorted(together.items())
    )


def _invalid(value: object, *paths: str, details: str = "") -> Fault:
    return Fault(f"invalid value: {value}", paths, details)


def _invalid_key(key: str, path: str, details: str = "") -> Fault:
    return Fault(f'invalid key name "{key}"', (path,), details)


def _both(*paths: str) -> Fault:
    return Fault("expected exactly one, got both", paths)


def _missing(*paths: str) -> Fault:
    return Fault("missing field(s)", paths)


_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS_1035_WORDS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def _metadata(meta: dict[str, Any]) -> Iterator[Fault]:
    name, prefix = str(meta.get("name") or ""), str(meta.get("generateName") or "")
    for given, field, words in ((prefix, "generateName", "label prefix"), (name, "name", "label")):
        # What ends in a dash is completed by the server.
        whole = given[:-1] + "a" if field == "generateName" and given.endswith("-") else given
        wrong = [] if len(whole) <= 63 else ["must be no more than 63 characters"]
        if given and not _DNS_1035.fullmatch(whole):
            wrong.append(_DNS_1035_WORDS)
        if wrong:
            yield Fault(f"not a DNS 1035 {words}: [{' '.join(wrong)}]", (f"metadata.{field}",))
            return
    if not name and not prefix:
        yield Fault("name or generateName is required", ("metadata.name",))


def _provisioner(spec: Spec) -> Iterator[Fault]:
    empty, expired = spec.get("ttlSecondsAfterEmpty"), spec.get("ttlSecondsUntilExpired")
    if (expired or 0) < 0:
        yield _invalid("cannot be negative", "spec.ttlSecondsUntilExpired")
    if (empty or 0) < 0:
        yield _invalid("cannot be negative", "spec.ttlSecondsAfterEmpty")
    elif empty is not None and (spec.get("consolidation") or {}).get("enabled"):
        yield _both("spec.ttlSecondsAfterEmpty", "spec.consolidation.enabled")
    if "provider" in spec and "providerRef" in spec:
        yield _both("spec.provider", "spec.providerRef")
    if "provider" not in spec and "providerRef" not in spec:
        yield Fault("expected exactly one, got neither", ("spec.provider", "spec.providerRef"))
    yield from _labels(spec.get("labels") or {})
    yield from _taints(spec)
    for index, item in enumerate(spec.get("requirements") or ()):
        yield from _requirement(item, f"spec.requirements[{index}]")
    if spec.get("kubeletConfiguration"):
        yield from _kubelet(spec["kubeletConfiguration"], "spec.kubeletConfiguration")
    if "provider" in spec:
        yield from _inline(spec["provider"])


def _inline(provider: Any) -> Iterator[Fault]:
    """The provider block: the original said nothing of `spec` in its paths."""
    fault = undecodable(provider)
    if fault:
        yield Fault(fault, ("",))
        return
    yield from _aws(provider, "provider")


def undecodable(provider: Any) -> str:
    """Why an inline provider cannot be read at all; empty if it can."""
    if not isinstance(provider, dict):
        return f"converting provider, cannot read {type(provider).__name__} as an object"
    unknown = [f'unknown field "{path}"' for path in unknown_fields(alpha_schema.INLINE, provider)]
    return f"converting provider, strict decoding error: {', '.join(unknown)}" if unknown else ""


_WELL_KNOWN = (
    *(
        f"karpenter.k8s.aws/instance-{name}"
        for name in (
            "accelerator-count",
            "accelerator-manufacturer",
            "accelerator-name",
            "category",
            "cpu",
            "encryption-in-transit-supported",
            "family",
            "generation",
            "gpu-count",
            "gpu-manufacturer",
            "gpu-memory",
            "gpu-name",
            "hypervisor",
            "local-nvme",
            "memory",
            "network-bandwidth",
            "pods",
            "size",
        )
    ),
    CAPACITY_TYPE,
    PROVISIONER_NAME,
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/windows-build",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
)
_RESTRICTED_DOMAINS = ("k8s.io", "karpenter.k8s.aws", "karpenter.sh", "kubernetes.io")
_FREE_DOMAINS = ("kops.k8s.io", "node.kubernetes.io", "node-restriction.kubernetes.io")
_HOSTNAME = "kubernetes.io/hostname"


def _restriction(key: str) -> str:
    """Why users may not set a label; empty if they may."""
    domain = key.rpartition("/")[0]
    free = key in _WELL_KNOWN or domain.endswith(_FREE_DOMAINS)
    if key != _HOSTNAME and (free or not domain.endswith(_RESTRICTED_DOMAINS)):
        return ""
    return (
        f"label {key} is restricted; specify a well known label: [{' '.join(_WELL_KNOWN)}], "
        f"or a custom label that does not use a restricted domain: [{' '.join(_RESTRICTED_DOMAINS)}]"
    )


_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_ALPHANUMERIC = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character"
)
_PART_WORDS = (
    f"{_ALPHANUMERIC} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def _qualified(key: str) -> Iterator[str]:
    """What is wrong with a label key, in the words of Kubernetes 1.28."""
    if key.count("/") > 1:
        yield (
            f"a qualified name {_PART_WORDS[:-1]} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        )
        return
    prefix, slash, part = key.rpartition("/")
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash and len(prefix) > 253:
        yield "prefix part must be no more than 253 characters"
    if slash and prefix and not _SUBDOMAIN.fullmatch(prefix):
        yield f"prefix part {_SUBDOMAIN_WORDS}"
    if not part:
        yield "name part must be non-empty"
    elif len(part) > 63:
        yield "name part must be no more than 63 characters"
    if not _PART.fullmatch(part):
        yield f"name part {_PART_WORDS}"


def _value(value: str) -> Iterator[str]:
    if len(value) > 63:
        yield "must be no more than 63 characters"
    if value and not _PART.fullmatch(value):
        yield _VALUE_WORDS


def _labels(labels: dict[str, str]) -> Iterator[Fault]:
    for key, value in labels.items():
        if key == PROVISIONER_NAME:
            yield _invalid_key(key, "spec.labels", "restricted")
        for wrong in _qualified(key):
            yield _invalid_key(key, "spec.labels", wrong)
        for wrong in _value(value):
            yield _invalid(f"{value}, {wrong}", f"spec.labels[{key}]")
        restriction = _restriction(key)
        if restriction:
            yield _invalid_key(key, "spec.labels", restriction)


def _taints(spec: Spec) -> Iterator[Fault]:
    seen: set[tuple[str, str]] = set()
    for field in ("taints", "startupTaints"):
        for index, taint in enumerate(spec.get(field) or ()):
            key, value, effect = (str(taint.get(part) or "") for part in ("key", "value", "effect"))
            where = f"spec.{field}[{index}]"
            if not key:
                yield _invalid("", where)
            for wrong in (*_qualified(key), *(_qualified(value) if value else ())):
                yield _invalid(wrong, where)
            if effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute", ""):
                yield _invalid(effect, f"spec.effect[{index}]")
            if (key, effect) in seen:
                # Whichever list it is in, the original said taints.
                yield Fault(f"duplicate taint Key/Effect pair {key}={effect}", (f"spec.taints[{index}]",))
            seen.add((key, effect))


_OPERATORS = ("Exists", "DoesNotExist", "In", "NotIn", "Gt", "Lt")


def _requirement(item: dict[str, Any], where: str) -> Iterator[Fault]:
    key = str(item.get("key", ""))
    if key == PROVISIONER_NAME:
        yield _invalid(f"{key} is restricted", where)
    wrong = "; ".join(_requirement_faults(STABLE_LABELS.get(key, key), item))
    if wrong:
        yield _invalid(wrong, where)


def _requirement_faults(key: str, item: dict[str, Any]) -> Iterator[str]:
    operator, values = item.get("operator"), item.get("values") or []
    if operator not in _OPERATORS:
        yield f"key {key} has an unsupported operator {operator} not in [{' '.join(_OPERATORS)}]"
    restriction = _restriction(key)
    if restriction:
        yield restriction
    for wrong in _qualified(key):
        yield f"key {key} is not a qualified name, {wrong}"
    for value in values:
        for wrong in _value(value):
            yield f"invalid value {value} for key {key}, {wrong}"
    if operator == "In" and not values:
        yield f"key {key} with operator In must have a value defined"
    # The original crashed at no value at all.
    if operator in ("Gt", "Lt") and not (len(values) == 1 and re.fullmatch(r"\+?[0-9]{1,18}", values[0])):
        yield f"key {key} with operator {operator} must have a single positive integer value"


def _kubelet(kubelet: dict[str, Any], where: str) -> Iterator[Fault]:
    for field in ("evictionHard", "evictionSoft"):
        yield from _thresholds(kubelet.get(field) or {}, f"{where}.{field}")
    for field in ("kubeReserved", "systemReserved"):
        for key, amount in (kubelet.get(field) or {}).items():
            if key not in beta_rules.RESERVED:
                yield _invalid_key(key, f"{where}.{field}")
            if str(amount).startswith("-"):
                text = "Value cannot be a negative resource quantity"
                yield _invalid(amount, f'{where}.{field}["{key}"]', details=text)
    high, low = kubelet.get("imageGCHighThresholdPercent"), kubelet.get("imageGCLowThresholdPercent") or 0
    if high is not None and high < low:
        yield _invalid(
            "must be greater than imageGCLowThresholdPercent", f"{where}.imageGCHighThresholdPercent"
        )
        yield _invalid("must be less than imageGCHighThresholdPercent", f"{where}.imageGCLowThresholdPercent")
    soft, grace = kubelet.get("evictionSoft") or {}, kubelet.get("evictionSoftGracePeriod") or {}
    for key in grace:
        if key not in beta_rules.SIGNALS:
            yield _invalid_key(key, f"{where}.evictionSoftGracePeriod")
    for key in soft.keys() - grace.keys():
        text = "Key does not have a matching evictionSoftGracePeriod"
        yield _invalid_key(key, f"{where}.evictionSoft", text)
    for key in grace.keys() - soft.keys():
        text = "Key does not have a matching evictionSoft threshold value"
        yield _invalid_key(key, f"{where}.evictionSoftGracePeriod", text)


_QUANTITY_REGEX = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"


def _thresholds(thresholds: dict[str, str], where: str) -> Iterator[Fault]:
    for key, value in thresholds.items():
        if key not in beta_rules.SIGNALS:
            yield _invalid_key(key, where)
        if value.endswith("%"):
            wrong = _share(value.strip("%"))
            if wrong:
                yield _invalid(value, f'{where}["{key}"]', details=wrong)
            continue
        try:
            parse_quantity(value)
        except ValueError:
            text = (
                "Value could not be parsed as a resource quantity, quantities must match the regular "
                f"expression '{_QUANTITY_REGEX}'"
            )
            yield _invalid(value, f"{where}[{key}]", details=text)


def _share(text: str) -> str:
    """What is wrong with a percentage; empty if nothing is."""
    try:
        share = float(text)
    except ValueError:
        return (
            f'Value could not be parsed as a percentage value, strconv.ParseFloat: parsing "{text}": '
            "invalid syntax"
        )
    if share < 0:
        return "Percentage values cannot be negative"
    return "Percentage values cannot be greater than 100" if share > 100 else ""


def _node_template(spec: Spec) -> Iterator[Fault]:
    yield from _aws(spec, "spec.provider")
    template = "launchTemplate" in spec
    if template and "userData" in spec:
        yield _both("spec.userData", "spec.launchTemplate")
    if "amiSelector" in spec:
        if template:
            yield _both("spec.amiSelector", "spec.launchTemplate")
        yield from _selector(spec["amiSelector"], "spec.amiSelector", "ami", "ami-id")
    if spec.get("amiFamily") == "Custom" and "amiSelector" not in spec:
        yield _missing("spec.amiSelector")
    for key in spec.get("tags") or {}:
        for pattern in _RESTRICTED_TAGS:
            if re.search(pattern, key):
                shown = pattern.replace("\\", "\\\\")
                yield _invalid_key(key, "spec.tags", f'tag contains a restricted tag matching "{shown}"')


_RESTRICTED_TAGS = (
    r"^kubernetes\.io/cluster/[0-9A-Za-z][A-Za-z0-9\-_]*$",
    r"^karpenter\.sh/provisioner-name$",
    r"^karpenter\.sh/managed-by$",
)
_FAMILIES = ("Bottlerocket", "AL2", "Ubuntu", "Windows2019", "Windows2022", "Custom")
_VOLUMES = ("standard", "io1", "io2", "gp2", "sc1", "st1", "gp3")
_OPTIONS = {
    "httpEndpoint": ("disabled", "enabled"),
    "httpProtocolIPv6": ("disabled", "enabled"),
    "httpTokens": ("optional", "required"),
}


def _aws(spec: Spec, where: str) -> Iterator[Fault]:
    """The rules that an AWSNodeTemplate and an inline provider share."""
    template = "launchTemplate" in spec
    if template:
        for field in ("securityGroupSelector", "metadataOptions", "amiFamily", "instanceProfile"):
            if field in spec:
                yield _both(f"{where}.launchTemplate", f"{where}.{field}")
        if spec.get("blockDeviceMappings"):
            yield _both(f"{where}.launchTemplate", f"{where}.blockDeviceMappings")
    if "subnetSelector" not in spec:
        yield _missing(f"{where}.subnetSelector")
    yield from _selector(spec.get("subnetSelector") or {}, f"{where}.subnetSelector", "subnet", "subnet-id")
    if not template:
        if "securityGroupSelector" not in spec:
            yield _missing(f"{where}.securityGroupSelector")
        groups = spec.get("securityGroupSelector") or {}
        yield from _selector(groups, f"{where}.securityGroupSelector", "sg", "group-id")
    if "" in (spec.get("tags") or {}):
        value = spec["tags"][""]
        text = (
            f"the tag with key : '' and value : '{value}' is invalid because empty tag keys aren't supported"
        )
        yield _invalid(text, f"{where}.tags")
    yield from _metadata_options(spec.get("metadataOptions") or {}, f"{where}.metadataOptions")
    if "amiFamily" in spec:
        yield from _one_of(spec["amiFamily"], _FAMILIES, f"{where}.amiFamily")
    for index, mapping in enumerate(spec.get("blockDeviceMappings") or ()):
        yield from _mapping(mapping, f"{where}.blockDeviceMappings[{index}]")


def _selector(selector: dict[str, str], where: str, prefix: str, what: str) -> Iterator[Fault]:
    for key, value in selector.items():
        if not key or not value:
            yield _invalid('""', f"{where}['{key}']")
        if key in ("aws-ids", "aws::ids"):
            pattern = f"{prefix}-[0-9a-z]+"
            for item in (part.strip() for part in value.split(",")):
                if not re.search(pattern, item):
                    yield _invalid(f'"{item}"', f"{where}['{key}'] must be a valid {what} (regex: {pattern})")
            if len(selector) > 1:
                text = "filter is mutually exclusive, cannot be set with a combination of other filters in"
                yield Fault(f'"{key}" {text}', (where,))


def _metadata_options(options: dict[str, Any], where: str) -> Iterator[Fault]:
    for field, valid in _OPTIONS.items():
        if field in options:
            yield from _one_of(options[field], valid, f"{where}.{field}")
    limit = options.get("httpPutResponseHopLimit", 1)
    if not 1 <= limit <= 64:
        yield Fault(f"expected 1 <= {limit} <= 64", (f"{where}.httpPutResponseHopLimit",))


def _one_of(value: str, valid: tuple[str, ...], where: str) -> Iterator[Fault]:
    if value not in valid:
        yield _invalid(f"{value} not in {', '.join(valid)}", where)


def _mapping(mapping: dict[str, Any], where: str) -> Iterator[Fault]:
    if "deviceName" not in mapping:
        yield _missing(f"{where}.deviceName")
    if "ebs" not in mapping:
        yield _missing(f"{where}.ebs")
        return
    ebs = mapping["ebs"]
    if "volumeType" in ebs:
        yield from _one_of(ebs["volumeType"], _VOLUMES, f"{where}.ebs.volumeType")
    if "volumeSize" not in ebs:
        if "snapshotID" not in ebs:
            yield _missing(f"{where}.ebs.volumeSize")
        return
    size = parse_quantity(ebs["volumeSize"])
    if size < parse_quantity("1G") or parse_quantity("64T") < size:
        yield Fault(f"expected 1G <= {size} <= 64T", (f"{where}.ebs.volumeSize",))
