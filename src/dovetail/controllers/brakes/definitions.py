"""Keeps the nodes of claims that are deleted only because a CustomResourceDefinition was."""

from __future__ import annotations

import asyncio

from dovetail.api.apiextensions import CustomResourceDefinition, definition_name
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object, is_true
from dovetail.base.clock import MINUTE
from dovetail.base.errors import Forbidden, NotFound
from dovetail.controllers.brakes.guard import confirmed
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.status import INSTANCE_TERMINATING
from dovetail.disrupt.confirmation import too_many
from dovetail.disrupt.definitions import Definitions
from dovetail.model import labels

_TTL = 15 * MINUTE


class DefinitionGuard:
    """Asked about every deleted claim before anything of it is ended."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._looking = asyncio.Lock()
        self._looked: int | None = None  # when the last look began
        self._refusal = ""

    async def holds(self, claim: NodeClaim) -> bool:
        """True iff nothing of the deleted claim may be ended now; an event on it says why.

        The definitions are read after the claim was seen to be deleted: a definition is marked before its
        objects are. Calls during a look share the next one.
        """
        context = self._context
        if context.brakes.begun(claim) or is_true(claim.status.conditions, INSTANCE_TERMINATING):
            return False
        asked = context.clock.monotonic()
        async with self._looking:
            if self._looked is None or self._looked < asked:
                self._looked = context.clock.monotonic()
                context.brakes.lost = await self._look()
        found = context.brakes.lost
        if found is None or not context.brakes.keeps(claim):
            return False
        message = (
            f"NodeClaim and node are kept, because {found.describe()}; to end all such, set "
            f"--confirm-termination {found.token()} or annotate a NodePool with "
            f"{labels.CONFIRM_TERMINATION}={found.token()}; to end one, delete its Node"
        )
        await context.recorder.publish(
            claim,
            "Warning",
            "MassTerminationGuarded",
            message,
            dedupe=(claim.metadata.uid, message),
            ttl=_TTL,
        )
        return True

    async def _look(self) -> Definitions | None:
        """The definitions, if so many claims go with them that a person has to confirm it."""
        context = self._context
        try:
            found = Definitions(await self._definition(NodeClaim), await self._definition(NodePool))
        except Forbidden as error:
            if str(error) != self._refusal:
                context.log.record("definitions.unreadable", message=str(error))
            self._refusal = str(error)
            return None
        claims = context.state.all(NodeClaim)
        taken = [claim for claim in claims if found.take(claim)]
        # The last few of a fleet that was held are still part of it.
        held = (bool(taken) and context.brakes.lost is not None) or too_many(len(taken), len(claims))
        held = held and found.token() not in confirmed(context)
        if not held:
            return None
        if found != context.brakes.lost:
            context.log.record(
                "deletion.guarded", message=found.describe(), claims=len(taken), token=found.token()
            )
        return found

    async def _definition(self, kind: type[Object]) -> CustomResourceDefinition | None:
        try:
            return await self._context.client.get(CustomResourceDefinition, definition_name(kind))
        except NotFound:
            return None
