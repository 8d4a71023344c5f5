"""`dovetail plan`: what would be bought for these manifests."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from dovetail.base.clock import SECOND
from dovetail.cli.question import Output, Question, show
from dovetail.cli.run_environment import Bool

_BOUND_A_SECOND = 15_000  # pods on nodes that a try of the scheduler's placing begins with, at best
_PLAYED_A_SECOND = 400_000  # pods times nodes of a try, at best: what cannot end is not begun
# Of the time that is left of 10 s, for each question about a cluster.
_OF_PENDING, _OF_FORECAST, _OF_NEW_NODES, _OF_BUFFERS = 0.3, 0.1, 0.4, 0.2
_OF_FORECAST_ALONE = 0.3  # without nominations: each try makes the plan anew, 1 to 2 s for 40 pods

if TYPE_CHECKING:
    from rich.console import RenderableType

    from dovetail.cli.plan_buffers import Buffers
    from dovetail.cli.plan_output import Nearest
    from dovetail.cli.searching import Search
    from dovetail.model.plan import Plan
    from dovetail.model.problem import Problem
    from dovetail.simulate.scheduler.forecast import Forecast


def plan(
    *,
    question: Question | None = None,
    nominate_pods: Bool = "true",
    fail_on: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    reproducible: Annotated[bool, Parameter(negative="")] = False,
    trace: Path | None = None,
    report: Path | None = None,
    write_pools: Path | None = None,
    savings_plan: str = "",
    savings_plan_discount: str = "28%",
    output: Output = "table",
) -> None:
    """Show which nodes would be bought for these manifests, with the solver that the controller uses.

    The manifests hold NodePools and, with --region, the EC2NodeClasses that these name; without any pool one
    is assumed for each kind of nodes, or one that buys c, m and r on demand, and a note says so. Every pod
    without a node is pending. Deployments, StatefulSets, ReplicaSets and Jobs count with all the pods that
    they ask for and that are not among the manifests, CronJobs with one run, DaemonSets as overhead of every
    node. Nodes and NodeClaims are filled first. Nothing is changed anywhere.

    Examples: `dovetail plan -f manifests/ --region ap-northeast-2`,
    `dovetail plan -f pool.yaml app.yaml --instance-types types.json -o json`,
    `kubectl get nodes,pods,daemonsets,nodeclaims,nodepools,ec2nodeclasses -A -o json > cluster.json` and then
    `dovetail plan -f cluster.json more.yaml --region us-east-1`.

    With nodes among the manifests, or with --kubeconfig, it says what they cost now, what their pods would
    cost on the cheapest nodes and must cost at least, and what repacking in place would save.

    It says as well what the plan comes to once kube-scheduler has placed the pods, which it does one by one,
    while the nodes come up: the scheduler's filters, scores and nominations are played up to five times.

    CapacityBuffers keep room in what the plan leaves free, and on nodes of their own, which are shown apart.

    Parameters
    ----------
    nominate_pods
        Whether the controller nominates pods to their nodes, which makes plans come true (its flag of that
        name).
    fail_on
        End with exit code 3 if this holds: unschedulable, cost>12.5 (dollars an hour) or gap>5 (per cent).
        May be repeated.
    reproducible
        Leave out what changes from run to run; with --work, the same question has the same answer to the
        byte.
    trace
        Write what each phase of the solver did to this file, a line of JSON each: seconds, incumbent, bound,
        columns, moves.
    report
        Write an HTML report to this file: the plan, and a picture of how the solver found it.
    write_pools
        Write the NodePools that are assumed where none is given, and their EC2NodeClass, to this file.
    savings_plan
        Dollars an hour of a Compute Savings Plan, such as 18: how much of it is used now, and with the plan.
        The plan itself is found at list prices.
    savings_plan_discount
        How far its prices are below those on demand.
    output
        table for people; json or yaml with every detail for programs.
    """
    from rich.console import Group
    from rich.text import Text

    from dovetail.cli import plan_output
    from dovetail.cli.messages import note
    from dovetail.cli.plan_admission import vertical_remark
    from dovetail.cli.plan_buffers import Buffers, after_pods, kept_of
    from dovetail.cli.plan_classes import closed_pools, reasoned
    from dovetail.cli.plan_copies import copies, in_all
    from dovetail.cli.plan_input import asks_for_nodes
    from dovetail.cli.plan_launch import as_launched
    from dovetail.cli.plan_output import FAILED, conditions, fact_lines, facts, remarks, sentences
    from dovetail.cli.savings_plan import as_document, in_words, savings_plan_of
    from dovetail.cli.searching import checked, traced
    from dovetail.explain.architectures import other_architectures
    from dovetail.explain.spot_diversity import diversity_cost
    from dovetail.explain.spread_domains import as_seen
    from dovetail.solve.budget import never
    from dovetail.views.page.document import check_target

    check_target(report)
    question = question or Question()
    if write_pools is not None:
        _write_pools(question, write_pools)
        if not asks_for_nodes(question.reading):
            return
    wanted, search = conditions(fail_on), question.search()
    committed = savings_plan_of(savings_plan, savings_plan_discount)
    problem, copied = question.with_copies()
    region = question.place
    if problem.nodes:
        search = search.shared()
    with traced(trace, timed=not reproducible) as traces:
        found = replace(search.part(_OF_PENDING), tracing=traces.one).unchecked(problem)
    with checked(problem, found.plan):
        answer = replace(found, plan=reasoned(found.plan, closed_pools(question.reading.manifests)))
        plan = answer.plan
        nearest = _nearest_misses(problem, plan, search)
        if copied:  # what is said of a plan as a whole would be of its smaller part
            diversity, placed, seen = 0, None, as_seen(problem, plan, lambda: True)
        else:
            diversity = diversity_cost(problem, plan)
            over = never if search.work is not None else search.part(_OF_FORECAST).explaining()
            seen = as_seen(problem, plan, over)
            nominate = nominate_pods == "true"
            share = _OF_FORECAST if nominate else _OF_FORECAST_ALONE
            placed = _placed(problem, plan, search.part(share), nominate=nominate)
        more = copies(problem, plan, copied, search.answer)
        answer = in_all(answer, more)
        spot = question.spot_range()
        plan = as_launched(problem, answer.plan, spot)
        more = tuple(replace(one, plan=as_launched(problem, one.plan, spot)) for one in more)
        said = list(sentences(plan, diversity, seen, placed, more))
        shown = _Shown([*plan_output.tables(plan, nearest, more), *map(Text, said)], said, {})
        kept = kept_of(question.reading.manifests)
        buffers = None
        if kept:
            asked = search.part(_OF_BUFFERS).answer(after_pods(problem, plan, kept))
            buffers = Buffers(kept, asked.plan)
    if output != "table" or report is not None:  # a document has a line for each node and pod
        shown.document = {
            **facts(problem, answer, region, more),
            **plan_output.document(problem, plan, answer.elapsed, nearest, diversity, seen, placed, more),
        }
    if buffers is not None:
        shown.add_buffers(buffers)
    listed, fresh = 0, None  # what the nodes on demand that are there come to; all pods on new nodes
    if problem.nodes:
        listed, fresh = _bill(problem, search, region.name if region else "", shown)
    if committed is not None:
        then = listed + plan_output.bought_on_demand(problem, plan, more)
        shown.say(in_words(committed, listed, then, "with the plan"))
        shown.document["savingsPlan"] = as_document(committed, listed, then)
    if reproducible:
        shown.document.pop("elapsedSeconds", None)
    ends = list(fact_lines(problem, answer, search, region, question.reading, more))
    bought = (*plan.claims, *(fresh.claims if fresh is not None else ()))
    proposed = ((claim.pods, claim.instance_types) for claim in bought)
    notes = [*remarks(problem, plan), *other_architectures(problem, proposed)]
    if vertical := vertical_remark(question.reading):
        notes.append(vertical)
    show(Group(*shown.lines, *map(Text, ends)), shown.document, output)
    if report is not None:
        from dovetail.views.page.document import write_page
        from dovetail.views.plan.page import render

        texts = [*shown.said, *ends, *notes]
        write_page(render(shown.document, traces.lines, texts, shown.bill_texts), report)
        note(f"the report is in {report}")
    for text in notes:
        note(text)
    broken = [(one.text, why) for one in wanted if (why := one.broken(plan, more))]
    for text, why in broken:
        print(f"dovetail: --fail-on {text}: {why}", file=sys.stderr)
    if broken:
        raise SystemExit(FAILED)


@dataclass
class _Shown:
    """What is printed, in its order, and the same as a document for programs."""

    lines: list[RenderableType]
    said: list[str]  # the sentences among the lines, but for those of the bill: the report has them too
    document: dict[str, Any]
    bill_texts: tuple[str, ...] = ()  # the sentences of the bill

    def say(self, sentence: str) -> None:
        from rich.text import Text

        self.said.append(sentence)
        self.lines.append(Text(sentence))

    def add_buffers(self, buffers: Buffers) -> None:
        from dovetail.cli.plan_buffers import buffer_document, buffer_lines

        for line in buffer_lines(buffers):
            if isinstance(line, str):
                self.say(line)
            else:
                self.lines.append(line)
        self.document["capacityBuffers"] = buffer_document(buffers)


def _write_pools(question: Question, path: Path) -> None:
    """The NodePools that are assumed, to a file. Raises InputError."""
    from dovetail.base.writing import unwritten, write_whole
    from dovetail.cli.assumed_pool import written_pools
    from dovetail.cli.messages import note

    try:
        write_whole(path, written_pools(question.reading))
    except OSError as error:
        raise unwritten(error, "--write-pools") from None
    note(f"the assumed NodePools are in {path}")


def _bill(problem: Problem, search: Search, region: str, shown: _Shown) -> tuple[int, Plan]:
    """Show what the nodes that are there cost, and what would be saved on others; answers what those on
    demand come to (nano-dollars per hour, at list prices) and the plan of all pods on new nodes.
    """
    from rich.text import Text

    from dovetail.cli.bill_output import bill_document, bill_lines, listed_on_demand, node_prices
    from dovetail.disrupt.bill import anew, bill, repack

    prices = node_prices(problem, region)
    fresh = search.part(_OF_NEW_NODES).answer(anew(problem))
    billed = bill(problem, prices, fresh.plan)
    budget = search.what_ifs.budget()
    moves = repack(problem, prices, lambda asked: search.quick(asked, budget), budget, fresh.plan)
    lines = list(bill_lines(billed, moves, search, cut_short=fresh.cut_short))
    shown.bill_texts = tuple(str(line) for line in lines if isinstance(line, Text))
    shown.lines += lines
    shown.document["cluster"] = bill_document(billed, moves, prices, cut_short=fresh.cut_short)
    return listed_on_demand(problem.nodes, prices), fresh.plan


def _nearest_misses(problem: Problem, plan: Plan, search: Search) -> Nearest:
    if not plan.refused:
        return {}
    from dovetail.explain.pod import nearest_misses

    return nearest_misses(problem, plan, search.explaining())


def _placed(problem: Problem, plan: Plan, search: Search, *, nominate: bool) -> Forecast | None:
    """What the plan comes to once the scheduler has placed the pods; None where there is no time to see."""
    bound, nodes = sum(len(node.pods) for node in problem.nodes), len(problem.nodes) + len(plan.claims)
    seconds = min(search.seconds, max(SECOND, search.longest) / SECOND)
    if bound >= search.seconds * _BOUND_A_SECOND or len(problem.pods) * nodes >= seconds * _PLAYED_A_SECOND:
        return None
    from dovetail.cli.searching import progress
    from dovetail.simulate.scheduler.forecast import forecast

    left = min(search.seconds * SECOND, search.patience.nanoseconds)
    if not nominate and search.work is None and left > SECOND:
        progress("trying how kube-scheduler places the pods", round(left))
    return forecast(problem, plan, nominate=nominate, over=search.explaining(alone=not nominate))
