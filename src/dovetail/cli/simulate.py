"""`dovetail simulate`: a cluster's day in virtual time, from a scenario folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from dovetail.base.errors import InputError
from dovetail.cli.messages import notes
from dovetail.simulate.scenario.policy import Policy
from dovetail.units.duration import parse_duration

if TYPE_CHECKING:
    from dovetail.simulate.run import Result
    from dovetail.simulate.scenario.scenario import Scenario


def simulate(
    scenario: Path,
    *,
    seed: int | None = None,
    until: str | None = None,
    policy: Policy | None = None,
    trace: Path | None = None,
    faults: Path | None = None,
    prices: Path | None = None,
    savings_plan: str = "",
    savings_plan_discount: str = "28%",
    output: Annotated[Literal["table", "json"], Parameter(alias="-o")] = "table",
    report: Path | None = None,
    events: Path | None = None,
    cost_store: Path | None = None,
    live: Annotated[bool, Parameter(negative="")] = False,
    kubeconfig: Path | None = None,
    context: str = "",
) -> None:
    """Play a scenario in virtual time, with the controllers that run in production.

    A scenario is a folder: scenario.yaml says when, where and with what traffic; the other files are ordinary
    manifests. The same scenario and seed give the same event log, byte for byte. Progress goes to standard
    error, the summary to standard output.

    Examples:

    - `dovetail simulate examples/evening-rush --report evening.html`
    - `dovetail simulate examples/evening-rush --until 1h --seed 7 -o json`
    - `dovetail simulate examples/evening-rush --policy cluster-autoscaler` (or `karpenter`)
    - `dovetail simulate examples/faults --faults examples/faults/faults.yaml --seed 3`
    - `dovetail simulate examples/pod-trace --trace pods.csv.gz --events log.jsonl`
    - `dovetail simulate examples/evening-rush --live`
    - `dovetail simulate examples/burst --kubeconfig empty-cluster.kubeconfig`

    Parameters
    ----------
    scenario
        Folder with a scenario.yaml.
    seed
        Other luck: latencies, noise and spot capacity are drawn anew. The scenario's own seed by default.
    until
        Stop after this much virtual time, such as 90m. The scenario's own duration by default.
    policy
        Which is in charge of nodes: Dovetail, the same with Karpenter's packing and consolidation, or Cluster
        Autoscaler over the node groups that have a max.
    trace
        The CSV file of pods for a scenario that plays a trace.
    faults
        A YAML file of what is to go wrong, and how often: crashes, lost watches, launch failures and more.
    prices
        Prices to count instead: AWS's offer file of EC2 (index.json or index.csv of a region), or a CSV with
        instanceType,price and, if wanted, region,capacityType,zone. Plain or gzipped.
    savings_plan
        Dollars an hour of a Compute Savings Plan, such as 18: what is paid under it, beside list prices. The
        scenario's section `commitments` has several, reserved instances and licences.
    savings_plan_discount
        How far its prices are below those on demand.
    output
        A summary to read, or JSON with every figure.
    report
        Write an HTML report to this file: one file that needs nothing else.
    events
        Write the event log to this file, one JSON record per line.
    cost_store
        Write what ran and what it cost to this file (SQLite), for `dovetail cost` and `dovetail serve`.
    live
        Watch it play in `dovetail top`: space stops it and lets it go on, - and + change its pace, q ends it.
    kubeconfig
        Play it on this cluster as well, which must be empty and have kwok for its nodes, in the machine's own
        time; then compare. The report and the event log are of that run. Everything is taken away at the end.
    context
        The context of the kubeconfig; its current one by default.
    """
    from rich.console import Console

    from dovetail.cli.prices import use_prices
    from dovetail.cli.savings_plan import as_field
    from dovetail.cli.simulate_live import live_view, play_watched
    from dovetail.simulate.faults.plan import load as load_faults
    from dovetail.simulate.run import simulate as run_simulation
    from dovetail.simulate.scenario.changed import Change
    from dovetail.simulate.scenario.scenario import load
    from dovetail.views.page.document import check_target
    from dovetail.views.report.write import write_report

    committed = as_field(savings_plan, savings_plan_discount)
    fields = [Change.parse(committed)] if committed else []
    plan = _changed(load(scenario, trace=trace, changes=fields), seed, until)
    notes(plan.notes)
    if prices is not None:
        use_prices(prices, plan.file.region)
    if policy is not None:
        plan = plan.under(policy)
    if plan.file.settings.policy != "dovetail" and (faults is not None or kubeconfig is not None):
        raise InputError(
            "only Dovetail can be played with faults, or on a cluster",
            source="--faults" if faults is not None else "--kubeconfig",
            remedy="leave it out, or play --policy dovetail",
        )
    check_target(report)
    check_target(events, "--events")
    check_target(cost_store, "--cost-store")
    if kubeconfig is not None:
        if faults is not None:
            raise InputError(
                "faults can only be played in virtual time",
                source="--faults",
                remedy="leave --kubeconfig out",
            )
        if live:
            raise InputError(
                "--live shows what plays in virtual time",
                source="--live",
                remedy="leave one of --live and --kubeconfig out; `dovetail top` shows a real cluster",
            )
        # Help imports every command; an HTTP client is not theirs to pay for.
        from dovetail.cli.simulate_cluster import on_cluster, print_comparison

        simulated, real = on_cluster(plan, kubeconfig, context, events)
        if report is not None:
            write_report(real, report)
        print_comparison(simulated, real, output)
        _keep_costs(real, cost_store)
        _name_files(report, events, cost_store)
        return
    trouble = load_faults(faults, plan) if faults is not None else None
    if live:
        watched = play_watched(plan, trouble, events)
        if watched is None:
            Console(stderr=True, highlight=False).print("Ended before its time: there is no summary.")
            return
        result = watched
    else:
        with live_view(plan) as listener:
            result = run_simulation(plan, faults=trouble, events=events, listener=listener)
    if report is not None:
        write_report(result, report)
    _print(result, output)
    _keep_costs(result, cost_store)
    _name_files(report, events, cost_store)


def _changed(scenario: Scenario, seed: int | None, until: str | None) -> Scenario:
    if seed is not None:
        scenario = scenario.seeded(seed)
    if until is None:
        return scenario
    try:
        duration = parse_duration(until)
    except ValueError as error:
        raise InputError(str(error), source="--until") from None
    if duration <= 0:
        raise InputError(f"{until!r} is not more than 0s", source="--until")
    return scenario.until(duration)


def _print(result: Result, output: str) -> None:
    from dovetail.cli.tables import write_out
    from dovetail.simulate.analysis.summary import to_json
    from dovetail.simulate.analysis.summary_table import summary_table

    if output == "json":
        print(json.dumps(to_json(result.summary), indent=2))
    else:
        write_out(summary_table(result.summary))


def _keep_costs(result: Result, path: Path | None) -> None:
    from dovetail.cost.facts import read_facts
    from dovetail.cost.store import write_facts

    if path is not None:
        write_facts(read_facts(result.records, result.end), path)


def _name_files(report: Path | None, events: Path | None, costs: Path | None) -> None:
    from rich.console import Console

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for path, what in ((report, "Report"), (events, "Event log"), (costs, "Record of costs")):
        if path is not None:
            console.print(f"{what}: {path}", markup=False)
