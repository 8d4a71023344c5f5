"""Claims that go because a definition does: which they are, what is reported, what confirms their end."""

from __future__ import annotations

from typing import Any

import pytest
from test_emptiness import REF

from dovetail.api.apiextensions import CustomResourceDefinition
from dovetail.api.codec import decode
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.disrupt.definitions import Definitions

OLD, THEN, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"


def definition(made: str = OLD, *, deleting: bool = False, uid: str = "u") -> CustomResourceDefinition:
    meta: dict[str, Any] = {"name": "x", "uid": uid, "creationTimestamp": made}
    if deleting:
        meta["deletionTimestamp"] = NEW
    return decode({"metadata": meta, "spec": {}}, CustomResourceDefinition)


def claim(*owners: str) -> NodeClaim:
    references = [
        {"apiVersion": "v1", "kind": kind, "name": kind.lower(), "uid": f"uid-{kind}"} for kind in owners
    ]
    meta = {"name": "c", "uid": "c", "creationTimestamp": THEN, "ownerReferences": references}
    return decode({"metadata": meta, "spec": {"nodeClassRef": REF}}, NodeClaim)


HERE, GOING = definition(), definition(deleting=True)


@pytest.mark.parametrize(
    ("claims", "pools", "owners", "taken"),
    [
        (HERE, HERE, ("NodePool",), False),
        (None, HERE, ("NodePool",), True),
        (None, HERE, (), True),
        (GOING, HERE, (), True),
        # A claim of its own stays when only the definition of pools goes.
        (HERE, None, (), False),
        (HERE, None, ("NodePool",), True),
        (HERE, None, ("Owner", "NodePool"), True),
        (HERE, None, ("Owner",), False),
        (HERE, GOING, ("NodePool",), True),
        (HERE, GOING, (), False),
        # Made anew after the claim: it was gone in between.
        (HERE, definition(NEW), ("NodePool",), True),
        (HERE, definition(NEW), (), False),
        (HERE, definition(THEN), ("NodePool",), False),
        (HERE, definition(THEN, deleting=True), ("NodePool",), True),
    ],
)
def test_which_claims_a_definition_takes_along(
    claims: CustomResourceDefinition | None,
    pools: CustomResourceDefinition | None,
    owners: tuple[str, ...],
    taken: bool,
) -> None:
    assert Definitions(claims, pools).take(claim(*owners)) is taken


@pytest.mark.parametrize(
    ("claims", "pools", "name", "fate"),
    [
        (None, HERE, "nodeclaims", "is gone"),
        (GOING, None, "nodeclaims", "is being deleted"),
        (HERE, None, "nodepools", "is gone"),
        (HERE, GOING, "nodepools", "is being deleted"),
        (HERE, definition(NEW), "nodepools", "was deleted and made anew"),
    ],
)
def test_what_became_of_the_definition_is_reported(
    claims: CustomResourceDefinition | None,
    pools: CustomResourceDefinition | None,
    name: str,
    fate: str,
) -> None:
    text = f"the CustomResourceDefinition {name}.karpenter.sh {fate}"
    assert Definitions(claims, pools).describe() == text


def test_a_confirmation_is_for_these_very_definitions() -> None:
    """The token of one state confirms no other one."""
    kept = {None: None, "a": definition(uid="a"), "b": definition(uid="b")}
    tokens = {(one, two): Definitions(kept[one], kept[two]).token() for one in kept for two in kept}
    different = {frozenset(pair) for pair in tokens}
    assert len(set(tokens.values())) == len(different)
    assert tokens["a", "b"] == Definitions(definition(uid="a", deleting=True), kept["b"]).token()
