"""`dovetail headroom`: how much room ahead of time a workload needs to grow without waiting."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import InputError

if TYPE_CHECKING:
    from dovetail.simulate.questions.headroom import Kept

_SETTLES = 2 * MINUTE  # that is played after the growth


def headroom(
    scenario: Path,
    *,
    workload: str,
    to: int,
    over: str = "3m",
    after: str = "20m",
    within: str = "20s",
    seed: int | None = None,
    keep: Path | None = None,
    output: Annotated[Literal["table", "json"], Parameter(alias="-o")] = "table",
) -> None:
    """Show how many placeholder pods let a workload grow without waiting, and what each second less costs.

    The scenario is played with growth and ever other numbers of placeholders of the workload's own size
    (priority -1, evicted by the scheduler for any other pod), until the least that is enough is known.

    Examples:

    - `dovetail headroom examples/placeholders --workload default/web --to 48 --over 2m --within 10s`
    - `dovetail headroom last-week --workload shop/web --to 1600 --keep evening`

    Parameters
    ----------
    scenario
        The folder with a scenario.yaml; `dovetail replay --keep` makes one of a real cluster.
    workload
        What grows: namespace/name of a Deployment, or Kind/namespace/name.
    to
        Its replicas afterwards.
    over
        How long the growth takes.
    after
        When it begins, from the start of the scenario: time for the cluster to come up before.
    within
        What 99 % of the new pods may wait for a node.
    seed
        Luck; the scenario's own by default.
    keep
        Write the scenario with the answer into this new folder, for `dovetail simulate`.
    output
        A table and the manifests of the answer, or JSON.
    """
    from dovetail.base.yaml_writing import all_written
    from dovetail.cli.messages import notes
    from dovetail.cli.runs_output import remark, time_of
    from dovetail.simulate.questions.headroom import Growth, addition, manifests, search
    from dovetail.simulate.questions.stage import staged
    from dovetail.simulate.scenario.scenario import load

    length = time_of(within, "--within")
    growth = Growth(_workload(workload), to, time_of(after, "--after"), time_of(over, "--over"))
    known = load(scenario)
    notes(known.notes)
    extra, most = addition(known, growth, growth.after + growth.over + _SETTLES)

    def report(one: Kept) -> None:
        remark(f"{one.placeholders} placeholders: 99 % wait up to {one.p99:.1f} s, ${one.hourly:.2f}/h")

    with staged(scenario, extra, keep) as folder:
        found = search(folder, growth, length / SECOND, most, seed, report)
        answer = next((one for one in found if one.enough(length / SECOND)), None)
        wanted = manifests(folder, answer.placeholders if answer is not None else 0)
        if keep is not None:
            (folder / "question.yaml").write_text(all_written(wanted), "utf-8")
            remark(f"Scenario: {keep}")
    if output == "json":
        print(json.dumps(_json(found, answer, wanted), indent=2))
    else:
        _print(found, answer, wanted, within)


def _workload(text: str) -> tuple[str, str, str]:
    parts = text.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        remedy = "give namespace/name of a Deployment, or Kind/namespace/name"
        raise InputError(f"{text!r} names no workload", source="--workload", remedy=remedy)
    kind, namespace, name = parts if len(parts) == 3 else ("Deployment", *parts)
    return kind, namespace, name


def _print(found: Sequence[Kept], answer: Kept | None, wanted: Sequence[dict[str, Any]], within: str) -> None:
    from rich.console import Console

    from dovetail.base.yaml_writing import all_written
    from dovetail.cli.tables import add_row, new_table

    titles = ("placeholders", "p50", "p99", "at most", "before", "a day", "per second less")
    table = new_table("Until pods of the growth had a node, and what keeping room costs", *titles)
    first = found[0]
    for one in found:
        more = (one.hourly - first.hourly) * 24
        spared = first.p99 - one.p99
        price = f"${more / spared:.2f}" if spared > 0 and one is not first else "-"
        seconds = (f"{value:.1f} s" for value in (one.p50, one.p99, one.most))
        add_row(table, str(one.placeholders), *seconds, f"${one.hourly:.2f}/h", f"+${more:.2f}", price)
    console = Console(highlight=False)
    console.print(table)
    if answer is None:
        console.print(
            f"No number of placeholders keeps 99 % within {within}: look at what the last ones wait for."
        )
    elif answer is first:
        console.print(f"No placeholder is needed for {within}.")
    else:
        console.print(f"{answer.placeholders} placeholders keep 99 % within {within}:\n")
        print(all_written(wanted), end="")


def _json(found: Sequence[Kept], answer: Kept | None, wanted: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "played": [asdict(one) for one in found],
        "answer": None if answer is None else answer.placeholders,
        "manifests": list(wanted),
    }
