"""What v1beta1 NodePools, NodeClaims and EC2NodeClasses may hold, in the releases that served them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from dovetail.api.generations import beta_rules as rules
from dovetail.api.karpenter import common_rules, nodepool_schema, selector_rules
from dovetail.api.karpenter import ec2nodeclass_rules as class_rules
from dovetail.api.karpenter import ec2nodeclass_schema as v1_class
from dovetail.api.karpenter.common_schema import (
    BOOLEAN,
    INTEGER,
    LABEL_VALUE,
    QUANTITY,
    REQUIREMENT,
    RESOURCES,
    STRING,
    STRINGS,
    TAINTS,
    document,
)
from dovetail.api.rules import Rule
from dovetail.api.schema import Schema

NODE_POOL = ("karpenter.sh/v1beta1", "NodePool")
NODE_CLAIM = ("karpenter.sh/v1beta1", "NodeClaim")
EC2_NODE_CLASS = ("karpenter.k8s.aws/v1beta1", "EC2NodeClass")


@dataclass(frozen=True, slots=True)
class Release:
    """What a release of the original served as v1beta1."""

    name: str
    budgets: bool = True  # and minValues, instanceStorePolicy, AL2023: all came after 0.32
    requirements: int = 100
    sizes_as_numbers: bool = False  # volumeSize: 100 is admitted
    hop_limit: int = 2  # of instances whose class has no metadataOptions


V0_32 = Release("0.32", budgets=False, requirements=30, sizes_as_numbers=True)
V0_35 = Release("0.35", requirements=30, sizes_as_numbers=True)
V0_37 = Release("0.37")
V1_0 = Release("1.0", hop_limit=1)
# What manifests of that generation were written for: 1.0 only served it on the way to v1.
WRITTEN_FOR = V0_37


@lru_cache(maxsize=8)
def schemas(release: Release) -> dict[tuple[str, str], Schema]:
    """By apiVersion and kind."""
    return {
        NODE_POOL: _node_pool(release),
        NODE_CLAIM: _node_claim(release),
        EC2_NODE_CLASS: _node_class(release),
    }


_DURATION_OR_NEVER = Schema(
    type="string",
    # As the original wrote it: what begins with a duration, or ends with Never, passes.
    pattern=r"^(([0-9]+(s|m|h))+)|(Never)$",
    hint="a duration of h, m and s such as 30m or 1h30m, or Never",
)
_PERCENT = Schema(type="integer", minimum=0, maximum=100)
_NATURAL = Schema(type="integer", minimum=0)
_THRESHOLD = Schema(
    type="string",
    pattern=(
        r"^((\d{1,2}(\.\d{1,2})?|100(\.0{1,2})?)%||(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
        r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?)$"
    ),
    hint="a quantity such as 100Mi or a share such as 5%",
)


def _map(field: str, values: Schema, *checks: Rule) -> Schema:
    return Schema(type="object", values=values, rules=(rules.valid_keys(field), *checks))


KUBELET = Schema(
    type="object",
    rules=rules.KUBELET,
    properties={
        "clusterDNS": Schema(type="array", items=STRING),
        "cpuCFSQuota": BOOLEAN,
        "evictionHard": _map("evictionHard", _THRESHOLD),
        "evictionMaxPodGracePeriod": INTEGER,
        "evictionSoft": _map("evictionSoft", _THRESHOLD),
        "evictionSoftGracePeriod": _map("evictionSoftGracePeriod", STRING),
        "imageGCHighThresholdPercent": _PERCENT,
        "imageGCLowThresholdPercent": _PERCENT,
        "kubeReserved": _map("kubeReserved", QUANTITY, rules.not_negative("kubeReserved")),
        "maxPods": _NATURAL,
        "podsPerCore": _NATURAL,
        "systemReserved": _map("systemReserved", QUANTITY, rules.not_negative("systemReserved")),
    },
)


def _requirements(release: Release, key_rules: tuple[Rule, ...]) -> Schema:
    operators = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
    fields = {
        **REQUIREMENT.properties,
        "key": replace(REQUIREMENT.properties["key"], rules=key_rules),
        "operator": Schema(type="string", enum=operators),
    }
    checks: tuple[Rule, ...] = (common_rules.in_has_values, rules.bounds_have_one_integer)
    if release.budgets:
        checks = (*checks, common_rules.in_has_min_values)
    else:
        fields.pop("minValues")
    item = replace(REQUIREMENT, properties=fields)
    return Schema(type="array", items=item, max_items=release.requirements, rules=checks)


def _claim_fields(requirements: Schema) -> dict[str, Schema]:
    reference = Schema(
        type="object", required=("name",), properties={"apiVersion": STRING, "kind": STRING, "name": STRING}
    )
    return {
        "kubelet": KUBELET,
        "nodeClassRef": reference,
        "requirements": requirements,
        "resources": Schema(type="object", properties={"requests": RESOURCES}),
        "startupTaints": TAINTS,
        "taints": TAINTS,
    }


def _node_claim(release: Release) -> Schema:
    spec = Schema(
        type="object",
        required=("nodeClassRef", "requirements"),
        properties=_claim_fields(_requirements(release, rules.KEY_RULES)),
    )
    return document(spec, required=release.budgets)


def _node_pool(release: Release) -> Schema:
    budget = nodepool_schema.DISRUPTION.properties["budgets"]
    assert budget.items is not None
    fields = {key: child for key, child in budget.items.properties.items() if key != "reasons"}
    disruption = {
        "consolidateAfter": _DURATION_OR_NEVER,
        "consolidationPolicy": Schema(
            type="string", default="WhenUnderutilized", enum=("WhenEmpty", "WhenUnderutilized")
        ),
        "expireAfter": replace(_DURATION_OR_NEVER, default="720h"),
    }
    if release.budgets:
        disruption["budgets"] = replace(budget, items=replace(budget.items, properties=fields))
    labels = Schema(type="object", values=LABEL_VALUE, max_properties=100, rules=rules.LABEL_RULES)
    template_fields = _claim_fields(_requirements(release, rules.POOL_KEY_RULES))
    template = Schema(
        type="object",
        required=("spec",),
        properties={
            "metadata": Schema(type="object", properties={"annotations": STRINGS, "labels": labels}),
            "spec": Schema(
                type="object", required=("nodeClassRef", "requirements"), properties=template_fields
            ),
        },
    )
    spec = Schema(
        type="object",
        required=("template",),
        properties={
            "disruption": Schema(
                type="object",
                default={"consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h"},
                properties=disruption,
                rules=(rules.no_wait_when_underutilized, rules.wait_when_empty),
            ),
            "limits": RESOURCES,
            "template": template,
            "weight": Schema(type="integer", minimum=1, maximum=100),
        },
    )
    return document(spec, required=release.budgets)


_FAMILIES = ("AL2", "AL2023", "Bottlerocket", "Ubuntu", "Custom", "Windows2019", "Windows2022")


def _terms(of: str, *checks: Rule, leave: tuple[str, ...] = ()) -> Schema:
    terms = v1_class.SCHEMA.properties["spec"].properties[of]
    assert terms.items is not None
    fields = {key: child for key, child in terms.items.properties.items() if key not in leave}
    return replace(terms, items=replace(terms.items, properties=fields), rules=checks, min_items=None)


def _node_class(release: Release) -> Schema:
    v1 = v1_class.SCHEMA.properties["spec"].properties
    tags: tuple[Rule, ...] = (
        class_rules.tag_keys_not_empty,
        class_rules.tag_free("kubernetes.io/cluster/", prefix=True),
        class_rules.tag_free("karpenter.sh/nodepool"),
        class_rules.tag_free("karpenter.sh/managed-by"),
    )
    if release.budgets:
        tags = (
            *tags,
            class_rules.tag_free("karpenter.sh/nodeclaim"),
            class_rules.tag_free("karpenter.k8s.aws/ec2nodeclass"),
        )
    fields = {
        "amiFamily": Schema(
            type="string",
            enum=tuple(name for name in _FAMILIES if release.budgets or name != "AL2023"),
        ),
        "amiSelectorTerms": _terms(
            "amiSelectorTerms", rules.ami_term_selects, rules.AMI_ID_ALONE, leave=("alias", "ssmParameter")
        ),
        "blockDeviceMappings": _mappings(v1["blockDeviceMappings"], release),
        "context": STRING,
        "detailedMonitoring": BOOLEAN,
        "instanceProfile": v1["instanceProfile"],
        "metadataOptions": _metadata(v1["metadataOptions"], release),
        "role": replace(v1["role"], rules=(class_rules.role_given, rules.role_is_kept)),
        "securityGroupSelectorTerms": _terms(
            "securityGroupSelectorTerms",
            selector_rules.group_terms_given,
            selector_rules.group_term_selects,
            rules.GROUP_ID_ALONE,
            rules.GROUP_NAME_ALONE,
        ),
        "subnetSelectorTerms": _terms(
            "subnetSelectorTerms",
            selector_rules.subnet_terms_given,
            selector_rules.subnet_term_selects,
            rules.SUBNET_ID_ALONE,
        ),
        "tags": Schema(type="object", values=STRING, rules=tags),
        "userData": STRING,
    }
    if release.budgets:
        fields["associatePublicIPAddress"] = BOOLEAN
        fields["instanceStorePolicy"] = v1["instanceStorePolicy"]
    spec = Schema(
        type="object",
        required=("amiFamily", "securityGroupSelectorTerms", "subnetSelectorTerms"),
        rules=(class_rules.role_or_profile, rules.custom_has_terms, rules.profile_is_kept),
        properties=fields,
    )
    return document(spec, required=False)


def _mappings(v1: Schema, release: Release) -> Schema:
    assert v1.items is not None
    ebs = v1.items.properties["ebs"]
    fields = {key: child for key, child in ebs.properties.items() if key != "volumeInitializationRate"}
    if release.sizes_as_numbers:
        fields["volumeSize"] = replace(fields["volumeSize"], type="int-or-string")
    ebs = replace(ebs, properties=fields, rules=(class_rules.volume_has_size,))
    return replace(v1, items=replace(v1.items, properties={**v1.items.properties, "ebs": ebs}))


def _metadata(v1: Schema, release: Release) -> Schema:
    # A block that is there and says nothing of it gets 2 in every release; one that is absent, the release's.
    fields = {
        **v1.properties,
        "httpPutResponseHopLimit": Schema(type="integer", minimum=1, maximum=64, default=2),
    }
    return replace(v1, properties=fields, default={"httpPutResponseHopLimit": release.hop_limit})
