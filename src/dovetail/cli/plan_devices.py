"""Devices and claims of manifests: what the resource claim controller and the cloud would make of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from dovetail.api.core import Pod, PodResourceClaimStatus
from dovetail.api.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.meta import Meta
from dovetail.cloud.catalog.devices import devices
from dovetail.cluster.devices import DeviceObjects, cluster_devices
from dovetail.model.devices import claims_devices
from dovetail.model.problem import Pool, Problem
from dovetail.reading import Manifest


def with_devices(problem: Problem, manifests: Iterable[Manifest]) -> Problem:
    """The problem, its pods with the claims that their templates make, and types with the devices of EC2.

    Nothing changes where no pod claims devices.
    """
    if not any(map(claims_devices, problem.pods)):
        return problem
    objects = [item.object for item in manifests]
    templates = {one.key: one for one in objects if isinstance(one, ResourceClaimTemplate)}
    made: list[ResourceClaim] = []
    pods = tuple(_with_claims(pod, templates, made) for pod in problem.pods)
    known = DeviceObjects(
        tuple(one for one in objects if isinstance(one, DeviceClass)),
        (*(one for one in objects if isinstance(one, ResourceClaim)), *made),
        tuple(one for one in objects if isinstance(one, ResourceSlice)),
    )
    up = {node.name for node in problem.nodes if node.initialized}
    classes = {one.metadata.name: one for one in objects if isinstance(one, EC2NodeClass)}
    return replace(
        problem,
        pods=pods,
        pools=tuple(_with_types(pool, classes.get(pool.node_class_ref.name)) for pool in problem.pools),
        devices=cluster_devices(known, pods, frozenset(), up.__contains__),
    )


def _with_claims(pod: Pod, templates: dict[str, ResourceClaimTemplate], made: list[ResourceClaim]) -> Pod:
    """The pod with the names of its claims, as its status has them once they are made."""
    known = {one.name for one in pod.status.resource_claim_statuses}
    statuses = list(pod.status.resource_claim_statuses)
    for one in pod.spec.resource_claims:
        if not one.resource_claim_template_name or one.name in known:
            continue
        name = f"{pod.metadata.name}-{one.name}"
        template = templates.get(f"{pod.metadata.namespace}/{one.resource_claim_template_name}")
        if template is not None:
            meta = Meta(name=name, namespace=pod.metadata.namespace)
            made.append(ResourceClaim(metadata=meta, spec=template.spec.spec))
        statuses.append(PodResourceClaimStatus(name=one.name, resource_claim_name=name))
    status = msgspec.structs.replace(pod.status, resource_claim_statuses=tuple(statuses))
    return msgspec.structs.replace(pod, status=status)


def _with_types(pool: Pool, node_class: EC2NodeClass | None) -> Pool:
    types = tuple(
        kind
        if kind.devices.slices
        else replace(kind, devices=devices(kind.name, node_class, gpus=True, efas=True))
        for kind in pool.instance_types
    )
    return replace(pool, instance_types=types)
