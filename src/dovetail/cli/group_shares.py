"""Node groups that mix on-demand and spot: what their pods have to say, as NodePools cannot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dovetail.base.words import number_of
from dovetail.explain.words import listed
from dovetail.model.labels import ON_DEMAND_SHARE
from dovetail.model.on_demand import Share
from dovetail.reading.nodegroups import NodeGroup


def shares_of(groups: Iterable[NodeGroup]) -> Iterator[str]:
    """A line for each mixture: who has it, and what to write into the templates of the pods there."""
    found: dict[Share, dict[str, None]] = {}
    for group in groups:
        if group.base or group.above:
            found.setdefault(Share(group.base, group.above), {})[group.name] = None
    for share, names in found.items():
        those = number_of(len(names), "node group that keeps", "node groups that keep")
        yield (
            f"{those} {_part(share)} off spot: {listed(names)}. A NodePool has no shares, pods have: write "
            f'the annotation {ON_DEMAND_SHARE}: "{share}" and a scheduling gate of that name into the '
            "templates of the pods there (and settings.onDemandShares: true into the chart's values)"
        )


def _part(share: Share) -> str:
    if not share.percent:
        return number_of(share.base, "machine")
    if not share.base:
        return f"{share.percent}% of the machines"
    return f"{number_of(share.base, 'machine')} and {share.percent}% of the others"
