"""What `kubectl explain` says about each field of an EC2NodeClass."""

from __future__ import annotations

from dovetail.api.karpenter.descriptions import CONDITIONS, REQUIREMENT, below

_TAGS = "Tags that must all be there; the value * stands for any."


def _terms(field: str, text: str, /, **words: str) -> dict[str, str]:
    return {field: f"{text} Terms are alternatives; within one, all fields must match."} | {
        f"{field}[].{key}": value for key, value in words.items()
    }


_SELECTORS = {
    **_terms(
        "amiSelectorTerms",
        "Which images nodes may start from; of several the newest.",
        alias="A family and its version, such as al2023@v20250101 or al2023@latest; always alone.",
        id="An image id; always alone.",
        name="The image's name; * stands for any text.",
        owner="Account id of the image's owner, or self, amazon or another alias of EC2.",
        ssmParameter="An SSM parameter that holds an image id.",
        tags=_TAGS,
    ),
    **_terms(
        "subnetSelectorTerms",
        "Which subnets nodes may start in.",
        id="A subnet id; without tags.",
        tags=_TAGS,
    ),
    **_terms(
        "securityGroupSelectorTerms",
        "Which security groups nodes have.",
        id="A security group id; without tags and name.",
        name="The security group's name; without tags and id.",
        tags=_TAGS,
    ),
    **_terms(
        "capacityReservationSelectorTerms",
        "Which capacity reservations nodes may start in.",
        id="A reservation id; always alone.",
        instanceMatchCriteria="open: any matching instance uses it; targeted: it must be named.",
        ownerID="Account id of the reservation's owner.",
        tags=_TAGS,
    ),
    "placementGroupSelector": "The placement group that nodes start in.",
    "placementGroupSelector.id": "The placement group's id; without name.",
    "placementGroupSelector.name": "The placement group's name; without id.",
}

_VOLUMES = {
    "blockDeviceMappings": "Volumes of every node; by default a root volume as the image family asks for.",
    "blockDeviceMappings[].deviceName": "Name of the device, such as /dev/xvda.",
    "blockDeviceMappings[].ebs": "The EBS volume behind the device.",
    "blockDeviceMappings[].ebs.deleteOnTermination": "Whether the volume goes with the instance.",
    "blockDeviceMappings[].ebs.encrypted": "Whether the volume is encrypted.",
    "blockDeviceMappings[].ebs.iops": "Operations per second, for volume types that let one choose.",
    "blockDeviceMappings[].ebs.kmsKeyID": "The key to encrypt with, if not the account's own.",
    "blockDeviceMappings[].ebs.snapshotID": "The snapshot that the volume is made from.",
    "blockDeviceMappings[].ebs.throughput": "MiB per second, for gp3.",
    "blockDeviceMappings[].ebs.volumeInitializationRate": "MiB per second at which a snapshot is read in.",
    "blockDeviceMappings[].ebs.volumeSize": "Size with a unit, such as 100Gi.",
    "blockDeviceMappings[].ebs.volumeType": "Type of the volume, such as gp3.",
    "blockDeviceMappings[].rootVolume": "Whether pods' ephemeral storage is on this volume; of one at most.",
    "instanceStorePolicy": "RAID0 makes the instance's own disks one, and pods' ephemeral storage uses it.",
}

_NETWORK = {
    "associatePublicIPAddress": "Whether nodes get a public address; by default the subnet decides.",
    "connectionTracking": "Idle timeouts in seconds that security groups forget connections after.",
    "connectionTracking.tcpEstablishedTimeout": "Of established TCP connections.",
    "connectionTracking.udpStreamTimeout": "Of UDP flows with more than one request and answer.",
    "connectionTracking.udpTimeout": "Of UDP flows with one request or answer.",
    "ipPrefixCount": "How many IP prefixes the network interface is given.",
    "networkInterfaces": "Network interfaces of every node.",
    "networkInterfaces[].networkCardIndex": "The network card, from 0.",
    "networkInterfaces[].deviceIndex": "The place of the interface on its card, from 0.",
    "networkInterfaces[].interfaceType": "interface, or efa-only for one that carries no IP.",
    "metadataOptions": "How instances reach their metadata service.",
    "metadataOptions.httpEndpoint": "Whether the service answers.",
    "metadataOptions.httpProtocolIPv6": "Whether it answers over IPv6.",
    "metadataOptions.httpPutResponseHopLimit": "How many hops an answer may take; 1 keeps pods out.",
    "metadataOptions.httpTokens": "Whether requests must bring a session token.",
}

_STATUS = {
    "amis": "Images that the terms stand for, newest first.",
    "amis[].deprecated": "Whether the image's owner has deprecated it.",
    "amis[].id": "The image id.",
    "amis[].name": "The image's name.",
    "amis[].requirements": "Which instance types the image is for.",
    **{f"amis[].requirements{name}": text for name, text in REQUIREMENT.items()},
    "capacityReservations": "Capacity reservations that the terms stand for.",
    "capacityReservations[].availabilityZone": "The zone of its instances.",
    "capacityReservations[].endTime": "When it ends, if it does.",
    "capacityReservations[].id": "The reservation id.",
    "capacityReservations[].instanceMatchCriteria": "open or targeted.",
    "capacityReservations[].instanceType": "The type of its instances.",
    "capacityReservations[].interruptible": "Whether its instances may be taken back.",
    "capacityReservations[].ownerID": "Account id of its owner.",
    "capacityReservations[].reservationType": "default, or capacity-block for a block with a fixed end.",
    "capacityReservations[].state": "active, or expiring shortly before it ends.",
    "instanceProfile": "The instance profile in use.",
    "securityGroups": "Security groups that the terms stand for.",
    "securityGroups[].id": "The security group id.",
    "securityGroups[].name": "The security group's name.",
    "subnets": "Subnets that the terms stand for, those with most free addresses first.",
    "subnets[].id": "The subnet id.",
    "subnets[].zone": "Its zone, such as us-east-1a.",
    "subnets[].zoneID": "Its zone's id, the same in all accounts, such as use1-az1.",
}

EC2_NODE_CLASS = {
    **CONDITIONS,
    "": "An EC2NodeClass says how EC2 instances are made: image, network, disks, role.",
    "spec": "What is wanted.",
    **below("spec", _SELECTORS | _VOLUMES | _NETWORK),
    "spec.amiFamily": "The family of the image, which decides on user data and disks; an alias implies it.",
    "spec.context": "Passed on to EC2 with every launch.",
    "spec.cpuOptions": "Options of the processor.",
    "spec.cpuOptions.nestedVirtualization": "Whether virtual machines may run on the node.",
    "spec.detailedMonitoring": "Whether EC2 reports metrics every minute.",
    "spec.instanceProfile": "The instance profile of nodes; instead of role.",
    "spec.kubelet": "Settings of the kubelet by their own names, such as maxPods.",
    "spec.role": "The IAM role of nodes; an instance profile is made for it. Instead of instanceProfile.",
    "spec.tags": "Tags of everything that is made for nodes in EC2.",
    "spec.userData": "What nodes run or read when they start, besides what the image family needs.",
    **below("status", _STATUS),
}
