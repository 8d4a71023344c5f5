"""Node groups as eksctl's ClusterConfig and answers of the AWS CLI tell them: what their nodes are like."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]
# Of a type's family: a g after the generation's digit is Graviton's (c7gn, im4gn), as is the first of all.
_ARM = re.compile(r"(?:a1|[a-z]+\d+[a-z]*g[a-z]*)\.")
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
_TEMPLATE = "k8s.io/cluster-autoscaler/node-template/"  # of tags: what Cluster Autoscaler is told of nodes
_ARN = re.compile(r"arn:[a-z-]+:[a-z]+:([a-z0-9-]+):")


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes of one kind; empty where it is not told."""

    name: str
    types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[tuple[str, str, str], ...] = ()  # key, value, effect
    spot: bool = False
    arm: bool = False
    cluster: str = ""
    region: str = ""
    # Of a group that mixes both: so many instances, and percent of the others, are on demand.
    base: int = 0
    above: int = 0


def node_groups(document: Any) -> tuple[str, tuple[NodeGroup, ...]]:
    """What tells of them, and the groups; none of any other document, or where nothing is in it."""
    match document:
        case {"apiVersion": str(version), "kind": "ClusterConfig"} if version.startswith("eksctl.io/"):
            return _found("ClusterConfig", _of_eksctl(document))
        case {"nodegroup": {"nodegroupArn": str()}}:
            return _found("the answer of aws eks describe-nodegroup", [_of_eks(document["nodegroup"])])
        case {"AutoScalingGroups": [*groups]}:
            made = [_of_scaling(one) for one in groups if isinstance(one, dict)]
            return _found("the answer of aws autoscaling describe-auto-scaling-groups", made)
        case {"Reservations": [*reservations]}:
            instances = [
                one for item in reservations for one in _maps(_map(item).get("Instances")) if _is_node(one)
            ]
            return _found("the answer of aws ec2 describe-instances", map(_of_instance, instances))
        case _:
            return "", ()


def _found(what: str, groups: Any) -> tuple[str, tuple[NodeGroup, ...]]:
    return what, tuple(groups)


def _map(value: Any) -> Document:
    return value if isinstance(value, dict) else {}


def _maps(value: Any) -> list[Document]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _texts(*values: Any) -> tuple[str, ...]:
    """All texts among values and lists of them."""
    found = [one for value in values for one in (value if isinstance(value, list) else [value])]
    return tuple(dict.fromkeys(one for one in found if isinstance(one, str) and one))


def _of_eksctl(document: Document) -> Iterator[NodeGroup]:
    meta = _map(document.get("metadata"))
    for key in ("managedNodeGroups", "nodeGroups"):
        for one in _maps(document.get(key)):
            mixed = _map(one.get("instancesDistribution"))
            own = one.get("instanceType") if one.get("instanceType") != "mixed" else ""
            types = _texts(own, one.get("instanceTypes"), mixed.get("instanceTypes"))
            yield NodeGroup(
                str(one.get("name") or key),
                types,
                _texts(one.get("availabilityZones")) or _texts(document.get("availabilityZones")),
                _pairs(one.get("labels")),
                _taints_of_eksctl(one.get("taints")),
                one.get("spot") is True or (bool(mixed) and _on_demand_share(mixed, "onDemand") < 100),
                any(map(_ARM.match, types)),
                str(meta.get("name") or ""),
                str(meta.get("region") or ""),
                *_mixture(mixed, "onDemand"),
            )


def _on_demand_share(mixed: Document, prefix: str) -> float:
    share = mixed.get(f"{prefix}PercentageAboveBaseCapacity", 100)
    return share if isinstance(share, int | float) else 100


def _mixture(mixed: Document, prefix: str) -> tuple[int, int]:
    """What of the group is on demand, as (base, percent above it); (0, 0) where all is of one kind."""
    base, above = mixed.get(f"{prefix}BaseCapacity", 0), _on_demand_share(mixed, prefix)
    valid = type(base) is int and type(above) is int and base >= 0 and 0 <= above < 100
    return (base, int(above)) if valid else (0, 0)


def _pairs(value: Any) -> tuple[tuple[str, str], ...]:
    words = {True: "true", False: "false"}
    return tuple(
        (str(key), words[item] if isinstance(item, bool) else str(item))
        for key, item in sorted(_map(value).items())
    )


def _taints_of_eksctl(value: Any) -> tuple[tuple[str, str, str], ...]:
    """A list of taints, or a map of `value:effect`."""
    if isinstance(value, dict):
        return tuple(_taint(str(key), str(text)) for key, text in sorted(value.items()))
    return tuple(
        (str(one.get("key") or ""), str(one.get("value") or ""), str(one.get("effect") or "NoSchedule"))
        for one in _maps(value)
    )


def _taint(key: str, text: str) -> tuple[str, str, str]:
    value, _, effect = text.rpartition(":")
    return key, value, effect or "NoSchedule"


def _of_eks(group: Document) -> NodeGroup:
    types, region = _texts(group.get("instanceTypes")), _ARN.match(group["nodegroupArn"])
    return NodeGroup(
        str(group.get("nodegroupName") or ""),
        types,
        (),
        _pairs(group.get("labels")),
        tuple(
            (
                str(one.get("key") or ""),
                str(one.get("value") or ""),
                _EFFECTS.get(str(one.get("effect")), "NoSchedule"),
            )
            for one in _maps(group.get("taints"))
        ),
        group.get("capacityType") == "SPOT",
        "ARM" in str(group.get("amiType")) or any(map(_ARM.match, types)),
        str(group.get("clusterName") or ""),
        region[1] if region else "",
    )


def _of_scaling(group: Document) -> NodeGroup:
    tags = {str(one.get("Key")): str(one.get("Value") or "") for one in _maps(group.get("Tags"))}
    mixed = _map(group.get("MixedInstancesPolicy"))
    overrides = _maps(_map(mixed.get("LaunchTemplate")).get("Overrides"))
    instances = _maps(group.get("Instances"))
    types = _texts(*(one.get("InstanceType") for one in (*overrides, *instances)))
    shares = _map(mixed.get("InstancesDistribution"))
    region = _ARN.match(str(group.get("AutoScalingGroupARN")))
    told = sorted(tags.items())
    label, taint = f"{_TEMPLATE}label/", f"{_TEMPLATE}taint/"
    return NodeGroup(
        tags.get("eks:nodegroup-name") or str(group.get("AutoScalingGroupName") or ""),
        types,
        _texts(group.get("AvailabilityZones")),
        tuple((key.removeprefix(label), value) for key, value in told if key.startswith(label)),
        tuple(_taint(key.removeprefix(taint), value) for key, value in told if key.startswith(taint)),
        bool(shares) and _on_demand_share(shares, "OnDemand") < 100,
        any(map(_ARM.match, types)),
        _cluster(tags),
        region[1] if region else "",
        *_mixture(shares, "OnDemand"),
    )


def _cluster(tags: Document) -> str:
    owned = next((key for key in tags if key.startswith("kubernetes.io/cluster/")), "")
    return str(tags.get("eks:cluster-name") or owned.removeprefix("kubernetes.io/cluster/"))


def _is_node(instance: Document) -> bool:
    """True iff it is or may be one of a cluster: what is gone is none."""
    return _map(instance.get("State")).get("Name") in (None, "pending", "running")


def _of_instance(instance: Document) -> NodeGroup:
    tags = {str(one.get("Key")): str(one.get("Value") or "") for one in _maps(instance.get("Tags"))}
    types = _texts(instance.get("InstanceType"))
    return NodeGroup(
        tags.get("eks:nodegroup-name") or tags.get("aws:autoscaling:groupName") or "",
        types,
        _texts(_map(instance.get("Placement")).get("AvailabilityZone")),
        (),
        (),
        instance.get("InstanceLifecycle") == "spot",
        instance.get("Architecture") == "arm64",
        _cluster(tags),
    )
