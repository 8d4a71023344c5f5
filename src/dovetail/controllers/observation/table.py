"""The figures of an observation, to read."""

from __future__ import annotations

from dovetail.base.clock import SECOND
from dovetail.controllers.observation.tally import Tally
from dovetail.model.offering import NANO_DOLLARS
from dovetail.units.timestamp import to_rfc3339

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
