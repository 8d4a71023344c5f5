"""What the node classes of all providers have in common, and KWOKNodeClass (karpenter.kwok.sh/v1alpha1)."""

from __future__ import annotations

from typing import ClassVar

from dovetail.api.meta import Condition, Object, Part


class NodeClassStatus(Part, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()


class NodeClass(Object, frozen=True, kw_only=True):
    """A provider's own part of a NodePool; what its spec holds is the provider's business."""

    NAMESPACED: ClassVar[bool] = False

    status: NodeClassStatus = NodeClassStatus()


class KWOKNodeClassSpec(Part, frozen=True, kw_only=True):
    node_registration_delay: str = "0s"  # how long a node takes to join


class KWOKNodeClass(NodeClass, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "karpenter.kwok.sh/v1alpha1"
    KIND: ClassVar[str] = "KWOKNodeClass"
    PLURAL: ClassVar[str] = "kwoknodeclasses"

    spec: KWOKNodeClassSpec = KWOKNodeClassSpec()
