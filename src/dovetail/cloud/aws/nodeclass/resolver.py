"""Asks AWS what a class stands for, makes what it needs, and says what is in the way.

`Resolved` holds what the classes stood for when they were last asked about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.base.clock import HOUR, MINUTE, SECOND, Clock
from dovetail.cloud.aws.amifamily.discovery import DESCRIBED, Found, Images
from dovetail.cloud.aws.amifamily.images import Filter
from dovetail.cloud.aws.api import Aws, SecurityGroup, Subnet
from dovetail.cloud.aws.cache import Memo
from dovetail.cloud.aws.errors import AwsError, Refusal
from dovetail.cloud.aws.launchtemplate.template import Stage
from dovetail.cloud.aws.nodeclass import profiles, selectors, validation
from dovetail.cloud.aws.nodeclass.dryruns import DryRuns
from dovetail.cloud.aws.nodeclass.validation import Validator
from dovetail.cloud.aws.permissions import action_of
from dovetail.cloud.provider import (
    NodeClassResolution,
    ResolvedPlacementGroup,
    ResolvedReservation,
    Unready,
)

SUBNETS = MINUTE
GROUPS = MINUTE
RESERVATIONS = MINUTE
PLACEMENT = 5 * MINUTE
PROFILES = 15 * MINUTE
_UNAUTHORIZED = "NotAuthorized"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Options:
    """`dry_run` False skips dry runs of launches, `make` False makes nothing; intervals in nanoseconds."""

    dry_run: bool = True
    make: bool = True
    reserved_capacity: bool = True
    image_refresh: int = DESCRIBED
    subnet_refresh: int = SUBNETS
    group_refresh: int = GROUPS
    gpu_sharing: bool = False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The cluster at this moment."""

    stage: Stage
    version: str  # of Kubernetes, such as "1.33"


class ClassResolver:
    """Answers are remembered, so that many classes that select the same cost one call."""

    def __init__(
        self,
        aws: Aws,
        clock: Clock,
        surroundings: Callable[[], Awaitable[Surroundings]],
        options: Options | None = None,
    ) -> None:
        self._aws = aws
        self._clock = clock
        self._surroundings = surroundings
        self._options = options or Options()
        self._memo = Memo(clock)
        self._images = Images(aws, clock, self._memo, self._options.image_refresh)
        self._dry_runs = DryRuns(aws.ec2, clock, self._memo)
        self._validator: Validator | None = None  # until the feature gates are known

    async def resolve(self, node_class: EC2NodeClass) -> NodeClassResolution:
        """What the class stands for. What the controller may not ask is Unknown; other errors are raised."""
        around = await self._surroundings()
        self._memo.sweep(24 * HOUR)
        unready: list[Unready] = []
        spec, ec2 = node_class.spec, self._aws.ec2
        subnets = await self._allowed(
            "SubnetsReady",
            self._each(
                selectors.subnet_queries(spec.subnet_selector_terms),
                ec2.describe_subnets,
                self._options.subnet_refresh,
            ),
            unready,
        )
        groups = await self._allowed(
            "SecurityGroupsReady",
            self._each(
                selectors.group_queries(spec.security_group_selector_terms),
                ec2.describe_security_groups,
                self._options.group_refresh,
            ),
            unready,
        )
        images = await self._allowed(
            "AMIsReady", self._images.find(spec.ami_selector_terms, around.version), unready
        )
        found = NodeClassResolution(
            subnets=selectors.subnets(subnets or ()),
            security_groups=selectors.groups(groups or ()),
            images=images.images if images else (),
            unsupported_alias=images.unsupported if images else "",
            image_hint=images.hint if images else "",
            instance_profile=await self._profile(node_class, around, unready),
            placement_group=await self._placement(node_class, unready),
            reservations=await self._reservations(node_class, unready),
            unready=tuple(unready),
        )
        found = await self._with_hints(found)
        return replace(found, faults=await self._faults(node_class, found, images or Found(), around))

    async def release(self, node_class: EC2NodeClass) -> None:
        """Delete the instance profiles and launch templates that were made for the class. Raises AwsError."""
        cluster = (await self._surroundings()).stage.cluster.name
        meta = node_class.metadata
        if node_class.spec.role:
            below = profiles.path(cluster, self._aws.region, meta.uid or meta.name)
            await profiles.collect(self._aws, below, ())
        tags = (
            Filter("tag:eks:eks-cluster-name", (cluster,)),
            Filter("tag:karpenter.k8s.aws/ec2nodeclass", (meta.name,)),
        )
        for template in await self._aws.ec2.describe_launch_templates(tags):
            try:
                await self._aws.ec2.delete_launch_template(template.name)
            except AwsError as error:
                if error.refusal is not Refusal.NOT_FOUND:
                    raise

    def forget(self, node_class: str) -> None:
        """The class of that name is gone."""
        self._dry_runs.forget(node_class)
        if self._validator is not None:
            self._validator.forget(node_class)

    async def tidy(self, in_use: frozenset[str]) -> None:
        """Delete the cluster's instance profiles that are not in use. Raises AwsError."""
        cluster = (await self._surroundings()).stage.cluster.name
        await profiles.collect(self._aws, profiles.path(cluster, self._aws.region), in_use)

    async def _each(
        self,
        queries: Iterable[selectors.Filters],
        call: Callable[[Sequence[Filter]], Awaitable[Sequence[T]]],
        ttl: int,
    ) -> list[T]:
        """Everything that any of the queries finds."""
        name = getattr(call, "__name__", "")

        async def ask(query: selectors.Filters) -> Sequence[T]:
            return await self._memo.get((name, query), ttl, lambda: call(query))

        answers = await asyncio.gather(*map(ask, queries))
        return [item for answer in answers for item in answer]

    async def _allowed(self, condition: str, call: Awaitable[T], unready: list[Unready]) -> T | None:
        """The answer; None, and why the condition is unknown, where the controller may not ask."""
        try:
            return await call
        except AwsError as error:
            if error.refusal is not Refusal.UNAUTHORIZED:
                raise
            unready.append(Unready(condition, _UNAUTHORIZED, unauthorized(error), "Unknown"))
            return None

    async def _placement(
        self, node_class: EC2NodeClass, unready: list[Unready]
    ) -> ResolvedPlacementGroup | None:
        selector, kind = node_class.spec.placement_group_selector, "PlacementGroupReady"
        if selector is None:
            return None
        query = (selectors.placement_query(selector),)
        try:
            found = await self._allowed(
                kind, self._each(query, self._aws.ec2.describe_placement_groups, PLACEMENT), unready
            )
        except AwsError as error:
            if error.refusal is Refusal.REQUEST:
                unready.append(Unready(kind, "PlacementGroupResolutionFailed", str(error)))
                return None
            if error.refusal is not Refusal.NOT_FOUND:
                raise
            found = []
        if found is None:
            return None
        group = next((item for item in found if item.state == "available"), None)
        if group is None:
            name = selector.id or selector.name
            message = f"PlacementGroupSelector did not match any placement group that is available ({name})"
            unready.append(Unready(kind, "PlacementGroupNotFound", message))
            return None
        return ResolvedPlacementGroup(group.id, group.name, group.strategy, group.partitions)

    async def _reservations(
        self, node_class: EC2NodeClass, unready: list[Unready]
    ) -> tuple[ResolvedReservation, ...]:
        terms = node_class.spec.capacity_reservation_selector_terms
        if not (terms and self._options.reserved_capacity):
            return ()
        call = self._each(
            selectors.reservation_queries(terms),
            self._aws.ec2.describe_capacity_reservations,
            RESERVATIONS,
        )
        found = await self._allowed("CapacityReservationsReady", call, unready)
        return selectors.reservations(found or (), terms, self._clock.now())

    async def _profile(self, node_class: EC2NodeClass, around: Surroundings, unready: list[Unready]) -> str:
        """The name of the class's instance profile, made if it has to be; "" while it is not there."""
        if not (node_class.spec.role and self._options.make):
            return node_class.spec.instance_profile
        want = profiles.wanted(node_class, around.stage.cluster.name, self._aws.region)
        kind = "InstanceProfileReady"

        async def ensure() -> str:
            await profiles.ensure(self._aws.iam, want)
            return want.name

        try:
            return await self._allowed(kind, self._memo.get(want.name, PROFILES, ensure), unready) or ""
        except AwsError as error:
            if error.refusal not in (Refusal.NOT_FOUND, Refusal.REQUEST):
                raise
            unready.append(Unready(kind, "InstanceProfileNotMade", f"spec.role: {error.message}", "Unknown"))
            return ""

    async def _with_hints(self, found: NodeClassResolution) -> NodeClassResolution:
        """Where a selector matched nothing, the tag keys that there are; hints are not worth an error."""
        with suppress(AwsError):
            if not found.subnets:
                subnets = await self._each(((),), self._aws.ec2.describe_subnets, GROUPS)
                found = replace(found, subnet_tag_keys=_keys(subnets))
            if not found.security_groups:
                groups = await self._each(((),), self._aws.ec2.describe_security_groups, GROUPS)
                found = replace(found, security_group_tag_keys=_keys(groups))
        return found

    async def _faults(
        self, node_class: EC2NodeClass, found: NodeClassResolution, images: Found, around: Surroundings
    ) -> tuple[tuple[str, str], ...]:
        """(reason, message) of what nodes of the class would fail with."""
        stage = around.stage
        if self._validator is None:
            self._validator = Validator(
                with_expressions=stage.expressions, gpu_sharing=self._options.gpu_sharing
            )
        faults = self._validator.faults(node_class) or tuple(
            validation.resolved_faults(node_class, images.volumes, cidr=stage.cluster.cidr)
        )
        there = found.subnets and found.security_groups and found.images and found.instance_profile
        if not faults and there and self._options.dry_run:
            faults = await self._dry_runs.faults(node_class, found, stage, around.version)
        return tuple((fault.reason, fault.message) for fault in faults)


def unauthorized(error: AwsError) -> str:
    """What to say of a call that the controller may not make."""
    return f"Controller isn't authorized to call {action_of(error.action)}: {error.message}"


def _keys(found: Iterable[Subnet | SecurityGroup]) -> tuple[str, ...]:
    return tuple(sorted({key for item in found for key in item.tags}))


# How old an answer may be that all nodes of a class share.
RECENT = 10 * SECOND


@dataclass(frozen=True, slots=True)
class _Resolved:
    node_class: EC2NodeClass
    found: NodeClassResolution
    at: int


class Resolved:
    """By name of the class; of each the last answer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, _Resolved] = {}

    def note(self, node_class: EC2NodeClass, found: NodeClassResolution) -> None:
        """It stands for this now."""
        self._known[node_class.metadata.name] = _Resolved(node_class, found, self._clock.monotonic())

    def forget(self, name: str) -> None:
        """The class is gone."""
        self._known.pop(name, None)

    def last(self, name: str) -> NodeClassResolution | None:
        """What it stood for when it was last asked about, however long ago and whatever its spec was."""
        known = self._known.get(name)
        return known.found if known is not None else None

    def node_class(self, name: str) -> EC2NodeClass | None:
        """The class as it was then."""
        known = self._known.get(name)
        return known.node_class if known is not None else None

    def recent(self, node_class: EC2NodeClass) -> NodeClassResolution | None:
        """What this very class stood for a moment ago; None if it has changed or was not asked for."""
        known = self._known.get(node_class.metadata.name)
        if (
            known is None
            or known.node_class is not node_class
            or self._clock.monotonic() - known.at >= RECENT
        ):
            return None
        return known.found
