"""What all passes of a solve share, and their answers: plans with what can be proven of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from dovetail.model.arrays import Amounts, Mask
from dovetail.model.plan import BETWEEN_PODS, Plan, Proof
from dovetail.model.pod_rules import OTHER_TERM
from dovetail.model.problem import Problem
from dovetail.solve.assign.topology_rules import Opened
from dovetail.solve.bound.provers import Proofs, Question, prove
from dovetail.solve.bound.relaxation import Early
from dovetail.solve.bound.scope import Kinds, Placement, kinds_placed, scope_of
from dovetail.solve.bound.topology_mip import TopologyBound, small
from dovetail.solve.bound.topology_model import TargetNode, pinned, topology_sites_of
from dovetail.solve.budget import CELLS, LABELS, SolveBudget
from dovetail.solve.build.from_patterns import PlanFromPatterns, plan_from_patterns
from dovetail.solve.colgen.generation import Generator, MarketProof
from dovetail.solve.colgen.pattern_mip import few_patterns
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.limits import Limits
from dovetail.solve.instance.offerings import OfferingsTable
from dovetail.solve.instance.pod_classes import PodClass
from dovetail.solve.tolerances import CLOSE, FEW

_CELLS = 4_000_000  # pod classes times offerings that take half a second to share out by domains


class SolveContext:
    """A problem, encoded once for all passes."""

    def __init__(self, problem: Problem, work: SolveBudget, *, strict: bool = False) -> None:
        """`strict` keeps count of all that pools draw on together, however much is left of it."""
        self.instance = Instance(problem, work, strict=strict)
        self.columns = OfferingsTable(self.instance.tables, len(self.instance.axis.names))
        # By kinds of pods with what they are promised.
        self.proofs: dict[tuple[tuple[tuple[int, int, int], tuple[str, ...]], ...], Proof] = {}
        self.least: dict[object, int] = {}  # by the same keys, what the cheapest legal plan so far costs
        self.stale: set[object] = set()  # of the keys of proofs: more may be proven by now
        # How many moves were tried, by nodes with their pods and what is left over: each is tried once.
        self.moves: Counter[object] = Counter()
        self.begun: list[Generator] = []  # of the last packings, which go on where they were left
        self.slice_over = False  # True iff a packing was cut short, so that a proof got its share
        self._capacity = self.instance.nodes.capacity.copy()  # on existing nodes, before anything is placed
        self.topology_bound = TopologyBound(self.instance, self.columns)
        cells = len(self.instance.pod_classes) * len(self.columns.price)
        work.spend(len(self.instance.pod_classes) + cells // CELLS)  # for `feasible`, where it is asked for
        self._placeable: dict[int, bool] = {}
        self._appraised = False
        self.valued = False  # True iff `early` has been worked out
        # Called with a plan before it is proven, if one of so many pods left over and that cost is `welcome`.
        self.found: Callable[[Answer], None] = lambda _: None
        self.welcome: Callable[[int, int], bool] = lambda _left, _hourly: False

    def again(self) -> None:
        """There is more work for each proof and each packing than there was."""
        self.stale = set(self.proofs)
        self.slice_over = False
        self.topology_bound.again()

    def appraise(self) -> None:
        """Find what pods are worth, once. A plan without any work left to improve it does without."""
        if not self._appraised:
            self._appraised = True
            values = self.early.prices().dual_values.tolist()
            for pod_class, value in zip(self.instance.pod_classes, values, strict=True):
                pod_class.value = value

    def stranded(self, left: Iterable[str]) -> tuple[int, ...]:
        """The pod classes of those of these pods that would fit somewhere if they were alone."""
        names = set(left)
        some = [one.index for one in self.instance.pod_classes if names and not names.isdisjoint(one.pods)]
        return tuple(filter(self.placeable, some))

    def placeable(self, index: int) -> bool:
        """Whether a pod of the class would fit somewhere if it were alone."""
        if index not in self._placeable:
            one = self.instance.pod_classes[index]
            offered = zip(self.instance.tables, self._usable(one), strict=True)
            held = any((mask & table.fits(one.vector)[table.column_type]).any() for table, mask in offered)
            self._placeable[index] = held or self._on_node(one)
        return self._placeable[index]

    def _on_node(self, pod_class: PodClass) -> bool:
        nodes = self.instance.nodes
        fits = np.all((self._capacity >= pod_class.vector) | (pod_class.vector == 0), axis=1)
        asked = pod_class.required if pod_class.levels else ()
        return any((nodes.feasible(wanted, pod_class.levels[-1].rules) & fits).any() for wanted in asked)

    @cached_property
    def early(self) -> Early:
        """Prices of resources for all pod classes. A crowd that there is no time to prove anything of does
        without them, and without `feasible`."""
        self.valued = True
        return Early.of(self.instance, self.columns, self.feasible)

    @cached_property
    def feasible(self) -> Mask:
        """Columns that could hold each pod class if everything that can be given up were, (S, C)."""
        pod_classes = self.instance.pod_classes
        vectors = np.array([pod_class.vector for pod_class in pod_classes], dtype=np.int64)
        held = self.columns.holds(vectors.reshape(len(pod_classes), len(self.instance.axis.names)))
        usable = {one.ladder: one for one in pod_classes}
        rows = {ladder: np.concatenate([*self._usable(one), held[0, :0]]) for ladder, one in usable.items()}
        if pod_classes:
            held &= np.array([rows[pod_class.ladder] for pod_class in pod_classes])
        return held

    def _usable(self, pod_class: PodClass) -> list[Mask]:
        """Columns of each pool whose labels and taints suit one pod class, whatever its size, (C,)."""
        parts = []
        for table in self.instance.tables:
            usable = np.zeros(len(table.offerings), dtype=np.bool_)
            for wanted in pod_class.required if pod_class.levels else ():
                if self.instance.suits(table.index, wanted, pod_class.levels[-1].rules):
                    usable |= table.usable(wanted)
            parts.append(usable)
        return parts


@dataclass(frozen=True, slots=True)
class Case:
    """A plan as far as proofs look at it."""

    context: SolveContext
    free: Amounts  # (nodes, R): the capacity before anything was placed
    placed: Callable[[], Iterable[Placement]]  # worked out where something is proven
    refusing: frozenset[int]  # pools whose limits refuse what they allowed before the plan
    dual_values: Mapping[int, float]  # of a pod per pod class, where packing found it out
    market: MarketProof | None  # what the last packing proved
    tied: bool  # rules tie pods together

    def proof(self, hourly: int, *, quick: bool = False) -> tuple[Proof, PlanFromPatterns | None]:
        """The best proof for a cost in nano-dollars per hour, and a cheaper plan if one was come upon.

        `quick`: only what takes next to no time. What was proven for the same promises to the same pods is
        not proven again, and only what costs less than any legal plan of them is looked for.
        """
        late = not self.context.instance.work.clock.provable()
        many = late and not self.context.valued and len(self.context.instance.pod_classes) > FEW
        if many and not self.context.proofs:
            return Proof(), None
        promised, key = self._promised()
        known, hourly = self.context.proofs.get(key), min(hourly, self.context.least.get(key, hourly))
        if known is not None and (key not in self.context.stale or known.bound >= hourly * CLOSE):
            return known, None
        if many:
            return Proof(), None
        if quick or late:
            return (known, None) if known else self._proof(promised, hourly, quick=True)
        proof, better = self._proof(promised, hourly, known.bound if known else 0)
        if known is not None and known.bound >= proof.bound:
            proof = known
        if not self.context.instance.work.frugal:  # with more work there is more to be proven
            self.context.proofs[key] = proof
            self.context.stale.discard(key)
        return proof, better

    def legal(self, hourly: int) -> None:
        """This plan breaks no rule, and costs so much."""
        key = self._promised()[1]
        self.context.least[key] = min(hourly, self.context.least.get(key, hourly))

    def known(self) -> Proof | None:
        """What was proven of its promises already."""
        return self.context.proofs.get(self._promised()[1])

    def deeper(self, hourly: int, proof: Proof, *, first: bool = False) -> Proof:
        """A better proof than that one, if a second look at rules between pods tells more; if `first`, a look
        before packing, where patterns are few."""
        promised, key = self._promised()
        if first:
            # Of few offerings packing leaves most of the work to the proof, which comes soon enough then.
            feasible = self.context.feasible[sorted({pod_class for pod_class, *_ in promised})]
            early = not small(feasible, self.context.instance.work)
            bound = self.context.topology_bound.bound(self.free, promised, hourly, listed=True, early=early)
        else:
            bound = self.context.topology_bound.deeper(promised, hourly)
        if bound > proof.bound:
            proof = replace(proof, bound=bound, method=BETWEEN_PODS)
        self.context.proofs[key] = proof
        return proof

    def _promised(self) -> tuple[Kinds, tuple[tuple[tuple[int, int, int], tuple[str, ...]], ...]]:
        """What the plan promises to which pods, also as a key."""
        promised = kinds_placed(self.context.instance, self.placed(), self.refusing)
        return promised, tuple((kind, tuple(pods)) for kind, pods in promised.items())

    def _proof(
        self, promised: Kinds, hourly: int, before: int = 0, *, quick: bool = False
    ) -> tuple[Proof, PlanFromPatterns | None]:
        instance, columns = self.context.instance, self.context.columns
        with instance.work.clock.scoping():
            scope = scope_of(instance, columns, self.free, promised, binding=bool(self.refusing))
        if not quick and len(scope.pods) > FEW and not instance.work.clock.provable(scoped=True):
            return Proof(), None
        proofs = Proofs(scope, instance.work, self.context.early, self.market)
        if quick:
            return prove(Question(proofs, hourly), quick=True), None
        dual_values = np.array(
            [self.dual_values.get(index, instance.pod_classes[index].value) for index in scope.pod_classes]
        )
        known = dual_values if self.dual_values else None
        rules = partial(self._ruled, promised, hourly)
        # Where all patterns that matter are few, they tell more of whole nodes, in less time.
        tied = self.tied or (self.market is not None and few_patterns(self.market.pricing))
        proof = prove(Question(proofs, hourly, known, tied, rules, before))
        if not proofs.better or len(scope.pods) < len(promised):  # a proof leaves out pods without offerings
            return proof, None
        supply = instance, columns, Limits(instance, columns)
        return proof, plan_from_patterns(supply, scope, proofs.better, hourly)

    def _ruled(self, promised: Kinds, hourly: int, known: int) -> int:
        """What rules between pods prove: all of them, or where these are too many, or column generation was
        cut short before it proved more than is known, those that say how many pods each domain must hold.
        """
        work, context = self.context.instance.work, self.context
        found = context.topology_bound.bound(self.free, promised, hourly)
        size = len(promised) * len(context.columns.price)
        sharp = found > known or (found and not context.topology_bound.unfinished)
        if sharp or size > _CELLS * min(work.seconds, 1.0) or not context.instance.topology.groups:
            return found
        sites = topology_sites_of(context.instance, context.columns, self.free, promised)
        work.spend(sites.feasible.size // LABELS)  # 0.1 s for 262,000
        scope = pinned(context.instance, sites)
        if scope is None:
            return found
        proofs = Proofs(scope, work)
        bound = max(found, proofs.relaxation().bound)
        if work.left and len(scope.pods) <= FEW:
            generator = Generator(proofs.pricing, work)
            generator.search(np.zeros((0, len(scope.pods)), dtype=np.int64))
            bound = max(bound, proofs.columns(generator.dual_values, bound).bound)
        return bound


def sacrifices(given_up: Sequence[str]) -> int:
    """How many preferences these are; a required term in place of another is none."""
    return sum(word != OTHER_TERM for word in given_up)


@dataclass(frozen=True, slots=True)
class Answer:
    """A plan, and the domains that it opens although it breaks a spread by that."""

    plan: Plan
    surprises: Opened
    case: Case
    proven: bool  # False iff not all was tried to prove something, since pods are left that might find places
    target_nodes: tuple[TargetNode, ...]  # the nodes with their pods
    left: tuple[tuple[int, str], ...]  # (pod class, pod) pairs without a place

    def proved(self) -> Answer:
        """This answer with the best proof; once the time is over, with what is proven already."""
        plan, work = self.plan, self.case.context.instance.work
        if self.target_nodes and not self.surprises:  # of more pods, programs hardly come to their end
            self.case.legal(plan.cost.hourly)
        if self.proven or not plan.cost.hourly or work.frugal:
            return self
        if work.time_over:
            known = self.case.known()
            return self._with(known) if known else self.proved_quickly()
        return self._with(self.case.proof(plan.cost.hourly)[0])

    def proved_quickly(self) -> Answer:
        """This answer with a cheap proof, if it has none and there is time for one."""
        if self.plan.proof.bound or not self.plan.cost.hourly:
            return self
        return self._with(self.case.proof(self.plan.cost.hourly, quick=True)[0])

    def proved_deeper(self, *, first: bool = False) -> Answer:
        """This answer with a better proof, if a second look at the rules between pods finds one; or a first
        one, before packing."""
        better = self._with(self.case.deeper(self.plan.cost.hourly, self.plan.proof, first=first))
        return replace(better, proven=self.proven)

    def _with(self, proof: Proof) -> Answer:
        if proof.bound < self.plan.proof.bound:  # of the same promises: whatever was proven holds
            proof = self.plan.proof
        cost = replace(self.plan.cost, lower_bound=min(self.plan.cost.hourly, proof.bound))
        return replace(self, plan=replace(self.plan, cost=cost, proof=proof), proven=True)

    @property
    def plan_state(self) -> tuple[int, int, int, int]:
        """Without what other nodes open; as a move is judged before its plan is written."""
        return self.rank[1:]

    @property
    def rank(self) -> tuple[int, int, int, int, int]:
        """The lower, the better: no preference is given up to save money; at equal cost fewer nodes win."""
        plan = self.plan
        given_up = sum(map(sacrifices, plan.relaxed.values()))
        return len(self.surprises), len(plan.unschedulable), given_up, plan.cost.hourly, len(plan.claims)
