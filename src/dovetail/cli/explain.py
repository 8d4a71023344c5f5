"""`dovetail explain`: why a plan is what it is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from dovetail.base.errors import InputError
from dovetail.base.guess import nearest
from dovetail.cli import explain_past
from dovetail.cli.question import Output, Question, show

if TYPE_CHECKING:
    from dovetail.explain.rules import Rule
    from dovetail.model.plan import Plan
    from dovetail.model.problem import Problem

explain = App(
    name="explain",
    help="Show why a pod has no place, why a node is what it is, and what rules cost.\n\n"
    "Takes the same files and options as `dovetail plan`.",
)


@explain.command
def pod(name: str, /, *, question: Question | None = None, output: Output = "table") -> None:
    """Show where a pod goes and why, or per NodePool what stands in its way and what would help.

    A pod that a Deployment or the like still lacks has the name that `dovetail plan` gives it: default/web-0,
    the pods that stand for a CapacityBuffer are default/capacity-buffer-NAME-1 and so on.
    What is said to help has been tried: on top of the plan, the pod is planned once more with that change.

    Example: `dovetail explain pod default/web-0 -f manifests/ --region us-east-1`.

    Parameters
    ----------
    name
        The pod as NAMESPACE/NAME; without a namespace, default is meant.
    output
        table for people; json or yaml with every detail for programs.
    """
    from dovetail.cli import explain_output
    from dovetail.cli.messages import note
    from dovetail.cli.plan_buffers import after_pods, kept_of
    from dovetail.explain.architectures import other_architectures
    from dovetail.explain.off_spot import off_spot
    from dovetail.explain.pod import pod_story

    key = name if "/" in name else f"default/{name}"
    if key.count("/") != 1 or key.startswith("/") or key.endswith("/"):
        raise InputError(
            f"{name!r} is no name of a pod", remedy="write NAMESPACE/NAME, such as default/web-0"
        )
    question = question or Question()
    problem, copied = question.with_copies()
    for one in copied:
        note(f"{one.pods:,} more pods of {one.workload} are like those that are looked at")
    kept = [one for one in kept_of(question.reading.manifests) if any(pod.key == key for pod in one.pods)]
    if kept:
        problem = after_pods(problem, question.search().answer(problem).plan, kept)
    if any(item.key == key for item in problem.pods):
        answer = question.search().answer(problem).plan
        story = pod_story(problem, answer, key, question.search().explaining(alone=True))
        kinds = [one.offer.instance_type for one in story.verdict.pools if one.offer]
        kinds += story.claim.instance_types if story.claim else ()
        for text in other_architectures(problem, [((key,), kinds)]):
            note(text)
        show(explain_output.pod_tables(story), explain_output.pod_document(story), output)
        return
    there = _bound_to(question, problem, key)
    running = next((one for node in problem.nodes for one in node.pods if one.key == key), None)
    why = off_spot(running, problem) if running is not None else ""
    show(explain_output.bound(key, there, why), explain_output.bound_document(key, there, why), output)


@explain.command
def node(
    name: str,
    /,
    *,
    question: Question | None = None,
    history: Path | None = None,
    timezone: str = "UTC",
    output: Output = "table",
) -> None:
    """Show what fills a node and how full it is, why it is of this type, and what else there was.

    NAME is a node of the manifests, or one to be bought, by its name in `dovetail explain pod` and in
    `dovetail plan -o json`: general-0. For a node that is there, its pods are taken to stay in its zone;
    it also says what keeps the node from being disrupted now.

    With --history, a log is asked: why the node was bought, what became of that plan, why the node went, what
    that saved, and what its pods suffered; for that the controller's log needs a snapshot from later with -f.

    Example: `dovetail explain node general-0 -f manifests/ --region us-east-1`,
    `dovetail explain node ip-10-0-0-7 --history events.jsonl`.

    Parameters
    ----------
    name
        The node, or in a log its NodeClaim.
    history
        The log of `dovetail run`, or what `dovetail simulate --events FILE` writes.
    timezone
        How times of the history are shown, such as Asia/Seoul.
    output
        table for people; json or yaml with every detail for programs.
    """
    from rich.console import Group

    from dovetail.api.workloads import Deployment
    from dovetail.cli import explain_node_output as node_output
    from dovetail.cli.explain_node_output import standing_document, standing_lines
    from dovetail.cli.messages import note
    from dovetail.cli.plan_input import read_cluster
    from dovetail.disrupt.standing import standing
    from dovetail.explain.architectures import other_architectures
    from dovetail.explain.node import node_names, node_story

    if history is not None:
        explain_past.print_node(history, name, timezone, question, output)
        return
    if question is None:
        raise InputError(
            "neither manifests nor a log is given",
            remedy="give manifests with -f and --region, or a log with --history",
        )
    question = question or Question()
    problem = question.problem()
    answer = question.search().answer(problem).plan
    names = node_names(problem, answer)
    if name not in names:
        near = nearest(name, names, most=3) or names[:3]
        remedy = (
            f"did you mean {' or '.join(near)}?" if near else "the plan buys nothing, and no node is given"
        )
        raise InputError(f"there is no node {name} in the plan or the manifests", remedy=remedy)
    story = node_story(problem, answer, name, question.search().explaining(alone=True))
    kinds = [one.offer.instance_type for one in story.possible]
    for text in other_architectures(problem, [([pod for pod, _ in story.pods], kinds)]):
        note(text)
    tables, document = node_output.node_tables(story), node_output.node_document(story)
    if not story.planned:
        objects = (item.object for item in question.reading.manifests)
        deployments = [one for one in objects if isinstance(one, Deployment)]
        found = standing(read_cluster(question.reading), name, time.time_ns(), deployments)
        tables = Group(tables, *standing_lines(found))
        document["disruption"] = standing_document(found)
    show(tables, document, output)


explain.command(explain_past.wait)
explain.command(explain_past.realised)


@explain.command
def cost(
    *,
    question: Question | None = None,
    tries: int = 20,
    whole: Annotated[bool, Parameter(negative="")] = False,
    output: Output = "table",
) -> None:
    """Show what the dearest rules of the manifests cost per month.

    Each rule is lifted alone and everything is planned anew: topology spread and affinity of each workload,
    its demands on zone, type or capacity type, its preferences, requirements, limits and weights of
    NodePools, minValues, what daemons take, and the diversity of spot nodes. Of each, the rules with the
    most at stake are tried first. It takes up to --deadline for each.

    Of a cluster where all pods run nothing is to be bought: all of it is planned then, as if it were empty.

    Examples: `dovetail explain cost -f manifests/ --region us-east-1 --deadline 5s`,
    `dovetail explain cost -f cluster.json.gz --deadline 5s`.

    Parameters
    ----------
    tries
        How many rules to try at most.
    whole
        Plan the pods that run as well, as if the cluster were empty, also where others wait for nodes.
    output
        table for people; json or yaml with every detail for programs.
    """
    from rich.console import Console
    from rich.progress import Progress

    from dovetail.cli import explain_output, explain_teams
    from dovetail.cli.messages import note
    from dovetail.explain.cost import comparison, cost_story

    if tries < 1:
        raise InputError(f"{tries} is less than 1", source="--tries", remedy="such as --tries 20")
    question = question or Question()
    problem = question.problem()
    search = question.search().single
    if whole or (not problem.pods and any(node.pods for node in problem.nodes)):
        problem = explain_teams.emptied(problem)
        note(f"{len(problem.pods):,} pods are planned as if the cluster were empty")
    answer = search.answer(problem).plan

    def solved(changed: Problem) -> Plan:
        return search.answer(changed).plan

    base = comparison(problem, answer, solved)
    screen = Console(stderr=True)
    with Progress(console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task("", total=min(tries, len(base.rules)))

        def step(rule: Rule) -> None:
            progress.update(task, advance=1, description=f"without {rule.what} of {rule.who}")

        story = cost_story(base, tries, solved, step)
    show(explain_output.cost_tables(story), explain_output.cost_document(story), output)


@explain.command
def teams(*, by: str = "namespace", question: Question | None = None, output: Output = "table") -> None:
    """Show the least that each team's pods could cost: alone on nodes of their own, and all together.

    Every group is planned alone and then all of them together, as if the cluster were empty, with the bound
    below which no plan can go. It takes up to --deadline for each.

    Example: `dovetail explain teams -f cluster.json --by label:team`.

    Parameters
    ----------
    by
        namespace, controller, label:NAME or the like; several with commas between them.
    output
        table for people; json or yaml with every detail for programs.
    """
    from rich.console import Console
    from rich.progress import Progress

    from dovetail.cli import explain_teams

    keys = explain_teams.keys_of(by)
    question = question or Question()
    problem = explain_teams.emptied(question.problem())
    search = question.search().single
    screen = Console(stderr=True)
    with Progress(console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task("", total=None)
        found = explain_teams.teams(
            problem,
            keys,
            lambda asked: search.answer(asked).plan,
            lambda name: progress.update(task, description=f"{name} alone"),
        )
        progress.update(task, description="all together")
        together = search.answer(problem).plan
    show(explain_teams.tables(found, together, by), explain_teams.document(found, together, keys), output)


def _bound_to(question: Question, problem: Problem, key: str) -> str:
    """The node that a pod runs on; raises InputError for a pod that is not there or is of no concern."""
    from dovetail.api.core import Pod

    there = next((node.name for node in problem.nodes for item in node.pods if item.key == key), "")
    if there:
        return there
    given = {
        item.object.key: item.object for item in question.reading.manifests if isinstance(item.object, Pod)
    }
    found = given.get(key)
    if found is None:
        names = {item.key for item in problem.pods} | given.keys()
        names.update(item.key for node in problem.nodes for item in node.pods)
        near = _near(key, sorted(names))
        remedy = f"did you mean {' or '.join(near)}?" if near else "`dovetail plan -o json` lists all pods"
        raise InputError(f"there is no pod {key} among the manifests", remedy=remedy)
    if found.terminal or found.deleting:
        state = "has finished" if found.terminal else "is being deleted"
        raise InputError(f"pod {key} {state}, so it needs no node")
    return found.spec.node_name


def _near(key: str, names: list[str]) -> list[str]:
    """Pods whose names are like the one that was meant, whatever their namespace."""
    wanted = key.partition("/")[2].lower()
    by_name: dict[str, list[str]] = {}
    for name in names:
        by_name.setdefault(name.partition("/")[2], []).append(name)
    begun = [name for name in sorted(by_name) if wanted and name.startswith(f"{wanted}-")]
    close = nearest(wanted, sorted(by_name), most=3)
    close = [wanted] if wanted in by_name else begun[:3] or close
    return [name for each in close for name in by_name[each]][:3]
