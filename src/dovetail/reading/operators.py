"""What the operators of well-known kinds make of their objects, where it can be known from these alone.

What an operator adds by itself (sidecars, a reloader) is in none of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dovetail.reading.podgroups import (
    Document,
    PodGroup,
    count_of,
    is_pod_template,
    is_quantity,
    made_up,
    pod_groups,
)
from dovetail.units.quantity import parse_quantity

_MI = 1 << 20
_MOST_JOBS = 256  # of a part of a JobSet that are told apart
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)i?b?", re.IGNORECASE)
_POWERS = {"": 2, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}  # Spark takes a bare number for MiB


# Objects that say something of others.
_TELL = (
    "Deployment",
    "Kafka",
    "KafkaNodePool",
    "VirtualMachineInstancetype",
    "VirtualMachineClusterInstancetype",
)


def tells_more(document: Any) -> bool:
    """True iff what operators make of other objects may depend on this one."""
    return isinstance(document, dict) and document.get("kind") in _TELL


@dataclass(frozen=True, slots=True)
class Subject:
    """An object, and those beside it that say something of it."""

    document: Document
    beside: Sequence[Document] = ()

    @property
    def spec(self) -> Document:
        return _map(self.document.get("spec"))

    @property
    def name(self) -> str:
        return str(_map(self.document.get("metadata")).get("name") or "")

    @property
    def space(self) -> str:
        return str(_map(self.document.get("metadata")).get("namespace") or "default")

    def others(self, *kinds: str) -> Iterator[Subject]:
        """Objects of these kinds, of no namespace or of its own."""
        for one in self.beside:
            if one.get("kind") in kinds:
                other = Subject(one)
                if one["kind"].startswith("VirtualMachineCluster") or other.space == self.space:
                    yield other


def groups_of(subject: Subject) -> list[PodGroup] | None:
    """The pods of an object whose kind has rules of its own; None of any other, or where they are unknown."""
    document = subject.document
    group = str(document.get("apiVersion")).partition("/")[0]
    rule = _RULES.get((group, str(document.get("kind"))))
    if rule is None:
        return None
    try:
        return list(rule(subject))
    except _UnknownError:
        return None


class _UnknownError(Exception):
    """The object alone does not say it."""


def _map(value: Any) -> Document:
    return value if isinstance(value, dict) else {}


def _whole(value: Any, otherwise: int) -> int:
    return value if type(value) is int and value >= 0 else otherwise


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise _UnknownError from None


# Spark


def _spark(subject: Subject) -> Iterator[PodGroup]:
    scheduled = subject.document.get("kind") == "ScheduledSparkApplication"
    spec = _map(subject.spec.get("template")) if scheduled else subject.spec
    path = "spec.template" if scheduled else "spec"
    conf = _map(spec.get("sparkConf"))
    factor = next(
        (
            _number(found)
            for found in (spec.get("memoryOverheadFactor"), conf.get("spark.kubernetes.memoryOverheadFactor"))
            if found is not None
        ),
        0.4 if spec.get("type") in ("Python", "R") else 0.1,
    )
    for role in ("driver", "executor"):
        own = _map(spec.get(role))
        copies = 1 if role == "driver" else _executors(spec, own, conf)
        container = {"name": f"spark-{role}", "resources": _of_spark(role, own, conf, factor)}
        labels = {
            **{key: str(value) for key, value in _map(own.get("labels")).items()},
            "spark-role": role,
            "sparkoperator.k8s.io/app-name": subject.name,
        }
        given = _map(_map(own.get("template")).get("spec"))
        selector = {**_map(spec.get("nodeSelector")), **_map(own.get("nodeSelector"))}
        sidecars = [one for one in own.get("sidecars") or () if isinstance(one, dict)]
        yield made_up(
            f"{path}.{role}",
            role,
            [container, *({**one, "name": f"sidecar-{index}"} for index, one in enumerate(sidecars))],
            copies,
            given,
            own,
            {"nodeSelector": selector},
            labels=labels,
        )


def _executors(spec: Document, own: Document, conf: Document) -> int:
    count = _whole(own.get("instances"), int(_number(conf.get("spark.executor.instances", 2))))
    dynamic = _map(spec.get("dynamicAllocation"))
    if dynamic.get("enabled") is not True:
        return count
    asked = [own.get("instances"), dynamic.get("initialExecutors"), dynamic.get("minExecutors")]
    return max((_whole(number, 0) for number in asked), default=0)


def _of_spark(role: str, own: Document, conf: Document, factor: float) -> Document:
    memory = _size(own.get("memory") or conf.get(f"spark.{role}.memory") or "1g")
    over = own.get("memoryOverhead") or conf.get(f"spark.{role}.memoryOverhead")
    memory += _size(over) if over else max(int(memory * factor), 384 * _MI)
    cores = conf.get(f"spark.kubernetes.{role}.request.cores") or own.get("cores") or 1
    cpu = own.get("coreRequest") or cores
    if not is_quantity(cpu):
        raise _UnknownError
    requests: Document = {"cpu": cpu, "memory": str(memory)}
    limits: Document = {"memory": str(memory)}
    if is_quantity(own.get("coreLimit")):
        limits["cpu"] = own["coreLimit"]
    gpu = _map(own.get("gpu"))
    if gpu:
        limits[str(gpu.get("name"))] = _whole(gpu.get("quantity"), 1)
    return {"requests": requests, "limits": limits}


def _size(text: Any) -> int:
    """Bytes of a size as the JVM and Spark write it, such as 512m or 4g."""
    found = _SIZE.fullmatch(str(text).strip())
    if found is None:
        raise _UnknownError
    return int(float(found[1]) * 1024 ** _POWERS[found[2].lower()])


# KubeVirt

# Where a machine may run: on nodes that KubeVirt found to have KVM, or on types without a hypervisor of AWS.
_WITH_KVM: list[Document] = [
    {"key": "karpenter.k8s.aws/instance-hypervisor", "operator": "NotIn", "values": ["nitro", "xen"]},
    {"key": "kubevirt.io/schedulable", "operator": "In", "values": ["true"]},
]
# What virt-launcher and its processes take beside the guest (GetMemoryOverhead of KubeVirt 1.6).
_LAUNCHER = (25 + 100 + 25 + 40 + 30 + 8) * _MI
_OF_A_CPU = 8 * _MI
_VIDEO = 32 * _MI
_OF_ARM = 128 * _MI
_GUEST_PAGES = 512  # bytes of a guest for one of its page table
_CPUS_OF_ONE = 10  # virtual CPUs that share one, unless the cluster's KubeVirt says otherwise


def _machines(subject: Subject) -> Iterator[PodGroup]:
    spec, kind = subject.spec, subject.document.get("kind")
    path, copies, machine = "spec", 1, spec
    match kind:
        case "VirtualMachine":
            strategy = spec.get("runStrategy")
            copies = int(spec.get("running") is True or strategy in ("Always", "RerunOnFailure", "Once"))
            path, machine = "spec.template.spec", _map(_map(spec.get("template")).get("spec"))
        case "VirtualMachineInstanceReplicaSet":
            copies = _whole(spec.get("replicas"), 1)
            path, machine = "spec.template.spec", _map(_map(spec.get("template")).get("spec"))
        case "VirtualMachinePool":
            copies = _whole(spec.get("replicas"), 1)
            path = "spec.virtualMachineTemplate.spec.template.spec"
            spec = _map(_map(spec.get("virtualMachineTemplate")).get("spec"))
            machine = _map(_map(spec.get("template")).get("spec"))
    labels = {"kubevirt.io": "virt-launcher", "vm.kubevirt.io/name": subject.name}
    meta = _map(_map(spec.get("template")).get("metadata")).get("labels")
    labels = {**{key: str(value) for key, value in _map(meta).items()}, **labels}
    container = {"name": "compute", "resources": _of_machine(machine, _instance_type(subject, spec))}
    made = made_up(path, "", [container], copies, machine, labels=labels)
    affinity = made.template["spec"].setdefault("affinity", {})
    rule = affinity["nodeAffinity"] = dict(_map(affinity.get("nodeAffinity")))
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = _map(rule.get(key)).get("nodeSelectorTerms") or [{}]
    rule[key] = {
        "nodeSelectorTerms": [
            {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), kvm]}
            for term in terms
            for kvm in _WITH_KVM
        ]
    }
    volumes = [
        {"name": f"volume-{index}", "persistentVolumeClaim": {"claimName": name}}
        for index, one in enumerate(machine.get("volumes") or ())
        if (name := _map(_map(one).get("persistentVolumeClaim")).get("claimName"))
    ]
    if volumes:
        made.template["spec"]["volumes"] = volumes
    yield made


def _instance_type(subject: Subject, spec: Document) -> Document:
    """The instance type that a machine names, which lies beside it; {} where it names none."""
    named = _map(spec.get("instancetype"))
    if not named:
        return {}
    kinds = {"virtualmachineinstancetype": "VirtualMachineInstancetype"}
    kind = kinds.get(str(named.get("kind", "")).lower(), "VirtualMachineClusterInstancetype")
    for other in subject.others(kind):
        if other.name == named.get("name"):
            return other.spec
    raise _UnknownError


def _of_machine(machine: Document, kind: Document) -> Document:
    domain = _map(machine.get("domain"))
    cpu, resources = _map(domain.get("cpu")), _map(domain.get("resources"))
    requests, limits = (_map(resources.get(key)) for key in ("requests", "limits"))
    cpus = _whole(_map(kind.get("cpu")).get("guest"), 0)
    if not cpus:
        cpus = _whole(cpu.get("cores"), 1) * _whole(cpu.get("sockets"), 1) * _whole(cpu.get("threads"), 1)
        asked: Any = limits.get("cpu") or requests.get("cpu")
        if not cpu and is_quantity(asked):
            cpus = parse_quantity(asked).value()
    guest = next(
        (
            parse_quantity(found).value()
            for found in (
                requests.get("memory"),
                _map(kind.get("memory")).get("guest"),
                _map(domain.get("memory")).get("guest"),
                limits.get("memory"),
            )
            if found is not None and is_quantity(found)
        ),
        None,
    )
    if guest is None:
        raise _UnknownError
    over = _LAUNCHER + guest // _GUEST_PAGES + cpus * _OF_A_CPU
    over += _VIDEO if _map(domain.get("devices")).get("autoattachGraphicsDevice") is not False else 0
    over += _OF_ARM if machine.get("architecture") == "arm64" else 0
    page = _map(_map(domain.get("memory")).get("hugepages")).get("pageSize")
    asked_cpu = requests.get("cpu") or limits.get("cpu") or f"{-(-cpus * 1000 // _CPUS_OF_ONE)}m"
    found: Document = {"cpu": asked_cpu, "memory": str(over if page else guest + over)}
    most: Document = {}
    if cpu.get("dedicatedCpuPlacement") is True or _map(kind.get("cpu")).get("dedicatedCPUPlacement") is True:
        found["cpu"] = most["cpu"] = cpus + (cpu.get("isolateEmulatorThread") is True)
    if page:
        most[f"hugepages-{page}"] = str(guest)
    for key in ("gpus", "hostDevices"):
        for device in _map(domain.get("devices")).get(key) or ():
            name = str(_map(device).get("deviceName"))
            most[name] = most.get(name, 0) + 1
    return {"requests": {**found, **{k: v for k, v in most.items() if k != "cpu"}}, "limits": most}


# Strimzi


def _kafka(subject: Subject) -> Iterator[PodGroup]:
    spec, name = subject.spec, subject.name
    pools = any(_cluster_of(pool) == name for pool in subject.others("KafkaNodePool"))
    for part in ("kafka", "zookeeper"):
        own = _map(spec.get(part))
        copies = 0 if pools else _whole(own.get("replicas"), 0)
        if copies:
            yield _of_strimzi(f"spec.{part}", part, [own], copies, name, "Kafka", own)
    entities = _map(spec.get("entityOperator"))
    parts = [_map(entities[key]) for key in ("topicOperator", "userOperator") if key in entities]
    if parts:
        yield _of_strimzi("spec.entityOperator", "entity-operator", parts, 1, name, "Kafka", entities)
    for key, called in (("cruiseControl", "cruise-control"), ("kafkaExporter", "kafka-exporter")):
        if isinstance(spec.get(key), dict):
            yield _of_strimzi(f"spec.{key}", called, [spec[key]], 1, name, "Kafka", spec[key])


def _kafka_pool(subject: Subject) -> Iterator[PodGroup]:
    spec, cluster = subject.spec, _cluster_of(subject)
    kafka = next((one for one in subject.others("Kafka") if one.name == cluster), Subject({}))
    shared = _map(kafka.spec.get("kafka"))
    own = {"resources": spec.get("resources") or shared.get("resources")}
    template = spec if spec.get("template") else {**spec, "template": shared.get("template")}
    labels = {"strimzi.io/pool-name": subject.name}
    yield _of_strimzi("spec", "", [own], _whole(spec.get("replicas"), 0), cluster, "Kafka", template, labels)


def _of_connect(subject: Subject) -> Iterator[PodGroup]:
    spec, kind = subject.spec, str(subject.document.get("kind"))
    copies = _whole(spec.get("replicas"), 1 if kind == "KafkaBridge" else 3)
    yield _of_strimzi("spec", "", [spec], copies, subject.name, kind, spec)


def _of_strimzi(
    path: str,
    part: str,
    containers: Sequence[Document],
    copies: int,
    cluster: str,
    kind: str,
    source: Document,
    more: Mapping[str, str] | None = None,
) -> PodGroup:
    labels = {"strimzi.io/cluster": cluster, "strimzi.io/kind": kind, **(more or {})}
    labels["strimzi.io/name"] = f"{cluster}-{part or 'kafka'}"
    pod = _map(_map(source.get("template")).get("pod"))
    made = [{"resources": _map(one.get("resources"))} for one in containers]
    return made_up(path, part, made, copies, pod, labels=labels)


def _cluster_of(subject: Subject) -> str:
    labels = _map(_map(subject.document.get("metadata")).get("labels"))
    return str(labels.get("strimzi.io/cluster") or "")


# Elastic's operator: (the container that a template may change, what it asks for unless it is told)

_ELASTIC: dict[str, tuple[str, Document]] = {
    "Elasticsearch": ("elasticsearch", {"memory": "2Gi"}),
    "Kibana": ("kibana", {"memory": "1Gi"}),
    "ApmServer": ("apm-server", {"memory": "512Mi"}),
    "EnterpriseSearch": ("enterprise-search", {"memory": "4Gi"}),
    "ElasticMapsServer": ("maps", {"memory": "200Mi"}),
    "Logstash": ("logstash", {"memory": "2Gi", "cpu": "1"}),
    "Beat": ("", {"memory": "300Mi", "cpu": "100m"}),
    "Agent": ("agent", {"memory": "350Mi", "cpu": "200m"}),
}


def _elastic(subject: Subject) -> Iterator[PodGroup]:
    spec, kind = subject.spec, str(subject.document["kind"])
    container, requests = _ELASTIC[kind]
    container = container or str(spec.get("type") or "beat")
    parts: list[tuple[str, str, Document, bool]] = [("spec", "", spec, False)]
    if kind == "Elasticsearch":
        sets = spec.get("nodeSets")
        parts = [
            (f"spec.nodeSets[{index}]", str(one.get("name", index)), one, False)
            for index, one in enumerate(sets if isinstance(sets, list) else ())
            if isinstance(one, dict)
        ]
    elif kind in ("Beat", "Agent"):
        keys = ("daemonSet", "deployment", "statefulSet")
        parts = [
            (f"spec.{key}", "", spec[key] or {}, key == "daemonSet")
            for key in keys
            if key in spec and isinstance(spec[key], dict | None)
        ]
    for path, name, part, per_node in parts:
        count = count_of(part)
        template = _map(part.get("podTemplate"))
        pod = dict(_map(template.get("spec")))
        containers = [dict(one) for one in pod.get("containers") or () if isinstance(one, dict)]
        main = next((one for one in containers if one.get("name") == container), None)
        if main is None:
            main = {"name": container}
            containers.insert(0, main)
        if not main.get("resources"):
            main["resources"] = {"requests": requests, "limits": {"memory": requests["memory"]}}
        pod["containers"] = [{"image": "unknown", **one} for one in containers]
        labels = {
            **_map(_map(template.get("metadata")).get("labels")),
            "common.k8s.elastic.co/type": kind.lower(),
            f"{kind.lower()}.k8s.elastic.co/cluster-name": subject.name,
        }
        made = {"metadata": {**_map(template.get("metadata")), "labels": labels}, "spec": pod}
        yield PodGroup(path, name, made, 1 if count is None else count, per_node, part)


# Jobs and workers in sets


def _job_set(subject: Subject) -> Iterator[PodGroup]:
    """Each Job of a part is one of its own, by whose labels its pods find and avoid each other."""
    suspended = subject.spec.get("suspend") is True
    meta = _map(subject.document.get("metadata"))
    jobs = subject.spec.get("replicatedJobs")
    for index, job in enumerate(jobs if isinstance(jobs, list) else ()):
        job = _map(job)
        name, copies = str(job.get("name", index)), _whole(job.get("replicas"), 1)
        template = _map(job.get("template"))
        topology = next(
            (
                found
                for one in (_map(template.get("metadata")), meta)
                if (found := _map(one.get("annotations")).get("alpha.jobset.sigs.k8s.io/exclusive-topology"))
            ),
            "",
        )
        path = f"spec.replicatedJobs[{index}].template.spec"
        for group in pod_groups(template.get("spec"), path, name):
            if suspended or copies > _MOST_JOBS:
                labels = _of_job(subject.name, name, None)
                yield _labelled(replace(group, replicas=0 if suspended else group.replicas * copies), labels)
                continue
            for number in range(copies):
                labels = _of_job(subject.name, name, number)
                made = _labelled(replace(group, name=f"{name}-{number}"), labels)
                yield _alone(made, topology, labels) if topology else made


def _of_job(job_set: str, part: str, number: int | None) -> dict[str, str]:
    prefix = "jobset.sigs.k8s.io"
    labels = {f"{prefix}/jobset-name": job_set, f"{prefix}/replicatedjob-name": part}
    labels[f"{prefix}/restart-attempt"] = "0"
    if number is not None:
        job = f"{job_set}-{part}-{number}"
        labels |= {f"{prefix}/job-index": str(number), f"{prefix}/job-key": job}
        labels |= {"job-name": job, "batch.kubernetes.io/job-name": job}
    return labels


def _alone(group: PodGroup, topology: str, labels: Mapping[str, str]) -> PodGroup:
    """With the affinity by which each Job has a domain of its own."""
    key = "jobset.sigs.k8s.io/job-key"
    own = [{"key": key, "operator": "In", "values": [labels[key]]}]
    other = [{"key": key, "operator": "Exists"}, {**own[0], "operator": "NotIn"}]
    spec = dict(group.template["spec"])
    affinity = dict(_map(spec.get("affinity")))
    for name, wanted in (("podAffinity", own), ("podAntiAffinity", other)):
        rule = dict(_map(affinity.get(name)))
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        term = {
            "labelSelector": {"matchExpressions": wanted},
            "topologyKey": topology,
            "namespaceSelector": {},
        }
        affinity[name] = {**rule, required: [*(rule.get(required) or ()), term]}
    return replace(group, template={**group.template, "spec": {**spec, "affinity": affinity}})


def _labelled(group: PodGroup, labels: Mapping[str, str]) -> PodGroup:
    meta = _map(group.template.get("metadata"))
    template = {**group.template, "metadata": {**meta, "labels": {**_map(meta.get("labels")), **labels}}}
    return replace(group, template=template)


def _leaders(subject: Subject) -> Iterator[PodGroup]:
    part = _map(subject.spec.get("leaderWorkerTemplate"))
    copies, size = _whole(subject.spec.get("replicas"), 1), max(_whole(part.get("size"), 1), 1)
    worker, leader = _map(part.get("workerTemplate")), _map(part.get("leaderTemplate"))
    labels = {"leaderworkerset.sigs.k8s.io/name": subject.name}
    path = "spec.leaderWorkerTemplate"
    if is_pod_template(leader):
        yield _labelled(PodGroup(f"{path}.leaderTemplate", "leader", leader, copies), labels)
        size -= 1
    if is_pod_template(worker) and size:
        yield _labelled(PodGroup(f"{path}.workerTemplate", "worker", worker, copies * size), labels)


# Others


def _rollout(subject: Subject) -> Iterator[PodGroup]:
    """Argo's: with a template of its own, or with that of a Deployment that it refers to."""
    named = _map(subject.spec.get("workloadRef"))
    copies = _whole(subject.spec.get("replicas"), 1)
    if not named:
        yield from pod_groups(subject.spec)
        return
    other = next((one for one in subject.others("Deployment") if one.name == named.get("name")), None)
    template = _map(other.spec.get("template")) if other is not None else {}
    if not is_pod_template(template):
        raise _UnknownError
    yield PodGroup("spec", "", template, copies)


def _nothing(_: Subject) -> Iterator[PodGroup]:
    """What stands for pods that another object makes: Kueue's Workload is its Job over again."""
    yield from ()


def _inference(subject: Subject) -> Iterator[PodGroup]:
    """KServe's: containers, or a model with the resources of its server."""
    for part in ("predictor", "transformer", "explainer"):
        own = _map(subject.spec.get(part))
        count = count_of(own)
        copies = 1 if count is None else count
        if is_pod_template({"spec": own}):
            pod = {key: value for key, value in own.items() if key in _POD_KEYS}
            yield PodGroup(f"spec.{part}", part, {"spec": pod}, copies, owner=own)
            continue
        model = next(
            (one for one in own.values() if isinstance(one, dict) and "resources" in one),
            None,
        )
        if model is not None:
            yield made_up(f"spec.{part}", part, [{"resources": model["resources"]}], copies, own)
        elif own:
            raise _UnknownError


_POD_KEYS = (
    *("containers", "initContainers", "nodeSelector", "tolerations", "affinity", "volumes"),
    *("topologySpreadConstraints", "priorityClassName", "runtimeClassName"),
)


def _collector(subject: Subject) -> Iterator[PodGroup]:
    mode, spec = subject.spec.get("mode"), subject.spec
    copies = 0 if mode == "sidecar" else _whole(spec.get("replicas"), 1)
    made = made_up("spec", "", [{"resources": _map(spec.get("resources"))}], copies, spec)
    yield replace(made, per_node=mode == "daemonset")


def _plain(
    container: Document | None, labels: Callable[[str], dict[str, str]] = lambda _: {}
) -> Callable[[Subject], Iterator[PodGroup]]:
    """One pod unless it is told otherwise; without `container` its resources have to be told."""

    def rule(subject: Subject) -> Iterator[PodGroup]:
        spec = subject.spec
        resources = _map(spec.get("resources")) or container
        if resources is None:
            raise _UnknownError
        count = count_of(spec)
        if count is None:
            count = 1
        named = labels(subject.name)
        yield made_up("spec", "", [{"resources": resources}], count, spec, labels=named)

    return rule


def _of_prometheus(kind: str) -> Callable[[str], dict[str, str]]:
    return lambda name: {
        "app.kubernetes.io/name": kind,
        "app.kubernetes.io/instance": name,
        kind: name,
    }


_RULES: dict[tuple[str, str], Callable[[Subject], Iterator[PodGroup]]] = {
    ("sparkoperator.k8s.io", "SparkApplication"): _spark,
    ("sparkoperator.k8s.io", "ScheduledSparkApplication"): _spark,
    ("kubevirt.io", "VirtualMachine"): _machines,
    ("kubevirt.io", "VirtualMachineInstance"): _machines,
    ("kubevirt.io", "VirtualMachineInstanceReplicaSet"): _machines,
    ("pool.kubevirt.io", "VirtualMachinePool"): _machines,
    ("kafka.strimzi.io", "Kafka"): _kafka,
    ("kafka.strimzi.io", "KafkaNodePool"): _kafka_pool,
    ("kafka.strimzi.io", "KafkaConnect"): _of_connect,
    ("kafka.strimzi.io", "KafkaMirrorMaker2"): _of_connect,
    ("kafka.strimzi.io", "KafkaBridge"): _of_connect,
    ("elasticsearch.k8s.elastic.co", "Elasticsearch"): _elastic,
    ("kibana.k8s.elastic.co", "Kibana"): _elastic,
    ("apm.k8s.elastic.co", "ApmServer"): _elastic,
    ("enterprisesearch.k8s.elastic.co", "EnterpriseSearch"): _elastic,
    ("maps.k8s.elastic.co", "ElasticMapsServer"): _elastic,
    ("logstash.k8s.elastic.co", "Logstash"): _elastic,
    ("beat.k8s.elastic.co", "Beat"): _elastic,
    ("agent.k8s.elastic.co", "Agent"): _elastic,
    ("argoproj.io", "Rollout"): _rollout,
    ("kueue.x-k8s.io", "Workload"): _nothing,
    ("jobset.x-k8s.io", "JobSet"): _job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leaders,
    ("serving.kserve.io", "InferenceService"): _inference,
    ("opentelemetry.io", "OpenTelemetryCollector"): _collector,
    ("monitoring.coreos.com", "Prometheus"): _plain(None, _of_prometheus("prometheus")),
    ("monitoring.coreos.com", "PrometheusAgent"): _plain(None, _of_prometheus("prometheus-agent")),
    ("monitoring.coreos.com", "Alertmanager"): _plain(None, _of_prometheus("alertmanager")),
    ("monitoring.coreos.com", "ThanosRuler"): _plain(None, _of_prometheus("thanos-ruler")),
    ("rabbitmq.com", "RabbitmqCluster"): _plain({"requests": {"cpu": "1", "memory": "2Gi"}}),
    ("acid.zalan.do", "postgresql"): _plain({"requests": {"cpu": "100m", "memory": "100Mi"}}),
    ("postgresql.cnpg.io", "Cluster"): _plain({}, lambda name: {"cnpg.io/cluster": name}),
}
