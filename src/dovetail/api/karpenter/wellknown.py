"""Label keys and resources that Karpenter's own rules name."""

from __future__ import annotations

# Keys that every provider defines.
CORE = frozenset(
    {
        "karpenter.sh/nodepool",
        "karpenter.sh/capacity-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "node.kubernetes.io/instance-type",
        "node.kubernetes.io/windows-build",
        "kubernetes.io/arch",
        "kubernetes.io/os",
    }
)

# Names below karpenter.k8s.aws/ that describe instances.
AWS_NAMES = (
    "instance-category",
    "instance-generation",
    "instance-family",
    "instance-size",
    "instance-capability-flex",
    "instance-cpu",
    "instance-cpu-manufacturer",
    "instance-cpu-sustained-clock-speed-mhz",
    "instance-memory",
    "instance-ebs-bandwidth",
    "instance-network-bandwidth",
    "instance-hypervisor",
    "instance-encryption-in-transit-supported",
    "nitro-sandbox",
    "instance-local-nvme",
    "instance-gpu-name",
    "instance-gpu-manufacturer",
    "instance-gpu-count",
    "instance-gpu-memory",
    "instance-accelerator-name",
    "instance-accelerator-manufacturer",
    "instance-accelerator-count",
    "instance-tenancy",
    "capacity-reservation-id",
    "capacity-reservation-type",
    "capacity-reservation-interruptible",
    "placement-group-id",
    "placement-group-partition",
)
# Of these, the last six: where and how an instance is launched, not what it is.
AWS_PLACEMENT = frozenset(f"karpenter.k8s.aws/{name}" for name in AWS_NAMES[-6:])
AWS = frozenset(f"karpenter.k8s.aws/{name}" for name in AWS_NAMES) | {"topology.k8s.aws/zone-id"}

# What every node has, and what AWS says of its types: no overlay may say otherwise.
BASIC_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
AWS_RESOURCES = (
    "vpc.amazonaws.com/pod-eni",
    "vpc.amazonaws.com/efa",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "habana.ai/gaudi",
)
