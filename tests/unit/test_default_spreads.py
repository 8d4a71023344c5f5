"""Which spread constraints a pod without any gets from the scheduler: one row per rule."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Pod, TopologySpreadConstraint
from dovetail.api.services import ReplicationController, Service
from dovetail.api.workloads import ReplicaSet, StatefulSet
from dovetail.cluster.default_spreads import DefaultSpreads, Owner
from dovetail.model.selector import Selector
from dovetail.model.spread import spread_rules

ZONE = TopologySpreadConstraint(
    max_skew=2, topology_key="topology.kubernetes.io/zone", when_unsatisfiable="DoNotSchedule", min_domains=3
)
HOST = TopologySpreadConstraint(
    max_skew=1,
    topology_key="kubernetes.io/hostname",
    when_unsatisfiable="ScheduleAnyway",
    node_taints_policy="Honor",
)
LABELS = {"app": "web", "tier": "front", "pod-template-hash": "abc"}


def pod(owner: str = "", name: str = "w", *, controller: bool = True, **spec: Any) -> Pod:
    """A pod of `owner`, as "apps/v1 ReplicaSet"."""
    version, _, kind = owner.partition(" ")
    reference = {"apiVersion": version, "kind": kind, "name": name, "uid": "u", "controller": controller}
    meta = {"name": "p", "namespace": "shop", "labels": LABELS}
    if owner:
        meta["ownerReferences"] = [reference]
    return decode({"metadata": meta, "spec": spec}, Pod)


def service(selector: dict[str, str] | None, namespace: str = "shop", name: str = "s") -> Service:
    return decode(
        {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": selector}}, Service
    )


def owner(kind: type[Owner], selector: dict[str, Any], namespace: str = "shop") -> Owner:
    return decode({"metadata": {"name": "w", "namespace": namespace}, "spec": {"selector": selector}}, kind)


def selected(one: Pod, services: tuple[Service, ...] = (), owners: tuple[Owner, ...] = ()) -> str:
    """The selector of the only constraint in the text form, "none" without a constraint."""
    (found,) = DefaultSpreads((ZONE,), services, owners).given((one,))
    if found is one:
        return "none"
    (rule,) = spread_rules(found)
    assert rule.selects_self and rule.namespace == "shop"
    return ",".join(
        f"{item.key} {item.operator} {'|'.join(item.values)}" for item in rule.selector.expressions or ()
    )


WEB, FRONT = service({"app": "web"}), service({"tier": "front"}, name="t")
SET = owner(ReplicaSet, {"matchLabels": {"pod-template-hash": "abc"}})
EXPRESSION = {"key": "tier", "operator": "NotIn", "values": ["back"]}
STATEFUL = owner(StatefulSet, {"matchLabels": {"app": "web"}, "matchExpressions": [EXPRESSION]})
OLD = owner(ReplicationController, {"tier": "front"})
OF_A_SET = "apps/v1 ReplicaSet"


@pytest.mark.parametrize(
    ("one", "services", "owners", "selector"),
    [
        pytest.param(pod(), (), (), "none", id="a bare pod"),
        pytest.param(pod(), (WEB,), (), "app In web", id="a bare pod of a Service"),
        pytest.param(pod(), (WEB, FRONT), (), "app In web,tier In front", id="of two Services"),
        pytest.param(pod(), (service({"app": "db"}),), (), "none", id="a Service of others"),
        pytest.param(pod(), (service({"app": "web"}, "else"),), (), "none", id="a Service elsewhere"),
        pytest.param(pod(), (service(None), service({})), (), "none", id="Services that select nothing"),
        pytest.param(pod(OF_A_SET), (), (SET,), "pod-template-hash In abc", id="a ReplicaSet"),
        pytest.param(
            pod(OF_A_SET),
            (WEB,),
            (SET,),
            "app In web,pod-template-hash In abc",
            id="a ReplicaSet and a Service",
        ),
        pytest.param(
            pod("apps/v1 StatefulSet"), (), (STATEFUL,), "app In web,tier NotIn back", id="a StatefulSet"
        ),
        pytest.param(
            pod("v1 ReplicationController"),
            (WEB,),
            (OLD,),
            "app In web,tier In front",
            id="a controller of old",
        ),
        pytest.param(pod("batch/v1 Job"), (), (SET,), "none", id="a Job"),
        pytest.param(pod("apps/v1 DaemonSet"), (), (SET,), "none", id="a DaemonSet"),
        pytest.param(pod("batch/v1 Job"), (WEB,), (), "app In web", id="a Job behind a Service"),
        pytest.param(pod("x/v1 ReplicaSet"), (), (SET,), "none", id="a ReplicaSet of another group"),
        pytest.param(
            pod(OF_A_SET, controller=False), (), (SET,), "none", id="an owner that controls nothing"
        ),
        pytest.param(pod(OF_A_SET, "gone"), (WEB,), (SET,), "app In web", id="an owner that is gone"),
        pytest.param(
            pod(OF_A_SET),
            (),
            (owner(ReplicaSet, {"matchLabels": {"a": "b"}}, "else"),),
            "none",
            id="elsewhere",
        ),
    ],
)
def test_which_pods_count_is_deduced(
    one: Pod, services: tuple[Service, ...], owners: tuple[Owner, ...], selector: str
) -> None:
    assert selected(one, services, owners) == selector


def test_a_pod_with_a_constraint_of_its_own_gets_none() -> None:
    own = {"maxSkew": 5, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}
    one = pod(topologySpreadConstraints=[own])
    assert DefaultSpreads((ZONE,), (WEB,)).given((one,)) == (one,)


def test_constraints_come_as_they_are_configured_and_in_their_order() -> None:
    (found,) = DefaultSpreads((ZONE, HOST), (WEB,)).given((pod(),))
    zone, host = spread_rules(found)
    assert (zone.key, zone.max_skew, zone.hard, zone.min_domains) == (ZONE.topology_key, 2, True, 3)
    assert (host.key, host.max_skew, host.hard, host.honor_taints) == (HOST.topology_key, 1, False, True)
    assert zone.selector == host.selector == Selector.parse("app=web")


def test_nothing_is_changed_without_constraints_and_nothing_in_what_was_given() -> None:
    pods = (pod(), pod(OF_A_SET))
    assert DefaultSpreads((), (WEB,), (SET,)).given(pods) is pods
    DefaultSpreads((ZONE,), (WEB,), (SET,)).given(pods)
    assert not any(one.spec.topology_spread_constraints for one in pods)
