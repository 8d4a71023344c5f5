"""Rules on pods that go to nodes which exist or are on their way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from dovetail.api.core import Pod
from dovetail.model.cluster_view import ClusterView, NodeView
from dovetail.model.filters import Placement
from dovetail.model.plan import Plan
from dovetail.model.problem import ExistingNode
from dovetail.model.resources import add, fits, subtract
from dovetail.verify.violation import Violation
from dovetail.verify.worlds import Catalogue, runs_on


def existing_violations(catalogue: Catalogue, plan: Plan) -> Iterator[Violation]:
    """Each pod passes the filters of its node, after those that the plan puts there before it."""
    problem = catalogue.problem
    for node in problem.nodes:
        placed = plan.existing.get(node.name, ())
        if not placed:
            continue
        view = cluster_view(catalogue, [node])
        for key in placed:
            pod = catalogue.pods[key]
            for reason in Placement(pod, view).alone(view.nodes[node.name]):
                yield Violation("existing node", key, f"cannot run on {node.name}: {reason.text}")
            view.add_pod(pod, node.name)
        asked = {
            name for key in placed for name, amount in catalogue.facts(key).requests.items() if amount > 0
        }
        yield from _daemons(catalogue, node, view.nodes[node.name], asked)


def cluster_view(
    catalogue: Catalogue, nodes: list[ExistingNode], counts: Callable[[Pod], bool] = lambda _: True
) -> ClusterView:
    """The nodes with those of the pods that run on them which count."""
    problem = catalogue.problem
    view = ClusterView(
        namespaces=problem.namespaces,
        volumes=problem.volumes,
        resolve=lambda pod, _: catalogue.facts_of(pod),
    )
    for node in nodes:
        view.set_node(
            NodeView(
                name=node.name,
                labels=node.labels,
                allocatable=node.allocatable,
                taints=node.taints,
                volume_limits=node.volume_limits,
            )
        )
        for pod in filter(counts, node.pods):
            view.add_pod(pod, node.name)
    return view


def _daemons(
    catalogue: Catalogue, node: ExistingNode, view: NodeView, asked: Collection[str]
) -> Iterator[Violation]:
    """Of what placed pods ask for, room is left for what DaemonSets have still to put there."""
    owners = (pod.metadata.controller() for pod in node.pods)
    present = {owner.name for owner in owners if owner is not None and owner.kind == "DaemonSet"}
    load = view.used
    for daemon in catalogue.daemons:
        there = daemon.name.rpartition("/")[2] in present
        if not there and runs_on(daemon, node.taints, node.name, node.labels):
            load = add(load, daemon.facts.requests)
    load = {name: amount for name, amount in load.items() if name in asked}
    if not fits(load, node.allocatable):
        missing = {name: amount for name, amount in subtract(load, node.allocatable).items() if amount > 0}
        yield Violation("existing node", node.name, f"has no room left for its daemons, short of {missing}")
