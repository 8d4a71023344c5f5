"""Hashes of what a node was made from: when they differ from the pool's or the class's, it has drifted."""

from __future__ import annotations

import hashlib
import json

from dovetail.api.codec import encode
from dovetail.api.karpenter.ec2nodeclass import ALIAS_FAMILIES, EC2NodeClass
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.memo import by_identity

# Karpenter's hashes are versioned v3 (pools) and v6 (classes). Ours are computed otherwise, so they carry a
# version of their own: claims with another version are stamped anew, not replaced.
HASH_VERSION = "dovetail-v3"
CLASS_HASH_VERSION = "dovetail-v6"

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
    template.get("spec", {}).pop("requirements", None)
    return _digest(template)


@by_identity(64)
def class_hash(node_class: EC2NodeClass) -> str:
    """Of the spec without its selectors: what those resolve to is compared with the instance.

    The family counts as what it comes to: an alias that says the same as `amiFamily` changes no node.
    """
    spec = {key: value for key, value in encode(node_class.spec).items() if key not in _SELECTORS}
    return _digest({**spec, "amiFamily": _family(node_class)})


def _family(node_class: EC2NodeClass) -> str:
    aliases = (term.alias.partition("@")[0] for term in node_class.spec.ami_selector_terms if term.alias)
    return node_class.spec.ami_family or next((ALIAS_FAMILIES.get(alias, "") for alias in aliases), "AL2023")


def _digest(document: object) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return str(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big"))
