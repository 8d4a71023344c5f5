"""`dovetail plan`: what would be bought for these manifests."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Literal

import yaml
from cyclopts import Parameter
from rich.console import Console

from dovetail.base.clock import SECOND
from dovetail.base.errors import DovetailError, InputError
from dovetail.cli import plan_output
from dovetail.cli.plan_input import Source, read_problem
from dovetail.model.offering import parse_dollars
from dovetail.model.problem import Budget, Options, Problem
from dovetail.solve.plan import Plan
from dovetail.solve.solver import solve
from dovetail.solve.verify import verify
from dovetail.solve.work import until
from dovetail.units.duration import parse_duration

_MAX_SHOWN_FAULTS = 5
_PIPE_WIDTH = 200


def plan(
    *,
    filename: Annotated[list[Path], Parameter(alias="-f", consume_multiple=True, negative="")],
    region: str | None = None,
    instance_types: Path | None = None,
    deadline: str = "1s",
    preference_policy: Literal["Respect", "Ignore"] = "Respect",
    min_values_policy: Literal["Strict", "BestEffort"] = "Strict",
    node_surcharge: str = "0",
    output: Annotated[Literal["table", "json", "yaml"], Parameter(alias="-o")] = "table",
) -> None:
    """Show which nodes would be bought for these manifests, with the solver that the controller uses.

    The manifests hold at least one NodePool and, with --region, the EC2NodeClass that it names. Every pod
    without a node is pending. Deployments, StatefulSets, ReplicaSets and Jobs count with all the pods that
    they ask for and that are not among the manifests, CronJobs with one run, DaemonSets as overhead of every
    node. Nodes and NodeClaims are filled first. Nothing is changed anywhere.

    Examples: `dovetail plan -f manifests/ --region ap-northeast-2`,
    `dovetail plan -f pool.yaml app.yaml --instance-types types.json -o json`,
    `kubectl get nodes,pods,daemonsets,nodeclaims,nodepools,ec2nodeclasses -A -o json > cluster.json` and then
    `dovetail plan -f cluster.json more.yaml --region us-east-1`.

    Parameters
    ----------
    filename
        Files or folders with manifests (YAML or JSON). May be repeated.
    region
        The AWS region to buy in: types and prices come from the catalogue (see `dovetail catalog`).
    instance_types
        A JSON list of instance types to buy instead, each with name, requirements, offerings, capacity and
        overhead. The label keys that they define count as well known.
    deadline
        How long the solver may look for a cheaper plan, such as 500ms or 10s. It is counted as work, so that
        the same deadline gives the same plan on every machine that gets through it in that time; on a slower
        one the best plan so far is shown when the time is up.
    preference_policy
        Ignore treats preferred rules (preferred affinity, ScheduleAnyway) as if they were not there.
    min_values_policy
        BestEffort buys with fewer kinds than minValues asks for, rather than not at all.
    node_surcharge
        Dollars per hour that every node costs besides its instance and its volumes, such as 0.01 for an agent
        that is paid by the node. Fewer, larger nodes are bought where that is cheaper in all.
    output
        table for people; json or yaml with every detail for programs.
    """
    source = _source(region, instance_types)
    options = Options(
        respect_preferences=preference_policy == "Respect",
        strict_min_values=min_values_policy == "Strict",
        node_surcharge=_surcharge(node_surcharge),
    )
    longest = _nanoseconds(deadline)
    problem = read_problem(filename, source, options)
    start = time.monotonic_ns()
    answer = solve(problem, Budget.within(longest), stop=until(start + longest, time.monotonic_ns))
    elapsed = (time.monotonic_ns() - start) / SECOND
    _refuse_wrong(problem, answer)
    _show(answer, elapsed, output)


def _source(region: str | None, file: Path | None) -> Source:
    if (region is None) == (file is None):
        count = "only one of" if region else "one of"
        raise InputError(
            f"{count} --region and --instance-types is needed",
            source="dovetail plan",
            remedy="name the region to buy in, such as --region us-east-1, or a file of instance types",
        )
    return Source(region=region or "", file=file)


def _nanoseconds(deadline: str) -> int:
    try:
        nanoseconds = parse_duration(deadline)
    except ValueError as error:
        raise InputError(str(error), source="--deadline") from None
    if nanoseconds <= 0:
        raise InputError("must be longer than 0s", source="--deadline", remedy="such as --deadline 2s")
    return nanoseconds


def _surcharge(text: str) -> int:
    try:
        return parse_dollars(text)
    except ValueError as error:
        raise InputError(
            str(error), source="--node-surcharge", remedy="give dollars per hour and node, such as 0.01"
        ) from None


def _refuse_wrong(problem: Problem, answer: Plan) -> None:
    """A plan that breaks a rule is never shown: the checker shares no code with the solver."""
    faults = verify(problem, answer)
    if faults:
        shown = "\n  ".join(
            f"{item.rule}: {item.subject}: {item.message}" for item in faults[:_MAX_SHOWN_FAULTS]
        )
        raise DovetailError(f"the plan breaks {len(faults)} rules, so it is not shown:\n  {shown}")


def _show(answer: Plan, elapsed: float, output: str) -> None:
    if output == "table":
        screen = Console(highlight=False)
        # Into a file or a pipe, nothing is cut off.
        screen = screen if screen.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)
        screen.print(plan_output.tables(answer))
        return
    found = plan_output.document(answer, elapsed)
    if output == "json":
        print(json.dumps(found, indent=2))
    else:
        print(yaml.safe_dump(found, sort_keys=False), end="")
