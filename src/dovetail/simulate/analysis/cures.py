"""What cures a pod's waiting, by what stood in its way: the words of its event, or of its failed launch.

Each entry is a cause of its own. What no entry knows gets no cure that might be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_UNKNOWN = "what is in brackets keeps it from the NodePools; it is to be mended first"
_MOST = 3  # cures of one pod, where NodePools refuse it for different reasons

# The first that matches of each reason counts. Groups of the pattern may stand in the cure.
_BLOCKED: tuple[tuple[str, str], ...] = (
    (
        r"\$\{?(?P<name>\w+)\}?' is a variable",
        "put the value in the place of ${{{name}}} before the manifest is applied, as envsubst does",
    ),
    (
        r"AMISelector did not match any AMIs",
        "no image is found, so no node can start: correct amiSelectorTerms of the EC2NodeClass (alias, name, "
        "owner, architecture)",
    ),
    (
        r"(?:Subnet|SecurityGroup)Selector did not match",
        "tag the subnets and security groups as the EC2NodeClass selects them, or correct its selector terms",
    ),
    (r"NodeClass not found", "create the node class that the NodePool's nodeClassRef names"),
    (r"no nodepools found \(", "get the NodePool ready: what is in brackets keeps it from buying any node"),
    (r"no nodepools found", "create a NodePool: there is none that may buy"),
    (
        r'label "(?P<key>[^"]+)" does not have known values',
        "no NodePool defines the label {key}: put it under spec.template.metadata.labels of one, or take it "
        "out of the pod's nodeSelector and affinity",
    ),
    (
        r"key karpenter\.sh/nodepool, karpenter\.sh/nodepool In \[(?P<name>[^\]]*)\]",
        "the pod asks for a NodePool that may not buy or is not there: create {name}, or take it out of the "
        "pod's nodeSelector and affinity",
    ),
    (
        r"incompatible requirements, key (?P<key>\S+),",
        "no NodePool allows the {key} that the pod asks for: widen a NodePool's requirements, or change the "
        "pod's nodeSelector and affinity",
    ),
    (r"incompatible requirements", "no NodePool can meet the pod's node affinity: widen one of the two"),
    (
        r"exceed limits for nodepool|limits have been exhausted",
        "raise spec.limits of the NodePool, or let another one take these pods",
    ),
    (r"did not tolerate taint", "give the pod a toleration, or have a NodePool without that taint"),
    (
        r"quota|VcpuLimitExceeded",
        "ask AWS for a larger quota (Service Quotas), or allow types that count for another one",
    ),
    (
        r"not enough is left of addresses|InsufficientFreeAddresses",
        "select further subnets, or larger ones: their addresses are used up",
    ),
    (r"minValues", "allow more instance types in the NodePool, or lower minValues"),
    (
        r"enough resources|required resources",
        "allow larger instance types in the NodePool, or such as have all that the pod asks for (GPUs, "
        "hugepages), or have the pod ask for less",
    ),
    (
        r'(?P<kind>storageclass|persistentvolumeclaim|persistentvolume)\S* "(?P<name>[^"]+)" not found',
        "create the {kind} {name}, or name one that is there",
    ),
    (
        r"unbound pvc must define a storage class",
        "add a StorageClass with the annotation storageclass.kubernetes.io/is-default-class, or name one in "
        "the claim",
    ),
    (
        r"topology constraint",
        "the rule about other pods leaves no place: relax the spread or affinity, or allow more zones",
    ),
    (
        r"reserved offerings? (is|are) full",
        "allow on-demand or spot capacity beside the reservation, or reserve more",
    ),
    (
        r"required offering|requirements/resources/offering|filtered out all available",
        "no type that the NodePool allows is sold in such a zone and capacity type: widen its requirements",
    ),
)
_SOFT = "incompatible requirements"  # of several NodePools, those that are not meant for the pod refuse it so

CAPACITY = (
    "capacity was short and earlier launches came to nothing; more instance types, zones or capacity types "
    "in the pool make that rarer"
)
NEVER_JOINED = (
    "instances started and never became nodes; look at the role of the nodes (an access entry or aws-auth of "
    "the cluster has to know it), the security groups, the route to the API server and the user data"
)
_FAILED: tuple[tuple[str, str], ...] = (
    (r"[Qq]uota|VcpuLimitExceeded|MaxSpotInstanceCountExceeded", ""),
    (r"InsufficientFreeAddresses", ""),
    (
        r"UnauthorizedOperation|AccessDenied|not authorized",
        "give the controller the permission that it lacks",
    ),
)


def of_refusal(message: str) -> str:
    """Of a pod that no NodePool could take; `message` is that of its event, without its beginning."""
    return "; or ".join(list(dict.fromkeys(_cures(message)))[:_MOST]) or _UNKNOWN


def of_failure(message: str) -> str:
    """Of launches, the last of which failed with this message; "": it never became a node."""
    if not message:
        return NEVER_JOINED
    for pattern, cure in _FAILED:
        if re.search(pattern, message):
            return cure or of_refusal(message)
    return CAPACITY


def of_preemption(owner: str) -> str:
    """Of a pod that waits for room which pods of a higher priority took from its owner's pods."""
    name = "system-node-critical, say" if owner.startswith("DaemonSet/") else "as high as theirs"
    return (
        f"pods of a higher priority took the room of this owner's pods; a priorityClassName, {name}, keeps it"
    )


def _cures(message: str) -> Iterator[str]:
    parts = [message] if message.startswith("no nodepools found") else message.split("; ")
    meant = [part for part in parts if not part.startswith(_SOFT)] or parts
    for part in meant:
        for pattern, cure in _BLOCKED:
            if found := re.search(pattern, part):
                yield cure.format(**found.groupdict())
                break
