"""Launch templates that exist: made when they are first needed, deleted when they are not needed any more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from dovetail.base.clock import HOUR, Clock
from dovetail.cloud.aws.amifamily.images import Filter
from dovetail.cloud.aws.api import Ec2
from dovetail.cloud.aws.errors import AwsError, Refusal
from dovetail.cloud.aws.launchtemplate.template import PREFIX, Launch, Template

UNUSED = HOUR


class KeptTemplates:
    """Names are hashes of contents, so a template that is there is the right one."""

    def __init__(self, ec2: Ec2, clock: Clock, cluster: str) -> None:
        self._ec2 = ec2
        self._clock = clock
        self._cluster = cluster
        self._used: dict[str, int] = {}  # of those that exist: when they were last needed
        self._making: dict[str, asyncio.Task[None]] = {}
        self._missing: set[str] = set()  # looked for and not there; making them failed so far
        self._known_all = False

    async def ensure(self, templates: Iterable[Template], launch: Launch) -> None:
        """Raises AwsError."""
        for template in templates:
            if template.name in self._used:
                self._used[template.name] = self._clock.monotonic()
                continue
            making = self._making.get(template.name)
            if making is None:
                making = asyncio.get_running_loop().create_task(
                    self._make(template, launch), name=f"aws: launch template {template.name}"
                )
                self._making[template.name] = making
            await asyncio.shield(making)

    def forget(self, templates: Iterable[Template]) -> None:
        """They are not there, whatever was thought."""
        for template in templates:
            self._used.pop(template.name, None)

    async def sweep(self) -> None:
        """Delete the cluster's templates that were not needed for an hour. Raises AwsError."""
        now = self._clock.monotonic()
        self._missing.clear()  # what was looked for long ago says nothing
        if not self._known_all:
            tags = (Filter("tag:eks:eks-cluster-name", (self._cluster,)),)
            for found in await self._ec2.describe_launch_templates(tags):
                if found.name.startswith(PREFIX):
                    self._used.setdefault(found.name, now)
            self._known_all = True
        for name in [name for name, used in self._used.items() if now - used > UNUSED]:
            used = self._used.pop(name)  # first: a launch that needs it now makes it anew
            try:
                await self._ec2.delete_launch_template(name)
            except AwsError as error:
                if error.refusal is not Refusal.NOT_FOUND:
                    self._used.setdefault(name, used)
                    raise

    async def _make(self, template: Template, launch: Launch) -> None:
        try:
            named = (Filter("launch-template-name", (template.name,)),)
            # A throttled launch comes again at once for each claim: looking anew would only add to the load.
            if template.name in self._missing or not await self._ec2.describe_launch_templates(named):
                self._missing.add(template.name)
                await self._create(template, launch)
            self._missing.discard(template.name)
            self._used[template.name] = self._clock.monotonic()
        finally:
            del self._making[template.name]

    async def _create(self, template: Template, launch: Launch) -> None:
        try:
            await self._ec2.create_launch_template(template.request(launch))
        except AwsError as error:
            if error.refusal is not Refusal.EXISTS:
                raise
