"""What DaemonSets bring to nodes."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.api.core import Pod, Taint
from dovetail.api.workloads import DaemonSet
from dovetail.model.arrays import Axis
from dovetail.model.matching import untolerated
from dovetail.model.ports import host_ports
from dovetail.model.problem import ExistingNode
from dovetail.model.requirement import pod_requirements
from dovetail.model.resources import pod_requests


class Daemon:
    """One DaemonSet's pod, as every node that it matches will run it."""

    def __init__(self, daemonset: DaemonSet, axis: Axis) -> None:
        template = daemonset.spec.template
        pod = Pod(metadata=daemonset.metadata, spec=template.spec)
        self.vector = axis.vector(pod_requests(pod))
        self.ports = host_ports(pod)
        self.alternatives = pod_requirements(pod)
        self.tolerations = template.spec.tolerations

    def tolerates(self, taints: Iterable[Taint]) -> bool:
        """True iff no hard taint keeps it away."""
        return untolerated(taints, self.tolerations, soft=False) is None

    def comes_to(self, node: ExistingNode) -> bool:
        """True iff the node runs it, or will."""
        return node.lets_in(self.alternatives, self.tolerations)


def node_of(pod: Pod) -> str:
    """The node that a DaemonSet's pod is on, or is meant for; "" where it names none."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity
    required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    for term in required.node_selector_terms if required is not None else ():
        for field in term.match_fields:
            if field.operator == "In" and len(field.values) == 1:
                return field.values[0]
    return ""
