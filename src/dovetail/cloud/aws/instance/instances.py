"""The cluster's instances: found, described many at a time, terminated many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping, Sequence

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE, SECOND, Clock
from dovetail.base.errors import CloudError, InstanceNotFound, RebootRefused
from dovetail.cloud.aws.amifamily.images import Filter
from dovetail.cloud.aws.api import Ec2, Instance
from dovetail.cloud.aws.errors import AwsError, Refusal
from dovetail.cloud.aws.instance.batcher import MILLISECOND, Joint, Window
from dovetail.cloud.aws.metrics import Figures
from dovetail.cloud.interruption import instance_id
from dovetail.cloud.provider import REJECTED

ALIVE = ("pending", "running", "shutting-down", "stopping", "stopped")
ENDING = ("shutting-down", "terminated")
# EC2 takes at most 200 values in a filter.
DESCRIBED = Window(100 * MILLISECOND, SECOND, 200)
TERMINATED = Window(100 * MILLISECOND, SECOND, 500)
# How old an answer may be where the matter does not change by itself.
FRESH = 5 * MINUTE
CLAIM, NODECLASS = "karpenter.sh/nodeclaim", "karpenter.k8s.aws/ec2nodeclass"
_NODEPOOL = "karpenter.sh/nodepool"
# Annotations of claims: whose instances bear their names, and that of the cluster.
_TAGGED = "karpenter.k8s.aws/tagged"
_CLUSTER_TAGGED = "compatibility.karpenter.k8s.aws/cluster-name-tagged"


class Instances:
    """What was described last is remembered until it is gone."""

    def __init__(
        self, ec2: Ec2, clock: Clock, cluster: str, figures: Figures, shifted: Callable[[], Container[str]]
    ) -> None:
        """`shifted`: zones that are shifted away from, whose instances are left alone: what EC2 answers about
        them is late or wrong, and each call would be made again and again.
        """
        self._ec2 = ec2
        self._clock = clock
        self._shifted = shifted
        self._filters = (
            Filter("tag:eks:eks-cluster-name", (cluster,)),
            Filter("tag-key", (_NODEPOOL,)),
            Filter("tag-key", (NODECLASS,)),
            Filter("instance-state-name", ALIVE),
        )

        self._figures = figures

        def counted(batcher: str) -> Callable[[int, int], None]:
            return lambda size, took: figures.batch(batcher, size, took)

        self._describe = Joint(clock, self._described, DESCRIBED, counted("describe_instances"))
        self._terminate = Joint(clock, self._terminated, TERMINATED, counted("terminate_instances"))
        self._seen: dict[str, tuple[Instance, int]] = {}
        self._listing: asyncio.Task[Sequence[Instance]] | None = None

    async def find(self, identifier: str, *, fresh: int = 0) -> Instance | None:
        """As EC2 has it, or had it within `fresh` nanoseconds, or last in a zone that is shifted away from;
        None where it shows none, or one that is over. Raises AwsError.
        """
        seen = self._seen.get(identifier)
        if seen is not None and (
            self._clock.monotonic() - seen[1] < fresh or seen[0].zone in self._shifted()
        ):
            return seen[0]
        found = await self._describe.ask(identifier)
        return None if found is None or found.state == "terminated" else found

    async def all(self) -> Sequence[Instance]:
        """Every one of the cluster that is not over; calls meanwhile get the same answer."""
        if self._listing is None:
            listing = asyncio.get_running_loop().create_task(self._list(), name="aws: list instances")
            self._listing = listing
            listing.add_done_callback(self._listed)
        return await asyncio.shield(self._listing)

    async def end(self, identifier: str) -> bool:
        """Ask for its end; False where it is ending already. Raises AwsError, InstanceNotFound if it is over,
        CloudError in a zone that is shifted away from.

        One that does not show may have been launched just now, by another process: EC2 is asked to end it all
        the same, and alone knows whether it exists.
        """
        seen = self._seen.get(identifier)
        if seen is not None:
            self._check_zone(seen[0])
        found = await self._describe.ask(identifier)
        if found is not None and found.state in ENDING and found.state != "terminated":
            return False
        over = found is not None and found.state == "terminated"
        try:
            ended = not over and await self._terminate.ask(identifier) is True
        except AwsError:
            self._figures.not_ended(found.zone if found is not None else "")
            raise
        if not ended:
            raise InstanceNotFound(f"there is no instance {identifier}")
        return True

    async def reboot(self, identifier: str) -> None:
        """Ask for its reboot. Raises AwsError, InstanceNotFound, RebootRefused."""
        found = await self.find(identifier)
        if found is None or found.state in ENDING:
            raise InstanceNotFound(f"there is no instance {identifier}")
        try:
            self._check_zone(found)
        except CloudError as error:
            raise RebootRefused(f"{REJECTED}: {error}") from None
        try:
            await self._ec2.reboot_instances((identifier,))
        except AwsError as error:
            if error.refusal is Refusal.NOT_FOUND:
                raise InstanceNotFound(f"there is no instance {identifier}") from None
            if error.refusal is Refusal.UNAUTHORIZED:
                raise RebootRefused(f"{REJECTED}: {error}") from error
            raise

    async def mark(self, claim: NodeClaim, node: str) -> Mapping[str, str]:
        """See the provider's port: tags for the claim and, where the class has none of its own, a name."""
        if claim.metadata.annotations.get(_TAGGED) == "true":
            return {}
        identifier = instance_id(claim.status.provider_id)
        found = await self.find(identifier, fresh=FRESH)
        if found is None:
            raise InstanceNotFound(f"there is no instance {claim.status.provider_id}")
        self._check_zone(found)
        tags = {"Name": found.tags.get("Name", node), CLAIM: claim.metadata.name}
        await self._ec2.create_tags((identifier,), tags)
        return {_TAGGED: "true", _CLUSTER_TAGGED: "true"}

    def _check_zone(self, instance: Instance) -> None:
        """Raises CloudError where its zone is shifted away from: it is asked for again later."""
        if instance.zone in self._shifted():
            raise CloudError(f"the cluster is shifted away from zone {instance.zone}")

    def _listed(self, _: object) -> None:
        self._listing = None

    async def _list(self) -> Sequence[Instance]:
        found = await self._ec2.describe_instances(self._filters)
        now = self._clock.monotonic()
        self._seen = {item.id: (item, now) for item in found}
        return found

    async def _described(self, identifiers: Sequence[str]) -> Mapping[str, Instance]:
        # By filter: EC2 answers nothing at all when one of the ids that it is asked for does not exist.
        found = await self._ec2.describe_instances((Filter("instance-id", tuple(identifiers)),))
        now = self._clock.monotonic()
        for item in found:
            self._seen[item.id] = (item, now)
        return {item.id: item for item in found}

    async def _terminated(self, identifiers: Sequence[str]) -> Mapping[str, bool]:
        """True for those that end; without an entry are those that do not exist."""
        try:
            await self._ec2.terminate_instances(identifiers)
        except AwsError as error:
            if error.refusal is not Refusal.NOT_FOUND:
                raise
            if len(identifiers) == 1:
                return {}
            # One that does not exist keeps the others from ending.
            answers = [await self._terminated((one,)) for one in identifiers]
            return {key: value for answer in answers for key, value in answer.items()}
        return dict.fromkeys(identifiers, True)


def provider_id(zone: str, identifier: str) -> str:
    """As the cloud provider of Kubernetes writes it into nodes."""
    return f"aws:///{zone}/{identifier}"
