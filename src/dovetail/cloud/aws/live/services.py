"""SSM, IAM, EKS, SQS, Pricing and STS over the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.base.clock import SECOND
from dovetail.cloud.aws import pricing
from dovetail.cloud.aws.api import EksCluster, Identity, InstanceProfile
from dovetail.cloud.aws.errors import AwsError
from dovetail.cloud.aws.live.calls import Calls
from dovetail.cloud.aws.live.read import instant, tags
from dovetail.cloud.aws.quota import quotas
from dovetail.cloud.interruption import BATCH, LONG_POLL, VISIBILITY, Letter

_PAGE = 100
_MILLISECOND = SECOND // 1000


class LiveSsm:
    """Implements `api.Ssm`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def get_parameter(self, name: str) -> str:
        """See the port."""
        answer = await self._calls.call("ssm", "get_parameter", Name=name)
        return str(answer["Parameter"]["Value"])


class LiveIam:
    """Implements `api.Iam`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def get_instance_profile(self, name: str) -> InstanceProfile:
        """See the port."""
        answer = await self._calls.call("iam", "get_instance_profile", InstanceProfileName=name)
        return _profile(answer["InstanceProfile"])

    async def list_instance_profiles(self, path: str) -> Sequence[InstanceProfile]:
        """See the port."""
        pages = self._calls.pages("iam", "list_instance_profiles", "InstanceProfiles", _PAGE, PathPrefix=path)
        return [_profile(item) async for item in pages]

    async def create_instance_profile(self, name: str, path: str, tags: Mapping[str, str]) -> InstanceProfile:
        """See the port."""
        answer = await self._calls.call(
            "iam", "create_instance_profile", InstanceProfileName=name, Path=path, Tags=_written(tags)
        )
        return _profile(answer["InstanceProfile"])

    async def delete_instance_profile(self, name: str) -> None:
        """See the port."""
        await self._calls.call("iam", "delete_instance_profile", InstanceProfileName=name)

    async def add_role_to_instance_profile(self, name: str, role: str) -> None:
        """See the port."""
        await self._calls.call("iam", "add_role_to_instance_profile", InstanceProfileName=name, RoleName=role)

    async def remove_role_from_instance_profile(self, name: str, role: str) -> None:
        """See the port."""
        await self._calls.call(
            "iam", "remove_role_from_instance_profile", InstanceProfileName=name, RoleName=role
        )

    async def tag_instance_profile(self, name: str, tags: Mapping[str, str]) -> None:
        """See the port."""
        await self._calls.call("iam", "tag_instance_profile", InstanceProfileName=name, Tags=_written(tags))


class LiveEks:
    """Implements `api.Eks`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def describe_cluster(self, name: str) -> EksCluster:
        """See the port."""
        found = (await self._calls.call("eks", "describe_cluster", name=name))["cluster"]
        network = found.get("kubernetesNetworkConfig", {})
        return EksCluster(
            name=found["name"],
            endpoint=found.get("endpoint", ""),
            ca_bundle=found.get("certificateAuthority", {}).get("data", ""),
            version=found.get("version", ""),
            cidr=network.get("serviceIpv4Cidr") or network.get("serviceIpv6Cidr") or "",
            vpc=found.get("resourcesVpcConfig", {}).get("vpcId", ""),
            arn=found.get("arn", ""),
        )


class LiveSqs:
    """Implements `api.Sqs`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def get_queue_url(self, name: str) -> str:
        """See the port."""
        return str((await self._calls.call("sqs", "get_queue_url", QueueName=name))["QueueUrl"])

    async def receive(self, url: str) -> Sequence[Letter]:
        """See the port."""
        answer = await self._calls.call(
            "sqs",
            "receive_message",
            QueueUrl=url,
            MaxNumberOfMessages=BATCH,
            WaitTimeSeconds=LONG_POLL // SECOND,
            VisibilityTimeout=VISIBILITY // SECOND,
            MessageSystemAttributeNames=["SentTimestamp"],
        )
        return [_letter(item) for item in answer.get("Messages", ())]

    async def delete(self, url: str, letters: Sequence[Letter]) -> None:
        """See the port."""
        entries = [{"Id": str(i), "ReceiptHandle": item.receipt} for i, item in enumerate(letters)]
        if not entries:
            return
        answer = await self._calls.call("sqs", "delete_message_batch", QueueUrl=url, Entries=entries)
        for failed in answer.get("Failed", ()):
            raise AwsError("DeleteMessageBatch", failed["Code"], failed.get("Message", ""))


class LiveZonalShift:
    """Implements `api.ZonalShift`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def shifted(self, cluster: str) -> Sequence[str]:
        """See the port. Shifts that people started and those that AWS did weigh a zone with nothing."""
        answer = await self._calls.call("arc-zonal-shift", "get_managed_resource", resourceIdentifier=cluster)
        return shifted_zones(answer.get("appliedWeights", {}))


class LiveQuotas:
    """Implements `api.ServiceQuotas`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def vcpus(self) -> quotas.Quotas:
        """See the port."""
        pages = self._calls.pages(
            "service-quotas", "list_service_quotas", "Quotas", _PAGE, ServiceCode=quotas.SERVICE
        )
        return quotas.read([item async for item in pages])


class LivePricing:
    """Implements `api.Pricing`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def on_demand(self) -> Mapping[str, int]:
        """See the port."""
        region = self._calls.region
        place = pricing.endpoint_region(region)
        if place is None:
            return {}
        filters = [
            {"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in pricing.filters(region)
        ]
        pages = self._calls.pages(
            "pricing",
            "get_products",
            "PriceList",
            _PAGE,
            region=place,
            ServiceCode=pricing.SERVICE,
            Filters=filters,
        )
        return pricing.read([item async for item in pages], region)


class LiveSts:
    """Implements `api.Sts`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def get_caller_identity(self) -> Identity:
        """See the port."""
        answer = await self._calls.call("sts", "get_caller_identity")
        return Identity(answer["Account"], answer["Arn"])


def shifted_zones(weights: Mapping[str, float]) -> tuple[str, ...]:
    """Zones that take no traffic, by id."""
    return tuple(sorted(zone for zone, weight in weights.items() if weight == 0))


def _profile(answer: Mapping[str, Any]) -> InstanceProfile:
    return InstanceProfile(
        name=answer["InstanceProfileName"],
        arn=answer["Arn"],
        path=answer["Path"],
        roles=tuple(role["RoleName"] for role in answer.get("Roles", ())),
        tags=tags(answer),
        created=instant(answer.get("CreateDate")),
    )


def _letter(answer: Mapping[str, Any]) -> Letter:
    sent = int(answer.get("Attributes", {}).get("SentTimestamp", 0)) * _MILLISECOND
    return Letter(answer["ReceiptHandle"], answer["Body"], sent)


def _written(given: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in given.items()]
