"""The images that the terms of a class stand for, newest first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dovetail.api.karpenter.ec2nodeclass import SelectorTerm
from dovetail.base.clock import HOUR, MINUTE, Clock
from dovetail.cloud.aws.amifamily import images
from dovetail.cloud.aws.api import Aws, Image
from dovetail.cloud.aws.cache import Memo
from dovetail.cloud.aws.errors import AwsError, Refusal
from dovetail.cloud.provider import ResolvedImage
from dovetail.model.requirement import Requirements
from dovetail.units.timestamp import to_rfc3339

# A parameter of a pinned version never changes; where "latest" leads is looked at again.
PINNED = 24 * HOUR
MOVING = 30 * MINUTE
DESCRIBED = 5 * MINUTE
_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}


@dataclass(frozen=True, slots=True)
class Found:
    """The images of a class; `hint` says why there are none, where that is known."""

    images: tuple[ResolvedImage, ...] = ()
    hint: str = ""
    unsupported: str = ""  # why the alias has no images for this version of Kubernetes
    # Least GiB of each device, by image: what a volume of the class must not be below.
    volumes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


class Images:
    """Asks SSM and EC2, and remembers the answers."""

    def __init__(self, aws: Aws, clock: Clock, memo: Memo, refresh: int = DESCRIBED) -> None:
        self._aws = aws
        self._clock = clock
        self._memo = memo
        self._refresh = refresh

    async def find(self, terms: Iterable[SelectorTerm], version: str) -> Found:
        """The images of the terms; `version` is that of Kubernetes, such as "1.33". Raises AwsError."""
        terms = tuple(terms)
        for term in terms:
            unsupported = images.unsupported(term.alias, version)
            if unsupported:
                return Found(unsupported=unsupported)
        variants, missing = await self._aliases(terms, version)
        named = list(variants)
        for term in terms:
            if term.ssm_parameter:
                value = await self._parameter(term.ssm_parameter, MOVING)
                if value:
                    named.append(value)
                else:
                    missing.append(f"there is no SSM parameter {term.ssm_parameter}")
        answers = await asyncio.gather(*map(self._describe, images.queries(terms, named)))
        known = {image.id: image for answer in answers for image in answer}
        now = to_rfc3339(self._clock.now())
        chosen = images.newest((_found(image, now) for image in known.values()), variants)
        return Found(
            tuple(
                ResolvedImage(one.image.id, one.image.name, one.requirements, one.image.deprecated)
                for one in chosen
            ),
            hint="; ".join(missing),
            volumes={one.image.id: known[one.image.id].volumes for one in chosen},
        )

    async def _aliases(
        self, terms: tuple[SelectorTerm, ...], version: str
    ) -> tuple[dict[str, tuple[Requirements, ...]], list[str]]:
        """What types each image behind an alias boots on, and which aliases have no image at all."""
        variants: dict[str, tuple[Requirements, ...]] = {}
        missing = []
        for alias in (term.alias for term in terms if term.alias):
            parameters = images.parameters(alias, version)
            values = await asyncio.gather(
                *(self._parameter(item.name, MOVING if item.mutable else PINNED) for item in parameters)
            )
            for item, value in zip(parameters, values, strict=True):
                if value:
                    variants[value] = (*variants.get(value, ()), *item.variants)
            if not any(values):
                missing.append(images.nothing_behind(alias))
        return variants, missing

    async def _parameter(self, name: str, ttl: int) -> str:
        """Its value; "" when there is none."""

        async def ask() -> str:
            try:
                return await self._aws.ssm.get_parameter(name)
            except AwsError as error:
                if error.refusal is Refusal.NOT_FOUND:
                    return ""
                raise

        value = await self._memo.get(("parameter", name), ttl, ask)
        if not value:
            # A version that is about to come out should not take a day to be noticed.
            self._memo.forget(("parameter", name))
        return value

    async def _describe(self, query: images.ImageQuery) -> tuple[Image, ...]:
        async def ask() -> tuple[Image, ...]:
            return tuple(await self._aws.ec2.describe_images(query))

        return await self._memo.get(query, self._refresh, ask)


def _found(image: Image, now: str) -> images.FoundImage:
    """As the choice among images wants it. Instants of RFC 3339 in UTC compare as text."""
    deprecated = bool(image.deprecated_from) and image.deprecated_from <= now
    arch = _ARCHITECTURES.get(image.arch, "")
    return images.FoundImage(image.id, image.name, arch, image.created, deprecated)
