"""NP026: annotations by which people tell Dovetail what to do with a NodePool."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.base.guess import nearest
from dovetail.disrupt.consolidation.churn import MOVED_PODS
from dovetail.disrupt.consolidation.saving import MINIMUM_SAVING
from dovetail.disrupt.faults import UNREADABLE, pool_faults
from dovetail.lint.finding import Remark, Severity, rule
from dovetail.lint.inventory import Inventory
from dovetail.model import labels

_OURS = "dovetail.dev/"
_KNOWN = (
    labels.PAUSE,
    labels.EXPIRATION,
    labels.TIME_ZONE,
    labels.MINIMUM_NODES,
    labels.CONFIRM_TERMINATION,
    MINIMUM_SAVING,
    MOVED_PODS,  # written by the controller
)


@rule("NP026", "annotation-unreadable", Severity.ERROR, "An annotation of Dovetail's that says nothing")
def annotation_unreadable(inventory: Inventory) -> Iterator[Remark]:
    for view in inventory.pools:
        for fault in pool_faults(view.pool):
            if fault.reason == UNREADABLE:
                path = f"metadata.annotations.{fault.place}"
                yield Remark(
                    view.manifest.located,
                    path,
                    fault.message,
                    "the NodePool has an event InvalidAnnotation",
                    "",
                )
        for key in view.pool.metadata.annotations:
            if key.startswith(_OURS) and key not in _KNOWN:
                close = nearest(key, _KNOWN)
                yield Remark(
                    view.manifest.located,
                    f"metadata.annotations.{key}",
                    f"{key} is no annotation of a NodePool that Dovetail knows",
                    "it changes nothing",
                    f"did you mean {close[0]}?" if close else f"valid are {', '.join(_KNOWN[:-1])}",
                )
