"""What karpenter.k8s.aws/v1 EC2NodeClass documents may hold."""

from __future__ import annotations

from dovetail.api.karpenter import ec2nodeclass_rules as rules
from dovetail.api.karpenter import selector_rules as selector
from dovetail.api.karpenter.common_schema import ANY, BOOLEAN, INTEGER, STRING, document
from dovetail.api.rules import Rule
from dovetail.api.schema import Schema

_TERM_TAGS = Schema(type="object", values=STRING, max_properties=20, rules=(selector.tags_not_empty,))


def _terms(properties: dict[str, Schema], *checks: Rule, min_items: int | None = None) -> Schema:
    item = Schema(type="object", properties=properties)
    return Schema(type="array", items=item, min_items=min_items, max_items=30, rules=checks)


def _id(prefix: str, *, whole: bool = False) -> Schema:
    pattern = f"{prefix}-[0-9a-z]+"
    return Schema(
        type="string", pattern=f"^{pattern}$" if whole else pattern, hint=f"an id such as {prefix}-0a1b2c"
    )


_AMI_TERMS = _terms(
    {
        "alias": Schema(
            type="string",
            max_length=30,
            rules=(selector.alias_format, selector.alias_family, selector.alias_windows_latest),
        ),
        "id": _id("ami"),
        "name": STRING,
        "owner": STRING,
        "ssmParameter": STRING,
        "tags": _TERM_TAGS,
    },
    selector.ami_term_selects,
    selector.ami_id_alone,
    selector.ami_alias_alone_in_term,
    selector.ami_alias_only_term,
    min_items=1,
)

_RESERVATION_TERMS = _terms(
    {
        "id": _id("cr", whole=True),
        "instanceMatchCriteria": Schema(type="string", enum=("open", "targeted")),
        "ownerID": Schema(type="string", pattern=r"^[0-9]{12}$", hint="an account id of 12 digits"),
        "tags": _TERM_TAGS,
    },
    selector.reservation_term_selects,
    selector.reservation_id_alone,
)

_EBS = Schema(
    type="object",
    rules=(rules.volume_has_size, rules.rate_needs_snapshot),
    properties={
        "deleteOnTermination": BOOLEAN,
        "encrypted": BOOLEAN,
        "iops": INTEGER,
        "kmsKeyID": STRING,
        "snapshotID": STRING,
        "throughput": INTEGER,
        "volumeInitializationRate": Schema(type="integer", format="int32", minimum=100, maximum=300),
        "volumeSize": Schema(
            type="string",
            pattern=(
                r"^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|[5][0-8][0-9]{3}|59000)Gi"
                r"|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|[6][0-3][0-9]{3}|64000)G"
                r"|([1-9]||[1-5][0-7]|58)Ti|([1-9]||[1-5][0-9]|6[0-3]|64)T)$"
            ),
            hint="a size with a unit, 1Gi to 59000Gi (or G, Ti, T), such as 100Gi",
        ),
        "volumeType": Schema(type="string", enum=("standard", "io1", "io2", "gp2", "sc1", "st1", "gp3")),
    },
)

_INTERFACES = Schema(
    type="array",
    max_items=150,
    rules=(rules.has_primary_interface, rules.interfaces_are_distinct),
    items=Schema(
        type="object",
        required=("networkCardIndex", "deviceIndex", "interfaceType"),
        properties={
            "networkCardIndex": Schema(type="integer", format="int32", minimum=0),
            "deviceIndex": Schema(type="integer", format="int32", minimum=0),
            "interfaceType": Schema(type="string", enum=("interface", "efa-only")),
        },
    ),
)

_SWITCH = ("enabled", "disabled")
_METADATA = Schema(
    type="object",
    default={},
    properties={
        "httpEndpoint": Schema(type="string", enum=_SWITCH, default="enabled"),
        "httpProtocolIPv6": Schema(type="string", enum=_SWITCH, default="disabled"),
        "httpPutResponseHopLimit": Schema(type="integer", format="int64", minimum=1, maximum=64, default=1),
        "httpTokens": Schema(type="string", enum=("required", "optional"), default="required"),
    },
)

_PROPERTIES = {
    "amiFamily": Schema(
        type="string",
        enum=("AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025"),
    ),
    "amiSelectorTerms": _AMI_TERMS,
    "associatePublicIPAddress": BOOLEAN,
    "blockDeviceMappings": Schema(
        type="array",
        max_items=50,
        rules=(rules.one_root_volume,),
        items=Schema(type="object", properties={"deviceName": STRING, "ebs": _EBS, "rootVolume": BOOLEAN}),
    ),
    "capacityReservationSelectorTerms": _RESERVATION_TERMS,
    "connectionTracking": Schema(
        type="object",
        rules=(rules.some_timeout,),
        properties={
            "tcpEstablishedTimeout": Schema(type="integer", format="int32", minimum=60, maximum=432_000),
            "udpStreamTimeout": Schema(type="integer", format="int32", minimum=60, maximum=180),
            "udpTimeout": Schema(type="integer", format="int32", minimum=30, maximum=60),
        },
    ),
    "context": STRING,
    "cpuOptions": Schema(
        type="object", properties={"nestedVirtualization": Schema(type="string", enum=_SWITCH)}
    ),
    "detailedMonitoring": BOOLEAN,
    "enclaveOptions": Schema(type="object", required=("enabled",), properties={"enabled": BOOLEAN}),
    "instanceProfile": Schema(type="string", rules=(rules.profile_given,)),
    "instanceStorePolicy": Schema(type="string", enum=("RAID0",)),
    "ipPrefixCount": Schema(type="integer", format="int32", minimum=0),
    # Upstream kubelet settings, read strictly only when a node is configured.
    "kubelet": Schema(type="object", values=ANY),
    "metadataOptions": _METADATA,
    "networkInterfaces": _INTERFACES,
    "placementGroupSelector": Schema(
        type="object",
        properties={"id": _id("pg", whole=True), "name": Schema(type="string", min_length=1)},
        rules=(selector.placement_group_selects, selector.placement_group_one_way),
    ),
    "role": Schema(type="string", rules=(rules.role_given,)),
    "securityGroupSelectorTerms": _terms(
        {"id": _id("sg"), "name": STRING, "tags": _TERM_TAGS},
        selector.group_terms_given,
        selector.group_term_selects,
        selector.group_id_alone,
        selector.group_name_alone,
    ),
    "subnetSelectorTerms": _terms(
        {"id": _id("subnet"), "tags": _TERM_TAGS},
        selector.subnet_terms_given,
        selector.subnet_term_selects,
        selector.subnet_id_alone,
    ),
    "tags": Schema(type="object", values=STRING, rules=(rules.tag_keys_not_empty, *rules.RESTRICTED_TAGS)),
    "userData": STRING,
}

SCHEMA = document(
    Schema(
        type="object",
        required=("amiSelectorTerms", "subnetSelectorTerms", "securityGroupSelectorTerms"),
        rules=(rules.role_or_profile, rules.family_or_alias, *rules.FAMILY_MATCHES),
        properties=_PROPERTIES,
    ),
    required=False,
)
