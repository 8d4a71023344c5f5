"""Label, annotation, taint and finalizer names."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.api.karpenter import wellknown

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
ZONE_ID = "topology.k8s.aws/zone-id"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ARCH = "kubernetes.io/arch"
OS = "kubernetes.io/os"
WINDOWS_BUILD = "node.kubernetes.io/windows-build"
HOSTNAME = "kubernetes.io/hostname"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
GROUP_CAPACITY_TYPE = "eks.amazonaws.com/capacityType"  # of EKS' managed node groups: ON_DEMAND or SPOT
NODEPOOL = "karpenter.sh/nodepool"
REGISTERED = "karpenter.sh/registered"
INITIALIZED = "karpenter.sh/initialized"
DO_NOT_SYNC_TAINTS = "karpenter.sh/do-not-sync-taints"
EXCLUDE_BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"
RESERVATION_ID = "karpenter.k8s.aws/capacity-reservation-id"

SPOT = "spot"
ON_DEMAND = "on-demand"
RESERVED = "reserved"

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
DO_NOT_REPAIR = "karpenter.sh/do-not-repair"
# Of claims whose nodes are rebooted: how long pods may take to leave, and which boot is to be the last one.
REBOOT_GRACE = "karpenter.sh/reboot-termination-grace-period"
PRE_BOOT_ID = "karpenter.sh/reboot-pre-boot-id"
REBOOT_DRAINED = "dovetail.dev/reboot-drained"  # since when the cloud is asked for it
REBOOTS = "dovetail.dev/reboots"  # when reboots were requested within the last 24 hours
NODEPOOL_HASH = "karpenter.sh/nodepool-hash"
NODEPOOL_HASH_VERSION = "karpenter.sh/nodepool-hash-version"
NODECLASS_HASH = "karpenter.k8s.aws/ec2nodeclass-hash"
NODECLASS_HASH_VERSION = "karpenter.k8s.aws/ec2nodeclass-hash-version"
INSTANCE_PROFILE = "karpenter.k8s.aws/instance-profile-name"
TERMINATION_TIMESTAMP = "karpenter.sh/nodeclaim-termination-timestamp"
MIN_VALUES_RELAXED = "karpenter.sh/nodeclaim-min-values-relaxed"
# Of claims that may become a type of which a NodeOverlay changed the price, or a resource.
PRICE_OVERLAID = "karpenter.sh/price-overlay-applied"
CAPACITY_OVERLAID = "karpenter.sh/capacity-overlay-applied"
# Of claims: the drivers, with commas between them, whose devices of a node its pods claim.
REQUESTED_DRIVERS = "karpenter.sh/requested-dra-drivers"
# Of pods: what evicting one costs beyond others, whatever its deletion cost is.
DISRUPTION_COST = "karpenter.sh/disruption-cost"
POD_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
WRITTEN_COST = "dovetail.dev/pod-deletion-cost"  # of a pod: the deletion cost that Dovetail wrote there

# Of the virtual pods of a CapacityBuffer.
BUFFER_POD = "karpenter.sh/capacity-buffer-fake-pod"
BUFFER_NAME = "karpenter.sh/capacity-buffer-name"
BUFFER_NAMESPACE = "karpenter.sh/capacity-buffer-namespace"

# Dovetail's own annotations of NodePools.
PAUSE = "dovetail.dev/pause"
NOMINATED = "dovetail.dev/nominated-node"  # an annotation of a pod: which node Dovetail nominated for it
# An annotation of a claim: its node opens to pods after those of lower numbers.
OPENS = "dovetail.dev/opens"
EXPIRATION = "dovetail.dev/expiration"
TIME_ZONE = "dovetail.dev/time-zone"  # in which the schedules of its budgets count
MINIMUM_NODES = "dovetail.dev/minimum-nodes"
# Of Deployments, and of NodePools for those with pods on their nodes: another pod comes before one goes.
SURGE = "dovetail.dev/surge"
GANG_MAY_STOP = "dovetail.dev/gang-may-stop"  # of a pod: that its gang stops does not keep its node
# Of Deployments that were restarted for that: when, what their template said, and when it came to nothing.
SURGE_RESTARTED = "dovetail.dev/surge-restarted"
SURGE_BEFORE = "dovetail.dev/surge-before"
SURGE_FAILED = "dovetail.dev/surge-failed"
RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"  # of a template: as `kubectl rollout restart` writes it
# Of pods: what share of a controller's pods stays off spot, and the scheduling gate at which each is told
# whether it is one of them.
ON_DEMAND_SHARE = "dovetail.dev/on-demand"
OFF_SPOT = "dovetail.dev/off-spot"  # of a pod that was told: whether it is
CONFIRM_TERMINATION = "dovetail.dev/confirm-termination"

DISRUPTED_TAINT = "karpenter.sh/disrupted"
UNREGISTERED_TAINT = "karpenter.sh/unregistered"
REBOOTING_TAINT = "karpenter.sh/rebooting"
OPENING_TAINT = "dovetail.dev/opening"
DRIFTED_TAINT = "dovetail.dev/drifted"
UNDERUTILIZED_TAINT = "dovetail.dev/underutilized"
OTHERS_FIRST_TAINT = "dovetail.dev/others-first"
TERMINATION_FINALIZER = "karpenter.sh/termination"

ALIASES = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    "beta.kubernetes.io/arch": ARCH,
    "beta.kubernetes.io/os": OS,
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
    # What the EBS driver calls the zone in the node affinity of its volumes.
    "topology.ebs.csi.aws.com/zone": ZONE,
}

AWS = "karpenter.k8s.aws/"
PLACEMENT_GROUP = AWS + "placement-group-id"
PARTITION = AWS + "placement-group-partition"
AWS_INSTANCE_LABELS = tuple(AWS + name for name in wellknown.AWS_NAMES)

# Keys that every provider defines; a pool need not mention them for a pod to ask for them.
WELL_KNOWN = wellknown.CORE
AWS_WELL_KNOWN = wellknown.CORE | wellknown.AWS

KWOK = "karpenter.kwok.sh/"
KWOK_WELL_KNOWN = wellknown.CORE | {
    KWOK + name for name in ("instance-size", "instance-family", "instance-cpu", "instance-memory")
}


def capacity_type(stamped: Mapping[str, str]) -> str:
    """What a node with these labels is paid as, one of a managed node group too; "" if nothing says so."""
    return stamped.get(CAPACITY_TYPE) or stamped.get(GROUP_CAPACITY_TYPE, "").lower().replace("_", "-")
