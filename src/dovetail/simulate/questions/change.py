"""Manifests change: which fields, which nodes drift, what holds their pods, what replacing them takes.

Nothing is played: `rollout` does that. The rules are those that the controllers decide by
(`disrupt.drift`, `cloud.aws.nodeclass.drift`, `disrupt.candidates.blockers`, `disrupt.budgets`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from msgspec.structs import replace

from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass, SelectorTerm
from dovetail.api.karpenter.fingerprint import CLASS_HASH_VERSION, HASH_VERSION, class_hash, pool_hash
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool, Requirement
from dovetail.cloud.aws.launchtemplate.template import image_on
from dovetail.cloud.aws.nodeclass.drift import Made, drift
from dovetail.cloud.provider import (
    NodeClassResolution,
    ResolvedImage,
    ResolvedPlacementGroup,
    ResolvedReservation,
    ResolvedSecurityGroup,
    ResolvedSubnet,
)
from dovetail.disrupt.budgets import UNLIMITED, budget_limit
from dovetail.disrupt.candidates import NodeView, blockers
from dovetail.disrupt.command import DRIFTED
from dovetail.disrupt.drift import pool_drift
from dovetail.disrupt.pods import Budgets, reschedulable
from dovetail.explain.architectures import images, seen_on
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.problem import Pool, Problem
from dovetail.model.requirement import Requirements, pod_requirements

Document = Mapping[str, Any]
_ABSENT = "(absent)"
_OTHER = "other"  # an id that no subnet, group or image has
# What kubectl and controllers write into an object, beside what people did.
_WRITTEN_BY_OTHERS = ("kubectl.kubernetes.io/", labels.NODEPOOL_HASH, labels.NODECLASS_HASH)


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field, as a path, and both its values; None: it is not there."""

    path: str
    old: Any
    new: Any


def field_changes(old: Document, new: Document) -> tuple[FieldChange, ...]:
    """What applying `new` changes of `old`: the spec as a whole, labels and annotations that `new` has."""
    meta = [(one.get("metadata", {}), key) for one in (old, new) for key in ("labels", "annotations")]
    found: list[FieldChange] = []
    for (before, key), (after, _) in zip(meta[:2], meta[2:], strict=True):
        mine = after.get(key) or {}
        known = {name: text for name, text in (before.get(key) or {}).items() if name in mine}
        found += _differences(f"metadata.{key}", known, mine)
    others = sorted({*old, *new} - {"apiVersion", "kind", "metadata", "status"})
    for key in others:
        found += _differences(key, old.get(key), new.get(key))
    return tuple(one for one in found if not any(name in one.path for name in _WRITTEN_BY_OTHERS))


def _differences(path: str, old: Any, new: Any) -> Iterator[FieldChange]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            dotted = f"{path}.{key}" if key.isidentifier() else f"{path}[{key}]"
            yield from _differences(dotted, old.get(key), new.get(key))
        return
    named = _by_name(old), _by_name(new)
    if named[0] is not None and named[1] is not None:
        for key in dict.fromkeys((*named[0], *named[1])):
            yield from _differences(f"{path}[{key}]", named[0].get(key), named[1].get(key))
        return
    yield FieldChange(path, old, new)


def _by_name(value: Any) -> dict[str, Any] | None:
    """A list whose items are told apart by a key or a name, such as requirements; None for any other."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return None
    for field in ("key", "name"):
        names = [item.get(field) for item in value]
        if all(names) and len(set(names)) == len(names):
            return {str(item[field]): item for item in value}
    return None


@dataclass(frozen=True)
class Terms:
    """What a NodePool's nodes are made by, before or after the change. `status` is what the class found."""

    pool: NodePool
    node_class: EC2NodeClass | None
    status: Document
    types: tuple[InstanceType, ...]

    @cached_property
    def stamped(self) -> NodePool:
        """With the hash that the controller stamps."""
        stamped: NodePool = _stamped(self.pool, self._pool_stamp)
        return stamped

    @cached_property
    def kinds(self) -> Mapping[str, InstanceType]:
        return {item.name: item for item in self.types}

    @cached_property
    def images(self) -> tuple[ResolvedImage, ...]:
        """Those that the class's status has."""
        return tuple(
            ResolvedImage(
                str(one.get("id", "")),
                str(one.get("name", "")),
                Requirements.read(decode(one.get("requirements", ()), tuple[Requirement, ...])),
            )
            for one in self.status.get("amis", ())
        )

    @cached_property
    def _pool_stamp(self) -> dict[str, str]:
        return {labels.NODEPOOL_HASH: pool_hash(self.pool), labels.NODEPOOL_HASH_VERSION: HASH_VERSION}

    @cached_property
    def _class_stamp(self) -> dict[str, str]:
        if self.node_class is None:
            return {}
        return {
            labels.NODECLASS_HASH: class_hash(self.node_class),
            labels.NODECLASS_HASH_VERSION: CLASS_HASH_VERSION,
        }

    def made(self, claim: NodeClaim) -> NodeClaim:
        """The claim with stamps that can be compared: another program's hashes are its own.

        A claim whose stamp is not its pool's had drifted already, and keeps a stamp that is none's.
        """
        stamps = self._pool_stamp | self._class_stamp
        for about, key in ((self.pool, labels.NODEPOOL_HASH), (self.node_class, labels.NODECLASS_HASH)):
            marks, now = claim.metadata.annotations, about.metadata.annotations if about else {}
            version = f"{key}-version"
            if key in marks and key in now and marks.get(version) == now.get(version):
                stamps |= {key: marks[key]} if marks[key] != now[key] else {}
        stamped: NodeClaim = _stamped(claim, stamps)
        return stamped


def _stamped(item: Any, stamps: Mapping[str, str]) -> Any:
    meta = item.metadata
    return replace(item, metadata=replace(meta, annotations={**meta.annotations, **stamps}))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a node, in the words of its Drifted condition; "" for nothing.

    `before`: it had drifted already. `after`: by the change. `possible`: what of the account decides whether
    it drifts cannot be told from the cluster's objects. `holds` is what keeps it for now.
    """

    node: str
    claim: str
    pool: str
    instance_type: str
    capacity_type: str
    zone: str
    pods: int  # that move
    before: str
    after: str
    possible: str
    holds: tuple[str, ...] = ()

    @property
    def goes(self) -> bool:
        """True iff the change alone has it replaced, for certain."""
        return bool(self.after) and not self.before


def verdicts(
    views: Iterable[NodeView], old: Mapping[str, Terms], new: Mapping[str, Terms], budgets: Budgets, now: int
) -> tuple[Verdict, ...]:
    """Of each node of a NodePool; `views` have the pods and the pools as they are after the change."""
    found = []
    for view in views:
        pool, stamped = view.pool_name, view.claim.metadata.labels
        if pool not in old or pool not in new:
            continue
        before = _reasons(view.claim, old[pool], old[pool], now)
        after = _reasons(view.claim, old[pool], new[pool], now)
        certain = next(iter(after)) if len(after) == 1 else ""
        goes = bool(certain) or len(after) > 1
        found.append(
            Verdict(
                view.name,
                view.claim.metadata.name,
                pool,
                stamped.get(labels.INSTANCE_TYPE, ""),
                stamped.get(labels.CAPACITY_TYPE, ""),
                stamped.get(labels.ZONE, ""),
                sum(map(reschedulable, view.pods)),
                next(iter(before)) if len(before) == 1 else "",
                certain,
                "" if len(after) == 1 else " or ".join(sorted(filter(None, after))),
                tuple(dict.fromkeys(blockers(view, budgets, now, must_go=True))) if goes else (),
            )
        )
    return tuple(found)


def _reasons(claim: NodeClaim, old: Terms, new: Terms, now: int) -> set[str]:
    """All that the rules may say of the claim; more than one where something of the account is not known."""
    made = old.made(claim)
    found = pool_drift(made, new.stamped, new.types, now)
    node_class = new.node_class
    if found or node_class is None or old.node_class is None:
        return {found}
    return {
        drift(made, node_class, was, resolution, image)
        for was, resolution, image in _possible(claim, old, new)
    }


def _possible(claim: NodeClaim, old: Terms, new: Terms) -> Iterator[tuple[Made, NodeClassResolution, str]]:
    """What the instance may have been made of, and what the class may find now."""
    assert old.node_class is not None
    assert new.node_class is not None
    was, wanted = old.node_class.spec, new.node_class.spec
    made_image = claim.status.image_id
    chosen = _image_now(claim, old, new)
    subnets = list(_subnets(claim, old, was.subnet_selector_terms, wanted.subnet_selector_terms))
    groups = list(_groups(old, was.security_group_selector_terms, wanted.security_group_selector_terms))
    reservation = claim.metadata.labels.get(labels.RESERVATION_ID, "")
    reserved = list(
        _reserved(
            reservation,
            was.capacity_reservation_selector_terms,
            wanted.capacity_reservation_selector_terms,
        )
    )
    beside = [
        "" if one is None else one.name or one.id
        for one in (was.placement_group_selector, wanted.placement_group_selector)
    ]
    group = ResolvedPlacementGroup(beside[1], beside[1], "") if beside[1] else None
    for image, (subnet, here), (mine, theirs), left in product(chosen, subnets, groups, reserved):
        yield (
            Made(made_image, subnet, mine, reservation, beside[0]),
            NodeClassResolution(
                subnets=tuple(ResolvedSubnet(one, "", "") for one in sorted(here)),
                security_groups=tuple(ResolvedSecurityGroup(one, "") for one in sorted(theirs)),
                reservations=tuple(ResolvedReservation(one, "", "", "", "") for one in sorted(left)),
                placement_group=group,
            ),
            image if made_image else "",
        )


def _image_now(claim: NodeClaim, old: Terms, new: Terms) -> set[str]:
    """Ids of images that the class may choose for the claim's type now; "": none."""
    assert old.node_class is not None
    assert new.node_class is not None
    made = claim.status.image_id
    was, wanted = old.node_class.spec.ami_selector_terms, new.node_class.spec.ami_selector_terms
    kind = new.kinds.get(claim.metadata.labels.get(labels.INSTANCE_TYPE, ""))
    if was == wanted:
        chosen = image_on(kind, old.images) if kind is not None else None
        return {chosen.id if chosen is not None else "" if old.images else made}
    if all(term.id for term in wanted):
        known = [one for one in old.images if one.id in {term.id for term in wanted}]
        unknown = {term.id for term in wanted} - {one.id for one in known}
        chosen = image_on(kind, known) if kind is not None else None
        return (unknown - {made}) or {made if made in unknown else chosen.id if chosen is not None else ""}
    versions = {term.alias.partition("@")[2].lstrip("v") for term in wanted if term.alias}
    name = next((one.name for one in old.images if one.id == made), "")
    pinned = {term.alias.partition("@")[2].lstrip("v") for term in was if term.alias}
    if len(versions) == 1 and "latest" not in versions:
        (version,) = versions
        if name:
            return {made} if version in name else {_OTHER}
        if pinned and "latest" not in pinned:
            return {_OTHER} if pinned != versions else {made}
    return {made, _OTHER}


def _ids(terms: Sequence[SelectorTerm]) -> set[str] | None:
    """What the terms name outright; None where tags or names decide."""
    return {term.id for term in terms} if all(term.id for term in terms) else None


def _subnets(
    claim: NodeClaim, old: Terms, was: Sequence[SelectorTerm], wanted: Sequence[SelectorTerm]
) -> Iterator[tuple[str, set[str]]]:
    """(the instance's subnet, those of the class). The claim's zone leaves some of what the class found."""
    known = {str(one.get("id", "")): one.get("zone", "") for one in old.status.get("subnets", ())}
    zone = claim.metadata.labels.get(labels.ZONE, "")
    here = sorted(name for name, where in known.items() if where == zone)
    now = set(known) if was == wanted else _ids(wanted)
    for subnet in here:
        if now is not None:
            yield subnet, now
        else:
            yield from ((subnet, {subnet}), (subnet, {_OTHER}))
    if not here:
        yield _OTHER, {_OTHER}
        if was != wanted:
            yield "", {_OTHER}


def _groups(
    old: Terms, was: Sequence[SelectorTerm], wanted: Sequence[SelectorTerm]
) -> Iterator[tuple[frozenset[str], set[str]]]:
    """(the instance's groups, those of the class)."""
    named = {str(one.get("id", "")): str(one.get("name", "")) for one in old.status.get("securityGroups", ())}
    mine = frozenset(named)
    if was == wanted or not all(term.id or term.name in set(named.values()) - {""} for term in wanted):
        yield mine, set(mine)
        if was != wanted:
            yield mine or frozenset((_OTHER,)), {*mine, "another"}
        return
    ids = {term.id for term in wanted if term.id}
    names = {term.name for term in wanted if not term.id}
    theirs = ids | {one for one, name in named.items() if name in names}
    yield mine or frozenset((_OTHER,)), theirs
    if not mine:
        yield frozenset(theirs), theirs


def _reserved(
    reservation: str, was: Sequence[SelectorTerm], wanted: Sequence[SelectorTerm]
) -> Iterator[set[str]]:
    """Reservations that the class finds."""
    named = _ids(wanted)
    if not reservation or was == wanted:
        yield {reservation} - {""}
    elif named is not None:
        yield named
    else:
        yield from ({reservation}, set())


def held(found: Iterable[Verdict]) -> dict[str, int]:
    """What keeps nodes that are to go, and how many; most first."""
    counted = Counter(text for one in found for text in one.holds)
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def at_once(pools: Mapping[str, NodePool], found: Sequence[Verdict]) -> dict[str, int]:
    """By pool: how many nodes its budgets let go together at most, outside of their windows."""
    answer = {}
    for name, pool in pools.items():
        here = [one for one in found if one.pool == name]
        always = [one for one in pool.spec.disruption.budgets if one.schedule is None]
        limit = min((budget_limit(one, DRIFTED, len(here), 0) for one in always), default=UNLIMITED)
        going = sum(bool(one.after or one.possible) for one in here)
        answer[name] = min(limit, going)
    return answer


@dataclass(frozen=True, slots=True)
class Untried:
    """An image that may come to an architecture that it was never seen to run on."""

    image: str
    arch: str
    pools: tuple[str, ...]  # that allow the architecture now, and did not
    pods: int  # with the image, on nodes of these pools
    seen: Mapping[str, int]  # architecture -> nodes on which it runs
    workloads: tuple[str, ...]


def architectures(pool: Pool) -> set[str]:
    """Those of the types that it may buy."""
    return {
        arch
        for item in pool.instance_types
        if not item.requirements.intersects(pool.requirements)
        for arch in item.requirements.get(labels.ARCH).values
    }


def untried(before: Problem, after: Problem) -> tuple[Untried, ...]:
    """Images of pods on nodes whose pool comes to allow another architecture. Where they run now is all that
    is known of them.

    Pods that ask for an architecture themselves are left out.
    """
    old = {pool.name: architectures(pool) for pool in before.pools}
    opened = {pool.name: architectures(pool) - old[pool.name] for pool in after.pools if pool.name in old}
    seen = seen_on(before.nodes)
    pods: dict[tuple[str, str], list[Pod]] = {}
    pools: dict[tuple[str, str], set[str]] = {}
    for node in before.nodes:
        for arch in sorted(opened.get(node.pool, ())):
            for pod in node.pods:
                if not any(way.get(labels.ARCH).has(arch) for way in pod_requirements(pod)):
                    continue
                for image in images(pod):
                    if not seen[image][arch]:
                        pods.setdefault((image, arch), []).append(pod)
                        pools.setdefault((image, arch), set()).add(node.pool)
    found = [
        Untried(
            image,
            arch,
            tuple(sorted(pools[image, arch])),
            len(them),
            dict(sorted(seen[image].items())),
            tuple(sorted({_maker(pod) for pod in them})),
        )
        for (image, arch), them in pods.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.pods, one.image)))


def _maker(pod: Pod) -> str:
    owner = pod.metadata.controller()
    return f"{pod.metadata.namespace}/{owner.name}" if owner is not None else pod.key


def shown(value: Any) -> str:
    """A value in one line, as JSON without quotes where none are needed."""
    if value is None:
        return _ABSENT
    if isinstance(value, str):
        return value or '""'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {shown(one)}' for key, one in value.items())}}}"
    return str(value)


def terms_of(
    pools: Iterable[NodePool],
    classes: Mapping[str, tuple[EC2NodeClass, Document]],
    types: Mapping[str, Sequence[InstanceType]],
) -> dict[str, Terms]:
    """By name of pool; `classes` have their status beside them."""
    found = {}
    for pool in pools:
        name = pool.metadata.name
        node_class, status = classes.get(pool.spec.template.spec.node_class_ref.name, (None, {}))
        found[name] = Terms(pool, node_class, status, tuple(types.get(name, ())))
    return found
