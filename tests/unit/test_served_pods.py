"""Pods in a list of a server, of which replicas share what is read: the same comes of them as one by one."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dovetail.api.core import Pod
from dovetail.base.errors import InputError
from dovetail.reading import Reading, read

Document = dict[str, Any]


def pod(name: str = "web-1", token: str = "a1b2c", **spec: Any) -> Document:
    """A pod as its server has it."""
    meta = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "labels": {"app": "web"}}
    volume = f"kube-api-access-{token}"
    container = {
        "name": "main",
        "image": "web",
        "resources": {"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}},
        "volumeMounts": [{"name": volume, "mountPath": "/var/run/secrets"}],
    }
    credentials = {"name": volume, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [container], "volumes": [credentials], **spec},
        "status": {"phase": "Running", "startTime": None},
    }


def changed(change: Callable[[Document], Any], **spec: Any) -> Document:
    """A pod with something else about it."""
    made = copy.deepcopy(pod(**spec))
    change(made)
    return made


def volume(rest: Document) -> Document:
    """A pod with a volume that has such a name as that with credentials, and is another."""
    return changed(lambda one: one["spec"]["volumes"].append({"name": "kube-api-access-a1b2c", **rest}))


def affinity(key: str) -> Document:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": ["on-demand", "x"]}]}
    needed = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": needed}


MANAGED = [{"manager": "kubectl"}]
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
EPHEMERAL = {"ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"nodeName": "x"}}, "spec": {}}}}
PODS: dict[str, Document] = {
    "plain": pod(),
    "on a node": pod(nodeName="ip-10-0-0-1.ec2.internal"),
    "no credentials": changed(lambda one: one["spec"].pop("volumes")),
    "host network": changed(
        lambda one: one["spec"]["containers"][0].update(ports=[{"containerPort": 80}]), hostNetwork=True
    ),
    "selector of that name": pod(nodeSelector={"owner": "kube-api-access-a1b2c"}),
    "selector called nodeName": pod(nodeSelector={"nodeName": "x"}),
    "selector called nodeName, on a node": pod(nodeSelector={"nodeName": "x"}, nodeName="y"),
    "node of an empty name": pod(nodeName=""),
    "node of an odd name": pod(nodeName='a"b\\c'),
    "claim": volume({"persistentVolumeClaim": {"claimName": "kube-api-access-a1b2c"}}),
    "ephemeral": volume(EPHEMERAL),
    "ephemeral, on a node": changed(lambda one: one["spec"].update(volume(EPHEMERAL)["spec"], nodeName="n")),
    "empty dir": volume({"emptyDir": {}}),
    "another token": pod(token="zzzzzz9"),
    "no namespace": changed(lambda one: one["metadata"].pop("namespace")),
    "null labels": changed(lambda one: one["metadata"].update(labels=None, annotations=None)),
    "null in spec": pod(affinity=None, tolerations=None, priority=None),
    "no status": changed(lambda one: one.pop("status")),
    "null status": changed(lambda one: one.update(status=None)),
    "odd status": changed(lambda one: one.update(status={"phase": 3})),
    "unknown field": pod(newField=1),
    "unknown field beside spec": changed(lambda one: one.update(newField=1)),
    "unknown field in metadata": changed(lambda one: one["metadata"].update(newField=1)),
    "number for text": pod(schedulerName=3),
    "broken amount": changed(
        lambda one: one["spec"]["containers"][0]["resources"].update(requests={"cpu": "1Q"})
    ),
    "amount of a wrong type": changed(
        lambda one: one["spec"]["containers"][0]["resources"].update(requests={"cpu": ["1"]})
    ),
    "text for list": pod(tolerations="all"),
    "containers are text": changed(lambda one: one["spec"].update(containers="web")),
    "a container is text": changed(lambda one: one["spec"].update(containers=["web"])),
    "limits are text": changed(lambda one: one["spec"]["containers"][0].update(resources={"limits": "1"})),
    "ports are numbers": changed(
        lambda one: one["spec"]["containers"][0].update(ports=[80]), hostNetwork=True
    ),
    "no containers": changed(lambda one: one["spec"].pop("containers")),
    "no spec": changed(lambda one: one.pop("spec")),
    "empty spec": changed(lambda one: one.update(spec={})),
    "null spec": changed(lambda one: one.update(spec=None)),
    "spec is a list": changed(lambda one: one.update(spec=[1])),
    "no name": changed(lambda one: one["metadata"].pop("name")),
    "generated name": changed(lambda one: one["metadata"].update(name="", generateName="web-")),
    "metadata is text": changed(lambda one: one.update(metadata="x")),
    "no server": changed(lambda one: one["metadata"].pop("uid")),
    "no server, unknown field": changed(lambda one: one["metadata"].pop("uid"), newField=1),
    "managed only": changed(lambda one: one["metadata"].update(uid="", managedFields=MANAGED)),
    "managed": changed(lambda one: one["metadata"].update(managedFields=MANAGED)),
    **{
        f"metadata of {key}, {value!r:.30}": changed(
            lambda one, key=key, value=value: one["metadata"].update({key: value})  # type: ignore[misc]
        )
        for key, value in [
            ("namespace", None),
            ("namespace", ""),
            ("creationTimestamp", None),
            ("generation", 3),
            ("generation", "3"),
            ("generation", 3.5),
            ("generation", 1 << 63),
            ("deletionGracePeriodSeconds", 30),
            ("deletionGracePeriodSeconds", None),
            ("finalizers", ["a/b"]),
            ("finalizers", [3]),
            ("labels", {"app": 3}),
            ("labels", {}),
            ("selfLink", "/api"),
            ("managedFields", "x"),
            ("managedFields", None),
            ("ownerReferences", [OWNER]),
            ("ownerReferences", [{**OWNER, "controller": None}]),
            ("ownerReferences", [{**OWNER, "controller": "yes"}]),
            ("ownerReferences", [{**OWNER, "newField": 1}]),
            ("ownerReferences", [{"kind": "ReplicaSet", "name": "web"}]),
            ("ownerReferences", None),
        ]
    },
    "old annotation": changed(
        lambda one: one["metadata"].update(annotations={"karpenter.sh/do-not-evict": "true"})
    ),
    "annotation": changed(
        lambda one: one["metadata"].update(annotations={"karpenter.sh/do-not-disrupt": "true"})
    ),
    "old label asked for": pod(nodeSelector={"karpenter.sh/provisioner-name": "x"}),
    "old value asked for": pod(nodeSelector={"karpenter.sh/capacity-type": "ON_DEMAND"}),
    "label that is gone": pod(nodeSelector={"karpenter.k8s.aws/instance-pods": "8"}),
    "label asked for": pod(affinity=affinity("karpenter.sh/capacity-type")),
    "old label in affinity": pod(affinity=affinity("karpenter.sh/provisioner-name")),
    "other kind": changed(lambda one: one.update(kind="Pot")),
    "other group": changed(lambda one: one.update(apiVersion="pods.example.com/v1")),
    "other version": changed(lambda one: one.update(apiVersion="v2")),
    "letters beyond ASCII": changed(lambda one: one["metadata"].update(annotations={"by": "Jürgen 東"})),
}


def outcome(file: Path, text: str, *, strict: bool) -> Any:
    """All that a reading is, but for the names of volumes that nothing reads."""
    file.write_text(text, "utf-8")
    try:
        found = read([file], strict=strict)
    except InputError as error:
        return str(error)
    return found.notes, found.left_out, [_shown(found, index) for index in range(len(found.manifests))]


def _shown(found: Reading, index: int) -> Any:
    item = found.manifests[index]
    made = item.object
    if isinstance(made, Pod):
        volumes = tuple(
            replace(one, name="") if one == type(one)(name=one.name) else one for one in made.spec.volumes
        )
        made = replace(made, spec=replace(made.spec, volumes=volumes))
    place = item.line, item.located.column, item.located.place_of("spec.containers[0].name")
    return made, item.document, item.located.value, place, item.foreign, item.written, item.located.text()


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", PODS)
def test_a_pod_is_the_same_in_a_list_and_alone(tmp_path: Path, name: str, *, strict: bool) -> None:
    lines = [json.dumps(one, ensure_ascii=False) for one in (pod("first", "xyz12"), PODS[name])]
    of_a_list = '{"apiVersion": "v1", "kind": "List", "items": [\n' + ",\n".join(lines) + "\n]}\n"
    file = tmp_path / "pods.json"
    alone = outcome(file, "\n" + "\n".join(lines) + "\n", strict=strict)
    assert outcome(file, of_a_list, strict=strict) == alone


def test_items_of_a_pod_list_are_pods(tmp_path: Path) -> None:
    items = [{"metadata": pod()["metadata"], "spec": pod()["spec"]}, pod("other")]
    (tmp_path / "pods.json").write_text(json.dumps({"apiVersion": "v1", "kind": "PodList", "items": items}))
    (first, second) = read([tmp_path]).manifests
    assert [first.object.key, second.object.key] == ["shop/web-1", "shop/other"]
    assert (first.located.value["apiVersion"], first.located.value["kind"]) == ("v1", "Pod")
    assert first.document["kind"] == "Pod"


NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "n"}, "spec": {}, "status": {}}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "uid": "s"}, "data": {}}
LIST = {"kind": "List", "items": [pod("in")]}


@pytest.mark.parametrize("other", [NODE, SECRET, LIST, pod("twice"), 3, None])
def test_what_stands_among_pods_is_read_as_where_it_stands_before_them(tmp_path: Path, other: object) -> None:
    file = tmp_path / "pods.json"
    orders = [[other, pod("a"), pod("b", "22222")], [pod("a"), other, pod("b", "22222")]]
    texts = [json.dumps({"apiVersion": "v1", "kind": "List", "items": items}) for items in orders]
    first, among = (outcome(file, text, strict=False) for text in texts)
    if isinstance(first, str):
        assert among.partition("column")[0] == first.partition("column")[0]
        return
    assert (among[0], among[1]) == (first[0], first[1])
    shown = [sorted((one[0].key, one[1], one[-1]) for one in found[2]) for found in (first, among)]
    assert shown[0] == shown[1]


def test_replicas_share_their_spec(tmp_path: Path) -> None:
    on_nodes = [pod("three", nodeName="n1"), pod("four", nodeName="n2")]
    items = [pod("one", "11111"), pod("two", "22222"), *on_nodes]
    (tmp_path / "pods.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    one, two, three, four = (item.object for item in read([tmp_path]).manifests)
    assert isinstance(one, Pod)
    assert isinstance(two, Pod)
    assert one.spec is two.spec
    assert isinstance(three, Pod)
    assert isinstance(four, Pod)
    assert (three.spec.node_name, four.spec.node_name) == ("n1", "n2")
    assert three.spec.containers is four.spec.containers


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("lines", [True, False])
def test_places_are_known_in_whatever_order_they_are_asked_for(
    tmp_path: Path, indent: int | None, *, lines: bool
) -> None:
    """Among pods that take a closer look, and beside letters of several bytes."""
    other = {**pod("other"), "metadata": {"name": "o", "annotations": {"note": "ü"}}}
    lists = [
        {"apiVersion": "v1", "kind": "List", "items": [pod("a"), other, changed(_annotated), pod("b")]},
        {"apiVersion": "v1", "kind": "PodList", "items": [changed(_annotated, name="c"), pod("d")]},
    ]
    texts = [json.dumps(one, indent=indent, ensure_ascii=False) for one in lists]
    file = tmp_path / "pods.json"
    files = [file] if lines else [file, tmp_path / "more.json"]
    for path, text in zip(files, ["\n \n".join(texts)] if lines else texts, strict=True):
        path.write_text(text, encoding="utf-8")
    found = read(files).manifests
    assert len(found) == 6
    for item in (found[5], found[0], found[3], found[4], found[2], found[1]):
        rows = Path(item.source).read_text("utf-8").splitlines()
        begin = "\n".join([rows[item.line - 1][item.located.column - 1 :], *rows[item.line :]])
        value, _ = json.JSONDecoder().raw_decode(begin)
        assert value["metadata"]["name"] == item.object.metadata.name
        assert json.loads(item.located.text()) == value


def _annotated(one: Document) -> None:
    one["metadata"]["annotations"] = {"note": "für später"}
