"""Rules between pods: spread and inter-pod affinity hold at each pod's turn, in some legal order."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from dovetail.base.streams import stream
from dovetail.model.affinity import AffinityRule
from dovetail.model.filters import ClusterView, NodeView, Placement, PodFacts
from dovetail.model.labels import HOSTNAME
from dovetail.model.spread import SpreadRule
from dovetail.solve.plan import Plan, PlannedClaim
from dovetail.solve.verify.existing import cluster_view
from dovetail.solve.verify.violation import Violation
from dovetail.solve.verify.worlds import Catalogue

# Orders that are tried before a plan is taken to have no legal one.
_ATTEMPTS = 12


@dataclass(frozen=True, slots=True)
class Step:
    """One placement of the plan."""

    facts: PodFacts
    node: str

    @property
    def group(self) -> Hashable:
        """Equal for steps that every rule between pods judges alike."""
        labels = tuple(sorted(self.facts.labels.items()))
        facts = self.facts
        tolerations = facts.pod.spec.tolerations
        return self.node, facts.namespace, labels, facts.spread, facts.affinity, facts.node_rule, tolerations


def replay_violations(catalogue: Catalogue, plan: Plan) -> Iterator[Violation]:
    """Place the pods one by one on the nodes of the plan, in whichever order works."""
    undecided = {claim.name: _undecided(catalogue, claim) for claim in plan.claims}
    steps = list(_steps(catalogue, plan))
    if not _rules_exist(catalogue, steps):
        return
    broken = list(_counted_where_undecided(catalogue, plan, steps, undecided))
    if broken:
        yield from broken
        return
    stuck = _search(catalogue, plan, steps, undecided)
    for step, reason in stuck:
        message = f"has no turn on {step.node} in any order tried: {reason}"
        yield Violation("between pods", step.facts.pod.key, message)


def _steps(catalogue: Catalogue, plan: Plan) -> Iterator[Step]:
    for claim in plan.claims:
        yield from (Step(catalogue.facts(pod), claim.name) for pod in claim.pods)
    for node, pods in sorted(plan.existing.items()):
        yield from (Step(catalogue.facts(pod), node) for pod in pods)


def _undecided(catalogue: Catalogue, claim: PlannedClaim) -> frozenset[str]:
    """Labels that the claim's node may have with more than one value (or without)."""
    values: dict[str, set[tuple[str, ...]]] = {}
    worlds = catalogue.worlds(claim)
    keys = {key for world in worlds for key in world.possible}
    for world in worlds:
        for key in keys:
            values.setdefault(key, set()).add(world.possible.get(key, ()))
    return frozenset(key for key, found in values.items() if len(found) > 1 or len(next(iter(found))) > 1)


def _rules_exist(catalogue: Catalogue, steps: list[Step]) -> bool:
    bound = (pod for node in catalogue.problem.nodes for pod in node.pods)
    return any(_constrained(step.facts) for step in steps) or any(
        pod.spec.affinity and pod.spec.affinity.pod_anti_affinity for pod in bound
    )


def _constrained(facts: PodFacts) -> bool:
    return bool(facts.spread or facts.affinity.affinity or facts.affinity.anti_affinity)


def _counted_where_undecided(
    catalogue: Catalogue, plan: Plan, steps: list[Step], undecided: dict[str, frozenset[str]]
) -> Iterator[Violation]:
    """A label may stay open only if no rule counts the claim's pods by it."""
    view = cluster_view(catalogue.problem, list(catalogue.problem.nodes))
    anti = {rule for rule, _ in view.anti_affinity()}
    spreads: set[SpreadRule] = set()
    terms = set(anti)
    for step in steps:
        spreads.update(step.facts.spread)
        terms.update(step.facts.affinity.affinity, step.facts.affinity.anti_affinity)
    for claim in plan.claims:
        for pod in claim.pods:
            facts = catalogue.facts(pod)
            keys = _keys_that_count(catalogue, facts, spreads, terms) & undecided[claim.name]
            for key in sorted(keys):
                message = f"{claim.name} may get any of several values of {key}, by which the pod is counted"
                yield Violation("undecided", pod, message)


def _keys_that_count(
    catalogue: Catalogue, facts: PodFacts, spreads: set[SpreadRule], terms: set[AffinityRule]
) -> set[str]:
    own = {rule.key for rule in facts.spread}
    own |= {rule.key for rule in (*facts.affinity.affinity, *facts.affinity.anti_affinity)}
    own |= {rule.key for rule in spreads if rule.counts(facts.namespace, facts.labels)}
    namespaces = catalogue.problem.namespaces
    return own | {rule.key for rule in terms if rule.matches(facts.namespace, facts.labels, namespaces)}


def _search(
    catalogue: Catalogue, plan: Plan, steps: list[Step], undecided: dict[str, frozenset[str]]
) -> list[tuple[Step, str]]:
    """The steps that are left in the best of several greedy orders, with what stops them."""
    orders = [
        sorted(steps, key=lambda step: (not _constrained(step.facts), step.facts.pod.key)),
        sorted(steps, key=lambda step: (_constrained(step.facts), step.facts.pod.key)),
    ]
    best: list[tuple[Step, str]] | None = None
    for attempt in range(_ATTEMPTS):
        order = orders[attempt] if attempt < len(orders) else list(orders[0])
        if attempt >= len(orders):
            stream(attempt, "verify", "order").shuffle(order)
        stuck = _greedy(_nodes(catalogue, plan, undecided), order)
        if not stuck:
            return []
        if best is None or len(stuck) < len(best):
            best = stuck
    return best or []


def _nodes(catalogue: Catalogue, plan: Plan, undecided: dict[str, frozenset[str]]) -> ClusterView:
    """Existing nodes, and one per claim that carries the labels which are certain."""
    view = cluster_view(catalogue.problem, list(catalogue.problem.nodes))
    for claim in plan.claims:
        world = catalogue.worlds(claim)[0]
        certain = {
            key: values[0] for key, values in world.possible.items() if key not in undecided[claim.name]
        }
        pool = catalogue.pools[claim.pool]
        view.set_node(
            NodeView(claim.name, {**certain, HOSTNAME: claim.name}, {}, taints=claim.taints or pool.taints)
        )
    return view


def _greedy(view: ClusterView, order: list[Step]) -> list[tuple[Step, str]]:
    """Place whatever may be placed, round after round; what is left when a round places nothing."""
    left = order
    while left:
        refused: dict[Hashable, str] = {}
        later: list[Step] = []
        for step in left:
            if step.group not in refused:
                reasons = Placement(step.facts.pod, view).together(view.nodes[step.node])
                if not reasons:
                    view.add_pod(step.facts.pod, step.node)
                    continue
                refused[step.group] = reasons[0].text
            later.append(step)
        if len(later) == len(left):
            return [(step, refused[step.group]) for step in left]
        left = later
    return []
