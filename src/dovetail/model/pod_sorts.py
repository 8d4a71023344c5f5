"""What pods ask for, and which are alike: those that ask for the same and have the same labels are a sort."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from weakref import WeakValueDictionary

import msgspec

from dovetail.api.core import Pod, PodSpec
from dovetail.base.memo import MOST_PODS, by_identity
from dovetail.model.ports import HostPort, host_ports
from dovetail.model.resources import Resources, pod_requests
from dovetail.model.volumes import claims_alone
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
    """Reads specs. Copies of a pod cost a look at what matters of it, which is a fraction of reading it."""

    def __init__(self) -> None:
        self._asks: dict[bytes, Ask] = {}

    def read(self, pod: Pod) -> Ask:
        """What the pod asks for."""
        return self.known(sort_of(pod).ask)

    def known(self, ask: Ask) -> Ask:
        """The first one of all that are equal."""
        return self._asks.setdefault(ask.fingerprint, ask)

    def different(self) -> Collection[Ask]:
        """Everything read so far, once each, in the order it came up."""
        return self._asks.values()


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Sort:
    """What pods have in common that ask for the same and have the same labels."""

    ask: Ask


Copies = list[Pod]  # of one sort, the oldest first
_SORTS: WeakValueDictionary[tuple[object, ...], Sort] = WeakValueDictionary()


@by_identity(MOST_PODS)
def sort_of(pod: Pod) -> Sort:
    """The sort of a pod, found once: each question about a cluster has most pods of the one before it."""
    key = _glance(pod), *pod.metadata.labels.items()
    found = _SORTS.get(key)
    return found or _SORTS.setdefault(key, Sort(_ask(pod, claims_alone(pod.spec))))


def by_sort(pods: Iterable[Pod]) -> dict[Sort, Copies]:
    """The oldest first. Copies that share what they ask for and their labels need no look at these."""
    found: dict[Sort, Copies] = {}
    seen: dict[tuple[int, int, str], Copies] = {}
    for pod in sorted(pods, key=age_order):
        meta = pod.metadata
        key = id(pod.spec), id(meta.labels), meta.namespace
        if key not in seen:
            seen[key] = found.setdefault(sort_of(pod), [])
        seen[key].append(pod)
    return found


def _glance(pod: Pod) -> tuple[object, ...]:
    """Equal only for pods that ask for the same; names of containers and images are not part of it."""
    spec = pod.spec
    rules = b""
    if spec.affinity or spec.topology_spread_constraints or spec.tolerations or spec.node_selector:
        rules = _ENCODER.encode(
            (spec.node_selector, spec.affinity, spec.tolerations, spec.topology_spread_constraints)
        )
    whole = spec.resources.requests if spec.resources else {}
    if len(spec.containers) == 1 and not (spec.init_containers or spec.overhead or whole):
        claims = [item for item in spec.volumes if item.persistent_volume_claim or item.ephemeral]
        if not claims:
            only = spec.containers[0]
            requests = [(name, amount.nanos) for name, amount in only.resources.requests.items()]
            return (pod.metadata.namespace, rules, only.ports, *requests)
    return (pod.metadata.namespace, _ENCODER.encode(claims_alone(spec)))


def _ask(pod: Pod, spec: PodSpec) -> Ask:
    requests, ports = pod_requests(pod), host_ports(pod)
    asked = spec.node_selector, spec.affinity, spec.tolerations, spec.topology_spread_constraints
    rules = _ENCODER.encode([pod.metadata.namespace, *asked])
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


def age_order(pod: Pod) -> tuple[str, str, str]:
    """The oldest first."""
    return (pod.metadata.creation_timestamp, pod.metadata.uid, pod.key)
