"""On which architectures images are known to run (those of nodes where they do), and types of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dovetail.api.core import Pod
from dovetail.model import labels
from dovetail.model.problem import ExistingNode, Problem

_SHOWN = 3

Seen = Mapping[str, Counter[str]]  # image -> architecture -> nodes
Proposal = tuple[Sequence[str], Iterable[str]]  # keys of pods, and types that are proposed for them


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


def other_architectures(problem: Problem, proposals: Iterable[Proposal]) -> Iterator[str]:
    """A warning per architecture that some image was never seen on, though it runs on another one.

    Where images run now is all that is known of them: of one that runs nowhere nothing is said.
    """
    seen = seen_on(problem.nodes)
    if not seen:
        return
    arches = {
        kind.name: kind.requirements.get(labels.ARCH).values
        for pool in problem.pools
        for kind in pool.instance_types
    }
    pods = {pod.key: pod for pod in (*problem.pods, *(pod for node in problem.nodes for pod in node.pods))}
    found: dict[str, dict[str, None]] = {}
    for keys, kinds in proposals:
        wanted = {arch for kind in kinds for arch in arches.get(kind, ())}
        for image in {image for key in keys if key in pods for image in images(pods[key])} & seen.keys():
            for arch in wanted if any(seen[image]) else ():
                if not seen[image][arch]:
                    found.setdefault(arch, {})[image] = None
    for arch, some in sorted(found.items()):
        names = sorted(some)
        known = sorted({one for image in names for one in seen[image] if one})
        more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        yield (
            f"images that run on {' and '.join(known)} here were never seen on {arch}, which types that are "
            f"proposed have: {', '.join(names[:_SHOWN])}{more}. See that they are built for it, or ask for "
            f"kubernetes.io/arch in the NodePool"
        )
