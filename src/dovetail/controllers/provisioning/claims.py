"""A planned claim to the NodeClaim that is created for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.api.core import ResourceRequirements
from dovetail.api.karpenter.fingerprint import HASH_VERSION, pool_hash
from dovetail.api.karpenter.nodeclaim import NodeClaim, NodeClaimSpec
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.karpenter.nodepool import Requirement as WrittenRequirement
from dovetail.api.meta import Meta, OwnerReference
from dovetail.cluster.problem import pool_labels
from dovetail.model import labels
from dovetail.model.plan import PlannedClaim
from dovetail.model.requirement import Requirements
from dovetail.model.resources import quantities


def node_claim(planned: PlannedClaim, pool: NodePool, marks: Mapping[str, str] | None = None) -> NodeClaim:
    """The object to create; the server gives it a name. `marks` are annotations of this one claim."""
    template = pool.spec.template
    return NodeClaim(
        metadata=Meta(
            generate_name=f"{pool.metadata.name}-",
            labels={**pool_labels(pool), **planned.labels},
            annotations={
                **template.metadata.annotations,
                labels.NODEPOOL_HASH: pool_hash(pool),
                labels.NODEPOOL_HASH_VERSION: HASH_VERSION,
                labels.MIN_VALUES_RELAXED: "true" if planned.min_values_relaxed else "false",
                **({labels.REQUESTED_DRIVERS: ",".join(planned.drivers)} if planned.drivers else {}),
                **({labels.OPENS: str(planned.opens)} if planned.opens else {}),
                **(marks or {}),
            },
            finalizers=(labels.TERMINATION_FINALIZER,),
            owner_references=(
                OwnerReference(
                    api_version=pool.API_VERSION,
                    kind=pool.KIND,
                    name=pool.metadata.name,
                    uid=pool.metadata.uid,
                    block_owner_deletion=True,
                ),
            ),
        ),
        spec=NodeClaimSpec(
            node_class_ref=template.spec.node_class_ref,
            requirements=written(planned.requirements),
            taints=template.spec.taints,
            startup_taints=template.spec.startup_taints,
            termination_grace_period=template.spec.termination_grace_period,
            expire_after=template.spec.expire_after,
            resources=ResourceRequirements(requests=quantities(planned.requests)),
        ),
    )


def written(requirements: Requirements) -> tuple[WrittenRequirement, ...]:
    """Requirements as a claim spells them out; minValues stands on the first line of its key."""
    lines = []
    for item in requirements:
        least = item.min_values
        for operator, values in item.selector_requirements():
            lines.append(WrittenRequirement(key=item.key, operator=operator, values=values, min_values=least))
            least = None
    return tuple(lines)
