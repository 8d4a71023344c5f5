"""Decisions of disruption as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.consolidation.balanced import Score
from dovetail.model.plan import PlannedClaim
from dovetail.units.money import NANO_DOLLARS

EMPTY = "Empty"
DRIFTED = "Drifted"
EXPIRED = "Expired"
UNDERUTILIZED = "Underutilized"
UNHEALTHY = "Unhealthy"
# On a NodeClaim that was bought in place of others: the command, as JSON.
REPLACES = "dovetail.dev/replaces"
# Why a node goes first that is replaced: its reservation is full, or its static pool at its limit.
NO_RESERVED_CAPACITY, STATIC_AT_LIMIT = "no-reserved-capacity", "static-at-limit"
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Weighed:
    """What a search for a command saw. Money in nano-dollars per hour.

    `others` are (nodes, replacements, saving) of moves that were found as well; `tried` counts what was
    planned. `hourly` is what all nodes that may go cost, `bound` what their pods cost at least.
    """

    others: tuple[tuple[int, int, int], ...]
    tried: int
    hourly: int
    bound: int

    def record(self) -> dict[str, object]:
        """For the decision record."""
        return {
            "tried": self.tried,
            "hourly": self.hourly,
            "lowerBound": self.bound,
            "alternatives": [
                {"nodes": nodes, "replacements": bought, "savings": saving}
                for nodes, bought, saving in self.others
            ],
        }


@dataclass(frozen=True, slots=True)
class Repair:
    """What is wrong with a node that goes, and how long (ns) its pods may take; None as its claim says.

    `again`: so many nodes before it, each bought in place of the one before, went for the same condition.
    """

    condition: str
    grace: int | None = None
    again: int = 0


@dataclass(frozen=True, slots=True)
class Command:
    """Delete these nodes, for this reason. Candidates are in the order in which they were chosen.

    `replacements` are launched first, and nothing is deleted before they are up. `used` names nodes that
    stay and that pods of the candidates are meant to move to. Of those in `places`, and of replacements (by
    the name that these have in the plan), it is known which pods (by key): these are promised their places as
    the command begins. `repair` is of one whose node is unhealthy. `terminate_first` says why the node goes
    before its replacement can exist; that is bought once its place is free. `reboot` says why the node is
    rebooted instead of deleted: its condition, and the reason of that.
    """

    reason: str
    candidates: tuple[NodeView, ...]
    replacements: tuple[PlannedClaim, ...] = ()
    used: tuple[str, ...] = ()
    scores: tuple[Score, ...] = ()  # what consolidation saves for what it disrupts, per pool
    weighed: Weighed | None = None  # what consolidation knew beside it
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    repair: Repair | None = None
    terminate_first: str = ""
    reboot: str = ""

    @property
    def decision(self) -> str:
        if self.reboot:
            return "reboot"
        if self.terminate_first:
            return "terminate-first"
        return "replace" if self.replacements else "delete"

    @property
    def savings(self) -> int:
        """Nano-dollars per hour that the candidates cost and the replacements do not, without surcharges."""
        if self.reboot or self.terminate_first:
            return 0  # the node comes back, or another one like it
        return sum(view.price or 0 for view in self.candidates) - sum(
            claim.price - claim.surcharge for claim in self.replacements
        )

    def describe(self, why: str = "") -> str:
        """In the words of the events: what is done to which nodes (at most five are named), and why not."""
        pools = " ".join(sorted({view.pool_name for view in self.candidates}))
        nodes = [view.name for view in self.candidates]
        more = f" and {len(nodes) - _NAMED} other(s)" if len(nodes) > _NAMED else ""
        text = f"{self.decision}: nodepools=[{pools}]: [{' '.join(nodes[:_NAMED])}{more}]"
        if self.replacements:
            count = len(self.replacements)
            text += f" -> [{count} replacement{'s' if count > 1 else ''}]"
        if why:
            text += f", reason: {why}"
        return f"{text} (savings: ${self.savings / NANO_DOLLARS:.2f})"

    def names(self) -> tuple[str, ...]:
        """Names of all claims and nodes that it deletes."""
        claims = [view.claim.metadata.name for view in self.candidates]
        return (*claims, *(view.node.metadata.name for view in self.candidates if view.node))


def moved_pods(command: Command) -> int:
    """How many pods have to go elsewhere."""
    return sum(len(view.moving) for view in command.candidates)


@dataclass(frozen=True, slots=True)
class Note:
    """A message for the user about a node (and its claim) or a pool: becomes an event."""

    subject: str  # name of the claim or of the pool
    reason: str  # of the event: DisruptionBlocked, Unconsolidatable
    message: str
    on_pool: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """What a method answers: a command or None, and the notes it made on the way."""

    command: Command | None
    notes: tuple[Note, ...] = ()
    next: tuple[str, ...] | None = None  # nodes that it takes next, the first in front; None if as before
    more: bool = False  # True iff it has more to look at although nothing changes
    soon: bool = False  # True iff time alone changes the answer before long
