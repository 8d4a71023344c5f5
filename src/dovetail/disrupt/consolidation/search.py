"""The search for a move: which nodes to imagine away together, the most promising first."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from dovetail.base.clock import MINUTE, SECOND
from dovetail.disrupt.consolidation.chain import (
    FEW,
    MOST_NODES,
    WORTH_THE_REST,
    bought_first,
    cheaper,
    first,
    orders,
    pays,
    purchases,
    sets,
)
from dovetail.disrupt.consolidation.churn import REST, MoveBudget, rests_since
from dovetail.disrupt.consolidation.deletes import Room, deletable, given_up
from dovetail.disrupt.consolidation.irreplaceable_spot import free_room, held_back
from dovetail.disrupt.consolidation.judge import check, crowds_out, judged, mixed
from dovetail.disrupt.consolidation.memory import Memory
from dovetail.disrupt.consolidation.price import (
    NO_CHEAPER,
    SCATTERED,
    SPOT_DISABLED,
    UNSETTLED,
    AtMinimum,
    Refused,
    Same,
)
from dovetail.disrupt.consolidation.prospects import Prospects
from dovetail.disrupt.consolidation.question import (
    MOST_AVOIDED,
    MULTI,
    SINGLE,
    Candidate,
    Finding,
    Move,
    Question,
    Refusal,
)
from dovetail.disrupt.consolidation.spread_room import SpreadRoom
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.solve.budget import SolveBudget

QUICK = SECOND // 100  # for what-ifs: their first plan says enough
MOVED_ENOUGH = "Pods of the node's workloads were moved as often as they may be in 24 h"
FRESH = "The node was bought in place of others within the hour"
RESTING = "Pods of the node had to move within the hour"
REPLACED_ENOUGH = (
    "Replacing it would save, but pods of its workloads made half or more of the moves of 24 h: what "
    "is left of these is kept for moves that save a quarter of the node's price or more"
)
OUTDONE = (
    "Nodes that will be free to go in some minutes cost far more than their pods are worth: they go first"
)
# After a drift nodes become free in the order in which their pods came. Pods of small ones that were free
# first went to large ones that went some minutes later: three plays with a drift and a loss (500 pods, and
# 131 on two seeds) had 18 second moves within the hour of 258, and have 10 of 223, for 1.7 % less money.
_SOON = 10 * MINUTE
_FAR_MORE = 2  # times what the move saves per pod
_WAITING = frozenset((FRESH, RESTING, UNSETTLED))  # reasons to stay that end by themselves within the hour
UNPLANNED = "Pods of the node cannot be planned together with others"
_SHRINK = 4  # sets that are tried one after the other differ in size by so much
_MANY = 100  # nodes: where a larger set shrank as much, the smaller ones take over
_SPARSE = 0.8  # one node is given up for several only if its pods are worth less than this share of its price
_NEARLY_AS_GOOD = 0.5  # of the best saving per pod: what saves more and reaches so much is preferred
_LARGER = 4  # nodes at most that are tried for a larger saving than that of what goes without others
_NODES_PER_UNIT = 20  # of a what-if, looked at in one unit of work


# Asks what-ifs, is sent their plans, and returns what it found.
Asking = Generator[Problem, Plan, Finding]


def search(question: Question, memory: Memory, work: SolveBudget, now: int) -> Asking:
    """The best move for the question. `now` in nanoseconds; `work` bounds one turn, the next one goes on."""
    known = memory.recall(question, now)
    if known is not None:
        return known
    if not question.candidates:
        return Finding(None)
    finding = yield from _Search(question, memory, work, now).run()
    memory.keep(finding)
    return finding


class _Unsettled(Refused):
    """Pods have room on these nodes, which are not quiet yet."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(UNSETTLED)
        self.names = names


class _Scattered(Refused):
    """The scheduler leaves pods of these nodes over, though a plan has room for all."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(SCATTERED)
        self.names = names


class _Search:
    """One turn. `_stay` says of nodes that were looked at why they stay."""

    def __init__(self, question: Question, memory: Memory, work: SolveBudget, now: int) -> None:
        self._question = question
        self._memory = memory
        self._work = work
        self._now = now
        self._stay: dict[str, str] = {}
        self._held: dict[str, str] = {}  # nodes that stay whatever is planned, and why
        self._seen: dict[str, bool] = {}  # see `_left_out`
        self._others: list[Move] = []
        self._planned = 0
        self._at = MULTI
        self._chain: Move | None = None  # see `_chained`
        self._candidates = sorted(self._free(), key=lambda candidate: candidate.rank)

    @cached_property
    def _prospects(self) -> Prospects:
        """A linear program about all pods of nodes that may go: only where something may come of it."""
        some = (one for one in self._question.candidates if one.name not in self._held)
        return Prospects(self._question, some, self._work)

    @property
    def _keeps_places(self) -> bool:
        """True iff pods of what goes without others go to the very places of the plan: after a drift or an
        expiry, where all other nodes can ask them to go elsewhere.
        """
        return self._question.moves.forced and len(self._question.problem.nodes) <= MOST_AVOIDED

    def run(self) -> Asking:
        self._held = held_back(self._question, self._candidates, self._memory.market)
        self._stay.update(self._held)
        self._candidates = [one for one in self._candidates if one.name not in self._held]
        refused = {one.name: text for one in self._candidates if (text := self._no_room(one))}
        rest = [one for one in self._candidates if one.name not in refused]
        if all(map(self._left_out, rest)):  # nothing is left to look at
            self._stay.update(refused, **{one.name: self._left(one) for one in rest})
            return Finding(None, self._refusals(), next=self._next(None))
        self._candidates = list(self._known())
        chain = yield from self._chained()
        move = self._begun(chain) if chain is not None else None
        if move is not None:
            self._chain = chain
            move = move if move.claims else (yield from self._or_larger(move))
        else:
            move = yield from self._without_chain()
            if chain is not None and self._worth_waiting(chain) and not _outdoes(move, chain):
                self._chain = chain
                self._stay.update((one.name, OUTDONE) for one in self._candidates)
                move, self._others = None, []
        planned = move is not None and move.kept and move.claims  # together with all that go soon
        if move is not None and not planned and self._outdone(move):
            self._stay.update((one.name, OUTDONE) for one in move.candidates)
            move, self._others = None, []
        if move is not None and not move.claims and not move.kept and self._keeps_places:
            # Its pods would often come to nodes that are replaced next: they have places, as in a chain.
            move = self._chain = replace(move, kept=True)
        return Finding(
            move,
            self._refusals(),
            0 if move is None else self._bound(),
            sum(candidate.price for candidate in self._question.candidates),
            tuple(self._others),
            self._planned,
            "" if move is not None or self._work.left else self._at,
            self._next(move),
        )

    def _without_chain(self) -> Generator[Problem, Plan, Move | None]:
        """What can be done now, whatever may follow it."""
        move = yield from self._deleted()
        if move is not None:
            return (yield from self._or_larger(move))
        move = yield from self._together()
        if move is None and self._work.left:
            self._at = SINGLE
            move = yield from self._alone()
        return move

    def _outdone(self, move: Move) -> bool:
        """True iff a node should go first whose pods have nearly rested; often none rests at all."""
        return bool(self._question.moves.resting) and (self._outdone_soon(move) or self._better_soon(move))

    def _outdone_soon(self, move: Move) -> bool:
        """True iff a node whose pods have nearly rested costs far more in vain, per pod, than the move saves.

        If this move came first, its pods would often come to that node and be moved a second time. What goes
        without others saves its price by room that other pods could have: it counts by what it costs in vain.
        """
        prospects, move_budget = self._prospects, self._question.move_budget()
        rate = move.rate
        if not move.claims:
            rate = max(0.0, sum(map(prospects.wasted, move.candidates)) / move.cost)
        for candidate in self._question.candidates:
            if not self._soon(candidate) or not prospects.known(candidate):
                continue
            most = prospects.wasted(candidate)
            far_more = most / (1 + candidate.cost) >= _FAR_MORE * rate
            enough = most >= WORTH_THE_REST * candidate.price
            if far_more and enough and move_budget.holds(candidate.pool, candidate.workloads):
                return True
        return False

    def _better_soon(self, move: Move) -> bool:
        """True iff a node that could go in some minutes saves more than the move whose pods it takes.

        Once it took them it goes only by moving these a second time. Such nodes, large and nearly empty, were
        most of what clusters cost over their bound after a drift and a loss.
        """
        saving = self._beyond(move)
        return any(
            _worth_more(self._hope(candidate), 1 + candidate.cost, saving, move.cost)
            for candidate in self._wasteful(move)
            if self._soon(candidate)
        )

    def _wasteful(self, move: Move) -> Iterator[Candidate]:
        """Nodes that take pods of the move, and cost far more even then than all their pods are worth."""
        left = self._question.moves.deleting
        for candidate in self._question.candidates:
            coming = move.places.get(candidate.name, ())
            if not coming or not self._prospects.known(candidate):
                continue
            if any(left.get(key, count) < count for key, count in candidate.workloads.items()):
                continue  # it stays in any case
            if self._prospects.in_vain(candidate, coming) >= WORTH_THE_REST * candidate.price:
                yield candidate

    def _soon(self, candidate: Candidate) -> bool:
        """True iff it stays for the hour of what had to move alone, which ends in some minutes."""
        since = rests_since(candidate.pods, self._question.moves.resting)
        if not since or self._stay.get(candidate.name) not in (FRESH, RESTING):
            return False
        return max(since + REST, self._question.fresh.get(candidate.name, 0)) - self._now <= _SOON

    def _beyond(self, move: Move) -> float:
        """What it saves beyond what its nodes could save later, if another one came first."""
        vain = [(self._prospects.if_bought(one), one.price) for one in move.candidates]
        return move.saving - sum(most for most, price in vain if most >= WORTH_THE_REST * price)

    def _next(self, move: Move | None) -> tuple[str, ...] | None:
        """Nodes that should go after it, the emptiest first: they cost far more than their pods are worth.

        Not those that take pods of the move: by its plan they are filled.
        """
        question = self._question
        if self._chain is not None and (move is None or move.kept or not move.claims):
            return self._aside(self._chain, move)
        if move is None:
            all_stay = len(self._stay) == len(question.candidates)
            return () if all_stay and _WAITING.isdisjoint(self._stay.values()) else None
        settled = {candidate.name for candidate in move.candidates} | move.places.keys() | self._held.keys()
        found = [
            candidate
            for candidate in question.candidates
            if candidate.name not in settled
            and self._stay.get(candidate.name, RESTING) in _WAITING
            and self._prospects.known(candidate)
            and self._prospects.wasted(candidate) >= WORTH_THE_REST * candidate.price
        ]
        return tuple(candidate.name for candidate in sorted(found, key=lambda one: one.rank))

    def _aside(self, chain: Move, move: Move | None) -> tuple[str, ...]:
        """Nodes of the chain that are left; with a move all those that the plan fills with no pods of it."""
        if move is None:
            return tuple(one.name for one in chain.candidates)
        going = {one.name for one in move.candidates} | move.places.keys()
        return tuple(node.name for node in self._question.problem.nodes if node.name not in going)

    def _bound(self) -> int:
        """What the pods of all candidates must cost at least, of those that are held back as well."""
        if not self._held:
            return self._prospects.bound
        # What pods are worth has nothing to do with the nodes that there are: to read them is for nothing.
        alone = replace(self._question, problem=replace(self._question.problem, nodes=()))
        return Prospects(alone, self._question.candidates, self._work).bound

    def _refusals(self) -> tuple[Refusal, ...]:
        return tuple(Refusal(name, text) for name, text in sorted(self._stay.items()))

    def _known(self) -> Iterator[Candidate]:
        """Those whose pods can be planned together with others."""
        for candidate in self._candidates:
            if self._prospects.known(candidate):
                yield candidate
            else:
                self._stay[candidate.name] = UNPLANNED

    def _free(self) -> Iterator[Candidate]:
        """Nodes that may go by budgets, moves and policies."""
        move_budget, resting = self._question.move_budget(), self._question.moves.resting
        for candidate in self._question.candidates:
            if self._question.allowed.get(candidate.pool, 0) < 1:
                continue
            if candidate.name in self._question.fresh:
                self._stay[candidate.name] = FRESH
                continue
            if resting and any(pod.metadata.uid in resting for pod in candidate.pods):
                self._stay[candidate.name] = RESTING
                continue
            if not move_budget.holds(candidate.pool, candidate.workloads):
                self._stay[candidate.name] = MOVED_ENOUGH
                continue
            try:  # it saves no more than all that it costs
                if self._question.weighs(candidate.pool):
                    check(self._question.scores([candidate], candidate.price))
            except Refused as refused:
                self._stay[candidate.name] = str(refused)
            else:
                yield candidate

    def _deleted(self) -> Generator[Problem, Plan, Move | None]:
        """As many nodes as can go without others in their place, or almost."""
        able = [candidate for candidate in self._candidates if not self._no_room(candidate)]
        appraisal, question, work = self._prospects.appraisal, self._question, self._work
        chosen = deletable(question, appraisal, able, work, most=2)
        several = len(chosen) > 1
        if several:
            # Nearly always one has pods that no other domain may take: half of the pods of 223 nodes found no
            # place in a plan (50,000 pods, half of them spread over zones), and two nodes went of 13.
            chosen = deletable(question, appraisal, able, work, spread=True, stays=self._left_out)
        move = yield from self._most_of(chosen)
        if move is None and several:
            move = yield from self._most_of(deletable(question, appraisal, able, work))
        return move

    def _most_of(self, chosen: Sequence[Candidate]) -> Generator[Problem, Plan, Move | None]:
        """The move of all of these nodes that the scheduler has room for, or of the first half, and so on."""
        if len(chosen) > 1 and not self._keeps_places:
            chosen = self._memory.rescheduling.together(self._question, chosen, self._work)
        while chosen and self._work.left:
            move = yield from self._tried(chosen, quiet=True)
            if move is not None:
                return move
            chosen = chosen[: len(chosen) // 2]
        return None

    @cached_property
    def _able(self) -> list[Candidate]:
        """Nodes whose pods may find room as it is."""
        able = (candidate for candidate in self._candidates if not self._no_room(candidate))
        return [candidate for candidate in able if not self._left_out(candidate)]

    def _chained(self) -> Generator[Problem, Plan, Move | None]:
        """All nodes that can go one command after the other, also for new ones, if few can.

        Those that save most in all, with nodes that are free to go in some minutes. None whose pods came by
        such a move themselves: these would move twice within the hour. Only after a drift or an expiry: then
        nodes become free one by one, and hold what had to go somewhere.
        """
        question = self._question
        if not question.moves.forced:
            return None
        free = {one.name for one in self._able}
        some = [
            one
            for one in question.candidates
            if (one.name in free or (one.name not in self._held and self._soon(one)))
            and self._prospects.known(one)
            and question.lately.isdisjoint(pod.metadata.uid for pod in one.pods)
        ]
        many = len(some) > FEW or len(question.problem.nodes) > MOST_NODES
        if not free or many or sum(question.allowed.values()) >= len(some):
            return None
        chain = yield from self._without_purchase(some)
        return (yield from self._with_purchase(some, chain))

    def _without_purchase(self, some: Sequence[Candidate]) -> Generator[Problem, Plan, Move | None]:
        """The move of those of these nodes that save most."""
        lacking: list[set[str]] = []
        for chosen in sets(self._question, self._prospects.appraisal, some):
            names = {one.name for one in chosen}
            if not self._work.left:
                return None
            if any(each <= names for each in lacking):
                continue
            move = yield from self._placed(chosen)
            if move is not None:
                return move
            lacking.append(names)
        return None

    def _placed(self, chosen: Sequence[Candidate]) -> Generator[Problem, Plan, Move | None]:
        """The move of all these nodes, if their pods have room elsewhere."""
        problem = self._question.without(chosen)
        for nodes in orders(problem.nodes):
            asked = replace(problem, nodes=nodes, buys=False)
            plan = yield asked
            self._planned += 1
            self._work.spend(plan.work + len(nodes) // _NODES_PER_UNIT)
            try:
                return judged(self._question, chosen, asked, plan)
            except Refused:
                continue
        return None

    def _with_purchase(
        self, some: Sequence[Candidate], chain: Move | None
    ) -> Generator[Problem, Plan, Move | None]:
        """The chain, or one of these nodes that saves enough more with a node that is bought first.

        Otherwise that one is often bought in the end, for a node that took pods of the chain.
        """
        best, saving = chain, chain.saving if chain is not None else 0
        for chosen in purchases(self._question, self._prospects.appraisal, some, saving):
            if not self._work.left:
                break
            problem = self._question.without(chosen)
            move = yield from self._bought(problem, chosen)
            if move is None or not pays(move, best):
                continue
            while move is not None and (best is None or move.saving > best.saving):
                best = move
                if not best.claims or not self._work.left:
                    break
                # The first plan has filled what is there somehow: less may have to be bought.
                dearest = max(claim.price for claim in best.claims)
                move = yield from self._bought(cheaper(problem, dearest), chosen)
        return best

    def _bought(self, problem: Problem, chosen: Sequence[Candidate]) -> Generator[Problem, Plan, Move | None]:
        """The move of these nodes, if nothing is bought or it may begin with a part for one of them."""
        plan = yield problem
        self._planned += 1
        self._work.spend(plan.work + len(problem.nodes) // _NODES_PER_UNIT)
        try:
            move = judged(self._question, chosen, problem, plan)
        except Refused:
            return None
        if not move.claims:
            return move
        names = {one.name for one in chosen}
        return move if bought_first(self._question, move, names) else None

    def _begun(self, chain: Move) -> Move | None:
        """What of the chain can be done now."""
        move = None
        if chain.claims:
            move = bought_first(self._question, chain, {one.name for one in self._candidates})
        if move is None:
            move = first(self._question, chain, {one.name for one in self._able})
        if move is None:
            return None
        scores = self._question.scores(move.candidates, move.saving)
        try:
            check(scores)
        except Refused:
            return None
        return replace(move, scores=scores)

    def _worth_waiting(self, chain: Move) -> bool:
        """True iff some of it are free to go in minutes, or pods that were moved came where others are to go.

        Nodes that other pods come to all the time are not waited for.
        """
        if {one.name for one in chain.candidates} - {one.name for one in self._able}:
            return True
        lately, busy = self._question.lately, self._question.restless.intersection(chain.places)
        nodes = (node for node in self._question.problem.nodes if node.name in busy)
        return any(not lately.isdisjoint(pod.metadata.uid for pod in node.pods) for node in nodes)

    def _or_larger(self, move: Move) -> Generator[Problem, Plan, Move]:
        """A node whose replacement saves more than this move that buys none, if it is worth the further pods.

        Pods move once a day: those of a large node that is nearly empty often have no moves left once they
        have filled the room that smaller nodes had for them. Where others fill that one, as after a drift, it
        is asked about as well if its pods should find room, though rules keep them from it: rules-135 ended
        at 1.58 of its bound instead of 1.15.
        """
        replacing, going = self._question.move_budget(replacing=True), {one.name for one in move.candidates}
        also_for_nothing = self._question.moves.forced and self._chain is None
        found = []
        for candidate in self._candidates:
            if candidate.name in going or candidate.price <= move.saving:
                continue
            if not also_for_nothing and self._only_room((candidate,)):
                continue
            most = self._hope(candidate)
            enough = most < candidate.price or also_for_nothing
            if enough and _worth_more(most, 1 + candidate.cost, move.saving, move.cost):
                found.append((-most, candidate.name, candidate))
        for _, _, candidate in sorted(found, key=lambda entry: entry[:2])[:_LARGER]:
            if not self._work.left:
                break
            other = yield from self._tried((candidate,), quiet=self._only_room((candidate,)))
            # It may still go later, such as without another node: why not now is no reason to stay.
            self._stay.pop(candidate.name, None)
            if other is not None and other.claims and self._question.moves.forced:
                other = yield from self._beside_wasteful(other)
            if other is None or self._too_little(candidate, other.saving, replacing):
                continue
            if other.claims and _worth_more(other.saving, other.cost, move.saving, move.cost):
                self._others = [move]
                return other
        return move

    def _beside_wasteful(self, move: Move) -> Generator[Problem, Plan, Move]:
        """The move with no pod on nodes that should be replaced next, if it saves half as much at least.

        Else these pods would move a second time: rules-135 had 7 of 50 evictions, and has 2 of 32.
        """
        free = {one.name for one in self._candidates}
        wasteful = {one.name for one in self._wasteful(move) if one.name in free or self._soon(one)}
        if not wasteful:
            return move
        problem = self._question.without(move.candidates)
        nodes = tuple(node.without_room() if node.name in wasteful else node for node in problem.nodes)
        problem = replace(problem, nodes=nodes)
        plan = yield problem
        self._planned += 1
        self._work.spend(plan.work + len(nodes) // _NODES_PER_UNIT)
        try:
            other = judged(self._question, move.candidates, problem, plan)
        except Refused:
            return move
        return other if other.saving >= _NEARLY_AS_GOOD * move.saving else move

    @cached_property
    def _spread(self) -> SpreadRoom:
        return SpreadRoom(self._question, self._memory.market.reach)

    def _left_out(self, candidate: Candidate) -> bool:
        """True iff a plan would leave pods of the node, as far as that is seen without one."""
        known = self._seen.get(candidate.name)
        if known is None:
            known = self._seen[candidate.name] = self._crowded_out(candidate) or self._taken(candidate)
        return known

    def _crowded_out(self, candidate: Candidate) -> bool:
        """True iff a plan would leave pods of the node, since only room counts and their spread finds none.

        Of 663 what-ifs about one node that found no move, in two days of services, 652 ended with that.
        """
        return candidate.plannable and self._only_room((candidate,)) and self._spread.lacks(candidate)

    def _taken(self, candidate: Candidate) -> bool:
        """True iff only room counts, and pods that are moving already take what its pods would need.

        Half of all what-ifs were asked within 15 s of a command, and ended with that for one node after
        the other.
        """
        if not self._question.moving or not candidate.plannable or not self._only_room((candidate,)):
            return False
        return not free_room(self._question).packs(candidate)

    def _left(self, candidate: Candidate) -> str:
        """Why it stays where a plan would leave pods of it, as if one had said so."""
        fleeting, restless = bool(self._question.problem.pods), self._question.restless
        self._memory.refuse((candidate,), SPOT_DISABLED, self._now, fleeting=fleeting, restless=restless)
        return SPOT_DISABLED

    def _no_room(self, candidate: Candidate) -> str:
        """Why it stays if its pods found no room when it alone was imagined away: without others there is
        less.
        """
        alone = (candidate,)
        return self._memory.refused(alone, self._now, quiet=True) if self._only_room(alone) else ""

    def _together(self) -> Generator[Problem, Plan, Move | None]:
        """Several nodes whose pods go to new ones: the most promising first, in sets of several sizes."""
        best: list[Move] = []
        promising = self._promising()
        size = len(promising)
        while size > 1 and self._work.left:
            move = yield from self._tried(promising[:size])
            if move is not None:
                best.append(move)
            size //= _SHRINK
        if not best:
            return None
        rate = max(move.rate for move in best) * _NEARLY_AS_GOOD
        found = next(move for move in best if move.rate >= rate)
        self._others = [move for move in best if move is not found]
        return found

    def _promising(self) -> list[Candidate]:
        """Nodes that cost more than what their pods are worth, within the budgets, the best first."""
        found = []
        for candidate in self._candidates:
            if not self._question.replaceable(candidate):
                continue
            most = self._prospects.if_bought(candidate)
            if most >= candidate.needed:
                found.append((-most / (1 + candidate.cost), candidate.name, candidate))
        return list(self._within(candidate for _, _, candidate in sorted(found, key=lambda entry: entry[:2])))

    def _within(self, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        move_budget = self._question.move_budget(replacing=True)
        for candidate in candidates:
            if move_budget.holds(candidate.pool, candidate.workloads):
                move_budget.take(candidate.pool, candidate.workloads)
                yield candidate

    def _alone(self) -> Generator[Problem, Plan, Move | None]:
        """One node after the other; says of each why it stays."""
        found = []
        move_budget = self._question.move_budget(replacing=True)
        for candidate in self._candidates:
            most = self._hope(candidate)
            if most < candidate.needed:
                self._stay[candidate.name] = self._hopeless(candidate)
            elif self._too_little(candidate, most, move_budget):
                self._stay[candidate.name] = REPLACED_ENOUGH
            else:
                found.append((-most / (1 + candidate.cost), candidate.name, candidate))
        for _, _, candidate in sorted(found, key=lambda entry: entry[:2]):
            if not self._work.left:
                return None
            move = yield from self._tried((candidate,), quiet=self._only_room((candidate,)))
            if move is not None and self._too_little(candidate, move.saving, move_budget):
                self._stay[candidate.name] = REPLACED_ENOUGH
            elif move is not None:
                return move
        return None

    @staticmethod
    def _too_little(candidate: Candidate, saving: float, replacing: MoveBudget) -> bool:
        """True iff so much is saved too little for the moves that are left of its pods."""
        return saving < WORTH_THE_REST * candidate.price and not replacing.holds(
            candidate.pool, candidate.workloads
        )

    def _hope(self, candidate: Candidate) -> float:
        """What taking this node alone should save: by one node for what finds no room, or by several."""
        self._work.spend(1)
        prospects, only_room = self._prospects, self._only_room((candidate,))
        left = self._homeless(candidate, self._quiet_room if only_room else self._room)
        if not left:  # for nothing: no other nodes save more
            return float(candidate.price)
        if only_room:
            return float("-inf")
        least = prospects.least(candidate, left)
        by_one = float("-inf") if least is None else float(candidate.price - least)
        by_many = prospects.if_bought(candidate)
        return max(by_one, by_many) if by_many > (1 - _SPARSE) * candidate.price else by_one

    def _hopeless(self, candidate: Candidate) -> str:
        """Why a node stays of which nothing is to be hoped for."""
        if self._question.replaceable(candidate):
            return NO_CHEAPER
        settled = not self._question.restless or self._homeless(candidate, self._room)
        return SPOT_DISABLED if settled else UNSETTLED

    @cached_property
    def _room(self) -> Room:
        """On all nodes, not for several moves."""
        return Room(self._question, self._prospects.appraisal, self._candidates, self._question.closed)

    @cached_property
    def _quiet_room(self) -> Room:
        """The same without nodes that are not quiet."""
        if not self._question.restless:
            return self._room
        shut = self._question.closed | self._question.restless
        return Room(self._question, self._prospects.appraisal, self._candidates, shut)

    def _homeless(self, candidate: Candidate, room: Room) -> list[int]:
        shapes = [self._prospects.appraisal.pod_class[pod.key] for pod in candidate.pods]
        return room.homeless(shapes, candidate)

    def _tried(
        self, candidates: Sequence[Candidate], most: int = 0, *, quiet: bool = False
    ) -> Generator[Problem, Plan, Move | None]:
        """The move that takes these nodes away, or those of them that would not be bought again, or whose
        pods find room where that is all that counts.

        `most`: how many they were at first. `quiet`: no pod comes to a node that is not quiet.
        """
        chosen, most = tuple(candidates), max(most, len(candidates))
        text = self._memory.refused(chosen, self._now, quiet=quiet)
        if not text and len(chosen) == 1 and self._left_out(chosen[0]):
            text = self._left(chosen[0])
        only_room, restless = self._only_room(chosen), self._question.restless
        if not text and only_room and (stay := self._scattered(chosen)):
            # A plan would say no more: nothing may be bought for what the scheduler leaves over.
            text, fewer = SPOT_DISABLED, [candidate for candidate in chosen if candidate.name not in stay]
            self._memory.refuse(chosen, text, self._now, fleeting=bool(self._question.problem.pods))
            if fewer and self._work.left:
                return (yield from self._tried(fewer, most, quiet=quiet))
        if not text:
            problem = self._question.without(chosen, quiet=quiet)
            plan = yield replace(problem, buys=not only_room)
            self._planned += 1
            self._work.spend(plan.work + len(problem.nodes) // _NODES_PER_UNIT)
            try:
                return self._settled(judged(self._question, chosen, problem, plan), quiet=quiet)
            except Refused as refused:
                text = str(refused)
                stay = refused.names if isinstance(refused, Same | AtMinimum | _Scattered) else frozenset()
                waits = refused.names if isinstance(refused, _Unsettled) else frozenset()
                few = isinstance(refused, AtMinimum)  # until another one is bought
            fleeting = few or mixed(chosen, plan) or crowds_out(self._question, chosen, plan)
            if only_room and (stay := given_up(self._question, chosen, plan)):
                # Others that need a place anyway may have taken the room.
                text, fleeting = SPOT_DISABLED, bool(self._question.problem.pods)
            # With all nodes open it may be another answer, unless nothing may be bought.
            if only_room or not (quiet and restless):
                waits = restless if quiet else waits
                self._memory.refuse(chosen, text, self._now, fleeting=fleeting, restless=waits)
            fewer = [candidate for candidate in chosen if candidate.name not in stay]
            shrunk = not only_room and most > _MANY and len(fewer) <= most // _SHRINK
            if stay and fewer and not shrunk and self._work.left:
                return (yield from self._tried(fewer, most, quiet=quiet))
        if len(chosen) == 1:
            self._stay[chosen[0].name] = text
        return None

    def _settled(self, move: Move, *, quiet: bool) -> Move:
        """Raises Refused where nothing is bought because of room on nodes that are not quiet yet, or that the
        scheduler would not leave to these pods.
        """
        waits = self._question.restless.intersection(move.places)
        if move.claims:
            return move
        if waits and not quiet:
            raise _Unsettled(waits)
        if not self._only_room(move.candidates) and (stay := self._scattered(move.candidates)):
            raise _Scattered(stay)
        return move

    def _scattered(self, chosen: Sequence[Candidate]) -> frozenset[str]:
        """Those of these nodes of which the scheduler would leave pods over, where nothing steers it."""
        if self._keeps_places:
            return frozenset()
        return self._memory.rescheduling.left_over(self._question, chosen, self._work)

    def _only_room(self, chosen: Sequence[Candidate]) -> bool:
        """True iff whatever is bought in place of these nodes is refused: room on others is all that counts.

        They are spot nodes that spot may not follow, and together too cheap for whatever else may. Of several
        only those are tried whose pods should find room as it is.
        """
        if any(self._question.replaceable(candidate) for candidate in chosen):
            return False
        if len(chosen) > 1:
            return True
        return (
            chosen[0].price - chosen[0].needed
            < self._memory.market.after_spot(self._question.problem, chosen[0]).least
        )


def _outdoes(move: Move | None, chain: Move) -> bool:
    """True iff this move, which can be made now, is worth more than all of the chain."""
    return move is not None and _worth_more(move.saving, move.cost, chain.saving, chain.cost)


def _worth_more(saving: float, cost: float, other: float, at: float) -> bool:
    """True iff so much is saved more than the other at its cost, and nearly as much for each further pod."""
    return saving > max(0, other) and saving - other >= _NEARLY_AS_GOOD * max(0, other / at) * (cost - at)
