"""What a pod's spec asks for, read once per different spec."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from dovetail.api.core import Pod, PodSpec
from dovetail.model.ports import HostPort, host_ports
from dovetail.model.resources import Resources, pod_requests
from dovetail.units.quantity import Quantity


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """All that a spec and its namespace say; equal specs share one object."""

    fingerprint: bytes  # equal iff nothing that matters to scheduling differs; labels are not part of it
    rules: bytes  # equal iff the rules about nodes and other pods do not differ
    requests: Resources
    ports: tuple[HostPort, ...]
    has_claims: bool  # volumes of its own: such pods are never alike
    relations: int  # spreads and terms about other pods
    label_keys: tuple[str, ...]  # the pod's own labels that its rules copy into their selectors


class Reader:
    """Reads specs. Copies of a pod cost one encoding of the spec each, which is a fraction of reading it."""

    def __init__(self) -> None:
        self._raw: dict[tuple[str, bytes], Ask] = {}
        self._asks: dict[bytes, Ask] = {}

    def read(self, pod: Pod) -> Ask:
        """What the pod asks for."""
        spec = _without_names(pod.spec)
        key = (pod.metadata.namespace, _ENCODER.encode(spec))
        known = self._raw.get(key)
        if known is None:
            fresh = _ask(pod, spec)
            known = self._raw[key] = self._asks.setdefault(fresh.fingerprint, fresh)
        return known

    def different(self) -> Iterable[Ask]:
        """Everything read so far, once each, in the order it came up."""
        return self._asks.values()


def _without_names(spec: PodSpec) -> PodSpec:
    """The spec without volumes that are no claims, which no rule is about.

    The API server gives every pod a volume with its credentials, under a name that no other pod's has.
    """
    claims = tuple(item for item in spec.volumes if item.persistent_volume_claim or item.ephemeral)
    return spec if len(claims) == len(spec.volumes) else msgspec.structs.replace(spec, volumes=claims)


def _ask(pod: Pod, spec: PodSpec) -> Ask:
    requests, ports = pod_requests(pod), host_ports(pod)
    rules = _ENCODER.encode(
        [
            pod.metadata.namespace,
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spec.topology_spread_constraints,
        ]
    )
    return Ask(
        fingerprint=_ENCODER.encode([rules, requests, ports, spec.volumes]),
        rules=rules,
        requests=requests,
        ports=ports,
        has_claims=bool(spec.volumes),
        relations=_relations(spec),
        label_keys=_label_keys(pod),
    )


def _relations(spec: PodSpec) -> int:
    affinity = spec.affinity
    parts = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    terms = sum(len(part.required) + len(part.preferred) for part in parts if part)
    return len(spec.topology_spread_constraints) + terms


def _label_keys(pod: Pod) -> tuple[str, ...]:
    spec = pod.spec
    keys = [key for item in spec.topology_spread_constraints for key in item.match_label_keys]
    affinity = spec.affinity
    for part in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ():
        terms = [*part.required, *(item.pod_affinity_term for item in part.preferred)] if part else []
        keys += [key for term in terms for key in (*term.match_label_keys, *term.mismatch_label_keys)]
    return tuple(sorted(set(keys)))


_LARGE = 1 << 63  # the encoding knows no larger integers


def _nanos(value: object) -> object:
    if isinstance(value, Quantity):
        return value.nanos if abs(value.nanos) < _LARGE else str(value.nanos)
    raise TypeError(f"cannot encode {type(value).__name__}")


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_nanos)
