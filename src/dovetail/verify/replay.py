"""Rules between pods: spread and inter-pod affinity hold at each pod's turn, in some legal order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from dovetail.api.core import Pod
from dovetail.base.memo import MOST_PODS, by_identity
from dovetail.model.affinity import AffinityRule, affinity_rules
from dovetail.model.cluster_view import ClusterView, NodeView, PodFacts
from dovetail.model.labels import HOSTNAME
from dovetail.model.plan import Plan
from dovetail.model.spread import SpreadRule
from dovetail.verify.existing import cluster_view
from dovetail.verify.legal_orders import Kinds, Step, Stuck, Weights, considerate, eager, in_turns
from dovetail.verify.violation import Violation
from dovetail.verify.worlds import Catalogue, Offer

# Orders that are tried before a plan is taken to have no legal one.
_ATTEMPTS = 12


# Claim -> label that its node may get with any of several values -> those values.
Undecided = Mapping[str, Mapping[str, frozenset[str]]]


def replay_violations(catalogue: Catalogue, plan: Plan) -> Iterator[Violation]:
    """Place the pods one by one on the nodes of the plan, in whichever order works."""
    numbers = Kinds()
    placed = [(pod, node, numbers.of(catalogue.like(pod))) for pod, node in _placed(plan)]
    kinds = {kind: catalogue.like(pod) for pod, _, kind in placed}
    repelling = _repelling(catalogue)
    keys = _rule_keys(repelling, kinds.values())
    if not keys:
        return
    tied = _tied(catalogue, kinds, repelling)
    steps = [Step(catalogue.facts(pod), node, kind) for pod, node, kind in placed if kind in tied]
    undecided = _undecided(catalogue, plan, keys)
    broken = [
        *_spread_where_undecided(steps, kinds, undecided),
        *_anti_where_undecided(catalogue, plan, steps, undecided, repelling),
    ]
    if broken:
        yield from broken
        return
    stuck = _search(catalogue, plan, steps, undecided)
    for step, reason in stuck:
        message = f"has no turn on {step.node} in any order tried: {reason}"
        yield Violation("between pods", step.facts.pod.key, message)


def _placed(plan: Plan) -> Iterator[tuple[str, str]]:
    """Each pod with its node or claim."""
    for claim in plan.claims:
        yield from ((pod, claim.name) for pod in claim.pods)
    for node, pods in sorted(plan.existing.items()):
        yield from ((pod, node) for pod in pods)


def _undecided(catalogue: Catalogue, plan: Plan, keys: frozenset[str]) -> Undecided:
    """Labels that a claim's node may have with more than one value, or with one or without."""
    by_offer: dict[Offer, dict[str, frozenset[str]]] = {}
    for offer in map(catalogue.offer, plan.claims):
        if offer in by_offer:
            continue
        found = by_offer[offer] = {}
        for key in sorted(keys - {HOSTNAME}):
            values = offer.values(key)
            everything = frozenset(value for some in values for value in some)
            if len(everything) > 1 or (everything and () in values):
                found[key] = everything
    return {claim.name: by_offer[catalogue.offer(claim)] for claim in plan.claims}


def _rule_keys(repelling: Iterable[AffinityRule], kinds: Iterable[PodFacts]) -> frozenset[str]:
    """The labels whose values are domains of some rule between pods."""
    keys = {rule.key for rule in repelling}
    for facts in kinds:
        keys.update(rule.key for rule in facts.spread)
        keys.update(rule.key for rule in _between(facts))
    return frozenset(keys)


def _repelling(catalogue: Catalogue) -> set[AffinityRule]:
    """The rules by which pods that run repel others."""
    bound = (pod for node in catalogue.problem.nodes for pod in node.pods)
    return {rule for pod in bound for rule in affinity_rules(pod).anti_affinity}


def _between(facts: PodFacts) -> tuple[AffinityRule, ...]:
    return (*facts.affinity.affinity, *facts.affinity.anti_affinity)


def _constrained(facts: PodFacts) -> bool:
    return bool(facts.spread or _between(facts))


def _tied(
    catalogue: Catalogue, kinds: Mapping[int, PodFacts], repelling: set[AffinityRule]
) -> frozenset[int]:
    """The kinds of pods that some rule between pods is of or about.

    Others have a turn at any time, wherever they go, and take no other's.
    """
    namespaces = catalogue.problem.namespaces
    rules = repelling.union(*map(_between, kinds.values()))
    counting = _Counting(kinds)
    return frozenset(
        kind
        for kind, facts in kinds.items()
        if _constrained(facts)
        or any(rule.matches(facts.namespace, facts.labels, namespaces) for rule in rules)
        or counting.rules(facts)
    )


class _Counting:
    """The spread rules of all kinds of pods, by the pods that they count."""

    def __init__(self, kinds: Mapping[int, PodFacts]) -> None:
        self._by_namespace: dict[str, set[SpreadRule]] = {}
        for facts in kinds.values():
            for rule in facts.spread:
                self._by_namespace.setdefault(rule.namespace, set()).add(rule)

    def rules(self, facts: PodFacts) -> set[SpreadRule]:
        """Those that count such a pod."""
        of_its_namespace = self._by_namespace.get(facts.namespace, ())
        return {rule for rule in of_its_namespace if rule.counts(facts.namespace, facts.labels)}


def _spread_where_undecided(
    steps: list[Step], kinds: Mapping[int, PodFacts], undecided: Undecided
) -> Iterator[Violation]:
    """A label may stay open only if no spread rule counts the claim's pods by it."""
    counting = _Counting(kinds)
    counted: dict[int, set[str]] = {}
    for step in steps:
        open_labels, facts = undecided.get(step.node), step.facts
        if not open_labels:
            continue
        if step.kind not in counted:
            counted[step.kind] = {rule.key for rule in (*facts.spread, *counting.rules(facts))}
        for key in sorted(counted[step.kind] & open_labels.keys()):
            message = f"{step.node} may get any of several values of {key}, by which the pod is counted"
            yield Violation("undecided", step.facts.pod.key, message)


def _anti_where_undecided(
    catalogue: Catalogue, plan: Plan, steps: list[Step], undecided: Undecided, running: set[AffinityRule]
) -> Iterator[Violation]:
    """Pods that repel each other share no value that either's node may get; `running` are rules there."""
    open_labels = {key for some in undecided.values() for key in some}
    repelling = {rule.key for step in steps for rule in step.facts.affinity.anti_affinity}
    if open_labels.isdisjoint(repelling | {rule.key for rule in running}):
        return
    view = _nodes(catalogue, plan, undecided, frozenset(), lambda _: True)
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
    counts = _running(catalogue, steps)
    view = _nodes(catalogue, plan, undecided, spread_keys, counts)
    best = stuck = eager(view, in_turns(view, ruled_first))
    for attempt in range(_ATTEMPTS if stuck else 0):
        view = _nodes(catalogue, plan, undecided, spread_keys, counts)
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


_Alike = tuple[str, tuple[tuple[str, str], ...]]  # namespace and labels


@by_identity(MOST_PODS)
def _alike(pod: Pod) -> _Alike:
    return pod.metadata.namespace, tuple(sorted(pod.metadata.labels.items()))


def _running(catalogue: Catalogue, steps: Iterable[Step]) -> Callable[[Pod], bool]:
    """Whether a pod that runs means anything to the rules between pods for these steps: it has rules of its
    own against others, or one of theirs is about such a pod. Of most that run on many nodes neither is so.
    """
    namespaces = catalogue.problem.namespaces
    kinds = {step.kind: step.facts for step in steps}.values()
    spreads = {rule for facts in kinds for rule in facts.spread}
    between = {rule for facts in kinds for rule in _between(facts)}
    known: dict[_Alike, bool] = {}

    def counts(pod: Pod) -> bool:
        if affinity_rules(pod).anti_affinity:
            return True
        alike = _alike(pod)
        if alike not in known:
            namespace, labels = pod.metadata.namespace, pod.metadata.labels
            known[alike] = any(rule.counts(namespace, labels) for rule in spreads) or any(
                rule.matches(namespace, labels, namespaces) for rule in between
            )
        return known[alike]

    return counts


def _nodes(
    catalogue: Catalogue,
    plan: Plan,
    undecided: Undecided,
    spread_keys: frozenset[str],
    counts: Callable[[Pod], bool],
) -> ClusterView:
    """Existing nodes with the pods there that count, and one per claim with the labels that are certain.

    A label that is open becomes a domain of the node's own: pods on one node are near each other whatever it
    will be. Where spread rules look at the label it is left out instead: the domain is not known to exist.
    """
    view = cluster_view(catalogue, list(catalogue.problem.nodes), counts)
    certain: dict[Offer, dict[str, str]] = {}
    for claim in plan.claims:
        offer, unsure = catalogue.offer(claim), undecided[claim.name]
        if offer not in certain:
            possible = offer.first.possible
            certain[offer] = {key: values[0] for key, values in possible.items() if key not in unsure}
        labels = {**certain[offer], HOSTNAME: claim.name}
        labels.update({key: f"?{claim.name}" for key in undecided[claim.name] if key not in spread_keys})
        view.set_node(NodeView(claim.name, labels, {}, taints=claim.taints))
    return view
