"""Commands being carried out: taint, launch replacements, wait until they are up, delete; or undo."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from dovetail.api.codec import encode
from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Condition, Object, condition, is_true
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.base.errors import ApiError, Conflict, NotFound
from dovetail.cluster.state import fingerprint
from dovetail.controllers.context import Context
from dovetail.controllers.disruption.consolidatable import remove_condition
from dovetail.controllers.disruption.metrics import count_failure
from dovetail.controllers.disruption.moves import MoveBook
from dovetail.controllers.disruption.unfinished import mark, unfinished
from dovetail.controllers.nodeclaim.disrupted import (
    EVENTUAL,
    FORCEFUL,
    GRACEFUL,
    count_disrupted,
    count_unhealthy,
)
from dovetail.controllers.nodeclaim.reboot import request
from dovetail.controllers.nodeclaim.register import lacks_only_opening
from dovetail.controllers.nodeclaim.status import DISRUPTION_REASON, INITIALIZED, REBOOTING, write
from dovetail.controllers.nodeclaim.terminate import limit_drain
from dovetail.controllers.provisioning.claims import node_claim
from dovetail.controllers.reconciler import Failure, failure_log
from dovetail.controllers.shared_limits import admitted
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.command import REPLACES, UNDERUTILIZED, Command, Repair, moved_pods
from dovetail.disrupt.consolidation.churn import Entry
from dovetail.disrupt.pods import DISRUPTED, evictable
from dovetail.kube.client import ChangeType
from dovetail.model.labels import NODEPOOL
from dovetail.model.plan import PlannedClaim
from dovetail.units.duration import parse_duration
from dovetail.units.timestamp import parse_rfc3339


async def report_end(context: Context, view: NodeView, command: Command) -> None:
    """The node goes now, by that command."""
    claim, publish, reason = view.claim, context.recorder.publish, command.reason
    await publish(claim, "Normal", "DisruptionTerminating", f"Disrupting NodeClaim: {reason}")
    if view.node is not None:
        await publish(view.node, "Normal", "DisruptionTerminating", f"Disrupting Node: {reason}")
    mode = EVENTUAL if claim.spec.termination_grace_period is not None else GRACEFUL
    repair = command.repair
    if repair is not None and repair.grace is not None:
        mode = EVENTUAL if repair.grace else FORCEFUL
    count_disrupted(context, claim, reason.lower(), mode)
    if repair is not None:
        count_unhealthy(context, claim, repair.condition, mode)


def still_there(context: Context, claim: NodeClaim) -> bool:
    """True iff the claim is there, and not yet deleted."""
    known = context.state.get(NodeClaim, claim.metadata.name)
    return known is not None and known.metadata.uid == claim.metadata.uid and not known.deleting


STEP = SECOND
_PER_NODE = 80 * SECOND // 1000
_SHORTEST_LIFE = 10 * MINUTE
_LONGEST_LIFE = HOUR


@dataclass(frozen=True, slots=True)
class Running:
    """A command whose replacements are coming up, or whose nodes could not all be deleted yet.

    `replacements` are names of claims; `named_claims` are the claims whose end was reported.
    """

    command: Command
    replacements: tuple[str, ...]
    begun: int
    moves: tuple[Entry, ...]
    surging: int | None = None  # since when other pods come before those there leave
    spared: frozenset[str] = frozenset()  # pods (by UID) that budgets kept there when it began
    named_claims: dict[str, None] = field(default_factory=dict)


class Execution:
    """Carries commands out. What it remembers is lost in a restart: `tidy` then carries on with what has its
    replacements, and undoes all else that was begun.

    Invariant: `taken` names the claims of all running commands, and those deleted ones that are still there.
    """

    def __init__(self, context: Context, moves: MoveBook) -> None:
        self._context = context
        self._moves = moves
        self._taken: dict[str, None] = {}
        self._running: list[Running] = []
        self._begins = asyncio.Event()  # set once a command is running
        self._failed = failure_log(context.log)
        self._begun = False  # whether this process has looked at what an earlier one left behind
        # All that the last look saw, if nothing was to be done. The state answers the same tuples until
        # something in them changes.
        self._tidied: tuple[object, ...] | None = None
        # Machines of which something changed since, or that no command has taken any more.
        self._news = context.state.follow()
        context.state.subscribe(self._notice)

    @property
    def taken(self) -> Collection[str]:
        """Claims that a command has taken: from its start until they are gone."""
        return self._taken.keys()

    async def run(self) -> None:
        """Carry on with all commands every second, for ever; with none, nothing wakes up."""
        clock = self._context.clock
        while True:
            last = clock.monotonic()
            if not self._running:
                self._begins.clear()
                await self._begins.wait()
            await clock.sleep(STEP - (clock.monotonic() - last) % STEP)
            for running in tuple(self._running):
                first = running.command.candidates[0].claim
                try:
                    with self._context.panics.alone("disruption.queue", first.metadata.name, first):
                        await self._step(running)
                except ApiError as error:
                    self._failed(Failure("disruption.queue", "", error))  # it is stepped again in a second

    async def start(self, command: Command) -> None:
        """Taint all first, so that nothing comes; launch what is needed; without replacements delete at once.

        Raises ApiError when that fails: before the first deletion `tidy` takes the taints off again; after it
        what is left to delete is asked for again in a second.
        """
        state, clock = self._context.state, self._context.clock
        snapshot = fingerprint(state.versions())
        self._taken.update(dict.fromkeys(_claims(command)))
        self._context.log.record(
            "disruption.begun",
            command=f"{command.reason}/{snapshot}: {command.describe()}",
            reason=command.reason,
            decision=command.decision,
            nodes=[view.name for view in command.candidates],
            replacements=[planned.instance_type for planned in command.replacements],
            pods=moved_pods(command),
        )
        if command.reboot:
            await self._reboot(command)
            return
        try:
            async with admitted(self._context, command.replacements, command.names()) as allowed:
                if refused := next((why for _, why in allowed if why), ""):
                    raise Conflict(refused)  # others took the room since it was planned
                for view in command.candidates:
                    await self._prepare(view, command.reason)
                marks = {REPLACES: mark(command, clock.now())}
                names = tuple([await self._launch(planned, command.reason, marks) for planned, _ in allowed])
        except ApiError:
            self._release(command)
            raise
        state.mark(command.names())
        for name in (*names, *command.used):
            state.nominate(name)
        bought = {planned.name: name for planned, name in zip(command.replacements, names, strict=True)}
        for place, pods in command.places.items():
            for pod in filter(None, (state.get(Pod, key) for key in pods)):
                state.promise(pod, bought.get(place, place), kept=True)
        self._context.log.record(
            "disruption",
            reason=command.reason,
            decision=command.decision,
            nodes=[view.name for view in command.candidates],
            claims=list(_claims(command)),
            replacements=list(names),
            savings=command.savings,
            snapshot=snapshot,
            pods=moved_pods(command),
            **(command.weighed.record() if command.weighed is not None else {}),
            bought=[
                {"claim": name, "instanceType": one.instance_type, "zone": one.zone, "price": one.price}
                for name, one in zip(names, command.replacements, strict=True)
            ],
        )
        running = Running(command, names, clock.now(), await self._moves.record(command))
        if names or self._surges(command):
            self._run(running)
            return
        try:
            await self._delete(running)
        except ApiError:
            self._run(running)
            raise

    async def _reboot(self, command: Command) -> None:
        """What is requested is carried out apart; the claim is taken until it shows that. Raises ApiError."""
        (view,) = command.candidates
        bound = _bound(view.claim, command.repair)
        if bound is None and view.claim.spec.termination_grace_period is not None:
            bound = parse_duration(view.claim.spec.termination_grace_period)
        try:
            await request(self._context, view.claim, bound, command.reboot)
        except ApiError:
            self._release(command)
            raise
        name = view.claim.metadata.name
        self._context.log.record("reboot.requested", claim=name, node=view.name, reason=command.reboot)

    def _run(self, running: Running) -> None:
        self._running.append(running)
        self._begins.set()

    async def tidy(self) -> None:
        """Undo what a command left behind on nodes that no command has taken, such as after a restart."""
        state = self._context.state
        seen = state.all(NodeClaim), state.all(Node), tuple(self._taken)
        if seen != self._tidied:
            self._tidied = None
            await self._resume()
            if not await self._undo_all():
                self._tidied = seen
        self._begun = True
        busy = {name for running in self._running for name in _claims(running.command)}
        for name in [name for name in self._taken if name not in busy]:
            present = state.get(NodeClaim, name)
            if present is None or present.deleting or is_true(present.status.conditions, REBOOTING):
                self._give_up(name)

    def _give_up(self, name: str) -> None:
        """No command has taken the claim any more."""
        if name in self._taken:
            del self._taken[name]
            self._news[name] = None

    def _changed(self) -> list[NodeClaim]:
        """The claims of which something changed since the last look, in order of name."""
        state, found = self._context.state, dict[str, NodeClaim]()
        for name in self._news:
            claim, node = state.get(NodeClaim, name), state.get(Node, name)
            for one in (*([claim] if claim else ()), *(state.claims_of(node) if node else ())):
                found[one.metadata.name] = one
        self._news.clear()
        return [found[name] for name in sorted(found)]

    async def _undo_all(self) -> bool:
        """Of claims that no command has taken; False iff there was nothing to undo."""
        found = False
        for claim in self._changed():
            if claim.deleting or claim.metadata.name in self._taken or not self._begun_on(claim):
                continue
            tidy = False
            try:
                with self._context.panics.alone("disruption", claim.metadata.name, claim):
                    tidy = not await self._undo(claim)
            except ApiError as error:  # the others need not wait for this one
                self._failed(Failure("disruption", claim.metadata.name, error))
            if not tidy:
                found, self._news[claim.metadata.name] = True, None
        return found

    def _begun_on(self, claim: NodeClaim) -> bool:
        """True iff a command left something on the claim or its node, or it cannot be told."""
        if is_true(claim.status.conditions, REBOOTING):
            return False  # the reboot takes off what it left
        node = self._context.state.node_of(claim)
        try:
            tainted = node is not None and not node.deleting and _tainted(node)
            return tainted or condition(claim.status.conditions, DISRUPTION_REASON) is not None
        except Exception:
            return True

    async def _undo(self, claim: NodeClaim) -> bool:
        """Take off what a command put on the claim and its node; False iff there is nothing."""
        node = self._context.state.node_of(claim)
        tainted = node is not None and not node.deleting and _tainted(node)
        if node is not None and tainted:
            kept = [encode(taint) for taint in node.spec.taints if taint.key != DISRUPTED.key]
            await self._write_taints(node, kept)
        begun = condition(claim.status.conditions, DISRUPTION_REASON)
        if begun is not None:
            await remove_condition(self._context, claim, DISRUPTION_REASON)
            await self._forgive(claim, node, begun)
        return tainted or begun is not None

    async def _resume(self) -> None:
        """Replacements that are bought already are waited for, instead of buying them a second time."""
        context = self._context
        for found in unfinished(context.state, self._taken, context.clock.now()):
            command = found.command
            self._taken.update(dict.fromkeys(_claims(command)))
            context.state.mark(command.names())
            for name in (*found.replacements, *command.used):
                context.state.nominate(name)
            context.log.record(
                "disruption.resumed",
                reason=command.reason,
                claims=list(_claims(command)),
                replacements=list(found.replacements),
            )
            moves = await self._moves.resume(command, found.begun)
            self._run(Running(command, found.replacements, found.begun, moves))

    async def _forgive(self, claim: NodeClaim, node: Node | None, begun: Condition) -> None:
        """Pods of a node that another process was about to empty have not been moved."""
        if self._begun or begun.reason != UNDERUTILIZED or node is None:
            return
        pool, pods = claim.metadata.labels.get(NODEPOOL, ""), self._context.state.pods_on(node.metadata.name)
        await self._moves.give_back(pool, pods, parse_rfc3339(begun.last_transition_time))

    async def _step(self, running: Running) -> None:
        now = self._context.clock.now()
        claims = [self._context.state.get(NodeClaim, name) for name in running.replacements]
        gone = [name for name, claim in zip(running.replacements, claims, strict=True) if _lost(claim)]
        nodes = sum(len(other.command.candidates) for other in self._running)
        life = min(max(_PER_NODE * nodes, _SHORTEST_LIFE), _LONGEST_LIFE)
        if gone:
            await self._fail(running, f"replacement {gone[0]} is gone")
        elif all(claim is not None and self._up(claim) for claim in claims):
            await self._end(running, [claim for claim in claims if claim is not None])
        elif abs(now - running.begun) > life:  # or it began before the clock was set back
            await self._fail(running, "replacements did not come up in time")
        else:
            await self._wait(running, [claim for claim in claims if claim is not None])

    async def _end(self, running: Running, claims: list[NodeClaim]) -> None:
        """Delete the nodes, once other pods came in place of those whose owners bring them up first.

        Where none came in time for a pod that budgets keep, the node stays as it would have without a surge.
        """
        surges, command, state = self._context.surges, running.command, self._context.state
        if surges is not None and self._surges(command):
            going = [view.name for view in command.candidates]
            pods = [pod for name in going for pod in state.pods_on(name) if evictable(pod)]
            if running.surging is None:
                spared = frozenset(pod.metadata.uid for pod in pods if surges.blocked(pod))
                begun = replace(running, surging=self._context.clock.now(), spared=spared)
                self._running[self._running.index(running)] = running = begun
            assert running.surging is not None
            if await surges.hold(pods, going, running.surging):
                await self._wait(running, claims)
                return
            if kept := [pod.key for pod in pods if self._keeps(running, pod)]:
                await self._fail(running, f"no other pod came before {kept[0]} in time")
                return
        await self._delete(running)
        self._running.remove(running)

    def _keeps(self, running: Running, pod: Pod) -> bool:
        """True iff budgets keep a pod there that a surge should have replaced, and nothing ends that."""
        surges = self._context.surges
        if surges is None or pod.metadata.uid not in running.spared or not surges.blocked(pod):
            return False
        view = next(view for view in running.command.candidates if view.name == pod.spec.node_name)
        return view.claim.spec.termination_grace_period is None

    def _surges(self, command: Command) -> bool:
        """True iff other pods may come before those of its nodes leave; an unhealthy node does not wait."""
        surges = self._context.surges
        if surges is None or command.repair is not None or command.terminate_first:
            return False
        pods = (pod for view in command.candidates for pod in self._context.state.pods_on(view.name))
        return surges.concerns(pods)

    def _up(self, claim: NodeClaim) -> bool:
        """True iff pods may come. A node that is held for them opens when the first ones are there."""
        initialized = is_true(claim.status.conditions, INITIALIZED)
        state = self._context.state
        return initialized or lacks_only_opening(state, state.node_of(claim), claim)

    def _notice(
        self, _kind: type[Object], _change: ChangeType, old: Object | None, new: Object | None
    ) -> None:
        """Without its replacement a node stays: no plan until the next step may buy for its pods."""
        claim = old if new is None else new
        if isinstance(claim, NodeClaim) and (new is None or claim.deleting):
            for running in self._running:
                if claim.metadata.name in running.replacements:
                    self._context.state.unmark(running.command.names())

    async def _wait(self, running: Running, claims: list[NodeClaim]) -> None:
        # Until the pods come, nothing else may take the replacements for empty.
        for name in (*running.replacements, *running.command.used):
            self._context.state.nominate(name)
        for claim in claims:
            if not self._up(claim):
                text = "Waiting on readiness to continue disruption"
                await self._context.recorder.publish(claim, "Normal", "DisruptionWaitingReadiness", text)

    async def _fail(self, running: Running, why: str) -> None:
        """Give up: the candidates stay. Replacements that are up stay as well, until they are found empty."""
        self._running.remove(running)
        count_failure(self._context.metrics, running.command)
        self._release(running.command)
        self._context.state.unmark(running.command.names())
        self._context.log.record(
            "disruption.failed",
            reason=running.command.reason,
            claims=list(_claims(running.command)),
            replacements=list(running.replacements),
            message=why,
        )
        await self._moves.take_back(running.moves)

    def _release(self, command: Command) -> None:
        for name in _claims(command):
            self._give_up(name)

    async def _launch(self, planned: PlannedClaim, reason: str, marks: Mapping[str, str]) -> str:
        """Raises NotFound when the pool is gone."""
        pool = await self._context.client.get(NodePool, planned.pool)
        marks = {**marks, **self._context.overlays.marks(planned.pool, planned.instance_types)}
        claim = await self._context.client.create(node_claim(planned, pool, marks))
        self._context.created(claim)
        text = f"Launching NodeClaim: {reason}"
        await self._context.recorder.publish(claim, "Normal", "DisruptionLaunching", text)
        return claim.metadata.name

    async def _prepare(self, view: NodeView, reason: str) -> None:
        if view.node is not None:
            node = await self._context.read(Node, view.node.metadata.name)
            if not _tainted(node):
                taints = [*(encode(taint) for taint in node.spec.taints), encode(DISRUPTED)]
                await self._write_taints(node, taints)
        claim = await self._context.read(NodeClaim, view.claim.metadata.name)
        await write(self._context, claim, Condition(type=DISRUPTION_REASON, status="True", reason=reason))

    async def _delete(self, running: Running) -> None:
        """Their termination does the rest. Raises ApiError as long as one of them could not be deleted."""
        for view in running.command.candidates:
            claim = view.claim
            if claim.metadata.name not in running.named_claims:
                running.named_claims[claim.metadata.name] = None
                await report_end(self._context, view, running.command)
            try:
                await self._limit_drain(claim, running.command.repair)
                await self._context.client.delete(NodeClaim, claim.metadata.name, uid=claim.metadata.uid)
            except (NotFound, Conflict):
                if still_there(self._context, claim):
                    raise
                self._context.state.unmark((claim.metadata.name, view.name))

    async def _limit_drain(self, claim: NodeClaim, repair: Repair | None) -> None:
        """Pods of an unhealthy node get a limit of time to leave, from now on: its replacement is up."""
        bound = _bound(claim, repair)
        if bound is not None:
            known = self._context.state.get(NodeClaim, claim.metadata.name)
            await limit_drain(self._context, known or claim, bound)

    async def _write_taints(self, node: Node, taints: list[object]) -> None:
        merge = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": taints},
        }
        await self._context.client.patch(Node, node.metadata.name, merge=merge)


def _bound(claim: NodeClaim, repair: Repair | None) -> int | None:
    """How long (ns) pods of an unhealthy node may take to leave; None if the repair says nothing of it."""
    if repair is None or repair.grace is None:
        return None
    own = claim.spec.termination_grace_period
    return repair.grace if own is None else min(repair.grace, parse_duration(own))


def _claims(command: Command) -> tuple[str, ...]:
    return tuple(view.claim.metadata.name for view in command.candidates)


def _lost(claim: NodeClaim | None) -> bool:
    return claim is None or claim.deleting


def _tainted(node: Node) -> bool:
    return any(taint.key == DISRUPTED.key for taint in node.spec.taints)
