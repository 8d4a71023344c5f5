"""`dovetail explain`: why a plan is what it is."""

from __future__ import annotations

import difflib

from cyclopts import App

from dovetail.api.core import Pod
from dovetail.api.manifest import load
from dovetail.base.errors import InputError
from dovetail.cli import explain_output
from dovetail.cli.question import Output, Question, answered, show
from dovetail.model.problem import Problem
from dovetail.solve.explain.pod import pod_story

explain = App(
    name="explain",
    help="Tell why a plan is what it is: where a pod goes, or what stands in its way.\n\n"
    "Takes the same files and options as `dovetail plan`.",
)


@explain.command
def pod(name: str, /, *, question: Question, output: Output = "table") -> None:
    """Tell where a pod goes and why, or per NodePool what stands in its way and what would help.

    A pod that a Deployment or the like still lacks has the name that `dovetail plan` gives it: default/web-0.
    What is said to help has been tried: on top of the plan, the pod is planned once more with that change.

    Example: `dovetail explain pod default/web-0 -f manifests/ --region us-east-1`.

    Parameters
    ----------
    name
        The pod as NAMESPACE/NAME; without a namespace, default is meant.
    output
        table for people; json or yaml with every detail for programs.
    """
    problem = question.problem()
    key = name if "/" in name else f"default/{name}"
    if any(item.key == key for item in problem.pods):
        answer, _ = answered(problem, question.longest())
        story = pod_story(problem, answer, key)
        show(explain_output.pod_tables(story), explain_output.pod_document(story), output)
        return
    node = _bound_to(question, problem, key)
    show(explain_output.bound(key, node), {"pod": key, "bound": node}, output)


def _bound_to(question: Question, problem: Problem, key: str) -> str:
    """The node that a pod runs on; raises InputError for a pod that is not there or is of no concern."""
    node = next((node.name for node in problem.nodes for item in node.pods if item.key == key), "")
    if node:
        return node
    given = {item.object.key: item.object for item in load(question.filename) if isinstance(item.object, Pod)}
    found = given.get(key)
    if found is None:
        names = {item.key for item in problem.pods} | given.keys()
        names.update(item.key for node in problem.nodes for item in node.pods)
        near = [name for name in sorted(names) if name.endswith(f"/{key.partition('/')[2]}")]
        near = near[:3] or difflib.get_close_matches(key, sorted(names), n=3)
        remedy = f"did you mean {' or '.join(near)}?" if near else "`dovetail plan -o json` lists all pods"
        raise InputError(
            f"there is no pod {key} among the manifests", source="dovetail explain pod", remedy=remedy
        )
    if found.terminal or found.deleting:
        state = "has finished" if found.terminal else "is being deleted"
        raise InputError(f"pod {key} {state}, so it needs no node", source="dovetail explain pod")
    return found.spec.node_name
