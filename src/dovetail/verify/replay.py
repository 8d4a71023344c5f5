"""Rules between pods: spread and inter-pod affinity hold at each pod's turn, in some legal order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dovetail.model.affinity import affinity_rules
from dovetail.model.filters import ClusterView, NodeView, PodFacts
from dovetail.model.labels import HOSTNAME
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.verify.existing import cluster_view
from dovetail.verify.legal_orders import Kinds, Step, Stuck, Weights, considerate, eager, in_turns
from dovetail.verify.violation import Violation
from dovetail.verify.worlds import Catalogue

# Orders that are tried before a plan is taken to have no legal one.
_ATTEMPTS = 12


# Claim -> label that its node may get with any of several values -> those values.
Undecided = Mapping[str, Mapping[str, frozenset[str]]]


def replay_violations(catalogue: Catalogue, plan: Plan) -> Iterator[Violation]:
    """Place the pods one by one on the nodes of the plan, in whichever order works."""
    steps = list(_steps(catalogue, plan))
    keys = _rule_keys(catalogue, steps)
    if not keys:
        return
    undecided = {claim.name: _undecided(catalogue, claim, keys) for claim in plan.claims}
    broken = [
        *_spread_where_undecided(catalogue, plan, steps, undecided),
        *_anti_where_undecided(catalogue, plan, steps, undecided),
    ]
    if broken:
        yield from broken
        return
    stuck = _search(catalogue, plan, steps, undecided)
    for step, reason in stuck:
        message = f"has no turn on {step.node} in any order tried: {reason}"
        yield Violation("between pods", step.facts.pod.key, message)


def _steps(catalogue: Catalogue, plan: Plan) -> Iterator[Step]:
    kinds = Kinds()
    for claim in plan.claims:
        yield from (kinds.step(catalogue.facts(pod), claim.name) for pod in claim.pods)
    for node, pods in sorted(plan.existing.items()):
        yield from (kinds.step(catalogue.facts(pod), node) for pod in pods)


def _undecided(catalogue: Catalogue, claim: PlannedClaim, keys: frozenset[str]) -> dict[str, frozenset[str]]:
    """Labels that the claim's node may have with more than one value, or with one or without."""
    offer = catalogue.offer(claim)
    found: dict[str, frozenset[str]] = {}
    for key in sorted(keys - {HOSTNAME}):
        values = offer.values(key)
        everything = frozenset(value for some in values for value in some)
        if len(everything) > 1 or (everything and () in values):
            found[key] = everything
    return found


def _rule_keys(catalogue: Catalogue, steps: list[Step]) -> frozenset[str]:
    """The labels whose values are domains of some rule between pods."""
    keys = {rule.key for step in steps for rule in step.facts.spread}
    keys |= {
        rule.key
        for step in steps
        for rule in (*step.facts.affinity.affinity, *step.facts.affinity.anti_affinity)
    }
    return frozenset(keys | _repelling_keys(catalogue))


def _repelling_keys(catalogue: Catalogue) -> set[str]:
    """The labels by which pods that run repel others."""
    bound = (pod for node in catalogue.problem.nodes for pod in node.pods)
    return {rule.key for pod in bound for rule in affinity_rules(pod).anti_affinity}


def _constrained(facts: PodFacts) -> bool:
    return bool(facts.spread or facts.affinity.affinity or facts.affinity.anti_affinity)


def _spread_where_undecided(
    catalogue: Catalogue, plan: Plan, steps: list[Step], undecided: Undecided
) -> Iterator[Violation]:
    """A label may stay open only if no spread rule counts the claim's pods by it."""
    rules = {rule for step in steps for rule in step.facts.spread}
    counted = {
        step.kind: {rule.key for rule in rules if rule.counts(step.facts.namespace, step.facts.labels)}
        for step in {step.kind: step for step in steps}.values()
    }
    kinds = {step.facts.pod.key: step.kind for step in steps}
    for claim in plan.claims:
        for pod in claim.pods if undecided[claim.name] else ():
            keys = {rule.key for rule in catalogue.facts(pod).spread} | counted[kinds[pod]]
            for key in sorted(keys & undecided[claim.name].keys()):
                message = f"{claim.name} may get any of several values of {key}, by which the pod is counted"
                yield Violation("undecided", pod, message)


def _anti_where_undecided(
    catalogue: Catalogue, plan: Plan, steps: list[Step], undecided: Undecided
) -> Iterator[Violation]:
    """Pods that repel each other share no value that either's node may get."""
    open_labels = {key for some in undecided.values() for key in some}
    repelling = {rule.key for step in steps for rule in step.facts.affinity.anti_affinity}
    if open_labels.isdisjoint(repelling | _repelling_keys(catalogue)):
        return
    view = _nodes(catalogue, plan, undecided, frozenset())
    everything = [*steps]
    for node in catalogue.problem.nodes:
        everything += [Step(facts, node.name, -1) for facts in view.nodes[node.name].pods.values()]
    carriers = [step for step in everything if step.facts.affinity.anti_affinity]
    for carrier in carriers:
        for rule in carrier.facts.affinity.anti_affinity:
            if rule.key not in open_labels:
                continue
            mine = _values(view, undecided, carrier.node, rule.key)
            for other in everything:
                facts = other.facts
                if other.node == carrier.node or not rule.matches(
                    facts.namespace, facts.labels, catalogue.problem.namespaces
                ):
                    continue
                shared = mine & _values(view, undecided, other.node, rule.key)
                if shared:
                    message = f"may share {rule.key}={min(shared)} with {facts.pod.key}, which it repels"
                    yield Violation("undecided", carrier.facts.pod.key, message)
                    break


def _values(view: ClusterView, undecided: Undecided, node: str, key: str) -> frozenset[str]:
    if key in undecided.get(node, {}):
        return undecided[node][key]
    value = view.nodes[node].labels.get(key)
    return frozenset() if value is None else frozenset({value})


def _search(catalogue: Catalogue, plan: Plan, steps: list[Step], undecided: Undecided) -> Stuck:
    """The steps that are left in the best of several orders, with what stops them."""
    spread_keys = frozenset(rule.key for step in steps for rule in step.facts.spread)
    ruled_first = sorted(steps, key=lambda step: (not _constrained(step.facts), step.facts.pod.key))
    ruled_last = sorted(steps, key=lambda step: (_constrained(step.facts), step.facts.pod.key))
    weights: Weights = {}
    view = _nodes(catalogue, plan, undecided, spread_keys)
    best = stuck = eager(view, in_turns(view, ruled_first))
    for attempt in range(_ATTEMPTS if stuck else 0):
        view = _nodes(catalogue, plan, undecided, spread_keys)
        if attempt in (0, 1):
            stuck = eager(view, (ruled_first, ruled_last)[attempt])
        else:
            # Whoever found no turn comes first next time.
            late = {step.facts.pod.key for step, _ in stuck}
            ruled_first.sort(key=lambda step: step.facts.pod.key not in late)
            stuck = considerate(view, ruled_first, weights)
        if not stuck:
            return []
        if len(stuck) < len(best):
            best = stuck
    return best


def _nodes(
    catalogue: Catalogue, plan: Plan, undecided: Undecided, spread_keys: frozenset[str]
) -> ClusterView:
    """Existing nodes, and one per claim that carries the labels which are certain.

    A label that is open becomes a domain of the node's own: pods on one node are near each other whatever it
    will be. Where spread rules look at the label it is left out instead: the domain is not known to exist.
    """
    view = cluster_view(catalogue, list(catalogue.problem.nodes))
    for claim in plan.claims:
        possible = catalogue.offer(claim).first.possible
        labels = {key: values[0] for key, values in possible.items() if key not in undecided[claim.name]}
        labels[HOSTNAME] = claim.name
        labels.update({key: f"?{claim.name}" for key in undecided[claim.name] if key not in spread_keys})
        view.set_node(NodeView(claim.name, labels, {}, taints=claim.taints))
    return view
