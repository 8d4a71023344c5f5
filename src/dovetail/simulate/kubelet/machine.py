"""A machine that boots into a node: what its kubelet knows when it registers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dovetail.api.core import Taint
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.streams import stream
from dovetail.cloud.provider import Instance
from dovetail.model import labels
from dovetail.model.resources import MEMORY, Resources, add

NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
UNREACHABLE = Taint(key="node.kubernetes.io/unreachable", effect="NoSchedule")
UNREGISTERED = Taint(key=labels.UNREGISTERED_TAINT, effect="NoExecute")
_KIBIBYTE = 1024


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything its Node object will say. `capacity` and `allocatable` are what the kernel really sees."""

    provider_id: str
    node: str  # name of the Node object: the private DNS name
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    capacity: Resources = field(default_factory=dict)
    allocatable: Resources = field(default_factory=dict)


def from_claim(instance: Instance, claim: NodeClaim, *, name: str, seed: int) -> Machine:
    """The machine of an instance launched for a claim: it registers with the claim's labels and taints."""
    extra = _unexpected_memory(instance.instance_type, instance.capacity, seed)
    return Machine(
        provider_id=instance.provider_id,
        node=name,
        labels={**claim.metadata.labels, **instance.labels, labels.HOSTNAME: name},
        taints=(*claim.spec.taints, *claim.spec.startup_taints, UNREGISTERED),
        capacity=add(instance.capacity, extra),
        allocatable=add(instance.allocatable, extra),
    )


class NodeNames:
    """Private DNS names, such as ip-10-0-37-202.ap-northeast-2.compute.internal, each given once."""

    def __init__(self, region: str, seed: int) -> None:
        self._domain = "ec2.internal" if region == "us-east-1" else f"{region}.compute.internal"
        self._seed = seed
        self._taken: set[str] = set()

    def take(self, name: str) -> None:
        """It is given to a node already, and drawn for no other."""
        self._taken.add(name)

    def draw(self, provider_id: str) -> str:
        """The name of an instance; asked once per instance."""
        draws = stream(self._seed, provider_id, "private address")
        while True:
            parts = (draws.randrange(256), draws.randrange(256), draws.randrange(4, 255))
            name = "ip-10-{}-{}-{}.{}".format(*parts, self._domain)
            if name not in self._taken:
                self._taken.add(name)
                return name


def _unexpected_memory(instance_type: str, capacity: Resources, seed: int) -> Resources:
    """Memory beyond the estimate: hypervisors keep a little less than is set aside for them.

    Per type, 0.2 % to 1.5 % of the estimate, in whole KiB; never negative, as an estimate is made so that it
    holds.
    """
    share = stream(seed, instance_type, "memory beyond the estimate").randrange(200, 1_500)
    return {MEMORY: capacity.get(MEMORY, 0) * share // 100_000 // _KIBIBYTE * _KIBIBYTE}
