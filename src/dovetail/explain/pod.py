"""A pod's whole story: where a plan puts it and what else there was, or what stands in its way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from dovetail.api.core import Pod, PodAffinityTerm
from dovetail.explain import words
from dovetail.explain.aftermath import aftermath
from dovetail.explain.change import apply
from dovetail.explain.criteria import PoolView
from dovetail.explain.miss import Change, Miss, PoolVerdict, Verdict, Way
from dovetail.explain.nodes import ask_nodes
from dovetail.explain.off_spot import off_spot
from dovetail.explain.pools import ask_pool, pool_views
from dovetail.model.left_out import all_left_out, left_out
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.pod_rules import Rules, levels, rules_of
from dovetail.model.problem import Budget, Problem
from dovetail.model.selector import Selector
from dovetail.solve.budget import SolveBudget
from dovetail.solve.instance.instance import Instance
from dovetail.solve.solver import solve

Over = Callable[[], bool]  # whether the time for the explanation is over


def never() -> bool:
    """There is time for everything."""
    return False


UNEXPLAINED = "not explained: the time for explanations was over; ask `dovetail explain pod` about this one"
_UNASKED = "not looked at: the time for the explanation was over"
_TRIED = 8  # changes tried per pool
_TRIAL = Budget(work=200_000)


@dataclass(frozen=True, slots=True)
class PodStory:
    """Everything there is to say of one pending pod. One of `claim`, `node`, `reason` is set."""

    pod: str
    claim: PlannedClaim | None = None  # the node to be bought for it
    node: str = ""  # the existing node that takes it
    given_up: tuple[str, ...] = ()  # preferences
    reason: str = ""  # why it is left over, in the words of the event
    gang: str = ""  # of what it is left over for, what of the gang
    mate: str = ""  # a pod of that gang that would be left over if the others had places: `verdict` is of it
    broken: str = ""  # what is wrong with its volumes, whatever the nodes are
    spare: str = ""  # a place that is still there for it after the plan, although it is left over
    verdict: Verdict = field(
        default_factory=Verdict
    )  # where else: as everything is after the plan, without it
    off_spot: str = ""  # why it keeps off spot, if it does
    cut: bool = False  # True iff the time was over before all pools, nodes and changes were looked at


def pod_story(problem: Problem, plan: Plan, key: str, over: Over = never) -> PodStory:
    """The story of a pending pod of the problem, as far as there is time until `over`."""
    pod = next(item for item in problem.pods if item.key == key)
    claim = next((item for item in plan.claims if key in item.pods), None)
    node = next((name for name, pods in plan.existing.items() if key in pods), "")
    left = next((item for item in plan.unschedulable if item.pod == key), None)
    reason = left.reason if left is not None else ""
    broken = left_out(pod, problem.volumes)
    given_up = given_up_preferences(pod, plan.relaxed.get(key, ()))
    why = off_spot(pod, problem)
    found = PodStory(pod.key, claim, node, given_up, reason, broken=broken, off_spot=why)
    if broken:
        return found
    if left is not None and left.gang:
        return _of_gang(replace(found, gang=left.gang), problem, over)
    after = aftermath(problem, plan, (pod,))
    if not reason:
        return replace(found, verdict=verdicts(after, over)[0][1], cut=over())
    verdict = _with_ways(after, key, over)
    # Where limits force pods out, the search does not try everything: what it missed is shown, not hidden.
    spare = "" if verdict.refused else _place_after(after, key, (), over)
    return replace(found, verdict=verdict, spare=spare, cut=over())


def _of_gang(found: PodStory, problem: Problem, over: Over) -> PodStory:
    """With what stands in the way of one that would have no place even if its gang were content with less."""
    gang = next((one for one in problem.gangs if found.pod in one.pods), None)
    if gang is None or gang.short:
        return found
    alone = replace(problem, gangs=())
    plan = solve(alone, _TRIAL, stop=over)
    left = [pod for pod in plan.left if pod in gang.pods]
    if not left:
        return found
    mate = found.pod if found.pod in left else left[0]
    story = pod_story(alone, plan, mate, over)
    return replace(found, mate=mate, verdict=story.verdict, cut=story.cut)


def nearest_misses(problem: Problem, plan: Plan, over: Over = never) -> dict[str, dict[str, str]]:
    """Per pod that is left over, per pool, what the type that comes nearest fails.

    Pods that are alike are looked at once, the most numerous first, until `over`; the first in any case.
    What there was no time to plan for has nothing to be explained.
    """
    refused = set(plan.refused)
    left = refused - all_left_out(problem.pods, problem.volumes).keys() if refused else refused
    pending = tuple(pod for pod in problem.pods if pod.key in left)
    if not pending:
        return {}
    instance = Instance(aftermath(problem, plan, pending), SolveBudget(Budget()))
    views = pool_views(instance)
    found: dict[str, dict[str, str]] = {
        pod: {pool.name: UNEXPLAINED for pool in problem.pools} for pod in left
    }
    most_first = sorted(
        instance.pod_classes, key=lambda pod_class: (pod_class.turn, -len(pod_class.pods), pod_class.index)
    )
    for place, pod_class in enumerate(most_first):
        if place and over():
            break
        texts = {view.pool.name: ask_pool(view, pod_class)[0].text for view in views}
        found.update({pod: {pool: text for pool, text in texts.items() if text} for pod in pod_class.pods})
    return found


def verdicts(
    after: Problem, over: Over = never
) -> list[tuple[tuple[str, ...], Verdict, tuple[tuple[Change, ...], ...]]]:
    """Per pod class of the pending pods: the pods, what pools and nodes say, and per pool what might help.

    What was not looked at before `over` says so.
    """
    instance = Instance(after, SolveBudget(Budget()))
    views = pool_views(instance)
    answers = []
    for pod_class in instance.pod_classes:
        asked = [_unasked(view) if over() else ask_pool(view, pod_class) for view in views]
        verdict = Verdict(tuple(item for item, _ in asked), ask_nodes(instance, pod_class, over))
        answers.append((tuple(pod_class.pods), verdict, tuple(changes for _, changes in asked)))
    return answers


def _unasked(view: PoolView) -> tuple[PoolVerdict, tuple[Change, ...]]:
    return PoolVerdict(view.pool.name, misses=(Miss("time", "", _UNASKED),)), ()


def _with_ways(after: Problem, key: str, over: Over) -> Verdict:
    """The verdict, with the changes that were tried and do help."""
    _, verdict, changes = verdicts(after, over)[0]
    tried: dict[tuple[Change, ...], str] = {}
    pools = []
    for pool, single in zip(verdict.pools, changes, strict=True):
        candidates = [(change,) for change in single[:_TRIED]] or _together(pool)
        for some in candidates:
            if some not in tried:
                tried[some] = "" if over() else _place_after(after, key, some, over)
        ways = tuple(Way(some, tried[some]) for some in candidates if tried[some])
        pools.append(replace(pool, ways=ways))
    return replace(verdict, pools=tuple(pools))


def _together(pool: PoolVerdict) -> list[tuple[Change, ...]]:
    """Where no single change will do: everything that the nearest type fails."""
    every = [miss.change for miss in pool.misses]
    known = tuple(change for change in every if change is not None)
    return [known] if known and len(known) == len(every) else []


def _place_after(after: Problem, key: str, changes: Iterable[Change], over: Over) -> str:
    """Where the pod goes once the changes are made; '' if it still goes nowhere."""
    for change in changes:
        after = apply(after, key, change)
    plan = solve(after, _TRIAL, stop=over)
    return place(plan, key)


def place(plan: Plan, key: str) -> str:
    """Where a plan puts the pod, in words; '' if nowhere."""
    for claim in plan.claims:
        if key in claim.pods:
            price = words.dollars(claim.price, estimated=claim.price_estimated)
            return f"on a new {claim.instance_type} in {claim.zone}, {claim.capacity_type}, {price}"
    return next((f"on node {name}" for name, pods in plan.existing.items() if key in pods), "")


def given_up_preferences(pod: Pod, given_up: tuple[str, ...]) -> tuple[str, ...]:
    """Each of the plan's words for what was given up, with what it was about."""
    return tuple(_given_up(pod, given_up))


def _given_up(pod: Pod, given_up: tuple[str, ...]) -> Iterator[str]:
    steps = levels(rules_of(pod, respect_preferences=True), soft_taints_exist=True)
    now, _ = next(steps)
    named = 0
    for lower, gone in steps:
        if named >= len(given_up):
            return
        for number, name in enumerate(given_up[named : named + len(gone)]):
            about = _about(now, name, number)
            yield f"{name} ({about})" if about else name
        named, now = named + len(gone), lower
    yield from given_up[named:]


def _about(rules: Rules, name: str, number: int) -> str:
    """What the word is about, as the `number`th that goes in one step from these rules."""
    if name == "preferred node affinity" and rules.preferred_node:
        return ", ".join(words.demand(item) for item in rules.preferred_node[0])
    if name == "preferred pod affinity":
        return "".join(_term(item) for item in rules.preferred_affinity[number : number + 1])
    if name == "preferred pod anti-affinity":
        return "".join(_term(item) for item in rules.preferred_anti[number : number + 1])
    if name == "required node affinity term" and rules.terms:
        return ", ".join(words.demand(item) for item in rules.terms[0])
    return ""


def _term(term: PodAffinityTerm) -> str:
    return f"{words.selector(Selector.read(term.label_selector))} over {words.label(term.topology_key)}"
