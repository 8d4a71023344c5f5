"""Plans with what can be proven of them, at once or when one turns out to be the one that counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dovetail.model.plan import BETWEEN_PODS, Plan, Proof
from dovetail.solve.assign.topology_rules import Opened
from dovetail.solve.bound.provers import Proofs, Question, prove
from dovetail.solve.bound.scope import Kinds, Placement, Scope, kinds_placed, scope_of
from dovetail.solve.bound.topology_model import TargetNode
from dovetail.solve.build.from_patterns import PlanFromPatterns, plan_from_patterns
from dovetail.solve.colgen.generation import Told
from dovetail.solve.context import SolveContext
from dovetail.solve.instance.arrays import Amounts
from dovetail.solve.instance.limits import Limits
from dovetail.solve.instance.pod_rules import OTHER_TERM


@dataclass(frozen=True, slots=True)
class Case:
    """A plan as far as proofs look at it."""

    context: SolveContext
    free: Amounts  # (nodes, R): the capacity before anything was placed
    placed: tuple[Placement, ...]
    binding: bool  # limits refuse what they allowed before the plan
    dual_values: Mapping[int, float]  # of a pod per pod class, where packing found it out
    told: Told | None  # what the last packing proved
    same: bool  # the dual values are about these pods and no others, whatever their domains
    tied: bool  # rules tie pods together

    def proof(self, hourly: int, *, quick: bool = False) -> tuple[Proof, PlanFromPatterns | None]:
        """The best proof for a cost in nano-dollars per hour, and a cheaper plan if one was come upon.

        `quick`: only what takes next to no time. What was proven for the same promises to the same pods is
        not proven again.
        """
        promised, key = self._promised()
        if key in self.context.proofs:
            return self.context.proofs[key], None
        if quick:
            return prove(Question(self._proofs(promised)[1], hourly), quick=True), None
        proof, better = self._proof(promised, hourly)
        self.context.proofs[key] = proof
        return proof, better

    def deeper(self, hourly: int, proof: Proof) -> Proof:
        """A better proof than that one, if a second look at rules between pods tells more."""
        promised, key = self._promised()
        bound = self.context.topology_bound.deeper(promised, hourly)
        if bound <= proof.bound:
            return proof
        self.context.proofs[key] = better = replace(proof, bound=bound, method=BETWEEN_PODS)
        return better

    def apart(self, hourly: int, proof: Proof) -> Proof:
        """A better proof than that one, if rules between pods are best left out of it."""
        if not self.context.topology_bound.spent:
            return proof
        promised, key = self._promised()
        found, _ = self._proof(promised, hourly, ruled=False)
        if found.bound <= proof.bound:
            return proof
        self.context.proofs[key] = found
        return found

    def _promised(self) -> tuple[Kinds, tuple[tuple[tuple[int, int, int], tuple[str, ...]], ...]]:
        """What the plan promises to whom, also as a key."""
        promised = kinds_placed(self.context.instance, self.placed, binding=self.binding)
        return promised, tuple((kind, tuple(pods)) for kind, pods in promised.items())

    def _proofs(self, promised: Kinds) -> tuple[Scope, Proofs]:
        scope = scope_of(self.context.instance, self.context.columns, self.free, promised)
        return scope, Proofs(scope, self.context.instance.work, self.context.early, self.told)

    def _proof(
        self, promised: Kinds, hourly: int, *, ruled: bool = True
    ) -> tuple[Proof, PlanFromPatterns | None]:
        instance, columns = self.context.instance, self.context.columns
        scope, proofs = self._proofs(promised)
        dual_values = np.array(
            [self.dual_values.get(index, instance.pod_classes[index].value) for index in scope.pod_classes]
        )
        same = self.same and len(self.dual_values) == len(scope.pod_classes)
        known = dual_values if self.dual_values else None
        rules = partial(self.context.topology_bound.bound, self.free, promised, hourly) if ruled else None
        proof = prove(Question(proofs, hourly, known, same, self.tied, rules))
        if not proofs.better:
            return proof, None
        return proof, plan_from_patterns(
            (instance, columns, Limits(instance, columns)), scope, proofs.better, hourly
        )


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
        plan = self.plan
        if self.proven or not plan.cost.hourly or self.case.context.instance.work.time_over:
            return self
        return self._with(self.case.proof(plan.cost.hourly)[0])

    def proved_deeper(self) -> Answer:
        """This answer with a better proof, if a second look at the rules between pods finds one."""
        return self._with(self.case.deeper(self.plan.cost.hourly, self.plan.proof))

    def proved_apart(self) -> Answer:
        """This answer with a better proof, if one that leaves out the rules between pods is better."""
        if not self.proven or not self.plan.cost.hourly or not self.case.context.instance.work.left:
            return self
        return self._with(self.case.apart(self.plan.cost.hourly, self.plan.proof))

    def _with(self, proof: Proof) -> Answer:
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
