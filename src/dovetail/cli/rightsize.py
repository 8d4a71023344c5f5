"""`dovetail rightsize`: requests as they should be, and what they save in nodes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from dovetail.base.clock import HOUR, SECOND
from dovetail.base.errors import InputError
from dovetail.cli.question import Output, Question, length_of, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from dovetail.cli.rightsize_input import Owners, Scaling
    from dovetail.cli.rightsize_output import Answer, InPlace
    from dovetail.cli.searching import Search
    from dovetail.disrupt.bill import Prices
    from dovetail.disrupt.rightsizing import Both
    from dovetail.explain.sizes import Measured, Requests, Rules, Size
    from dovetail.model.plan import Plan
    from dovetail.model.problem import Problem

_MOST_HEADROOM = 10.0  # of what was used
_LEAST_WINDOW = HOUR  # twelve samples
# For each of both plans, where nothing else is said. Of the example's 17 nodes neither is proven within 1 %,
# where a search would end: 10 s find 0.3 % less than 3 s. Of 148 nodes with 2,071 pods both were within 2 %.
_PATIENCE = 3 * SECOND


def rightsize(
    *,
    question: Question | None = None,
    usage: Annotated[tuple[Path, ...], Parameter(negative="", show_default=False)] = (),
    prometheus: str = "",
    window: str = "7d",
    cpu_percentile: float = 95,
    cpu_headroom: str = "15%",
    memory_headroom: str = "15%",
    least_cpu: str = "10m",
    least_memory: str = "100Mi",
    limits: Literal["keep", "scale"] = "keep",
    with_hpa: Annotated[bool, Parameter(negative="")] = False,
    tries: int = 20,
    write: Path | None = None,
    output: Output = "table",
) -> None:
    """Recommend requests by what pods use, and show which nodes that would save, with what is proven of it.

    The manifests or the cluster are given as to `dovetail plan`. What pods use says Prometheus, or answers of
    it in files, the cluster's metrics server (a single moment, asked where nothing else is given), or
    VerticalPodAutoscalers among the objects. Nothing is changed anywhere.

    A request of CPU is the 95th percentile of what the busiest pod used, and 15 % more; one of memory the
    most that any pod used, and 15 % more. What would change by less than a tenth is kept. Requests that are
    too small grow, which costs more.

    All pods are planned on the cheapest nodes with both requests, and with those of each workload changed
    alone. What is proven holds for any way to pack them. The plan for either is looked for as long as
    --deadline says, 3s where it does not.

    Examples:

    - `dovetail rightsize --kubeconfig ~/.kube/config --prometheus http://prometheus:9090`
    - `dovetail rightsize -f cluster.json.gz --usage cpu.json --usage memory.json --write sizes/`
    - `dovetail rightsize -f examples/rightsize/cluster --usage examples/rightsize/week.json.gz`

    Parameters
    ----------
    usage
        What was measured: answers of Prometheus to range queries, or the list of pods of the metrics server.
        May be repeated. Without any of it the command says how to get them.
    prometheus
        The address of a Prometheus that scrapes the kubelets' cAdvisor.
    window
        How far back it is asked.
    cpu_percentile
        Of the samples of CPU, which one a request has to cover; 100 is the most that was used.
    cpu_headroom
        How much more than that is asked for.
    memory_headroom
        How much more than the most that was used is asked for.
    least_cpu
        No request is made smaller than that.
    least_memory
        The same of memory.
    limits
        keep leaves them as they are, but for those that would be below the request; scale keeps their
        proportion to it, as VerticalPodAutoscalers do.
    with_hpa
        Change also what autoscalers scale on as a percentage of requests, and their targets with it, so that
        they keep as many replicas. Such requests are left alone otherwise.
    tries
        Of how many workloads, those with the most at stake, it is worked out what they save alone.
    write
        Write the patches into this new folder, one file for each workload.
    output
        table for people, json with every detail for programs, yaml for the patches.
    """
    from dovetail.base.yaml_writing import all_written
    from dovetail.cli import rightsize_output as out
    from dovetail.cli.messages import note
    from dovetail.cli.rightsize_patches import patches, write_patches

    if tries < 0:
        raise InputError(f"{tries} is less than 0", source="--tries", remedy="such as --tries 20")
    rules = _rules(cpu_percentile, cpu_headroom, memory_headroom, least_cpu, least_memory, limits)
    over = _window(window)
    question = question or Question()
    if write is not None and write.exists() and (not write.is_dir() or any(write.iterdir())):
        raise InputError("is there already", source=f"--write {write}", remedy="name a new folder")
    measured = _measured(question, usage, prometheus, over, rules)
    answer = _answer(question, measured, rules, with_hpa=with_hpa, tries=tries)
    made = patches(answer)
    if write is not None:
        count = write_patches(made, write)
        note(f"{count} patches are in {write}; for each: kubectl patch -f FILE --patch-file FILE")
    if output == "yaml":
        print(all_written(one for _, one in made), end="")
    else:
        show(out.tables(answer), out.document(answer) if output == "json" else {}, output)
    for text in out.remarks(answer):
        note(text)


def _rules(
    percentile: float,
    cpu: str,
    memory: str,
    least_cpu: str,
    least_memory: str,
    limits: Literal["keep", "scale"],
) -> Rules:
    from dovetail.explain.sizes import Rules
    from dovetail.model.resources import CPU, MEMORY, amounts
    from dovetail.units.quantity import Quantity, parse_quantity

    if not 0 < percentile <= 100:
        raise InputError(
            f"{percentile:g} is no percentile",
            source="--cpu-percentile",
            remedy="give more than 0, up to 100",
        )

    def least(flag: str, text: str) -> Quantity:
        try:
            found = parse_quantity(text)
        except ValueError as error:
            raise InputError(str(error), source=flag) from None
        if found.nanos < 0:
            raise InputError(f"{text} is less than nothing", source=flag)
        return found

    return Rules(
        percentile,
        _share("--cpu-headroom", cpu),
        _share("--memory-headroom", memory),
        amounts({CPU: least("--least-cpu", least_cpu), MEMORY: least("--least-memory", least_memory)}),
        limits,
    )


def _window(text: str) -> int:
    """Nanoseconds; days as Prometheus writes them. Raises InputError."""
    days = text.strip().removesuffix("d")
    given = f"{int(days) * 24}h" if days != text.strip() and days.isdecimal() and len(days) < 5 else text
    found = length_of("--window", given, "7d")
    if found < _LEAST_WINDOW:
        raise InputError(f"{text} is less than an hour", source="--window", remedy="such as --window 7d")
    return found


def _share(flag: str, text: str) -> float:
    number, percent, rest = text.strip().partition("%")
    try:
        found = float(number) / (100 if percent else 1)
    except ValueError:
        found = -1.0
    if rest or not 0 <= found <= _MOST_HEADROOM:
        raise InputError(
            f"{text!r} is no share", source=flag, remedy=f"give a percentage, such as {flag} 15%, up to 1000%"
        )
    return found


def _measured(
    question: Question, usage: Sequence[Path], prometheus: str, window: int, rules: Rules
) -> Measured:
    """All that is known; the metrics server is asked where there is a cluster and nothing else."""
    from dovetail.cli import rightsize_input as given

    found: Measured = {}
    if prometheus:
        if not prometheus.startswith(("http://", "https://")):
            raise InputError(
                f"{prometheus!r} is no address",
                source="--prometheus",
                remedy="such as http://prometheus:9090",
            )
        found = given.ask_prometheus(prometheus, window, rules.percentile)
    if usage:
        found = {**given.read_usage(usage, rules.percentile, time.time_ns()), **found}
    if not found and not usage and not prometheus and (question.kubeconfig is not None or question.context):
        found = given.ask_metrics_server(question.kubeconfig, question.context) or {}
    return found


def _answer(question: Question, measured: Measured, rules: Rules, *, with_hpa: bool, tries: int) -> Answer:
    from dovetail.cli import rightsize_input as given
    from dovetail.cli.rightsize_output import Answer
    from dovetail.disrupt import rightsizing
    from dovetail.disrupt.bill import anew, bill
    from dovetail.explain import sizes as rule

    reading = question.reading
    if not measured and not reading.vertical_autoscalers:
        raise given.nothing_measured()
    problem = question.problem()
    owners = given.Owners(reading)
    works = rule.works(problem, owners.of)
    owners.learn(works.values())
    uses, strange = rule.used(works, measured, owners.by_name)
    advice = given.advice_of(reading, works)
    if not uses and not advice:
        raise _of_others(measured, bool(works))
    scaled = given.scalings(reading, works)
    movable = {(one.owner, one.resource) for one in scaled if with_hpa and one.document is not None}
    kept = {
        (one.owner, one.resource): f"{one} scales on it"
        for one in scaled
        if (one.owner, one.resource) not in movable
    }
    sizes = rule.recommend(works.values(), uses, advice, rules, kept, given.Allowance(reading))
    requests = rule.changes(sizes)
    smaller = {owner: all(size.change <= 0 for size in sizes if size.owner == owner) for owner in requests}
    search = question.search()
    if search.deadline is None and search.work is None:
        search = replace(search, deadline=_PATIENCE)
    cut: list[bool] = []

    def solve(asked: Problem) -> Plan:
        found = search.answer(asked)
        cut.append(found.cut_short)
        return found.plan

    with _progress() as said:
        said("all pods on the cheapest nodes, with both requests")
        asked = anew(problem) if problem.nodes else problem
        both = rightsizing.both(asked, requests, owners.of, solve, smaller=all(smaller.values()))
        prices: Prices = {}
        billed = in_place = None
        if problem.nodes:
            from dovetail.cli.bill_output import node_prices

            prices = node_prices(problem, question.place.name if question.place else "")
            billed = bill(problem, prices, both.before)
            said("repacking in place")
            in_place = _in_place(problem, requests, owners, prices, search, both)
        ranked = rightsizing.at_stake(both, works, sizes) if requests and not both.untried else []
        alone = rightsizing.contributions(
            both,
            requests,
            ranked[:tries],
            smaller,
            owners.of,
            lambda one: search.single.answer(one).plan,
            lambda owner: said(f"{owner} alone"),
        )
    return Answer(
        works=works,
        sizes=sizes,
        rules=rules,
        both=both,
        bill=billed,
        in_place=in_place,
        alone=alone,
        untold=tuple(ranked[tries:]),
        strange=strange,
        scaled=scaled,
        targets=_targets(scaled, sizes) if with_hpa else {},
        held=rule.held_by_init(problem, requests, owners.of),
        owned={owner: above for owner in requests if (above := owners.above(owner))},
        vertical={
            rule.Owner(one.target[0], *one.target[1].split("/", 1)): one.key
            for one in reading.vertical_autoscalers
            if one.changes_pods
        },
        pending=len(problem.pods) if problem.nodes else 0,
        region=question.place,
        search=search,
        cut_short=any(cut),
    )


def _of_others(measured: Measured, any_pods: bool) -> InputError:
    if not any_pods:
        return InputError("there are no pods to recommend requests for", remedy="give manifests with -f")
    namespace, pod, container, _ = next(iter(measured), ("", "", "", ""))
    return InputError(
        "what was measured is of none of the pods here"
        + (f": the first series is of container {container} of {namespace}/{pod}" if pod else ""),
        remedy="ask the Prometheus of this cluster; an anonymised snapshot has other names than it",
    )


def _in_place(
    problem: Problem, requests: Requests, owners: Owners, prices: Prices, search: Search, both: Both
) -> InPlace:
    """What consolidation would do with the nodes that are there, with both requests."""
    from dovetail.cli.rightsize_output import InPlace
    from dovetail.disrupt import rightsizing
    from dovetail.disrupt.bill import repack
    from dovetail.explain.sizes import resized

    after = resized(problem, requests, owners.of)
    found = []
    for asked, fresh in ((problem, both.before), (after, both.after)):
        budget = search.what_ifs.budget()
        found.append(repack(asked, prices, lambda one: search.quick(one, budget), budget, fresh))  # noqa: B023 - asked here and now
    there = {node.name for node in problem.nodes}
    going = {
        one.name
        for move in (found[1].moves if found[1] is not None else ())
        for one in move.candidates
        if one.name in there
    }
    return InPlace(found[0], found[1], tuple(sorted(going)), rightsizing.overfull(after))


def _targets(scaled: Sequence[Scaling], sizes: Sequence[Size]) -> dict[Scaling, int]:
    """The percentages that keep replicas as they are: the same use is another share of other requests."""
    found = {}
    for one in scaled:
        counted = [
            size
            for size in sizes
            if size.owner == one.owner
            and size.resource == one.resource
            and one.container in ("", size.container)
        ]
        before, after = sum(size.now or 0 for size in counted), sum(size.right or 0 for size in counted)
        if one.document is not None and before and after and before != after:
            found[one] = max(1, round(one.percent * before / after))
    return found


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Says what is being worked out, to a terminal only."""
    from rich.console import Console
    from rich.progress import Progress

    screen = Console(stderr=True)
    with Progress(console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task("", total=None)
        yield lambda text: progress.update(task, description=text)
