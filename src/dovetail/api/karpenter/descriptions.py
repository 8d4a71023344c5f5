"""What `kubectl explain` says about each field of Karpenter's kinds."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.api.schema import join


def below(prefix: str, words: Mapping[str, str]) -> dict[str, str]:
    """Texts at fields below a prefix; the empty name is the prefix itself."""
    return {join(prefix, name) if name else prefix: text for name, text in words.items()}


CONDITIONS = below(
    "status",
    {
        "": "What the controllers found and did; users do not write it.",
        "conditions": "Whether the object is fit for use, condition by condition; Ready sums them up.",
        "conditions[].lastTransitionTime": "When the status changed last.",
        "conditions[].message": "The reason in words.",
        "conditions[].observedGeneration": "The generation of the object that the condition was found for.",
        "conditions[].reason": "The reason in one word, for programs.",
        "conditions[].status": "True, False or Unknown.",
        "conditions[].type": "Which condition it is.",
    },
)

REQUIREMENT = {
    "[].key": "The label that the requirement is about.",
    "[].operator": "In, NotIn, Exists, DoesNotExist; or Gt, Lt, Gte, Lte for labels that hold numbers.",
    "[].values": "Values to compare with: one or more for In and NotIn, one number for Gt, Lt, Gte and Lte, "
    "none for Exists and DoesNotExist.",
}
_MIN_VALUES = {"[].minValues": "How many different values of the label the instance types must keep open."}


def _requirements(text: str, words: Mapping[str, str]) -> dict[str, str]:
    return {"requirements": text} | {f"requirements{name}": value for name, value in words.items()}


_TAINT = {
    "[].key": "The key of the taint.",
    "[].effect": "NoSchedule, PreferNoSchedule or NoExecute.",
    "[].value": "The value of the taint.",
    "[].timeAdded": "When the taint was added; of NoExecute taints only.",
}

_CLAIM = {
    "nodeClassRef": "The class that says what the cloud needs to know to make the node.",
    "nodeClassRef.group": "API group of the class, such as karpenter.k8s.aws.",
    "nodeClassRef.kind": "Kind of the class, such as EC2NodeClass.",
    "nodeClassRef.name": "Name of the class.",
    **_requirements(
        "Labels that a node may have; instance types must meet all of them.", REQUIREMENT | _MIN_VALUES
    ),
    "taints": "Taints that the node keeps; pods must tolerate them.",
    **{f"taints{name}": text for name, text in _TAINT.items()},
    "startupTaints": "Taints that something takes off again once the node is ready; "
    "they do not keep pods from being planned onto it.",
    **{f"startupTaints{name}": text for name, text in _TAINT.items()},
    "terminationGracePeriod": "How long a node may drain at most, such as 1h; after that its pods go, "
    "whatever budgets and do-not-disrupt say.",
    "expireAfter": "Age at which a node is replaced, such as 720h, or Never.",
}

NODE_POOL = CONDITIONS | {
    "": "A NodePool says which nodes may be made for pending pods, and when they may be disrupted.",
    "spec": "What is wanted.",
    "spec.template": "What every NodeClaim of the pool is made from.",
    "spec.template.metadata": "Metadata of the NodeClaims and their nodes.",
    "spec.template.metadata.annotations": "Annotations of every node.",
    "spec.template.metadata.labels": "Labels of every node; pods may select nodes by them.",
    "spec.template.spec": "Spec of the NodeClaims.",
    **below("spec.template.spec", _CLAIM),
    "spec.disruption": "When and how fast nodes may be disrupted of our own accord.",
    "spec.disruption.budgets": "How many nodes may be disrupted at once; the strictest one in force counts.",
    "spec.disruption.budgets[].nodes": 'A number of nodes such as "5" or a share such as "10%", rounded up.',
    "spec.disruption.budgets[].reasons": "The reasons that the budget is for; left out, all of them.",
    "spec.disruption.budgets[].schedule": "When the budget comes into force, in UTC or the zone of the "
    "annotation dovetail.dev/time-zone: five cron fields, or @daily and the like; with duration.",
    "spec.disruption.budgets[].duration": "How long it stays in force each time, such as 8h; with schedule.",
    "spec.disruption.consolidateAfter": "How long a node must see no pod come or go before consolidation "
    "looks at it, such as 30s; Never turns consolidation off.",
    "spec.disruption.consolidationPolicy": "Which nodes consolidation may take: WhenEmpty only those without "
    "pods, WhenEmptyOrUnderutilized and Balanced also those whose pods fit elsewhere or on cheaper nodes.",
    "spec.limits": "How much the nodes of the pool may have together, such as cpu: 100; nodes counts them.",
    "spec.weight": "Pools of a higher weight are used first.",
    "spec.replicas": "A fixed number of nodes, kept whether pods need them or not.",
    "status.nodeClassObservedGeneration": "The generation of the class when the pool was looked at last.",
    "status.nodes": "How many nodes the pool has.",
    "status.resources": "What the nodes of the pool have together.",
}

NODE_CLAIM = CONDITIONS | {
    "": "A NodeClaim is the wish for one node, and what became of it.",
    "spec": "What is wanted; it never changes.",
    **below("spec", _CLAIM),
    "spec.resources": "What the node must have room for.",
    "spec.resources.requests": "The least that the node must be able to give to pods.",
    "status.allocatable": "What the node has for pods.",
    "status.capacity": "What the node has in all.",
    "status.imageID": "The image that the node runs.",
    "status.lastPodEventTime": "When a pod last came to the node or left it.",
    "status.nodeName": "The node's name.",
    "status.providerID": "The instance, as the cloud calls it.",
}

NODE_OVERLAY = CONDITIONS | {
    "": "A NodeOverlay changes what instance types cost, or adds resources that they offer.",
    "spec": "What is wanted.",
    **below("spec", _requirements("Which instance types and offerings the overlay is for.", REQUIREMENT)),
    "spec.price": "The price in dollars per hour, instead of the one known.",
    "spec.priceAdjustment": 'What is added to the price, such as "+0.05", "-0.1", "+10%" or "-20%".',
    "spec.capacity": "Resources that the instance types have besides, such as example.com/device: 2.",
    "spec.weight": "Of several overlays for one type the highest weight counts.",
}

CAPACITY_BUFFER = CONDITIONS | {
    "": "A CapacityBuffer keeps room free for pods that are yet to come.",
    "spec": "What is wanted.",
    "spec.provisioningStrategy": "How the room is kept; buffer.x-k8s.io/active-capacity keeps nodes running.",
    "spec.podTemplateRef": "The PodTemplate that says how large one unit of the buffer is.",
    "spec.podTemplateRef.name": "Name of a PodTemplate in the same namespace.",
    "spec.scalableRef": "The workload whose pods say how large one unit of the buffer is.",
    "spec.scalableRef.apiGroup": "API group of the workload, such as apps.",
    "spec.scalableRef.kind": "Deployment, StatefulSet or ReplicaSet.",
    "spec.scalableRef.name": "Name of the workload.",
    "spec.replicas": "How many units to keep free.",
    "spec.percentage": "Units to keep free as a share of the workload's replicas, rounded up, at least one.",
    "spec.limits": "How much the buffer may take in all, such as cpu: 10.",
    "status.podTemplateGeneration": "The generation of the PodTemplate that the buffer was worked out from.",
    "status.podTemplateRef": "The PodTemplate in use.",
    "status.podTemplateRef.name": "Name of the PodTemplate in use.",
    "status.provisioningStrategy": "The strategy in use.",
    "status.replicas": "How many units are kept free.",
}

KWOK_NODE_CLASS = CONDITIONS | {
    "": "A KWOKNodeClass makes nodes that exist in the API server only, for trials without a cloud.",
    "spec": "What is wanted.",
    "spec.nodeRegistrationDelay": "How long a new node takes to join the cluster, such as 30s.",
}


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
    "spec.enclaveOptions": "Nitro Enclaves.",
    "spec.enclaveOptions.enabled": "Whether they may run on the node; only types that can are launched then.",
    "spec.instanceProfile": "The instance profile of nodes; instead of role.",
    "spec.kubelet": "Settings of the kubelet by their own names, such as maxPods.",
    "spec.role": "The IAM role of nodes; an instance profile is made for it. Instead of instanceProfile.",
    "spec.tags": "Tags of everything that is made for nodes in EC2.",
    "spec.userData": "What nodes run or read when they start, besides what the image family needs.",
    **below("status", _STATUS),
}
