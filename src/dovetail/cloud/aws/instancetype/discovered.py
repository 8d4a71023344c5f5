"""Memory as machines turned out to have it, in place of the estimate of what a hypervisor takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dovetail.base.clock import HOUR, Clock
from dovetail.cloud.aws.launchtemplate.template import image_on
from dovetail.cloud.provider import ResolvedImage
from dovetail.model.offering import InstanceType
from dovetail.model.resources import MEMORY

KEPT = 60 * 24 * HOUR


class SeenMemory:
    """The least that was seen per type and image: machines of one type differ by a little.

    `version` counts what changes an answer, so that answers may be remembered.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[tuple[str, str], tuple[int, int]] = {}  # bytes, when they were last seen
        self.version = 0

    def note(self, instance_type: str, image: str, memory: int) -> None:
        """A machine has so many bytes."""
        key, now = (instance_type, image), self._clock.monotonic()
        known = self._known(key)
        least = memory if known is None else min(known, memory)
        if key not in self._seen:  # with each new image: what was not launched for long goes
            self._seen = {old: found for old, found in self._seen.items() if now - found[1] <= KEPT}
        self._seen[key] = least, now
        self.version += least != known

    def applied(
        self, types: Iterable[InstanceType], images: Iterable[ResolvedImage]
    ) -> tuple[InstanceType, ...]:
        """The types with the memory that machines of them have with the images that they start from.

        Those of which no machine was seen stay the same objects.
        """
        names = {name for name, _ in self._seen}
        return tuple(self._applied(item, images) if item.name in names else item for item in types)

    def _applied(self, item: InstanceType, images: Iterable[ResolvedImage]) -> InstanceType:
        image = image_on(item, images)
        known = self._known((item.name, image.id)) if image is not None else None
        if known is None or known == item.capacity.get(MEMORY):
            return item
        return replace(item, capacity={**item.capacity, MEMORY: known})

    def _known(self, key: tuple[str, str]) -> int | None:
        found = self._seen.get(key)
        if found is None or self._clock.monotonic() - found[1] > KEPT:
            return None
        return found[0]
