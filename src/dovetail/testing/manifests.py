"""Documents that tests and benchmarks of a whole cluster have in common."""

from __future__ import annotations

from typing import Any

DISCOVERY = "karpenter.sh/discovery"


def node_class(
    cluster: str = "demo", *, tag: str = DISCOVERY, image: str = "al2023@latest"
) -> dict[str, Any]:
    """The EC2NodeClass `default`: subnets and groups with that tag of the cluster, images of that alias."""
    terms = [{"tags": {tag: cluster}}]
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": image}],
            "subnetSelectorTerms": terms,
            "securityGroupSelectorTerms": terms,
        },
    }
