"""Why nothing can be launched from an EC2NodeClass, in the words of its conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass, SelectorTerm
from dovetail.base.guess import nearest
from dovetail.cloud.provider import NodeClassResolution, Unready


def unready_of(node_class: EC2NodeClass, resolution: NodeClassResolution) -> Iterator[Unready]:
    """Why conditions are not True; what the provider says itself comes last, and so wins."""
    spec = node_class.spec
    if not resolution.subnets:
        hint = near_miss(spec.subnet_selector_terms, resolution.subnet_tag_keys)
        message = f"SubnetSelector did not match any Subnets{hint}"
        yield Unready("SubnetsReady", "SubnetsNotFound", message)
    if not resolution.security_groups:
        hint = near_miss(spec.security_group_selector_terms, resolution.security_group_tag_keys)
        message = f"SecurityGroupSelector did not match any SecurityGroups{hint}"
        yield Unready("SecurityGroupsReady", "SecurityGroupsNotFound", message)
    if resolution.unsupported_alias:
        yield Unready("AMIsReady", "UnsupportedAlias", resolution.unsupported_alias)
    elif not resolution.images:
        hint = f" ({resolution.image_hint})" if resolution.image_hint else ""
        yield Unready("AMIsReady", "AMINotFound", f"AMISelector did not match any AMIs{hint}")
    yield from resolution.unready


def near_miss(terms: Iterable[SelectorTerm], existing: tuple[str, ...]) -> str:
    """ " (found key X)" for an existing tag key that looks like a selected one that does not exist, or "".

    A variable of a shell that stands there as it was written comes first.
    """
    terms = tuple(terms)
    written = (text for term in terms for pair in term.tags.items() for text in pair)
    if literal := next((text for text in written if "${" in text), ""):
        return f" ({literal!r} is a variable that was not expanded)"
    wanted = sorted({key for term in terms for key in term.tags if key not in existing})
    for key in wanted:
        close = nearest(key, existing, alike=0.8)
        if close:
            return f" (found key {close[0]!r}, but the selector asks for {key!r})"
    return ""
