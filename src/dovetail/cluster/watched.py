"""Which kinds are watched: what the state of the cluster is made of."""

from __future__ import annotations

from dovetail.api import core, workloads
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.api.scheme import NODE_CLASSES
from dovetail.cluster.default_spreads import SELECTING

Kinds = tuple[tuple[str, str], ...]

_ALWAYS: tuple[type[Object], ...] = (
    NodePool,
    NodeClaim,
    core.Node,
    core.Pod,
    workloads.DaemonSet,
    workloads.PodDisruptionBudget,
    workloads.StorageClass,
    core.PersistentVolume,
    core.PersistentVolumeClaim,
    workloads.CSINode,
)


def watched(kinds: Kinds | None, *, spreading: bool = False) -> tuple[type[Object], ...]:
    """All kinds that are watched: those of every provider, and the node classes of the provider.

    `spreading`: the scheduler has default spread constraints, so what selects and owns pods as well.
    """
    classes = [NODE_CLASSES[kind] for kind in (NODE_CLASSES if kinds is None else kinds)]
    return (core.Namespace, *classes, *_ALWAYS, *(SELECTING if spreading else ()))
