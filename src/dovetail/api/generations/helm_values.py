"""Values of two Helm charts, old -> today's: karpenter's own, and karpenter-nodepool (pools and classes)."""

from __future__ import annotations

from typing import Any

from dovetail.api.generations.beta_to_v1 import ALIASES
from dovetail.api.generations.editing import Document, Editor, Path
from dovetail.api.generations.upgrade import Trouble, Upgraded

# Settings that were in settings.aws, and where they are.
_MOVED = {
    "clusterName": "clusterName",
    "clusterEndpoint": "clusterEndpoint",
    "interruptionQueueName": "interruptionQueue",
    "isolatedVPC": "isolatedVPC",
    "vmMemoryOverheadPercent": "vmMemoryOverheadPercent",
    "reservedENIs": "reservedENIs",
    "clusterCABundle": "clusterCABundle",
}
# Settings that nothing has taken the place of in the values, and what to do instead.
_GONE = {
    "defaultInstanceProfile": "write it into each EC2NodeClass as instanceProfile, or its role as role",
    "tags": "write them into each EC2NodeClass as tags",
    "enablePodENI": "pods' interfaces are found by the instance type; nothing to do",
    "enableENILimitedPodDensity": "set maxPods in the kubelet of the EC2NodeClass where it was false",
    "nodeNameConvention": "nodes are named by the cloud; nothing to do",
    "assumeRoleARN": "give the role to the service account",
    "assumeRoleDuration": "give the role to the service account",
    "vmCpuOverhead": "nothing to do",
}
_SILENT = ("enablePodENI", "nodeNameConvention", "vmCpuOverhead")


def is_values(document: Document) -> bool:
    """True iff the document is no object but values of one of the charts."""
    if "apiVersion" in document or "kind" in document:
        return False
    chart = any(isinstance(document.get(key), dict) for key in ("nodePool", "ec2NodeClass"))
    settings = document.get("settings")
    own = isinstance(settings, dict) and any(
        key in settings for key in ("aws", "featureGates", "clusterName", "interruptionQueueName")
    )
    return chart or own


def convert(document: Document) -> Upgraded:
    """The values as today's charts take them."""
    result = Upgraded(0, Editor(document))
    _settings(result)
    edit = result.editor
    for name in list(edit.get("nodePool") or {}):
        if isinstance(edit.get("nodePool", name), dict):
            _pool(result, name)
    for name in list(edit.get("ec2NodeClass") or {}):
        if isinstance(edit.get("ec2NodeClass", name), dict):
            _class(edit, ("ec2NodeClass", name))
    return result


def _settings(result: Upgraded) -> None:
    edit = result.editor
    aws = edit.get("settings", "aws")
    for old in list(aws) if isinstance(aws, dict) else ():
        where: Path = ("settings", "aws", old)
        if old in _MOVED:
            edit.move(where, ("settings", _MOVED[old]), "settings of AWS are no longer apart since 0.33")
        elif old in _GONE:
            if old not in _SILENT and edit.get(*where):
                result.troubles.append(Trouble(where, "today's chart has no such setting", _GONE[old]))
            edit.drop(where, f"gone since 0.33: {_GONE[old]}")
    edit.tidy("settings", "aws")
    edit.rename(("settings", "interruptionQueueName"), "interruptionQueue", "called so since 0.33")
    for gate in ("drift", "driftEnabled"):
        where = ("settings", "featureGates", gate)
        if edit.get(*where) is False:
            text, remedy = (
                "drift cannot be switched off in v1",
                "a budget of 0 nodes for reason Drifted does it",
            )
            result.troubles.append(Trouble(where, text, remedy))
        edit.drop(where, "drift is always on in v1")
    edit.tidy("settings", "featureGates")
    edit.drop(
        ("webhook",),
        "v1 has no webhooks of admission; where v1beta1 is still stored, set webhook.enabled anew",
    )


def _pool(result: Upgraded, name: str) -> None:
    edit = result.editor
    where: Path = ("nodePool", name)
    policy: Path = (*where, "disruption", "consolidationPolicy")
    if edit.get(*policy) == "WhenUnderutilized":
        edit.set(policy, "WhenEmptyOrUnderutilized", "called so in v1")
    if isinstance(edit.get(*where, "disruption"), dict) and not edit.has(
        *where, "disruption", "consolidateAfter"
    ):
        why = "v1 wants it said up to Karpenter 1.14; WhenUnderutilized did not wait"
        edit.set((*where, "disruption", "consolidateAfter"), "0s", why)
    expire: Path = (*where, "disruption", "expireAfter")
    edit.move(expire, (*where, "expireAfter"), "it belongs to the node in v1")
    kubelet = edit.get(*where, "kubelet")
    if kubelet is None:
        return
    reference = edit.get(*where, "nodeClassRef", default="default")
    if isinstance(reference, dict):
        reference = reference.get("name", "default")
    target: Path = ("ec2NodeClass", str(reference), "kubelet")
    others = [
        other
        for other, pool in (edit.get("nodePool") or {}).items()
        if other != name
        and isinstance(pool, dict)
        and pool.get("nodeClassRef", "default") in (reference, {"name": reference})
        and pool.get("kubelet") != kubelet
    ]
    if not edit.has("ec2NodeClass", str(reference)) or others or edit.get(*target) not in (None, kubelet):
        text = f"the kubelet's settings belong to ec2NodeClass.{reference} in v1"
        also = (
            f", which {', '.join(others)} use with other settings"
            if others
            else ", which is not in these values"
        )
        remedy = f"move them there, or to a class of its own{also}"
        result.troubles.append(Trouble((*where, "kubelet"), text, remedy))
    elif edit.has(*target):
        edit.drop((*where, "kubelet"), f"it is in ec2NodeClass.{reference}")
    else:
        edit.move((*where, "kubelet"), target, "v1 has the kubelet's settings in the class")


def _class(edit: Editor, where: Path) -> None:
    family, terms = edit.get(*where, "amiFamily"), edit.get(*where, "amiSelectorTerms")
    given = terms if isinstance(terms, list) else [value for value in (terms or {}).values() if value]
    if family in ALIASES and not given:
        alias: list[dict[str, Any]] = [{"alias": f"{ALIASES[family]}@latest"}]
        why = f"no terms meant the newest image of {family}; in v1 that is said"
        edit.drop((*where, "amiSelectorTerms"), "")
        edit.move((*where, "amiFamily"), (*where, "amiSelectorTerms"), why)
        edit.set((*where, "amiSelectorTerms"), alias, why)
    if not edit.has(*where, "metadataOptions", "httpPutResponseHopLimit"):
        limit: Path = (*where, "metadataOptions", "httpPutResponseHopLimit")
        if isinstance(edit.get(*where, "metadataOptions", default={}), dict):
            edit.set(limit, 2, "the old default; v1's is 1")
