"""Container images, and the architectures on which they are known to run: those of nodes where they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from dovetail.api.core import Pod
from dovetail.model import labels
from dovetail.model.problem import ExistingNode

Seen = Mapping[str, Counter[str]]  # image -> architecture -> nodes


def images(pod: Pod) -> set[str]:
    """The names of a pod's images."""
    spec = pod.spec
    return {one.image for one in (*spec.init_containers, *spec.containers) if one.image}


def seen_on(nodes: Iterable[ExistingNode]) -> Seen:
    """Where images run; "" for a node that says no architecture."""
    seen: dict[str, Counter[str]] = {}
    for node in nodes:
        arch = node.labels.get(labels.ARCH, "")
        for image in {image for pod in node.pods for image in images(pod)}:
            seen.setdefault(image, Counter())[arch] += 1
    return seen
