"""What can be said against a class once its selectors resolved, without asking AWS. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.cloud.aws.validation import Fault
from dovetail.cloud.catalog.settings import GIB, ami_family, parse_size

TAGS = "TagValidationFailed"
VOLUMES = "BlockDeviceMappingInvalid"
# Tags by which the controller knows its own: nobody else may set them.
_RESTRICTED = re.compile(
    r"eks:eks-cluster-name|kubernetes\.io/cluster.*|karpenter\.sh/node(pool|claim)|karpenter\.k8s\.aws/ec2nodeclass"
)
_MOST_TAGS = 50  # of an EC2 resource
_OWN_TAGS = 6  # what every instance gets besides: four at launch, Name and karpenter.sh/nodeclaim later


def faults(
    node_class: EC2NodeClass, volumes: Mapping[str, Mapping[str, int]], *, cidr: str | None
) -> Iterator[Fault]:
    """`volumes` are the least GiB that each device of each image needs, `cidr` is that of services."""
    if ami_family(node_class) == "AL2023" and not cidr:
        # nodeadm takes no NodeConfig without it.
        message = (
            "Failed to detect the cluster CIDR: eks:DescribeCluster tells it, and only of clusters of EKS"
        )
        yield Fault("ClusterCIDRResolutionFailed", message)
    yield from _tags(node_class.spec.tags)
    yield from _volumes(node_class, volumes)


def _tags(tags: Mapping[str, str]) -> Iterator[Fault]:
    for key, value in tags.items():
        path = f"spec.tags[{key!r}]"
        if _RESTRICTED.fullmatch(key):
            yield Fault(TAGS, f"{path}: this tag is restricted, the controller sets it itself")
        elif key.lower().startswith("aws:"):
            yield Fault(TAGS, f"{path}: tags that begin with aws: are reserved by AWS")
        elif len(key) > 128 or len(value) > 256:
            yield Fault(TAGS, f"{path}: a key has at most 128 characters, a value at most 256")
    if len(tags) > _MOST_TAGS - _OWN_TAGS:
        yield Fault(TAGS, f"spec.tags: {len(tags)} tags, of {_MOST_TAGS} the controller needs {_OWN_TAGS}")


def _volumes(node_class: EC2NodeClass, volumes: Mapping[str, Mapping[str, int]]) -> Iterator[Fault]:
    """Sizes below that of the image's own snapshot, which EC2 refuses at each launch."""
    for index, mapping in enumerate(node_class.spec.block_device_mappings):
        if mapping.ebs is None or mapping.ebs.volume_size is None:
            continue
        path = f"spec.blockDeviceMappings[{index}].ebs.volumeSize"
        size = -(-parse_size(mapping.ebs.volume_size, path) // GIB)
        for image, devices in volumes.items():
            least = devices.get(mapping.device_name, 0)
            if size < least:
                yield Fault(
                    VOLUMES, f"{path}: {size} GiB, but {mapping.device_name} of image {image} needs {least}"
                )
