"""The rules of a problem that may make it dearer, and the problem without each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest

from dovetail.api.core import Pod
from dovetail.explain import words
from dovetail.explain.change import by_template, for_pods
from dovetail.explain.miss import Change
from dovetail.model import labels
from dovetail.model.labels import ALIASES
from dovetail.model.plan import Plan
from dovetail.model.pod_rules import rules_of as demands_of
from dovetail.model.ports import host_ports
from dovetail.model.problem import Pool, Problem
from dovetail.model.requirement import Requirement, Requirements, pod_requirements
from dovetail.model.resources import CPU, MEMORY, pod_requests
from dovetail.model.volumes import volume_alternatives


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that could be lifted."""

    what: str  # "anti-affinity over hostname"
    who: str  # "StatefulSet default/database", "NodePool general"
    lift: Callable[[Problem], Problem]
    pods: frozenset[str] | None  # the pods that it binds; None: it may concern all
    stake: int  # nano-dollars per hour: what is known to be at stake, to try the dearest first


def rules_of(problem: Problem, plan: Plan) -> tuple[Rule, ...]:
    """Every rule that may cost something; workloads, pools, daemons and settings take turns.

    What is at stake with a pool's rules is all that is bought from it, mostly far more than they cost: they
    would come before all others.
    """
    sources = (
        _of_owners(problem, plan),
        _of_pools(problem, plan),
        _of_daemons(problem, plan),
        _of_settings(problem, plan),
    )
    ordered = [sorted(rules, key=lambda rule: (-rule.stake, rule.who, rule.what)) for rules in sources]
    return tuple(rule for turn in zip_longest(*ordered) for rule in turn if rule is not None)


def _of_owners(problem: Problem, plan: Plan) -> Iterator[Rule]:
    worth = {pod: item.each for item in plan.proof.worth for pod in item.pods}
    bound = [pod for node in problem.nodes for pod in node.pods]
    pending = {pod.key for pod in problem.pods}
    for who, pods in by_template((*problem.pods, *bound)).items():
        keys = frozenset(pod.key for pod in pods)
        mine = keys & pending
        stake = sum(worth.get(key, 0) for key in sorted(mine))
        for what, change in _pod_rules(pods[0], problem) if mine else ():
            yield Rule(what, who, partial(_lift_from_pods, keys, change), mine, stake)


def _lift_from_pods(keys: frozenset[str], change: Change, problem: Problem) -> Problem:
    return for_pods(problem, change, lambda pod: pod.key in keys)


def _pod_rules(pod: Pod, problem: Problem) -> Iterator[tuple[str, Change]]:
    rules = demands_of(pod, respect_preferences=problem.options.respect_preferences)
    topology = (
        ("spread", "topology spread", rules.spread),
        ("affinity", "pod affinity", rules.affinity),
        ("anti", "pod anti-affinity", rules.anti),
    )
    for kind, name, terms in topology:
        for key in dict.fromkeys(ALIASES.get(item.topology_key, item.topology_key) for item in terms):
            what = f"{name} over {words.label(key)}"
            yield what, Change("topology", what, kind, key)
    alternatives = pod_requirements(pod)
    for key in dict.fromkeys(item.key for way in alternatives for item in way):
        asked = dict.fromkeys(words.demand(way.get(key)) for way in alternatives if way.has(key))
        yield " or ".join(asked), Change("label", "", key)
    if host_ports(pod):
        yield "host ports", Change("ports", "")
    if any(len(way) for way in volume_alternatives(pod, problem.volumes)):
        yield "where its volumes are", Change("volumes", "")
    if rules.preferred_node or rules.preferred_affinity or rules.preferred_anti or rules.preferred_spread:
        yield "preferences", Change("preferences", "")


def _of_pools(problem: Problem, plan: Plan) -> Iterator[Rule]:
    bought: dict[str, int] = {}
    for claim in plan.claims:
        bought[claim.pool] = bought.get(claim.pool, 0) + claim.price
    for pool in problem.pools:
        who, stake = f"NodePool {pool.name}", bought.get(pool.name, 0)
        for item in pool.requirements:
            if item.key in pool.labels or item.key == labels.OS:
                continue
            if item.min_values:
                what = f"minValues {item.min_values} of {words.label(item.key)}"
                kept = replace(item, min_values=None)
                yield Rule(what, who, partial(_lift_from_pool, pool.name, item.key, kept), None, stake)
            if _binds(pool, item):
                lift = partial(_lift_from_pool, pool.name, item.key, None)
                yield Rule(words.demand(item), who, lift, None, stake)
        if pool.limits:
            yield Rule(
                f"limits of {words.listed(sorted(pool.limits))}",
                who,
                partial(_unlimited, pool.name),
                None,
                stake,
            )


def _of_settings(problem: Problem, plan: Plan) -> Iterator[Rule]:
    cost = plan.cost.hourly
    for limit in problem.options.shared_limits:
        drawn = {limit.quota(name) for name, _ in limit.limits}
        what = f"the shared limit {limit.name} of {words.listed([name for name, _ in limit.limits])}"
        yield Rule(what, "--shared-limits", partial(_unshared, frozenset(drawn)), None, cost)
    if len({pool.weight for pool in problem.pools}) > 1:
        yield Rule("weights: the heaviest first", "all NodePools", _weightless, None, cost)
    wanted = problem.options.spot_diversity
    spot = sum(claim.price for claim in plan.claims if claim.capacity_type == labels.SPOT)
    if wanted > 1 and spot:
        yield Rule(f"{wanted} types for each spot node", "--spot-diversity", _undiverse, None, spot)


def _undiverse(problem: Problem) -> Problem:
    return replace(problem, options=replace(problem.options, spot_diversity=1))


def _binds(pool: Pool, item: Requirement) -> bool:
    """True iff something is sold that the requirement keeps out."""
    alone = Requirements.of((item,))
    return any(
        kind.requirements.intersects(alone)
        or any(sold.launchable and sold.requirements.intersects(alone) for sold in kind.offerings)
        for kind in pool.instance_types
    )


def _edit_pool(name: str, edit: Callable[[Pool], Pool], problem: Problem) -> Problem:
    return replace(problem, pools=tuple(edit(pool) if pool.name == name else pool for pool in problem.pools))


def _lift_from_pool(name: str, key: str, kept: Requirement | None, problem: Problem) -> Problem:
    def edit(pool: Pool) -> Pool:
        rest = {other: item for other, item in pool.requirements.by_key.items() if other != key}
        return replace(pool, requirements=Requirements({**rest, key: kept} if kept else rest))

    return _edit_pool(name, edit, problem)


def _unlimited(name: str, problem: Problem) -> Problem:
    return _edit_pool(name, lambda pool: replace(pool, limits=None), problem)


def _unshared(quotas: frozenset[str], problem: Problem) -> Problem:
    """The problem without that limit: what is not named has no known end."""
    return replace(
        problem, commons={name: left for name, left in problem.commons.items() if name not in quotas}
    )


def _weightless(problem: Problem) -> Problem:
    pools = sorted(problem.pools, key=lambda pool: pool.name, reverse=True)
    return replace(problem, pools=tuple(replace(pool, weight=0) for pool in pools))


def _of_daemons(problem: Problem, plan: Plan) -> Iterator[Rule]:
    cost = plan.cost.hourly
    bought = [claim.requests for claim in plan.claims]
    for daemonset in problem.daemonsets:
        template = daemonset.spec.template
        asked = pod_requests(Pod(metadata=daemonset.metadata, spec=template.spec))
        # Its share of what is asked for on new nodes is what is at stake.
        share = max(
            (
                len(bought) * asked.get(name, 0) / max(1, sum(each.get(name, 0) for each in bought))
                for name in (CPU, MEMORY)
            ),
            default=0.0,
        )
        lift = partial(_without_daemon, daemonset.key)
        yield Rule(
            "its share of every node", f"DaemonSet {daemonset.key}", lift, None, int(cost * min(share, 1.0))
        )


def _without_daemon(key: str, problem: Problem) -> Problem:
    return replace(problem, daemonsets=tuple(item for item in problem.daemonsets if item.key != key))
