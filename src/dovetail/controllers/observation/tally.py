"""Figures of both sides: what the acting controller did, what Dovetail would have done; and their table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.base.clock import HOUR, SECOND, Clock
from dovetail.base.metrics import Metric, Metrics
from dovetail.disrupt.command import Command, moved_pods
from dovetail.model.plan import Plan
from dovetail.units.money import NANO_DOLLARS
from dovetail.units.timestamp import to_rfc3339

HERE, THERE = "dovetail", "acting"  # values of the label `by`

LAUNCHES = Metric(
    "dovetail_observed_launches_total",
    "counter",
    "Nodes that were launched for pending pods, or would have been.",
    ("by", "nodepool"),
)
LAUNCH_COST = Metric(
    "dovetail_observed_launch_cost_dollars_per_hour_total",
    "counter",
    "What those nodes cost, all of them together.",
    ("by",),
)
LAUNCH_BOUND = Metric(
    "dovetail_observed_launch_lower_bound_dollars_per_hour_total",
    "counter",
    "What the pods of those that would have been launched cost at least; proven.",
)
REPLACEMENTS = Metric(
    "dovetail_observed_replacements_total",
    "counter",
    "Nodes that the acting controller launched while no pod waited.",
    ("nodepool",),
)
REMOVALS = Metric(
    "dovetail_observed_removals_total",
    "counter",
    "Nodes that were taken away, or would have been.",
    ("by", "reason"),
)
MOVES = Metric(
    "dovetail_observed_moved_pods_total",
    "counter",
    "Pods that would have been moved by taking nodes away.",
)
SAVING = Metric(
    "dovetail_observed_saving_dollars_per_hour",
    "gauge",
    "What taking nodes away would save now.",
)
SAVED = Metric(
    "dovetail_observed_saved_dollars_total",
    "counter",
    "What that would have saved by now.",
)
ALL = (LAUNCHES, LAUNCH_COST, LAUNCH_BOUND, REPLACEMENTS, REMOVALS, MOVES, SAVING, SAVED)


@dataclass(slots=True)
class Side:
    """One controller's part; money is nano-dollars per hour."""

    launches: int = 0
    hourly: int = 0  # of those launches
    replacements: int = 0
    removals: int = 0
    removed: int = 0  # what the nodes that were taken away had cost


class Tally:
    """Counts from its making on. `acting` did, `here` would have done."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self.since = clock.now()
        self.acting = Side()
        self.here = Side()
        self.bound = 0  # of all launches here, nano-dollars per hour
        self.left_over = 0  # pods that the last plan found no place for
        self.moved = 0
        self.saving = 0  # nano-dollars per hour, as the last finished search found
        self.commands: tuple[str, ...] = ()  # which commands that takes
        self._saved = 0  # nano-dollars until `_until`
        self._until = self.since
        self._clock = clock
        self._metrics = metrics
        metrics.set(SAVING, 0)

    @property
    def saved(self) -> int:
        """Nano-dollars: each saving from when a search found it until one does not any more."""
        return self._saved + self.saving * (self._clock.now() - self._until) // HOUR

    @property
    def seconds(self) -> float:
        """For how long it has counted."""
        return (self._clock.now() - self.since) / 1e9

    def planned(self, plan: Plan) -> None:
        """A plan would have been carried out."""
        self.left_over = len(plan.unschedulable)
        self.here.launches += len(plan.claims)
        self.here.hourly += plan.cost.hourly
        self.bound += plan.cost.lower_bound
        for claim in plan.claims:
            self._metrics.add(LAUNCHES, by=HERE, nodepool=claim.pool)
        if plan.claims:
            self._metrics.add(LAUNCH_COST, plan.cost.hourly / NANO_DOLLARS, by=HERE)
            self._metrics.add(LAUNCH_BOUND, plan.cost.lower_bound / NANO_DOLLARS)

    def launched(self, pool: str, price: int, *, for_pods: bool) -> None:
        """The acting controller's node was launched."""
        if not for_pods:
            self.acting.replacements += 1
            self._metrics.add(REPLACEMENTS, nodepool=pool)
            return
        self.acting.launches += 1
        self.acting.hourly += price
        self._metrics.add(LAUNCHES, by=THERE, nodepool=pool)
        self._metrics.add(LAUNCH_COST, price / NANO_DOLLARS, by=THERE)

    def removed(self, price: int, reason: str) -> None:
        """The acting controller's node is gone."""
        self.acting.removals += 1
        self.acting.removed += price
        self._metrics.add(REMOVALS, by=THERE, reason=reason)

    def disrupted(self, command: Command) -> None:
        """A command that no earlier search had found. A reboot takes no node away."""
        self.moved += moved_pods(command)
        self._metrics.add(MOVES, moved_pods(command))
        if command.reboot:
            return
        gone = len(command.candidates)
        self.here.removals += gone
        # What goes before another one can exist is bought again, if only later.
        self.here.replacements += gone if command.terminate_first else len(command.replacements)
        self.here.removed += sum(view.price or 0 for view in command.candidates)
        self._metrics.add(REMOVALS, gone, by=HERE, reason=command.reason)

    def searched(self, commands: Sequence[Command]) -> None:
        """A search is finished: all that it found."""
        self.settle()
        self.saving = max(0, sum(command.savings for command in commands))
        self.commands = tuple(command.describe() for command in commands)
        self._metrics.set(SAVING, self.saving / NANO_DOLLARS)

    def settle(self) -> None:
        """Bring what is saved up to now."""
        now = self._clock.now()
        more = self.saving * (now - self._until) // HOUR
        self._saved, self._until = self._saved + more, now
        self._metrics.add(SAVED, more / NANO_DOLLARS)

    def figures(self) -> dict[str, object]:
        """Everything, for a line of the log; money in dollars."""
        return {
            "seconds": round(self.seconds),
            "acting": _figures(self.acting),
            "dovetail": {
                **_figures(self.here),
                "launched-lower-bound": _dollars(self.bound),
                "pods-moved": self.moved,
                "pods-left-over": self.left_over,
            },
            "could-save-hourly": _dollars(self.saving),
            "would-have-saved": _dollars(self.saved),
        }


def _figures(side: Side) -> dict[str, object]:
    return {
        "launched": side.launches,
        "launched-hourly-cost": _dollars(side.hourly),
        "replacements": side.replacements,
        "removed": side.removals,
        "removed-hourly-cost": _dollars(side.removed),
    }


def _dollars(nanos: int) -> float:
    return round(nanos / NANO_DOLLARS, 6)


_SHOWN = 10  # commands; further ones are counted


def table(tally: Tally, cluster: tuple[int, int] | None = None) -> str:
    """Plain text. `cluster` is what all nodes cost and must cost, in nano-dollars per hour, once known."""
    acting, here = tally.acting, tally.here
    rows = [
        ("", "acting controller", "Dovetail would have"),
        ("nodes launched for pods that waited", str(acting.launches), str(here.launches)),
        ("  cost per hour", _money(acting.hourly), _money(here.hourly)),
        ("  of that proven necessary", "", _money(tally.bound)),
        ("nodes taken away", str(acting.removals), str(here.removals)),
        ("  cost per hour", _money(acting.removed), _money(here.removed)),
        ("nodes launched in their place", str(acting.replacements), str(here.replacements)),
        ("pods moved by that", "", str(tally.moved)),
    ]
    lines = [f"{name:37}{there:>19}{would:>22}" for name, there, would in rows]
    lines += ["", *_now(tally, cluster)]
    head = f"Observed for {_age(tally.seconds)}, since {to_rfc3339(tally.since // SECOND * SECOND)}."
    return "\n".join([head, "Nothing was written to the cluster.", "", *lines]) + "\n"


def _now(tally: Tally, cluster: tuple[int, int] | None) -> list[str]:
    found = []
    if cluster is not None:
        cost, bound = cluster
        found.append(
            f"The nodes cost {_money(cost)}/h now; their pods need at least {_money(bound)}/h (proven)."
        )
    found.append(f"Taking nodes away would save {_money(tally.saving)}/h now")
    found[-1] += ":" if tally.commands else "."
    found += [f"  {text}" for text in tally.commands[:_SHOWN]]
    if len(tally.commands) > _SHOWN:
        found.append(f"  and {len(tally.commands) - _SHOWN} more")
    found.append(f"It would have saved {_money(tally.saved)} by now.")
    if tally.left_over:
        found.append(f"For {tally.left_over} pod(s) there was no place on any node that could be bought.")
    return found


def _money(nanos: int) -> str:
    return f"${nanos / NANO_DOLLARS:,.4f}"


def _age(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"
