"""`dovetail compare`: the same evening played in several ways, and what the difference comes to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from dovetail.base.errors import InputError
from dovetail.simulate.scenario.policy import Policy

if TYPE_CHECKING:
    from dovetail.simulate.experiment.comparison import Comparison
    from dovetail.simulate.experiment.variant import Variant

_SEEDS, _DAYS = "1-3", "1,7,30"


def compare(
    *scenarios: Path,
    policy: Annotated[tuple[Policy, ...], Parameter(negative="")] = (),
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    manifests: Annotated[tuple[Path, ...], Parameter(negative="")] = (),
    against: Annotated[tuple[Path, ...], Parameter(negative="")] = (),
    seeds: str | None = None,
    until: str | None = None,
    prices: Path | None = None,
    jobs: int | None = None,
    days: str | None = None,
    region: str | None = None,
    instance_types: Path | None = None,
    deadline: str | None = None,
    work: int | None = None,
    savings_plan: str = "",
    savings_plan_discount: str = "28%",
    output: Annotated[Literal["table", "json"], Parameter(alias="-o")] = "table",
    report: Path | None = None,
) -> None:
    """Play the same traffic with the same luck in several ways, and show the difference with its uncertainty.

    What is given several times is a way to play: policies, settings, manifests, scenarios. Every way is
    played with every seed, and compared with the first one seed by seed: what luck does to both cancels out.

    A snapshot or dump of a cluster in place of a scenario is compared with itself after switching to
    Dovetail: its bill on day 1, 7 and 30, pods moved per hour, and what the difference is made of.

    Examples:

    - `dovetail compare examples/evening-rush --policy dovetail --policy karpenter`
    - `dovetail compare examples/evening-rush --set settings.minimumSaving=5%,$0.02 --seeds 1-5`
    - `dovetail compare examples/burst --set NodePool/general.spec.disruption.consolidateAfter=10m`
    - `dovetail compare examples/evening-rush --manifests new/ --report difference.html`
    - `dovetail compare examples/evening-rush --against last-release.json`
    - `dovetail compare cluster.json.gz --days 1,7,30`

    Parameters
    ----------
    scenarios
        Folders with a scenario.yaml; several are ways to play.
    policy
        Which is in charge of nodes: dovetail, karpenter or cluster-autoscaler. Several are ways to play.
    set_
        A field set otherwise, PATH=VALUE, of scenario.yaml or of a manifest (Kind/name.spec.field). Several
        fields of one way are joined by `;`. The scenario as it is comes first.
    manifests
        A file or folder with manifests that take the place of those of the same kind and name: one more way.
    against
        What `compare -o json` wrote, say with another version of Dovetail: its ways are compared too.
    seeds
        Such as 1-3 (the default) or 1,4,7: the luck that every way is played with.
    until
        Stop after this much virtual time, such as 90m.
    prices
        Prices to count instead, as of `dovetail simulate`.
    jobs
        Processes at once; as many as there are cores by default.
    days
        Of a dump: the days after the switch to show, 1,7,30 by default.
    region
        Of a dump: the AWS region, where the nodes do not say it.
    instance_types
        Of a dump: a file of instance types and prices of your own, in place of a region's.
    deadline
        Of a dump: how long moves may be searched for, 10m by default.
    work
        Of a dump: units of work instead of time, the same answer on every machine.
    savings_plan
        Dollars an hour of a Compute Savings Plan, such as 18. Of a dump: how much of it is used before and
        after. Of scenarios: costs are what is paid under it.
    savings_plan_discount
        How far its prices are below those on demand.
    output
        A table, or JSON with the figures of every run.
    report
        Write an HTML report to this file, all ways on one time axis, of the first seed.
    """
    from dovetail.cli.messages import notes
    from dovetail.cli.prices import prices_everywhere
    from dovetail.cli.runs_output import processes_of, progress, remark, seeds_of, time_of
    from dovetail.cli.savings_plan import as_field, savings_plan_of
    from dovetail.cli.switching import Asked, after_switching
    from dovetail.simulate.experiment.comparison import compared, earlier
    from dovetail.simulate.experiment.runs import Job, played
    from dovetail.views.comparison.write import write_comparison
    from dovetail.views.page.document import check_target

    dump = _dump(scenarios)
    if dump is not None:
        given = {"--policy": policy, "--set": set_, "--manifests": manifests, "--against": against}
        _refuse(dump, {**given, "--until": until, "--report": report, "--seeds": seeds, "--jobs": jobs})
        committed = savings_plan_of(savings_plan, savings_plan_discount)
        after_switching(
            Asked(dump, days or _DAYS, region, instance_types, prices, deadline, work, output, committed)
        )
        return
    _refuse(
        scenarios[0] if scenarios else None,
        {
            "--days": days,
            "--region": region,
            "--instance-types": instance_types,
            "--deadline": deadline,
            "--work": work,
        },
    )
    ways = _ways(scenarios, policy, set_, manifests, as_field(savings_plan, savings_plan_discount))
    old = [each for path in against for each in earlier(path)]
    numbers, length, processes = seeds_of(seeds or _SEEDS), time_of(until), processes_of(jobs)
    check_target(report)
    known = [way.load(numbers[0], length) for way in ways]  # what is wrong is reported at once
    notes(line for one in known for line in one.notes)
    regions = {one.file.region for one in known}
    if len(ways) + len(old) < 2:
        raise InputError(
            "there is one way to play, and nothing to compare it with",
            remedy="give --policy, --set, --manifests or a scenario once more, or --against FILE.json",
        )
    begin = prices_everywhere(prices, min(regions))
    queue = [
        Job(way, seed, length, records=report is not None and seed == numbers[0])
        for seed in numbers
        for way in ways
    ]
    runs: dict[int, Any] = {}
    with progress(len(queue)) as ended:
        for number, run in played(queue, processes, begin):
            runs[number] = run
            ended(run)
    found = compared([runs[number] for number in range(len(queue))], old)
    if report is not None:
        write_comparison(found, report)
    _print(found, output)
    if report is not None:
        remark(f"Report: {report}")


def _dump(given: Sequence[Path]) -> Path | None:
    """A file that is no scenario: a cluster's objects. It stands alone."""
    from dovetail.reading.sources import similar_path
    from dovetail.simulate.scenario.scenario import FILE_NAME

    for path in given:
        if not path.exists():
            raise InputError("there is no such file or folder", source=str(path), remedy=similar_path(path))
    found = [one for one in given if not one.is_dir() and one.name != FILE_NAME]
    if found and len(given) > 1:
        raise InputError(
            "the dump of a cluster is compared with itself", source=str(found[0]), remedy="give it alone"
        )
    return found[0] if found else None


def _refuse(given: Path | None, options: Mapping[str, object]) -> None:
    """Options that mean nothing for what is given."""
    for flag, value in options.items():
        if value not in (None, ()):
            what = "a dump of a cluster" if given is not None and not given.is_dir() else "a scenario"
            raise InputError(f"means nothing for {what}", source=flag, remedy="leave it out")


def _ways(
    scenarios: Sequence[Path],
    policies: Sequence[Policy],
    settings: Sequence[str],
    manifests: Sequence[Path],
    everywhere: str = "",
) -> list[Variant]:
    """Every scenario under every policy, as it is and with each change; `everywhere` is set in all."""
    from dovetail.simulate.experiment.variant import Variant
    from dovetail.simulate.scenario.changed import Change

    if not scenarios:
        raise InputError("which scenario?", remedy="give a folder, such as examples/evening-rush")
    found = []
    of_all = (Change.parse(everywhere),) if everywhere else ()
    for scenario in scenarios:
        for policy in policies or (None,):
            base = [scenario.name or str(scenario)] if len(scenarios) > 1 else []
            base += [policy] if policy is not None else []
            found.append(Variant(" ".join(base) or "as it is", scenario, policy, of_all))
            for text in settings:
                changes = (*of_all, *(Change.parse(one) for one in text.split(";")))
                found.append(Variant(" ".join([*base, text]), scenario, policy, changes))
            for path in manifests:
                found.append(Variant(" ".join([*base, str(path)]), scenario, policy, of_all, path))
    for way in found:
        if found.count(way) > 1:
            raise InputError(f"{way.name!r} is there twice", remedy="give every way to play once")
    return found


def _print(found: Comparison, output: str) -> None:
    from rich.console import Console

    from dovetail.cli.compare_output import comparison_json, print_comparison

    if output == "json":
        print(json.dumps(comparison_json(found), indent=2))
    else:
        print_comparison(found, Console())
