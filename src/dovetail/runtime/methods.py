"""The methods of disruption in the order in which they are asked, in the controller and in observe mode."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.controllers.context import Context
from dovetail.controllers.disruption.consolidation import Consolidation
from dovetail.controllers.disruption.methods import Emptiness, Method, drift, expiry
from dovetail.controllers.disruption.moves import MoveBook
from dovetail.controllers.disruption.repair import NodeRepair
from dovetail.controllers.disruption.whatif import WhatIf
from dovetail.controllers.static import static_drift, static_expiry
from dovetail.runtime.settings import Settings


def methods(
    context: Context, settings: Settings, what_if: WhatIf, moves: MoveBook, consolidation: Consolidation
) -> Iterator[Method]:
    """As the feature gates have it. A rival's plans heed no book of moves."""
    gates, heeded = settings.gates, None if settings.plain_plans else moves
    if gates.node_repair and not settings.legacy_node_repair:
        first = gates.terminate_first_repair
        yield NodeRepair(context, what_if, settings.repair_policies, terminates_first=first)
    yield Emptiness(context)
    if gates.static_capacity:
        yield static_drift(context, terminates_first=gates.terminate_first_drift)
        yield static_expiry(context)
    yield drift(context, what_if, heeded, terminates_first=gates.terminate_first_drift)
    yield expiry(context, what_if, heeded)
    yield consolidation
