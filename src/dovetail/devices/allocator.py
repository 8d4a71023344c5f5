"""Which devices a pod's claims get on a node: a search per instance type that the node may still be.

A node under construction is of several types at once. Devices that a type promises belong to the node; those
of the cluster are held by the node for as long as one of the types that took them is left. Nothing here
changes the cluster: the scheduler allocates in earnest, later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

from dovetail.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from dovetail.devices.claims import (
    MOST_DEVICES,
    Alternative,
    Answers,
    ClaimError,
    ReadyClaim,
    quoted,
    ready,
)
from dovetail.devices.pools import Candidate, Pool, published_pools, template_pools
from dovetail.devices.search import MOST_LOOKS, Consumed, Given, Miss, Search, Use, all_joined, used
from dovetail.model.devices import NO_DEVICES, ClusterDevices, DeviceId, TemplateDevices, claim_keys
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.model.plan import PlannedClaim
from dovetail.model.problem import ExistingNode
from dovetail.model.requirement import Requirements

NO_TYPE = "no instance type can satisfy the allocation"
# Looks at devices for all types of one attempt together: 0.5 s, where Karpenter ends after 5 s.
MOST_LOOKS_TOGETHER = 100_000
MOST_SLOTS = 128  # devices of all claims of one pod; the search goes as deep


@dataclass(frozen=True, slots=True)
class World:
    """What allocations start from. Nothing in it is ever changed."""

    classes: Mapping[str, DeviceClass] = field(default_factory=dict)
    slices: tuple[ResourceSlice, ...] = ()  # those that count, see cluster.devices
    templates: Mapping[str, TemplateDevices] = field(default_factory=dict)  # by instance type
    taken: frozenset[DeviceId] = frozenset()  # exclusive devices of allocated claims
    shared: Mapping[DeviceId, Consumed] = field(default_factory=dict)  # of devices that claims share
    well_known: frozenset[str] = frozenset()

    @staticmethod
    def of(
        devices: ClusterDevices, templates: Mapping[str, TemplateDevices], well_known: frozenset[str]
    ) -> World:
        """What a plan starts from."""
        return World(
            devices.classes, devices.slices, templates, devices.exclusive, devices.consumed, well_known
        )


@dataclass(frozen=True, slots=True)
class Target:
    """A node, or one under construction, as far as devices go."""

    id: str
    types: tuple[str, ...]
    requirements: Requirements = field(default_factory=Requirements)
    node_name: str = ""
    initialized: bool = False  # an initialized node has what is published, and no more


class AllocationError(ValueError):
    """The claims cannot be met there; `misses` says how near each type came."""

    def __init__(self, text: str, misses: tuple[Miss, ...] = ()) -> None:
        super().__init__(text)
        self.misses = misses


def node_target(node: ExistingNode) -> Target:
    """A node that is there, or on its way up."""
    kind = (node.labels.get(INSTANCE_TYPE, ""),)
    return Target(
        f"node {node.name}", kind, Requirements.from_labels(node.labels), node.name, node.initialized
    )


def claim_target(claim: PlannedClaim) -> Target:
    """A node that a plan buys."""
    return Target(f"claim {claim.name}", claim.instance_types, claim.requirements)


@dataclass(frozen=True, slots=True)
class Allocation:
    """What an attempt found; only `Ledger.commit` makes it count."""

    target: Target
    types: tuple[str, ...]  # those of the target that are left
    requirements: Requirements  # what the devices ask of the node besides
    given: Mapping[str, Mapping[str, tuple[Given, ...]]]  # claim key -> type -> devices, of claims made anew
    claim_requirements: Mapping[str, Requirements]
    misses: tuple[Miss, ...] = ()

    def uses_templates(self, claim: str) -> bool:
        return any(one.candidate.template for devices in self.given[claim].values() for one in devices)

    def is_local(self, claim: str) -> bool:
        """True iff some of its devices are the node's own."""
        given = (one.candidate for devices in self.given[claim].values() for one in devices)
        return any(one.template or one.node_name for one in given)

    @property
    def drivers(self) -> tuple[str, ...]:
        """Of devices that types promise, sorted."""
        found = {
            one.candidate.id.driver
            for by_type in self.given.values()
            for devices in by_type.values()
            for one in devices
            if one.candidate.template
        }
        return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class _Held:
    """A claim that was allocated in this simulation."""

    target: str
    template: bool
    node: str  # the only one where its devices can be used, if it is there; "" for others
    requirements: Requirements
    types: tuple[str, ...]


class Ledger:
    """Allocations of one simulation. Invariant: no two nodes, nor two claims, hold the same share."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._pools = published_pools(world.slices)
        # Which of them are for one node alone, and the others: of a large cluster nearly all are local.
        self._local: dict[str, list[int]] = {}
        self._anywhere: list[int] = []
        for at, pool in enumerate(self._pools):
            names = {one.node_name for one in pool.candidates}
            near = self._anywhere
            if len(names) == 1 and "" not in names:
                near = self._local.setdefault(names.pop(), [])
            near.append(at)
        self._templates: dict[str, tuple[Pool, ...]] = {}
        self._answers = Answers()
        self._ready: dict[str, tuple[ResourceClaim, ReadyClaim | ClaimError]] = {}
        self._given: dict[str, dict[str, list[Given]]] = {}  # target -> type -> devices
        self._wide: set[str] = set()  # targets that hold devices which others could have used
        self._held: dict[str, _Held] = {}
        self._looked = [0]  # at devices, by all simulations of the world

    @property
    def looked(self) -> int:
        """Devices that all searches looked at so far, in other simulations of the world as well."""
        return self._looked[0]

    def fresh(self) -> Ledger:
        """Another simulation that starts from what is allocated here; what is known of devices is shared."""
        other = Ledger.__new__(Ledger)
        given = {
            target: {name: [*devices] for name, devices in by_type.items()}
            for target, by_type in self._given.items()
        }
        other.__dict__.update(self.__dict__, _given=given, _held=dict(self._held), _wide=set(self._wide))
        return other

    def allocate(self, target: Target, claims: Iterable[ResourceClaim]) -> Allocation:
        """Devices for the claims on each type of the target that has them; raises AllocationError."""
        requirements, types, fresh = target.requirements, target.types, []
        for one in {one.key: one for one in claims}.values():
            held = self._held.get(one.key)
            if held is not None:
                requirements, types = self._again(one, held, target, requirements, types)
            elif one.status.allocation is not None:
                requirements = self._placed(one, target, requirements)
            else:
                fresh.append(self._ready_claim(one))
        if not fresh:
            return Allocation(target, types, _beyond(requirements, target.requirements), {}, {})
        if sum(_least(claim) for claim in fresh) > MOST_SLOTS:
            raise AllocationError(f"the pod claims more than {MOST_SLOTS} devices")
        pools, types = self._usable(replace(target, types=types, requirements=requirements), fresh)
        found: dict[str, list[tuple[Given, ...]]] = {}
        misses: list[Miss] = []
        fixed = requirements
        looks = MOST_LOOKS_TOGETHER
        narrowed: dict[str, Requirements] = {claim.key: Requirements() for claim in fresh}
        for name in types:
            search = Search(
                name,
                fresh,
                pools[name],
                self._answers,
                self.base(target, name),
                requirements,
                min(looks, MOST_LOOKS),
            )
            result = search.run()
            taken = min(looks, MOST_LOOKS) - max(0, search.looks)
            looks -= taken
            self._looked[0] += taken
            if result is None:
                misses.append(search.miss())
                continue
            both = all_joined(fixed, (one for devices in result for one in devices))
            if both is None:
                reason = "found where other types find theirs not"
                misses.append(
                    Miss(name, fresh[0].name, fresh[0].requests[0][0].name, None, 0, ((reason, 1),))
                )
                continue
            fixed, found[name] = both, result
            for claim, devices in zip(fresh, result, strict=True):
                narrowed[claim.key] = all_joined(narrowed[claim.key], devices) or Requirements()
        if not found:
            raise AllocationError(NO_TYPE, tuple(misses))
        given = {
            claim.key: {name: result[at] for name, result in found.items()} for at, claim in enumerate(fresh)
        }
        return Allocation(
            target, tuple(found), _beyond(fixed, target.requirements), given, narrowed, tuple(misses)
        )

    def settle(
        self, node: ExistingNode, claims: Mapping[str, ResourceClaim], moving: Collection[str] = ()
    ) -> None:
        """Pods with a place on the node hold devices there before any is allocated in the cluster; those that
        are `moving` (by key) hold none.
        """
        for pod in node.pods:
            if pod.key in moving:
                continue
            wanted = [claims[key] for key in claim_keys(pod) if key in claims]
            if wanted:
                with suppress(AllocationError):  # devices that others were quicker to take
                    found = self.allocate(node_target(node), wanted)
                    if found.given:
                        self.commit(found)

    def node_of(self, claim: ResourceClaim) -> str:
        """The only node where the claim's pods can be: devices there are, or will be, allocated for it; ""
        where that is no matter of a name.
        """
        held = self._held.get(claim.key)
        return pinned(claim) if held is None else held.node

    def commit(self, allocation: Allocation) -> Target:
        """From now on the devices are taken; the target as it is then.

        Whoever makes the node one of the types that are left releases the others.
        """
        target = allocation.target
        by_type = self._given.setdefault(target.id, {})
        for key, devices in allocation.given.items():
            self._held[key] = _Held(
                target.id,
                allocation.uses_templates(key),
                target.node_name if allocation.is_local(key) else "",
                allocation.claim_requirements[key],
                tuple(devices),
            )
            for name, given in devices.items():
                by_type.setdefault(name, []).extend(given)
                if any(not (one.candidate.template or one.candidate.node_name) for one in given):
                    self._wide.add(target.id)
        return replace(
            target,
            types=allocation.types,
            requirements=target.requirements.add(*allocation.requirements),
        )

    def release(self, target: str, types: Iterable[str]) -> None:
        """The node is none of these types: what it held as such is free."""
        held = self._given.get(target, {})
        for name in types:
            held.pop(name, None)

    def _again(
        self, claim: ResourceClaim, held: _Held, target: Target, known: Requirements, types: tuple[str, ...]
    ) -> tuple[Requirements, tuple[str, ...]]:
        if held.target == target.id:
            left = tuple(name for name in types if name in held.types)
            if not left:
                raise AllocationError(NO_TYPE)
            return known.add(*held.requirements), left
        if held.template:
            raise AllocationError(
                f"claim is bound to a different in-flight NodeClaim (ResourceClaim={claim.key})"
            )
        if not known.suits(held.requirements, self.world.well_known):
            raise AllocationError(_elsewhere("in-memory", claim))
        return known.add(*held.requirements), types

    def _placed(self, claim: ResourceClaim, target: Target, known: Requirements) -> Requirements:
        allocation = claim.status.allocation
        if allocation is None or allocation.node_selector is None or pinned(claim) == target.node_name != "":
            return known
        terms = Requirements.from_node_selector_terms(allocation.node_selector.node_selector_terms)
        wanted = Requirements.of(item for one in terms for item in one)
        if not terms or not known.suits(wanted, self.world.well_known):
            raise AllocationError(_elsewhere("in-cluster", claim))
        return known.add(*wanted)

    def promised(self, name: str, claims: Iterable[ResourceClaim]) -> list[Candidate]:
        """The devices that a node of the type will have, as far as a request of one of the claims matches."""
        alternatives: list[Alternative] = []
        for claim in claims:
            with suppress(AllocationError):
                alternatives += (one for request in self._ready_claim(claim).requests for one in request)
        pools = self._template_pools(Target("", (name,)), name)
        candidates = [candidate for pool in pools for candidate in pool.candidates]
        return [one for one in candidates if any(self._answers.matches(each, one) for each in alternatives)]

    def _ready_claim(self, claim: ResourceClaim) -> ReadyClaim:
        known = self._ready.get(claim.key)
        if known is None or known[0] is not claim:
            try:
                known = claim, ready(claim, self.world.classes)
            except ClaimError as error:
                known = claim, error
            self._ready[claim.key] = known
        if isinstance(known[1], ClaimError):
            raise _invalid(claim.metadata.name, known[1])
        return known[1]

    def _usable(
        self, target: Target, claims: Sequence[ReadyClaim]
    ) -> tuple[dict[str, tuple[Pool, ...]], tuple[str, ...]]:
        """Per type the pools that it may take from, and the types that no claim for all devices rules out."""
        near = (*self._anywhere, *self._local.get(target.node_name, ()))
        published = tuple(filter(None, (self._here(self._pools[at], target) for at in sorted(near))))
        pools = {name: (*published, *self._template_pools(target, name)) for name in target.types}
        left = target.types
        for claim in claims:
            if all(one.count is not None for request in claim.requests for one in request):
                continue
            fit = []
            for name in left:
                total = 0
                for request in claim.requests:
                    total += min(self._size(claim, one, pools[name]) for one in request)
                if total <= MOST_DEVICES:
                    fit.append(name)
            if left and not fit:
                fault = (
                    "all instance types pruned, no instance type can satisfy this claim "
                    f"without exceeding the maximum of {MOST_DEVICES} devices"
                )
                raise _invalid(claim.name, ClaimError(fault))
            left = tuple(fit)
        return pools, left

    def _size(self, claim: ReadyClaim, one: Alternative, pools: Sequence[Pool]) -> int:
        """How many devices it takes; one that asks for all trusts no pool that is not whole."""
        if one.count is not None:
            return one.count
        total = 0
        where = f'claim "{claim.name}" request "{one.name}"'
        for pool in pools:
            if pool.fault:
                raise _invalid(claim.name, ClaimError(f"{where}: pool {pool} {pool.fault}"))
            for candidate in pool.candidates:
                miss = self._answers.miss(one, candidate)
                if miss is not None and miss[1] is not False:
                    text = f"{where}: CEL expression {quoted(miss[0].text)} evaluation failed: {miss[1]}"
                    raise _invalid(claim.name, ClaimError(text))
                total += miss is None
        return total

    def _template_pools(self, target: Target, name: str) -> tuple[Pool, ...]:
        if target.initialized:
            return ()
        if name not in self._templates:
            self._templates[name] = template_pools(self.world.templates.get(name, NO_DEVICES))
        return self._templates[name]

    def _here(self, pool: Pool, target: Target) -> Pool | None:
        """The part of a pool that can be used on the node."""
        candidates = tuple(
            one
            for one in pool.candidates
            if (not one.node_name or one.node_name == target.node_name)
            and (
                one.alternatives is None
                or any(target.requirements.suits(item, self.world.well_known) for item in one.alternatives)
            )
        )
        return replace(pool, candidates=candidates) if candidates else None

    def base(self, target: Target, name: str) -> Use:
        """What is taken before the search, as far as the node as that type sees it."""
        taken = Use(set(self.world.taken))
        for id_, consumed in self.world.shared.items():
            taken.consumed[id_] = dict(consumed)
        for candidate in self._first_counters:
            if candidate.id in taken.devices or candidate.id in taken.consumed:
                for key, nanos in candidate.counters.items():
                    full = (candidate.id.driver, candidate.id.pool, *key)
                    taken.counters[full] = taken.counters.get(full, 0) + nanos
        for other in sorted(self._wide - {target.id}):
            use = Use()
            for given in self._given[other].values():
                use.either(used(one for one in given if not one.candidate.template))
            taken.join(use)
        taken.join(used(self._given.get(target.id, {}).get(name, ())))
        return taken

    @cached_property
    def _first_counters(self) -> tuple[Candidate, ...]:
        return tuple(one for pool in self._pools for one in pool.candidates if one.counters)


def pinned(claim: ResourceClaim) -> str:
    """The one node where the devices that are allocated for the claim are, as the scheduler writes it for
    those that belong to a node; "" where that is no matter of a name.
    """
    allocation = claim.status.allocation
    if allocation is None or allocation.node_selector is None:
        return ""
    terms = allocation.node_selector.node_selector_terms
    if len(terms) != 1 or terms[0].match_expressions or len(terms[0].match_fields) != 1:
        return ""
    (only,) = terms[0].match_fields
    return only.values[0] if only.key == "metadata.name" and len(only.values) == 1 else ""


def _invalid(claim: str, error: ClaimError) -> AllocationError:
    return AllocationError(f'validating claim "{claim}": {error}')


def _elsewhere(where: str, claim: ResourceClaim) -> str:
    return (
        f"{where} allocation topology is incompatible with NodeClaim requirements (ResourceClaim={claim.key})"
    )


def _least(claim: ReadyClaim) -> int:
    return sum(min(1 if one.count is None else one.count for one in request) for request in claim.requests)


def _beyond(requirements: Requirements, known: Requirements) -> Requirements:
    """What was added to what was known."""
    return Requirements.of(item for item in requirements if known.by_key.get(item.key) != item)
