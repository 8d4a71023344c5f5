"""Why nothing can be launched from an EC2NodeClass, in the words of its conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass, SelectorTerm
from dovetail.api.karpenter.nodeclass import NodeClass
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Condition
from dovetail.base.guess import nearest

if TYPE_CHECKING:
    from dovetail.cloud.provider import NodeClassResolution, Unready

# Conditions that say what selectors did not find, and what does not hold of the pool or the class itself.
_ROOTS = ("SubnetsReady", "SecurityGroupsReady", "AMIsReady", "ValidationSucceeded")
FOLLOWS = "DependenciesNotReady"  # the reason of a validation that waits for the others
_NO_SUBNETS = "SubnetSelector did not match any Subnets"
_NO_GROUPS = "SecurityGroupSelector did not match any SecurityGroups"
_NO_IMAGES = "AMISelector did not match any AMIs"


def unready_of(node_class: EC2NodeClass, resolution: NodeClassResolution) -> Iterator[Unready]:
    """Why conditions are not True; what the provider says itself comes last, and so wins."""
    from dovetail.cloud.provider import Unready

    spec = node_class.spec
    if not resolution.subnets:
        hint = near_miss(spec.subnet_selector_terms, resolution.subnet_tag_keys)
        message = f"{_NO_SUBNETS}{hint}"
        yield Unready("SubnetsReady", "SubnetsNotFound", message)
    if not resolution.security_groups:
        hint = near_miss(spec.security_group_selector_terms, resolution.security_group_tag_keys)
        message = f"{_NO_GROUPS}{hint}"
        yield Unready("SecurityGroupsReady", "SecurityGroupsNotFound", message)
    if resolution.unsupported_alias:
        yield Unready("AMIsReady", "UnsupportedAlias", resolution.unsupported_alias)
    elif not resolution.images:
        hint = f" ({resolution.image_hint})" if resolution.image_hint else ""
        yield Unready("AMIsReady", "AMINotFound", f"{_NO_IMAGES}{hint}")
    yield from resolution.unready


def why_unready(ready: Condition, pool: NodePool, node_class: NodeClass | None) -> str:
    """Why nothing is bought from a pool (`ready` is its own or its class's): what does not hold of it, and
    what the class did not find.
    """
    conditions = (*pool.status.conditions, *(node_class.status.conditions if node_class else ()))
    failed = [item for item in conditions if item.status == "False" and item.type in _ROOTS]
    return ", ".join(item.message for item in failed if item.reason != FOLLOWS) or ready.message


def unexpanded(node_class: EC2NodeClass) -> tuple[str, ...]:
    """Selectors that match nothing in any account, as each term has a variable that was not expanded."""
    spec = node_class.spec
    selectors = (
        (spec.subnet_selector_terms, _NO_SUBNETS),
        (spec.security_group_selector_terms, _NO_GROUPS),
        (spec.ami_selector_terms, _NO_IMAGES),
    )
    return tuple(
        f"{message}{near_miss(terms, ())}"
        for terms, message in selectors
        if terms and all(_literal((term,)) for term in terms)
    )


def near_miss(terms: Iterable[SelectorTerm], existing: tuple[str, ...]) -> str:
    """ " (found key X)" for an existing tag key that looks like a selected one that does not exist, or "".

    A variable of a shell that stands there as it was written comes first.
    """
    terms = tuple(terms)
    if literal := _literal(terms):
        return f" ({literal!r} is a variable that was not expanded)"
    wanted = sorted({key for term in terms for key in term.tags if key not in existing})
    for key in wanted:
        close = nearest(key, existing, alike=0.8)
        if close:
            return f" (found key {close[0]!r}, but the selector asks for {key!r})"
    return ""


def _literal(terms: Iterable[SelectorTerm]) -> str:
    """The first text of the terms with a variable in it; "" without one."""
    for term in terms:
        for text in (*(one for pair in term.tags.items() for one in pair), term.alias, term.name):
            if "${" in text:
                return text
    return ""
