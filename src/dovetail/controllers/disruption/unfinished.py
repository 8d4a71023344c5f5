"""Commands that an earlier process began: their replacements say which command bought them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import msgspec

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import is_true
from dovetail.base.clock import MINUTE
from dovetail.base.memo import by_identity
from dovetail.cluster.state import State
from dovetail.controllers.nodeclaim.status import DISRUPTION_REASON
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.command import REPLACES, Command, Repair
from dovetail.model.labels import NODEPOOL
from dovetail.units.timestamp import parse_rfc3339, to_rfc3339

# A command that is younger has not been given up: its replacements may take as long in any case.
_FRESH = 10 * MINUTE


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """What each replacement carries. `of`: how many there are of the command."""

    at: str  # when the command began
    reason: str
    claims: tuple[str, ...]  # of the candidates
    used: tuple[str, ...] = ()  # nodes that stay and take pods
    of: int = 1
    repair: Repair | None = None


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A command to carry on with. `replacements` are names of claims, `begun` is an instant (ns).

    The command does not say what was planned for its replacements: they are there.
    """

    command: Command
    replacements: tuple[str, ...]
    begun: int


def mark(command: Command, now: int) -> str:
    """The annotation of the command's replacements."""
    claims = tuple(view.claim.metadata.name for view in command.candidates)
    written = Mark(
        at=to_rfc3339(now),
        reason=command.reason,
        claims=claims,
        used=command.used,
        of=len(command.replacements),
        repair=command.repair,
    )
    return msgspec.json.encode(written).decode()


def unfinished(state: State, taken: Collection[str], now: int) -> Iterator[Unfinished]:
    """Commands that are not carried out, the latest first; callers add the claims of those taken.

    Only where all replacements are there, and every candidate that is left still bears its mark: what was
    undone stays undone.
    """
    bought: dict[str, list[NodeClaim]] = {}
    for claim in state.all(NodeClaim):
        text = claim.metadata.annotations.get(REPLACES, "")
        if text and not claim.deleting:
            bought.setdefault(text, []).append(claim)
    read = [(found, claims) for text, claims in bought.items() if (found := _read(text)) is not None]
    for found, claims in sorted(read, key=lambda item: item[0].at, reverse=True):
        begun = parse_rfc3339(found.at)
        present = [item for name in found.claims if (item := state.get(NodeClaim, name)) is not None]
        left = [claim for claim in present if not claim.deleting]
        if now - begun > _FRESH or len(claims) != found.of or not left:
            continue
        if all(_marked(claim) and claim.metadata.name not in taken for claim in left):
            views = tuple(_view(state, claim) for claim in left)
            names = tuple(claim.metadata.name for claim in claims)
            yield Unfinished(Command(found.reason, views, used=found.used, repair=found.repair), names, begun)


@by_identity(32_768)  # as many claims as the state may have; asked of each at each look
def replaces(claim: NodeClaim) -> Mark | None:
    """The command that the claim was bought for, if it was bought in place of others."""
    text = claim.metadata.annotations.get(REPLACES, "")
    return _read(text) if text else None


def _read(text: str) -> Mark | None:
    """None for what was not written by Dovetail."""
    try:
        found = msgspec.json.decode(text, type=Mark)
        parse_rfc3339(found.at)
    except (msgspec.MsgspecError, ValueError):
        return None
    return found


def _marked(claim: NodeClaim) -> bool:
    return is_true(claim.status.conditions, DISRUPTION_REASON)


def _view(state: State, claim: NodeClaim) -> NodeView:
    node = state.node_of(claim)
    return NodeView(
        claim=claim,
        node=node,
        pool=state.get(NodePool, claim.metadata.labels.get(NODEPOOL, "")),
        pods=state.pods_on(node.metadata.name) if node is not None else (),
    )
