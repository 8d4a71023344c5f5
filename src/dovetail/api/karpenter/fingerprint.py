"""Hashes of what a node was made from: when they differ from the pool's or the class's, it has drifted.

As with Karpenter's, no node is replaced for what is said in another way: a list in another order, 60m for 1h,
1024Gi for 1Ti.
"""

from __future__ import annotations

import hashlib
import json

from dovetail.api.codec import encode
from dovetail.api.karpenter.ec2nodeclass import ALIAS_FAMILIES, EC2NodeClass
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.memo import by_identity
from dovetail.units.duration import parse_nillable
from dovetail.units.quantity import parse_quantity

# Karpenter's hashes are versioned v3 (pools) and v6 (classes). Ours are computed otherwise, so they carry a
# version of their own: claims with another version are stamped anew, not replaced.
HASH_VERSION = "dovetail-v4"
CLASS_HASH_VERSION = "dovetail-v7"

_SELECTORS = (
    "amiSelectorTerms",
    "subnetSelectorTerms",
    "securityGroupSelectorTerms",
    "capacityReservationSelectorTerms",
    "placementGroupSelector",
)


def pool_hash(pool: NodePool) -> str:
    """Of the template, requirements left out: those are compared with the claim's labels."""
    template = encode(pool.spec.template)
    spec = template["spec"]
    spec.pop("requirements", None)
    for name in ("expireAfter", "terminationGracePeriod"):
        if name in spec:
            spec[name] = _length(spec[name])
    return _digest(template)


@by_identity(64)
def class_hash(node_class: EC2NodeClass) -> str:
    """Of the spec without its selectors: what those resolve to is compared with the instance.

    The family counts as what it comes to: an alias that says the same as `amiFamily` changes no node.
    """
    spec = {key: value for key, value in encode(node_class.spec).items() if key not in _SELECTORS}
    volumes = (mapping.get("ebs", {}) for mapping in spec.get("blockDeviceMappings", ()))
    for volume in volumes:
        if "volumeSize" in volume:
            volume["volumeSize"] = _size(volume["volumeSize"])
    # Settings of the kubelet are read in their order: it asks the first of its DNS servers first.
    kubelet = json.dumps(spec.pop("kubelet", {}), sort_keys=True)
    return _digest({**spec, "kubelet": kubelet, "amiFamily": _family(node_class)})


def _family(node_class: EC2NodeClass) -> str:
    aliases = (term.alias.partition("@")[0] for term in node_class.spec.ami_selector_terms if term.alias)
    return node_class.spec.ami_family or next((ALIAS_FAMILIES.get(alias, "") for alias in aliases), "AL2023")


def _length(text: str) -> object:
    try:
        return parse_nillable(text)
    except ValueError:
        return text


def _size(text: str | int) -> object:
    """How much that is; the text itself where it says nothing, as Ti, which the schema lets pass."""
    try:
        return parse_quantity(text).nanos
    except ValueError:
        return text


def _digest(document: object) -> str:
    text = _text(document)
    return str(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big"))


def _text(value: object) -> str:
    """As JSON, with the keys of objects and the items of lists in order."""
    if isinstance(value, dict):
        return f"{{{','.join(f'{json.dumps(key)}:{_text(item)}' for key, item in sorted(value.items()))}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(sorted(map(_text, value)))}]"
    return json.dumps(value)
