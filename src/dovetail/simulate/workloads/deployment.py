"""Deployment: one replica set per template, and a rolling change from the old ones to the new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.api.core import PodTemplateMeta, PodTemplateSpec
from dovetail.api.meta import LabelSelector, Meta
from dovetail.api.workloads import Deployment, DeploymentStrategy, ReplicaSet, ReplicaSetSpec
from dovetail.model.podtemplate import HASH_LABEL, owner_reference, rolling_limits, template_hash
from dovetail.simulate.workloads.base import Controller
from dovetail.simulate.workloads.pods import Standing


@dataclass(frozen=True, slots=True)
class Generation:
    """One replica set of a deployment: what it asks for, and what it has."""

    name: str
    replicas: int  # spec.replicas
    ready: int = 0
    pods: int = 0  # all that are not gone yet, those on their way out included


def decide(
    replicas: int, strategy: DeploymentStrategy, new: Generation, old: Sequence[Generation]
) -> dict[str, int]:
    """The spec.replicas to write, by replica set, `old` in order of age; empty when nothing is to change."""
    if all(generation.replicas == 0 and generation.pods == 0 for generation in old):
        wanted = {new.name: replicas}
    elif strategy.type == "Recreate":
        wanted = {generation.name: 0 for generation in old}
        wanted[new.name] = 0 if any(generation.pods for generation in old) else replicas
    else:
        wanted = _roll(replicas, strategy, new, old)
    present = {generation.name: generation.replicas for generation in (new, *old)}
    return {name: count for name, count in wanted.items() if count != present[name]}


def scaled(replicas: int, generations: Sequence[Generation]) -> dict[str, int]:
    """What a paused deployment writes: it grows and shrinks, and nothing takes another template."""
    running = [one for one in generations if one.replicas]
    return {one.name: replicas for one in running if len(running) == 1 and one.replicas != replicas}


def _roll(
    replicas: int, strategy: DeploymentStrategy, new: Generation, old: Sequence[Generation]
) -> dict[str, int]:
    surge, unavailable = rolling_limits(strategy, replicas)
    total = new.replicas + sum(generation.replicas for generation in old)
    room = max(0, replicas + surge - total)
    wanted = {new.name: min(new.replicas + room, replicas)}
    # The old ones may shrink as far as the pods that are ready allow: first those that are not ready (they
    # serve no requests), then the rest, oldest replica set first.
    least_ready = replicas - unavailable
    spare = total - least_ready - max(0, new.replicas - new.ready)
    shrunk = [generation.replicas for generation in old]
    for i, generation in enumerate(old):
        cut = max(0, min(spare, generation.replicas - generation.ready))
        shrunk[i] -= cut
        spare -= cut
    spare = min(spare, new.ready + sum(generation.ready for generation in old) - least_ready)
    for i in range(len(old)):
        cut = max(0, min(spare, shrunk[i]))
        shrunk[i] -= cut
        spare -= cut
    return wanted | {generation.name: count for generation, count in zip(old, shrunk, strict=True)}


class Deployments(Controller):
    """Acts on `decide`. A rollout that is scaled half-way reaches its size by the rolling rule alone."""

    kind = Deployment

    async def sync(self, key: str) -> None:
        deployment = self.view.get(Deployment, key)
        if deployment is None or self.view.is_deleting(deployment):
            return
        digest = template_hash(deployment.spec.template)
        name = f"{deployment.metadata.name}-{digest}"
        sets = self.view.owned(deployment, ReplicaSet)
        if not deployment.spec.paused and all(replica_set.metadata.name != name for replica_set in sets):
            # Without old sets the new one starts at full size, as the real controller does.
            size = 0 if sets else deployment.spec.replicas
            await self.create(_replica_set(deployment, digest, size))
            sets = self.view.owned(deployment, ReplicaSet)
        generations = [self._generation(replica_set) for replica_set in sets]
        new = next((item for item in generations if item.name == name), None)
        old = [item for item in generations if item.name != name]
        spec = deployment.spec
        if spec.paused:
            wanted = scaled(spec.replicas, generations)
        elif new is None:
            return
        else:
            wanted = decide(spec.replicas, spec.strategy, new, old)
        for replica_set in sets:
            if replica_set.metadata.name in wanted:
                await self.scale(replica_set, wanted[replica_set.metadata.name])
        updated = next((one.status.replicas for one in sets if one.metadata.name == name), 0)
        pods = sum(replica_set.status.replicas for replica_set in sets)
        ready = sum(item.ready for item in generations)
        await self.report(
            deployment,
            replicas=pods,
            updated_replicas=updated,
            ready_replicas=ready,
            available_replicas=ready,
        )

    def _generation(self, replica_set: ReplicaSet) -> Generation:
        return Generation(
            name=replica_set.metadata.name,
            replicas=replica_set.spec.replicas,
            ready=self.view.count(replica_set, Standing.READY),
            pods=self.view.count(replica_set, *Standing),
        )


def _replica_set(deployment: Deployment, digest: str, replicas: int) -> ReplicaSet:
    spec, labels = deployment.spec, {HASH_LABEL: digest}
    template = PodTemplateSpec(
        metadata=PodTemplateMeta(
            labels={**spec.template.metadata.labels, **labels},
            annotations=spec.template.metadata.annotations,
        ),
        spec=spec.template.spec,
    )
    return ReplicaSet(
        metadata=Meta(
            name=f"{deployment.metadata.name}-{digest}",
            namespace=deployment.metadata.namespace,
            labels=dict(template.metadata.labels),
            annotations=dict(deployment.metadata.annotations),
            owner_references=(owner_reference(deployment),),
        ),
        spec=ReplicaSetSpec(
            replicas=replicas,
            selector=LabelSelector(
                match_labels={**spec.selector.match_labels, **labels},
                match_expressions=spec.selector.match_expressions,
            ),
            template=template,
        ),
    )
