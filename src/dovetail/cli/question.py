"""What commands about a plan have in common: the options that ask for it, the answer, and the screen."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from dovetail.base.defaults import SPOT_DIVERSITY, SPOT_LAUNCH_TYPES, SPOT_TOLERANCE
from dovetail.base.errors import InputError
from dovetail.units.duration import parse_duration

if TYPE_CHECKING:
    from rich.console import RenderableType

    from dovetail.cli.plan_copies import Copied
    from dovetail.cli.plan_input import Source
    from dovetail.cli.region import Region
    from dovetail.cli.searching import Search
    from dovetail.cloud.choice import SpotRange
    from dovetail.model.problem import Problem
    from dovetail.model.shared_limits import SharedLimit
    from dovetail.reading import Manifest, Reading


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
    kubeconfig
        Read the cluster of this kubeconfig file as well, by get and list alone. KUBECONFIG and ~/.kube/config
        are not looked at unless --context is given.
    context
        The context of the kubeconfig; its current one by default.
    region
        The AWS region to buy in: types and prices come from the catalogue (see `dovetail catalog`). When
        not given: what labels of the nodes, AWS_REGION or an EKS server's address say; the answer says which.
    prices
        Prices to count instead: AWS's offer file of EC2 (index.json or index.csv of a region), or a CSV with
        instanceType,price and, if wanted, region,capacityType,zone. Plain or gzipped.
    instance_types
        A JSON list of instance types to buy instead, each with name, requirements, offerings, capacity and
        overhead. The label keys that they define count as well known.
    deadline
        How long the solver may look for a cheaper plan, such as 500ms or 30s. Until the plan is proven within
        1 %, or for 10s, when not given.
    work
        Units of work instead of time (a second has about a million): the same plan on every machine.
    preference_policy
        Ignore treats preferred rules (preferred affinity, ScheduleAnyway) as if they were not there.
    min_values_policy
        BestEffort buys with fewer kinds than minValues asks for, rather than not at all.
    node_surcharge
        Dollars per hour that every node costs besides its instance and its volumes, such as 0.01 for an agent
        that is paid by the node. Fewer, larger nodes are bought where that is cheaper in all.
    shared_limits
        A file with what several NodePools may have together, in resources, nodes and dollars per hour: YAML
        or JSON, as the controller's setting of that name has it.
    spot_diversity
        How many instance types a spot node leaves the cloud to choose from, where there are as many of its
        size and price; 1 fills spot nodes as far as the cheapest type allows.
    spot_tolerance
        By how many percent those types may be dearer than the cheapest.
    spot_launch_types
        How many instance types a spot launch names, the cheapest first, besides all offerings within that
        tolerance; 60 names as many at any price, as Karpenter does.
    """

    filename: Annotated[list[str], Parameter(alias="-f", consume_multiple=True, negative="")] = field(
        default_factory=list
    )
    recursive: Annotated[bool, Parameter(alias="-R", negative="")] = False
    strict: Annotated[bool, Parameter(negative="")] = False
    kubeconfig: Path | None = None
    context: str = ""
    region: str | None = None
    prices: Path | None = None
    instance_types: Path | None = None
    deadline: str | None = None
    work: int | None = None
    preference_policy: Literal["Respect", "Ignore"] = "Respect"
    min_values_policy: Literal["Strict", "BestEffort"] = "Strict"
    node_surcharge: str = "0"
    shared_limits: Path | None = None
    spot_diversity: int = SPOT_DIVERSITY
    spot_tolerance: int = SPOT_TOLERANCE
    spot_launch_types: int = SPOT_LAUNCH_TYPES

    def spot_range(self) -> SpotRange | None:
        """Which spot offerings a launch names; None for all. Raises InputError."""
        from dovetail.cloud.choice import SpotRange

        types = _at_least("--spot-launch-types", self.spot_launch_types, 1)
        return SpotRange.of(types, _at_least("--spot-tolerance", self.spot_tolerance, 0))

    @cached_property
    def reading(self) -> Reading:
        """The manifests, read once: standard input cannot be read again."""
        return read_manifests(self.paths, recursive=self.recursive, strict=self.strict)

    def problem(self) -> Problem:
        """What the solver is asked; raises InputError for whatever is wrong with the options or the files."""
        return self.problem_of(self.reading)

    def problem_of(self, reading: Reading) -> Problem:
        """What the solver is asked of other manifests than those that were named."""
        return self._asked(reading, copying=False)[0]

    def with_copies(self) -> tuple[Problem, tuple[Copied, ...]]:
        """What the solver is asked; of workloads of very many pods most are counted beside it."""
        return self._asked(self.reading, copying=True)

    def _asked(self, reading: Reading, *, copying: bool) -> tuple[Problem, tuple[Copied, ...]]:
        from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
        from dovetail.cli.assumed_pool import with_pool
        from dovetail.cli.messages import note
        from dovetail.cli.plan_classes import closed_pools, remarks_on_classes
        from dovetail.cli.plan_input import not_installed, read_problem
        from dovetail.cli.prices import use_prices, warn_of_other_terms, warn_of_unpriced
        from dovetail.model.problem import Options

        source = self._source()
        self.search()
        self.spot_range()
        options = Options(
            respect_preferences=self.preference_policy == "Respect",
            strict_min_values=self.min_values_policy == "Strict",
            node_surcharge=self._surcharge(),
            shared_limits=self._shared_limits(),
            spot_diversity=_at_least("--spot-diversity", self.spot_diversity, 1),
            spot_tolerance=_at_least("--spot-tolerance", self.spot_tolerance, 0),
        )
        if source.region:
            use_prices(self.prices, source.region)
        elif self.prices is not None:
            raise InputError(
                "prices are of a region's types, and --instance-types has its own", source="--prices"
            )
        given = ", ".join(self.filename) or "the cluster"
        if source.region:
            reading, assumed = with_pool(reading)
            if assumed:
                note(assumed)
        problem, copied = read_problem(reading, given, source, options, copying=copying)
        if hooks := not_installed(reading):
            named = ", ".join(" ".join(item.written) for item in hooks)
            note(f"left out, since installing the chart does not run them (helm.sh/hook): {named}")
        for text in remarks_on_classes(reading.manifests, closed_pools(reading.manifests)):
            note(text)
        if source.region:
            warn_of_unpriced(problem.pools, source.region)
            objects = (item.object for item in reading.manifests)
            warn_of_other_terms(problem.pools, (one for one in objects if isinstance(one, EC2NodeClass)))
        return problem, copied

    def search(self) -> Search:
        """How long to look for a plan. Raises InputError."""
        from dovetail.cli.searching import Search

        if self.work is not None:
            if self.deadline is not None:
                raise InputError("only one of --work and --deadline can be given", source="--work")
            return Search(work=_at_least("--work", self.work, 1))
        if self.deadline is None:
            return Search()
        return Search(deadline=length_of("--deadline", self.deadline, "2s"))

    def _shared_limits(self) -> tuple[SharedLimit, ...]:
        from dovetail.cluster.shared_limits import read_shared_limits
        from dovetail.reading.sources import decoded

        given = self.shared_limits
        return () if given is None else read_shared_limits(decoded(str(given)), str(given))

    def _surcharge(self) -> int:
        from dovetail.units.money import parse_dollars

        try:
            return parse_dollars(self.node_surcharge)
        except ValueError as error:
            raise InputError(
                str(error), source="--node-surcharge", remedy="give dollars per hour and node, such as 0.01"
            ) from None

    @cached_property
    def place(self) -> Region | None:
        """The region, and what says so; None with a user's own types. Raises InputError if nothing does."""
        from dovetail.cli.region import resolve

        if self.region is not None and self.instance_types is not None:
            raise InputError(
                "only one of --region and --instance-types is needed",
                remedy="name the region to buy in, such as --region us-east-1, or a file of instance types",
            )
        if self.instance_types is not None:
            return None
        objects = (item.object for item in self.reading.manifests)
        groups = self.reading.node_groups
        found = resolve(self.region, objects, os.environ, self._server(), groups)
        if found is None:
            raise InputError(
                "one of --region and --instance-types is needed",
                remedy="name the region to buy in, such as --region us-east-1, or a file of instance types",
            )
        return found

    @cached_property
    def paths(self) -> list[str]:
        """What is read: the files, and the cluster."""
        if self.kubeconfig is None and not self.context:
            if not self.filename:
                raise InputError(
                    "neither manifests nor a cluster is given",
                    remedy="give -f/--filename FILE, or --kubeconfig FILE",
                )
            return list(self.filename)
        from dovetail.cli.snapshot import cluster_file

        return [*self.filename, str(cluster_file(self.kubeconfig, self.context))]

    def _server(self) -> str:
        """The address of the cluster's API server; "" where manifests alone are given."""
        if self.kubeconfig is None and not self.context:
            return ""
        from dovetail.kube.http.kubeconfig import locate

        return locate(os.environ, kubeconfig=self.kubeconfig, context=self.context).server

    def _source(self) -> Source:
        from dovetail.cli.plan_input import Source

        place = self.place
        return Source(region=place.name if place else "", file=self.instance_types)


def read_manifests(
    paths: Sequence[str], *, recursive: bool, strict: bool, onto: Iterable[Manifest] = ()
) -> Reading:
    """The manifests that -f names, laid `onto` others; what a user should know of them is said."""
    from dovetail.base.collector import uncollected
    from dovetail.cli import messages
    from dovetail.cli.group_shares import shares_of
    from dovetail.reading import read, without_auto_mode

    with uncollected():
        reading = without_auto_mode(read(paths, recursive=recursive, strict=strict, onto=onto))
    for line in (*reading.notes, *shares_of(reading.node_groups)):
        messages.note(line)
    return reading


def length_of(flag: str, text: str, example: str) -> int:
    """Nanoseconds, more than none. Raises InputError."""
    try:
        found = parse_duration(text)
    except ValueError as error:
        raise InputError(str(error), source=flag) from None
    if found <= 0:
        raise InputError("must be longer than 0s", source=flag, remedy=f"such as {flag} {example}")
    return found


def _at_least(flag: str, value: int, least: int) -> int:
    if value < least:
        raise InputError(f"{value} is less than {least}", source=flag)
    return value


def show(tables: RenderableType, document: dict[str, Any], output: str) -> None:
    """Print an answer in one of its forms."""
    from dovetail.base.yaml_writing import written
    from dovetail.cli import tables as terminal

    if output == "table":
        terminal.write_out(tables)
    elif output == "json":
        print(json.dumps(document, indent=2))
    else:
        print(written(document), end="")
