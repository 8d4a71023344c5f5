"""Claims that are deleted because their definition is: the nodes were not meant.

The API server deletes all objects of a kind whose CustomResourceDefinition is deleted, and the garbage
collector all claims whose NodePool is gone. To a controller both look like a user's own wish.
"""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.api.apiextensions import CustomResourceDefinition, definition_name
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.disrupt.confirmation import token


@dataclass(frozen=True, slots=True)
class Definitions:
    """The definitions of NodeClaim and NodePool at one moment; None is one that is not there."""

    claims: CustomResourceDefinition | None
    pools: CustomResourceDefinition | None

    def take(self, claim: NodeClaim) -> bool:
        """True iff a deleted definition takes the claim with it.

        A definition of pools that is younger than a claim of a pool was deleted and made anew in between.
        """
        if _ending(self.claims):
            return True
        pools, made = self.pools, claim.metadata.creation_timestamp
        # API servers write all instants alike, so that their texts are in order of time.
        if pools is not None and not pools.deleting and pools.metadata.creation_timestamp <= made:
            return False
        return any(owner.kind == NodePool.KIND for owner in claim.metadata.owner_references)

    def describe(self) -> str:
        """What became of which definition, where one takes claims."""
        kind, found = (NodeClaim, self.claims) if _ending(self.claims) else (NodePool, self.pools)
        if found is None:
            fate = "is gone"
        else:
            fate = "is being deleted" if found.deleting else "was deleted and made anew"
        return f"the CustomResourceDefinition {definition_name(kind)} {fate}"

    def token(self) -> str:
        """What confirms the end of all claims that these take: the same until a definition is made anew."""
        return token(found.metadata.uid if found is not None else "" for found in (self.claims, self.pools))


def _ending(found: CustomResourceDefinition | None) -> bool:
    return found is None or found.deleting
