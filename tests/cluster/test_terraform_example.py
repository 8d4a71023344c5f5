"""deploy/terraform/examples: what the charts make of the values that Terraform hands them."""

from __future__ import annotations

import re
from pathlib import Path

from dovetail.api.admission import admit
from tests.cluster.helm import render

EXAMPLE = Path(__file__).resolve().parents[2] / "deploy" / "terraform" / "examples" / "seoul"


def test_the_pools_of_the_example_are_taken_by_admission() -> None:
    places = {"cluster": "demo", "node_role": "demo-nodes"}
    text = (EXAMPLE / "pools.yaml.tftpl").read_text()
    values = re.sub(r"\$\{(\w+)\}", lambda match: places[match[1]], text)
    made = {key: admit(document) for key, document in render("dovetail-nodepools", values).items()}
    pool = made["NodePool", "karpenter-node-pool"]["spec"]
    node_class = made["EC2NodeClass", "karpenter-node-template"]["spec"]
    assert pool["template"]["spec"]["expireAfter"] == "720h"
    assert pool["limits"] == {"cpu": "1000", "memory": "1000Gi"}
    assert node_class["role"] == "demo-nodes"
    assert node_class["tags"] == {"karpenter.sh/discovery": "demo"}
    assert node_class["amiSelectorTerms"] == [{"alias": "al2023@v20250403"}]
