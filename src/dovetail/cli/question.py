"""What commands about a plan have in common: the options that ask for it, the answer, and the screen."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from cyclopts import Parameter
from rich.console import Console, RenderableType

from dovetail.base.clock import SECOND
from dovetail.base.errors import DovetailError, InputError
from dovetail.cli import messages
from dovetail.cli.plan_input import Source, read_problem
from dovetail.cli.prices import use_prices
from dovetail.cli.unpriced import warn_of_unpriced
from dovetail.model.offering import parse_dollars
from dovetail.model.plan import Plan
from dovetail.model.problem import SPOT_DIVERSITY, SPOT_TOLERANCE, Budget, Options, Problem
from dovetail.reading import Reading, read
from dovetail.solve.budget import Deadline
from dovetail.solve.solver import solve
from dovetail.units.duration import parse_duration
from dovetail.verify import verify

_MAX_SHOWN_FAULTS = 5
_PIPE_WIDTH = 10_000  # a program that reads wants a row in a line
# An explanation has as long as the plan, and this at least: a short deadline is no reason for a short answer.
_EXPLAINING = SECOND

Output = Annotated[Literal["table", "json", "yaml"], Parameter(alias="-o")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Question:
    """The options by which a plan is asked for.

    Parameters
    ----------
    filename
        Files or folders with manifests (YAML or JSON, gzip or not), or - for standard input. May be repeated.
    recursive
        Read the sub-folders of folders too.
    strict
        What Dovetail does not know in the manifests is an error: kinds of other groups, and fields in objects
        that come from a server.
    region
        The AWS region to buy in: types and prices come from the catalogue (see `dovetail catalog`).
    prices
        Prices to count instead: AWS's offer file of EC2 (index.json or index.csv of a region), or a CSV with
        instanceType,price and, if wanted, region,capacityType,zone. Plain or gzipped.
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
    spot_diversity
        How many instance types a spot node leaves the cloud to choose from, where there are as many of its
        size and price; 1 fills spot nodes as far as the cheapest type allows.
    spot_tolerance
        By how many percent those types may be dearer than the cheapest.
    """

    filename: Annotated[list[str], Parameter(alias="-f", consume_multiple=True, negative="")]
    recursive: Annotated[bool, Parameter(alias="-R", negative="")] = False
    strict: Annotated[bool, Parameter(negative="")] = False
    region: str | None = None
    prices: Path | None = None
    instance_types: Path | None = None
    deadline: str = "1s"
    preference_policy: Literal["Respect", "Ignore"] = "Respect"
    min_values_policy: Literal["Strict", "BestEffort"] = "Strict"
    node_surcharge: str = "0"
    spot_diversity: int = SPOT_DIVERSITY
    spot_tolerance: int = SPOT_TOLERANCE

    @cached_property
    def reading(self) -> Reading:
        """The manifests, read once: standard input cannot be read again."""
        return read_manifests(self.filename, recursive=self.recursive, strict=self.strict)

    def problem(self) -> Problem:
        """What the solver is asked; raises InputError for whatever is wrong with the options or the files."""
        source = self._source()
        self.longest()
        options = Options(
            respect_preferences=self.preference_policy == "Respect",
            strict_min_values=self.min_values_policy == "Strict",
            node_surcharge=self._surcharge(),
            spot_diversity=_at_least("--spot-diversity", self.spot_diversity, 1),
            spot_tolerance=_at_least("--spot-tolerance", self.spot_tolerance, 0),
        )
        if source.region:
            use_prices(self.prices, source.region)
        elif self.prices is not None:
            raise InputError(
                "prices are of a region's types, and --instance-types has its own", source="--prices"
            )
        problem = read_problem(self.reading, ", ".join(self.filename), source, options)
        if source.region:
            warn_of_unpriced(problem.pools, source.region)
        return problem

    def longest(self) -> int:
        """The deadline in nanoseconds."""
        try:
            nanoseconds = parse_duration(self.deadline)
        except ValueError as error:
            raise InputError(str(error), source="--deadline") from None
        if nanoseconds <= 0:
            raise InputError("must be longer than 0s", source="--deadline", remedy="such as --deadline 2s")
        return nanoseconds

    def _surcharge(self) -> int:
        try:
            return parse_dollars(self.node_surcharge)
        except ValueError as error:
            raise InputError(
                str(error), source="--node-surcharge", remedy="give dollars per hour and node, such as 0.01"
            ) from None

    def _source(self) -> Source:
        if (self.region is None) == (self.instance_types is None):
            count = "only one of" if self.region else "one of"
            raise InputError(
                f"{count} --region and --instance-types is needed",
                remedy="name the region to buy in, such as --region us-east-1, or a file of instance types",
            )
        return Source(region=self.region or "", file=self.instance_types)


def read_manifests(paths: Sequence[str], *, recursive: bool, strict: bool) -> Reading:
    """The manifests that -f names; what a user should know of them is told."""
    reading = read(paths, recursive=recursive, strict=strict)
    for line in reading.notes:
        messages.note(line)
    return reading


def _at_least(flag: str, value: int, least: int) -> int:
    if value < least:
        raise InputError(f"{value} is less than {least}", source=flag)
    return value


def explaining(longest: int) -> Callable[[], bool]:
    """Tells when the time for explaining a plan is over that may have taken so many nanoseconds."""
    until = time.monotonic_ns() + max(_EXPLAINING, longest)
    return lambda: time.monotonic_ns() > until


def answered(problem: Problem, longest: int) -> tuple[Plan, float]:
    """The plan, checked, and the seconds that it took."""
    start = time.monotonic_ns()
    answer = solve(problem, Budget.within(longest), stop=Deadline(start + longest, time.monotonic_ns))
    elapsed = (time.monotonic_ns() - start) / SECOND
    _refuse_wrong(problem, answer)
    return answer, elapsed


def _refuse_wrong(problem: Problem, answer: Plan) -> None:
    """A plan that breaks a rule is never shown: the checker shares no code with the solver."""
    faults = verify(problem, answer)
    if faults:
        shown = "\n  ".join(
            f"{item.rule}: {item.subject}: {item.message}" for item in faults[:_MAX_SHOWN_FAULTS]
        )
        raise DovetailError(f"the plan breaks {len(faults)} rules, so it is not shown:\n  {shown}")


def show(tables: RenderableType, document: dict[str, Any], output: str) -> None:
    """Print an answer in one of its forms."""
    if output == "table":
        screen = Console(highlight=False)
        # Into a file or a pipe, nothing is cut off.
        if screen.is_terminal:
            screen.print(tables)
            return
        wide = Console(highlight=False, width=_PIPE_WIDTH)
        with wide.capture() as text:
            wide.print(tables)
        print("\n".join(line.rstrip() for line in text.get().splitlines()))
    elif output == "json":
        print(json.dumps(document, indent=2))
    else:
        print(yaml.safe_dump(document, sort_keys=False), end="")
