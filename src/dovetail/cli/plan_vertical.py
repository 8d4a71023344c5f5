"""Requests that VerticalPodAutoscalers change as pods are made: no manifest holds them."""

from __future__ import annotations

from dovetail.model.podtemplate import Workload
from dovetail.reading import Reading

_SHOWN = 3


def vertical_remark(reading: Reading) -> str:
    """What is to be said of workloads whose new pods ask for other than is written; "" where none do."""
    here = {item.written for item in reading.manifests if isinstance(item.object, Workload)}
    here |= {item.written for item in reading.manifests if item.object.KIND == "DaemonSet"}
    found = []
    for one in reading.vertical_autoscalers:
        if one.changes_pods and one.recommended and one.target in here:
            asked: dict[str, list[str]] = {}
            for (container, resource), each in sorted(one.recommended.items()):
                asked.setdefault(container, []).append(f"{resource} {each.target}")
            listed = "; ".join(f"{name} {', '.join(parts)}" for name, parts in asked.items())
            found.append(f"{' '.join(one.target)} ({listed})")
    if not found:
        return ""
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return (
        "VerticalPodAutoscalers would change the requests of new pods, which are counted as written: "
        f"{', '.join(found[:_SHOWN])}{more}; dovetail rightsize counts what they recommend"
    )
