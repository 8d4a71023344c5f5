"""The fake's smaller services: SSM, IAM, EKS, SQS, Pricing and STS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dovetail.base.clock import SECOND, Clock
from dovetail.cloud.aws.api import EksCluster, Identity, InstanceProfile
from dovetail.cloud.aws.errors import AwsError
from dovetail.cloud.aws.fake.account import Account, arn
from dovetail.cloud.aws.fake.gate import Gate
from dovetail.cloud.aws.quota.quotas import Quotas
from dovetail.cloud.catalog import store
from dovetail.cloud.inmemory import MemoryQueue
from dovetail.cloud.interruption import Letter


class MemorySsm:
    """Implements `api.Ssm`. `parameters` may be changed from outside: a newer image comes out that way."""

    def __init__(self, gate: Gate, account: Account) -> None:
        self._gate = gate
        self.parameters = dict(account.parameters)

    async def get_parameter(self, name: str) -> str:
        """See the port."""
        await self._gate.enter("ssm", "GetParameter")
        if name not in self.parameters:
            raise AwsError("GetParameter", "ParameterNotFound", f"Parameter {name} not found.")
        return self.parameters[name]


class MemoryIam:
    """Implements `api.Iam`. `profiles` by name."""

    def __init__(self, gate: Gate, clock: Clock, account: Account) -> None:
        self._gate = gate
        self._clock = clock
        self._account = account
        self.profiles: dict[str, InstanceProfile] = {}

    async def get_instance_profile(self, name: str) -> InstanceProfile:
        """See the port."""
        await self._gate.enter("iam", "GetInstanceProfile")
        return self._profile("GetInstanceProfile", name)

    async def list_instance_profiles(self, path: str) -> Sequence[InstanceProfile]:
        """See the port."""
        await self._gate.enter("iam", "ListInstanceProfiles")
        return [replace(item, tags={}) for item in self.profiles.values() if item.path.startswith(path)]

    async def create_instance_profile(self, name: str, path: str, tags: Mapping[str, str]) -> InstanceProfile:
        """See the port."""
        await self._gate.enter("iam", "CreateInstanceProfile")
        if name in self.profiles:
            message = f"Instance Profile {name} already exists."
            raise AwsError("CreateInstanceProfile", "EntityAlreadyExists", message)
        found = arn("iam", "", self._account.number, f"instance-profile{path}{name}")
        now = self._clock.now() // SECOND * SECOND
        self.profiles[name] = InstanceProfile(name, found, path, tags=dict(tags), created=now)
        return self.profiles[name]

    async def delete_instance_profile(self, name: str) -> None:
        """See the port."""
        await self._gate.enter("iam", "DeleteInstanceProfile")
        if self._profile("DeleteInstanceProfile", name).roles:
            message = "Cannot delete entity, must remove roles from instance profile first."
            raise AwsError("DeleteInstanceProfile", "DeleteConflict", message)
        del self.profiles[name]

    async def add_role_to_instance_profile(self, name: str, role: str) -> None:
        """See the port."""
        action = "AddRoleToInstanceProfile"
        await self._gate.enter("iam", action)
        known = self._profile(action, name)
        if role not in self._account.roles:
            raise AwsError(action, "NoSuchEntity", f"The role with name {role} cannot be found.")
        if known.roles:
            message = "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1"
            raise AwsError(action, "LimitExceeded", message)
        self.profiles[name] = replace(known, roles=(role,))

    async def remove_role_from_instance_profile(self, name: str, role: str) -> None:
        """See the port."""
        action = "RemoveRoleFromInstanceProfile"
        await self._gate.enter("iam", action)
        known = self._profile(action, name)
        if role not in known.roles:
            raise AwsError(action, "NoSuchEntity", f"The role with name {role} cannot be found.")
        self.profiles[name] = replace(known, roles=())

    async def tag_instance_profile(self, name: str, tags: Mapping[str, str]) -> None:
        """See the port."""
        await self._gate.enter("iam", "TagInstanceProfile")
        known = self._profile("TagInstanceProfile", name)
        self.profiles[name] = replace(known, tags={**known.tags, **tags})

    def _profile(self, action: str, name: str) -> InstanceProfile:
        if name not in self.profiles:
            raise AwsError(action, "NoSuchEntity", f"Instance Profile {name} cannot be found.")
        return self.profiles[name]


class MemoryEks:
    """Implements `api.Eks`."""

    def __init__(self, gate: Gate, account: Account) -> None:
        self._gate = gate
        self._clusters = {item.name: item for item in account.clusters}

    async def describe_cluster(self, name: str) -> EksCluster:
        """See the port."""
        await self._gate.enter("eks", "DescribeCluster")
        if name not in self._clusters:
            message = f"No cluster found for name: {name}."
            raise AwsError("DescribeCluster", "ResourceNotFoundException", message)
        return self._clusters[name]


class MemorySqs:
    """Implements `api.Sqs`. What is sent to one of `queues`, by name, is received under its URL."""

    def __init__(self, gate: Gate, clock: Clock, account: Account) -> None:
        self._gate = gate
        self._place = f"https://sqs.{account.region}.amazonaws.com/{account.number}/"
        self.queues = {name: MemoryQueue(clock) for name in account.queues}

    async def get_queue_url(self, name: str) -> str:
        """See the port."""
        await self._gate.enter("sqs", "GetQueueUrl")
        self._queue("GetQueueUrl", name)
        return self._place + name

    async def receive(self, url: str) -> Sequence[Letter]:
        """See the port."""
        await self._gate.enter("sqs", "ReceiveMessage")
        return await self._queue("ReceiveMessage", url.removeprefix(self._place)).receive()

    async def delete(self, url: str, letters: Sequence[Letter]) -> None:
        """See the port."""
        await self._gate.enter("sqs", "DeleteMessageBatch")
        queue = self._queue("DeleteMessageBatch", url.removeprefix(self._place))
        for letter in letters:
            await queue.delete(letter)

    def _queue(self, action: str, name: str) -> MemoryQueue:
        if name not in self.queues:
            message = "The specified queue does not exist."
            raise AwsError(action, "AWS.SimpleQueueService.NonExistentQueue", message)
        return self.queues[name]


class MemoryZonalShift:
    """Implements `api.ZonalShift`. `away`: ids of zones, changed from outside; None takes no part."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.away: set[str] | None = set()

    async def shifted(self, cluster: str) -> Sequence[str]:
        """See the port."""
        await self._gate.enter("arc-zonal-shift", "GetManagedResource")
        if self.away is None:
            message = f"{cluster} is not a managed resource."
            raise AwsError("GetManagedResource", "ResourceNotFoundException", message)
        return sorted(self.away)


class MemoryQuotas:
    """Implements `api.ServiceQuotas` with the quotas that launches are held to."""

    def __init__(self, gate: Gate, quotas: Quotas) -> None:
        self._gate = gate
        self._quotas = quotas

    async def vcpus(self) -> Quotas:
        """See the port."""
        await self._gate.enter("servicequotas", "ListServiceQuotas")
        return self._quotas


class MemoryPricing:
    """Implements `api.Pricing` with the packaged prices."""

    def __init__(self, gate: Gate, account: Account) -> None:
        self._gate = gate
        self._region = account.region

    async def on_demand(self) -> Mapping[str, int]:
        """See the port."""
        await self._gate.enter("pricing", "GetProducts")
        return {record.name: price for record, _, price in store.sold(self._region) if price}


class MemorySts:
    """Implements `api.Sts`."""

    def __init__(self, gate: Gate, account: Account) -> None:
        self._gate = gate
        self._account = account

    async def get_caller_identity(self) -> Identity:
        """See the port."""
        await self._gate.enter("sts", "GetCallerIdentity")
        found = arn("sts", "", self._account.number, "assumed-role/KarpenterController/dovetail")
        return Identity(self._account.number, found)
