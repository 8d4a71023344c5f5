"""Documents that tests and benchmarks of a whole cluster have in common."""

from __future__ import annotations

from typing import Any

DISCOVERY = "karpenter.sh/discovery"


def node_class(cluster: str = "demo", *, tag: str = DISCOVERY) -> dict[str, Any]:
    """The EC2NodeClass `default`: subnets and groups with that tag of the cluster, the newest AL2023."""
    terms = [{"tags": {tag: cluster}}]
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": terms,
            "securityGroupSelectorTerms": terms,
        },
    }
