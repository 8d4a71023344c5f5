"""The text that a new machine runs first: it joins the cluster and does what the class's own user data says.

`bootstrap` gathers what every family needs; `scripts` (AL2, Windows), `nodeadm` (AL2023) and `bottlerocket`
write it; `mime` is a format of it; `check` and `nodeconfig` look at user data without a machine.
"""

from __future__ import annotations

from dovetail.cloud.aws.amifamily.userdata.bootstrap import Bootstrap, Cluster, Kubelets, Machine, bootstrap
from dovetail.cloud.aws.amifamily.userdata.bottlerocket import bottlerocket
from dovetail.cloud.aws.amifamily.userdata.nodeadm import al2023
from dovetail.cloud.aws.amifamily.userdata.scripts import al2, windows

__all__ = ["LARGE_BYTES", "MOST_BYTES", "Bootstrap", "Cluster", "Kubelets", "Machine", "bootstrap", "render"]

MOST_BYTES = 16_384  # as EC2 has it, before base64
LARGE_BYTES = MOST_BYTES * 9 // 10  # from here on it is worth a warning


def render(node: Bootstrap) -> str:
    """The user data of a node, not yet in base64.

    Raises InputError for user data of the class that the family cannot read or take in.
    """
    match node.family:
        case "AL2":
            return al2(node)
        case "AL2023":
            return al2023(node)
        case "Bottlerocket":
            return bottlerocket(node)
        case "Custom":
            return node.custom
    return windows(node)
