"""Why a pod keeps off spot."""

from __future__ import annotations

from dovetail.api.core import Pod
from dovetail.base.words import number_of
from dovetail.model.labels import ON_DEMAND_SHARE
from dovetail.model.on_demand import Siblings, asks, gated, held, maker_of, passed, share_of
from dovetail.model.problem import Problem


def off_spot(pod: Pod, problem: Problem) -> str:
    """A sentence; "" for a pod that may go to spot. The pods that it is counted with are the problem's.

    Time: O(pods).
    """
    if gated(pod):
        try:
            share_of(pod)
        except ValueError as error:
            return f"It waits at its scheduling gate {ON_DEMAND_SHARE} until it is replaced: {error}."
        return f"It waits at its scheduling gate {ON_DEMAND_SHARE} to be told whether it keeps off spot."
    if not held(pod):
        return ""
    if not passed(pod):
        return "It keeps off spot by its own node selector or required node affinity."
    try:
        share = share_of(pod)
    except ValueError:  # the annotation was changed after the pod was told
        return f"It was told at its scheduling gate {ON_DEMAND_SHARE} to keep off spot."
    maker = maker_of(pod)
    there = (*problem.pods, *(one for node in problem.nodes for one in node.pods))
    siblings = Siblings(one for one in there if asks(one) and maker_of(one) == maker)
    kind, name = maker.split("/")[1:3]
    wanted = number_of(share.of(siblings.pods), "is", "are")
    found = number_of(siblings.held, "does", "do")
    return (
        f'It keeps off spot for its workload\'s share, {ON_DEMAND_SHARE}: "{share}": of the '
        f"{number_of(siblings.pods, 'pod')} of {kind} {name}, {wanted} to, and {found}."
    )
