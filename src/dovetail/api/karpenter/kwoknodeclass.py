"""karpenter.kwok.sh/v1alpha1 KWOKNodeClass."""

from __future__ import annotations

from typing import ClassVar

from dovetail.api.karpenter.nodeclass import NodeClass
from dovetail.api.meta import Part


class KWOKNodeClassSpec(Part, frozen=True, kw_only=True):
    node_registration_delay: str = "0s"  # how long a node takes to join


class KWOKNodeClass(NodeClass, frozen=True, kw_only=True):
    API_VERSION: ClassVar[str] = "karpenter.kwok.sh/v1alpha1"
    KIND: ClassVar[str] = "KWOKNodeClass"
    PLURAL: ClassVar[str] = "kwoknodeclasses"

    spec: KWOKNodeClassSpec = KWOKNodeClassSpec()
