"""`dovetail outage`: a zone is lost; which pods come back, how fast, and at what cost."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from dovetail.base.errors import InputError
from dovetail.base.words import number_of

if TYPE_CHECKING:
    from dovetail.simulate.questions.outage import Recovery

_SHOWN = 10
_MOST_ADDRESSES = 1 << 24  # of 10.0.0.0/8


def outage(
    scenario: Path,
    *,
    zone: str,
    after: str = "20m",
    watch: str = "30m",
    types: str = "",
    capacity: str = "",
    free: str = "",
    warned: Annotated[bool, Parameter(negative="")] = False,
    seed: int | None = None,
    keep: Path | None = None,
    output: Annotated[Literal["table", "json"], Parameter(alias="-o")] = "table",
) -> None:
    """Lose the machines of a zone, and show whether the pods come back, how fast, and at what cost.

    From then on the zone sells nothing that was lost. What holds pods back is shown: addresses that run out,
    volumes that only nodes of the zone can reach, pools and rules that allow no other zone.

    Examples:

    - `dovetail outage last-week --zone us-east-1a`
    - `dovetail outage last-week --zone us-east-1a --capacity spot --types m,c,r --warned`
    - `dovetail outage last-week --zone us-east-1a --free us-east-1b=420,us-east-1c=60`

    Parameters
    ----------
    scenario
        The folder with a scenario.yaml; `dovetail replay --keep` makes one of a real cluster.
    zone
        The zone that is lost.
    after
        When, from the start of the scenario, less than a day: time for the cluster to come up before.
    watch
        How long is played from then on.
    types
        Only instance types that begin with one of these, such as m,c,r or m5.
    capacity
        Only spot, or only on-demand.
    free
        Addresses that the zones' subnets have left at the start, as ZONE=NUMBER,ZONE=NUMBER.
    warned
        Spot instances are interrupted with two minutes' warning, instead of being gone at once.
    seed
        Luck; the scenario's own by default.
    keep
        Write the scenario with the outage into this new folder, for `dovetail simulate`.
    output
        An answer to read, or JSON.
    """
    from dovetail.cli.messages import notes
    from dovetail.cli.runs_output import remark, time_of
    from dovetail.cli.simulate_live import live_view
    from dovetail.simulate.questions.outage import Outage, addition, families, recovery
    from dovetail.simulate.questions.stage import staged
    from dovetail.simulate.run import simulate
    from dovetail.simulate.scenario.scenario import load

    known = load(scenario)
    notes(known.notes)
    begins, length = time_of(after, "--after"), time_of(watch, "--watch")
    if capacity not in ("", "spot", "on-demand"):
        raise InputError(
            f"{capacity!r} is no capacity type", source="--capacity", remedy="give spot or on-demand"
        )
    wanted = tuple(part.strip() for part in types.split(",")) if types else ()
    what = Outage(
        zone,
        begins,
        families(known.file.region, wanted),
        (capacity,) if capacity else (),
        warned,
        _free(free),
    )
    with staged(scenario, addition(known, what, length), keep) as folder:
        played = load(folder)
        if seed is not None:
            played = played.seeded(seed)
        with live_view(played) as listener:
            found = recovery(simulate(played, listener=listener), begins)
    if output == "json":
        print(json.dumps(asdict(found), indent=2))
    else:
        _print(found, zone)
    if keep is not None:
        remark(f"Scenario: {keep}")


def _free(text: str) -> tuple[tuple[str, int], ...]:
    found: list[tuple[str, int]] = []
    for part in text.split(",") if text else ():
        name, equals, number = part.strip().partition("=")
        if not equals or not number.isdecimal() or int(number) > _MOST_ADDRESSES:
            remedy = f"give ZONE=NUMBER, at most {_MOST_ADDRESSES:,}"
            raise InputError(f"{part!r} is no number of addresses", source="--free", remedy=remedy)
        if name in dict(found):
            raise InputError(f"{name} is there twice", source="--free", remedy="give each zone once")
        found.append((name, int(number)))
    return tuple(found)


def _print(found: Recovery, zone: str) -> None:
    from rich.console import Console

    from dovetail.cli.tables import add_row, new_table

    table = new_table(f"{zone} is lost", "", "")
    add_row(table, "pods that ran before", f"{found.before:,}")
    add_row(table, "of them without a place at the worst", f"{found.lost:,}")
    for share, seconds in found.back.items():
        moment = f"after {seconds:,.0f} s" if seconds is not None else "not by the end"
        add_row(table, f"{share} % of those are back", moment)
    add_row(table, "missing in the end", f"{found.missing:,}")
    add_row(table, "cost before", f"${found.hourly_before:,.2f}/h")
    add_row(table, "cost in the end", f"${found.hourly_after:,.2f}/h")
    add_row(table, "nodes launched since", f"{found.launched:,}")
    console = Console(highlight=False, markup=False)
    console.print(table)
    if not found.lost:
        console.print("No pod was without a place: no machine that was lost had one.")
    for reason, count in list(found.failed.items())[:_SHOWN]:
        console.print(f"{number_of(count, 'launch', 'launches')} failed: {reason}", soft_wrap=True)
    for reason, count in list(found.stuck.items())[:_SHOWN]:
        console.print(f"{number_of(count, 'pod has', 'pods have')} no node: {reason}", soft_wrap=True)
    if found.by_volume:
        shown = ", ".join(found.by_volume[:_SHOWN])
        more = f" and {len(found.by_volume) - _SHOWN} more" if len(found.by_volume) > _SHOWN else ""
        console.print(
            f"{len(found.by_volume):,} are held by the zone of their volumes: {shown}{more}", soft_wrap=True
        )
