"""User data: TOML that reads back as it was, archives in archives, and what is said of broken input."""

from __future__ import annotations

import base64
import tomllib
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dovetail.api.codec import decode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.base.errors import InputError
from dovetail.cloud.aws.amifamily.userdata import Cluster, Machine, bootstrap, render
from dovetail.cloud.aws.amifamily.userdata.bottlerocket import toml
from dovetail.cloud.aws.amifamily.userdata.nodeadm import means_document
from dovetail.cloud.catalog import store

TEXTS = st.text(st.characters(exclude_categories=("Cs",)))
SCALARS = TEXTS | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=10)


@given(st.dictionaries(TEXTS, VALUES))
def test_toml_reads_back_as_it_was(document: dict[str, Any]) -> None:
    assert tomllib.loads(toml(document)) == document


def test_toml_has_no_null() -> None:
    with pytest.raises(TypeError, match="TOML has no NoneType"):
        toml({"a": None})


def user_data(alias: str, text: str = "", **kubelet: Any) -> str:
    """The settings of an m5.large."""
    spec = {"amiSelectorTerms": [{"alias": f"{alias}@latest"}], "userData": text, "kubelet": kubelet}
    record = next(item for item in store.load().types if item.name == "m5.large")
    cluster = Cluster("demo", "https://demo", base64.b64encode(b"ca").decode(), "10.0.0.0/16", "10.0.0.10")
    machine = Machine(record, "spot", labels={"team": "a"})
    return render(bootstrap(decode({"spec": spec}, EC2NodeClass), machine, cluster))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a = ", "invalid UserData toml: Invalid value"),
        ("settings = 3", "settings must be a table, not 3"),
        ("[settings]\nkubernetes = true", "settings.kubernetes must be a table, not True"),
        ("[settings.kubernetes]\nmax-pods = true", "max-pods must be a whole number, not True"),
        ("[settings.kubernetes]\nseccomp-default = 1", "seccomp-default must be true or false, not 1"),
        ("[settings]\nbootstrap-commands = []", "settings.bootstrap-commands must be a table, not []"),
        ("[settings.bootstrap-commands]\na = 1", "settings.bootstrap-commands.a must be a table, not 1"),
        ("[settings.bootstrap-commands.a]\ncommands = ['x']", "a.commands[0] must be a list, not 'x'"),
        ("[settings.bootstrap-commands.a]\nmode = 5", "bootstrap-commands.a.mode must be text, not 5"),
        ("[settings.kubernetes.node-labels]\na = 1", "settings.kubernetes.node-labels.a must be text, not 1"),
        ("[settings.kubernetes.node-taints]\na = 'x'", "kubernetes.node-taints.a must be a list, not 'x'"),
        ("[settings.kubernetes.kube-reserved]\ncpu = 100", "kube-reserved.cpu must be text, not 100"),
        ("[settings.kubernetes]\nallowed-unsafe-sysctls = ['a', 5]", "sysctls[1] must be text, not 5"),
        ("[settings.kubernetes.static-pods]\na = 'x'", "static-pods.a must be a table, not 'x'"),
        ("[settings.kubernetes]\nlog-level = -1", "log-level must be at least 0, not -1"),
        ("[settings.a]\nx = 9223372036854775808", "9223372036854775808 is too large a number"),
    ],
)
def test_broken_settings_of_bottlerocket(text: str, complaint: str) -> None:
    with pytest.raises(InputError) as raised:
        user_data("bottlerocket", text)
    assert complaint in raised.value.message
    assert raised.value.path == "spec.userData"


@pytest.mark.parametrize("alias", ["al2", "bottlerocket", "windows2022"])
def test_a_grace_period_that_is_no_duration(alias: str) -> None:
    with pytest.raises(InputError) as raised:
        user_data(
            alias,
            evictionSoft={"memory.available": "5%"},
            evictionSoftGracePeriod={"memory.available": "2d"},
        )
    assert "did you mean 48h?" in raised.value.message
    assert raised.value.path == "spec.kubelet.evictionSoftGracePeriod.memory.available"


def test_an_archive_within_an_archive_stays_as_it_is() -> None:
    inner = 'Content-Type: multipart/mixed; boundary="I"\n\n--I\nContent-Type: text/plain\n\nx\n--I--\n'
    own = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="O"\n\n--O\n{inner}\n--O--\n'
    assert f"--//\n{inner}\n--//\n" in user_data("al2023", own)


def test_text_that_looks_like_something_else_is_quoted() -> None:
    text = user_data(
        "al2023", kubeReserved={"pid": "1000", "cpu": "1e3"}, evictionHard={"a": "yes", "b": "5%"}
    )
    document = yaml.safe_load(text.partition("# Karpenter Generated NodeConfig\n")[2].partition("--//")[0])
    config = document["spec"]["kubelet"]["config"]
    assert config["kubeReserved"] == {"pid": "1000", "cpu": "1e3"}
    assert config["evictionHard"] == {"a": "yes", "b": "5%"}
    assert 'pid: "1000"' in text
    assert "b: 5%" in text


# ------------------------------------------------------------------ every part of it, line by line


@pytest.mark.parametrize(
    ("own", "written"),
    [
        # Arrays of tables, with tables below them; values of a table come before the tables.
        (
            "[[settings.a]]\nx = 1\n[[settings.a]]\nx = 2\n[settings.a.sub]\nz = 1",
            "[[settings.a]]\nx = 1\n\n[[settings.a]]\nx = 2\n\n[settings.a.sub]\nz = 1\n",
        ),
        (
            "settings.a = [{b = [{c = 1}]}, {d = {e = 1}}]",
            "[[settings.a]]\n[[settings.a.b]]\nc = 1\n\n[[settings.a]]\n[settings.a.d]\ne = 1\n",
        ),
        ("[settings.a]\nx = [1, 'a', {c = 1, b = 2}]", "[settings.a]\nx = [1, 'a', {b = 2, c = 1}]\n"),
        ("[settings.a]\n[settings.b.c]\n", "[settings.a]\n[settings.b]\n[settings.b.c]\n"),
        (
            "[settings.a]\nz = []\ny = {q = 1}\nb = [{}]",
            "[settings.a]\nz = []\n\n[[settings.a.b]]\n[settings.a.y]\nq = 1\n",
        ),
        # Numbers with all their digits, and as the language of the original writes times.
        (
            "[settings.a]\nx = 1e-7\ny = 1e21\nz = 1.0",
            "[settings.a]\nx = 0.0000001\ny = 1000000000000000000000.0\nz = 1.0\n",
        ),
        ("[settings.a]\nx = 0xff\ny = 1_000\nz = -inf", "[settings.a]\nx = 255\ny = 1000\nz = -inf\n"),
        ("[settings.a]\nx = 1979-05-27T07:32:00+00:00", "[settings.a]\nx = 1979-05-27T07:32:00Z\n"),
        ("[settings.a]\nx = 1979-05-27 00:32:00.10+05:30", "[settings.a]\nx = 1979-05-27T00:32:00.1+05:30\n"),
        ("[settings.a]\nx = [1979-05-27, 07:32:00.5]", "[settings.a]\nx = [1979-05-27, 07:32:00.5]\n"),
        # Keys in order; text in single quotes where it can be.
        ("[settings.a]\nb = '5%'\n'k%' = '%s'\n'' = 1", "[settings.a]\n'' = 1\nb = '5%'\n'k%' = '%s'\n"),
        (
            '[settings.a]\nx = "a\\tb"\ny = "\\u007f\\u001b"\nz = "it\'s"',
            '[settings.a]\nx = "a\\tb"\ny = "\\u007F\\u001B"\nz = "it\'s"\n',
        ),
    ],
)
def test_how_settings_are_written(own: str, written: str) -> None:
    text = user_data("bottlerocket", own)
    assert text.startswith(f"[settings]\n{written}")
    assert tomllib.loads(text)["settings"]["kubernetes"]["cluster-name"] == "demo"


@pytest.mark.parametrize(
    ("own", "kept"),
    [
        ("Max-Pods = 7\nlog-level = 3", {"log-level": 3}),  # max-pods is the node's own
        ("Registry-QPS = 7", {"registry-qps": 7}),  # capitals do not count
        ("allowed-unsafe-sysctls = []\nfoo = 1", {}),
        (
            "[settings.kubernetes.credential-providers.e]\nenabled = true\nother = 1",
            {"credential-providers": {"e": {"enabled": True, "image-patterns": []}}},
        ),
        (
            "[settings.kubernetes.static-pods.p]\nmanifest = 'm'\nother = 1",
            {"static-pods": {"p": {"manifest": "m"}}},
        ),
        (
            "[settings.kubernetes.memory-manager-reserved-memory.0]\nmemory = '1Gi'",
            {"memory-manager-reserved-memory": {"0": {"enabled": False, "memory": "1Gi"}}},
        ),
    ],
)
def test_settings_that_the_image_knows_are_kept(own: str, kept: dict[str, Any]) -> None:
    plain = tomllib.loads(user_data("bottlerocket"))["settings"]["kubernetes"]
    found = tomllib.loads(user_data("bottlerocket", f"[settings.kubernetes]\n{own}"))["settings"][
        "kubernetes"
    ]
    assert found == {**plain, **kept}


@pytest.mark.parametrize(
    ("bundle", "byte"), [("not base64!", 3), ("abc", 0), ("abcdef=", 7), ("ab=c", 2), ("ab==a", 4), ("é", 0)]
)
def test_an_authority_that_is_not_base64_is_refused(bundle: str, byte: int) -> None:
    words = f"generating NodeConfig, decoding CABundle, illegal base64 data at input byte {byte}"
    with pytest.raises(InputError, match=words):
        user_data_of("al2023@latest", ca_bundle=bundle)
    assert bundle in user_data_of("bottlerocket@latest", ca_bundle=bundle)  # the image looks at it itself


@pytest.mark.parametrize("bundle", [None, ""])
def test_no_authority(bundle: str | None) -> None:
    assert "certificateAuthority" not in user_data_of("al2023@latest", ca_bundle=bundle)
    flag = " --b64-cluster-ca ''" if bundle == "" else " "
    assert f"--apiserver-endpoint 'https://demo'{flag} \\\n--dns" in user_data_of(
        "al2@latest", ca_bundle=bundle
    )
    settings = tomllib.loads(user_data_of("bottlerocket@latest", ca_bundle=bundle))["settings"]["kubernetes"]
    assert settings.get("cluster-certificate") == bundle


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("MIME-Version: 1.0\nContent-Type: text/plain\n\n", "archive is not in multipart format, %!w(<nil>)"),
        (
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n\n x \n\n",
            "parsing content,  x \n, unexpected EOF",
        ),
        (
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\nx\n\n",
            'parsing content, malformed MIME header: missing colon: "x"',
        ),
    ],
)
def test_archives_that_al2023_refuses(text: str, words: str) -> None:
    with pytest.raises(InputError) as raised:
        user_data_of("al2023@latest", text)
    assert raised.value.message == f"parsing custom UserData, {words}"


def user_data_of(alias: str, text: str = "", *, spec: Any = None, image: str = "", **more: Any) -> str:
    """The user data of an m5d.large of such a node class and cluster; `kubelet` is the class's."""
    written = {
        "amiSelectorTerms": [{"alias": alias}] if alias else [{"id": "ami-1"}],
        "userData": text,
        "kubelet": more.pop("kubelet", {}),
        **(spec or {}),
    }
    record = next(item for item in store.load().types if item.name == "m5d.large")
    known = {"ca_bundle": base64.b64encode(b"ca").decode(), "cidr": "10.0.0.0/16", "dns_ip": "10.0.0.10"}
    known.update((name, more.pop(name)) for name in list(known) if name in more)
    machine = Machine(record, "spot", image_name=image, labels=more.pop("labels", {"team": "a"}))
    assert not more
    cluster = Cluster("demo", "https://demo", **known)
    return render(bootstrap(decode({"spec": written}, EC2NodeClass), machine, cluster))


MARKS = "team=a"
UNREGISTERED = '--register-with-taints="karpenter.sh/unregistered:NoExecute"'


@pytest.mark.parametrize(
    ("changes", "there", "missing"),
    [
        ({}, ["--b64-cluster-ca 'Y2E='", "--dns-cluster-ip '10.0.0.10'", "--use-max-pods false"], ["raid0"]),
        ({"ca_bundle": None}, ["--dns-cluster-ip '10.0.0.10'"], ["--b64-cluster-ca"]),
        ({"dns_ip": None}, ["--b64-cluster-ca"], ["--dns-cluster-ip", "--ip-family"]),
        ({"dns_ip": "fd00::a"}, ["--ip-family ipv6", "--dns-cluster-ip 'fd00::a'"], []),
        (
            {"kubelet": {"clusterDNS": ["fd00::1", "10.0.0.9"]}},
            ["--ip-family ipv6", "'fd00::1'"],
            ["10.0.0.9"],
        ),
        ({"kubelet": {"clusterDNS": ["10.0.0.9", "fd00::1"]}}, ["'10.0.0.9'"], ["--ip-family"]),
        ({"kubelet": {"clusterDNS": []}}, ["--dns-cluster-ip '10.0.0.10'"], []),
        ({"spec": {"instanceStorePolicy": "RAID0"}}, ["--local-disks raid0"], []),
        ({"kubelet": {"imageGCHighThresholdPercent": 85}}, ["--image-gc-high-threshold=85"], ["gc-low"]),
        ({"kubelet": {"imageGCLowThresholdPercent": 80}}, ["--image-gc-low-threshold=80"], ["gc-high"]),
        (
            {"kubelet": {"evictionMaxPodGracePeriod": 60, "podsPerCore": 3, "cpuCFSQuota": False}},
            ["--eviction-max-pod-grace-period=60", "--pods-per-core=3", "--cpu-cfs-quota=false"],
            [],
        ),
        ({"kubelet": {"cpuCFSQuota": True}}, ["--cpu-cfs-quota=true"], ["pods-per-core"]),
        (
            {"kubelet": {"evictionHard": {"b": "5%", "a": "1Gi"}, "kubeReserved": {"cpu": "1"}}},
            ['--eviction-hard="a<1Gi,b<5%"', '--kube-reserved="cpu=1"'],
            ["eviction-soft"],
        ),
    ],
)
def test_what_the_script_of_al2_is_called_with(
    changes: dict[str, Any], there: list[str], missing: list[str]
) -> None:
    text = user_data_of("al2@latest", **changes)
    assert UNREGISTERED in text and MARKS in text
    assert all(words in text for words in there)
    assert not any(words in text for words in missing)


def test_labels_that_no_kubelet_may_set_are_left_to_registration() -> None:
    labels = {
        "team": "a",
        "kubernetes.io/x": "1",
        "sub.kubernetes.io/x": "1",
        "k8s.io/x": "1",
        "node-restriction.kubernetes.io/x": "1",
        "a.node-restriction.kubernetes.io/x": "1",
        "mykubernetes.io/x": "1",
    }
    for alias in ("al2@latest", "al2023@latest", "bottlerocket@latest"):
        text = user_data_of(alias, labels=labels)
        assert "mykubernetes.io/x" in text and "restriction" not in text and "k8s.io/x" not in text
        assert "karpenter.sh/do-not-sync-taints" in text and "karpenter.sh/capacity-type" in text


def test_images_of_ones_own_get_what_is_written_and_nothing_else() -> None:
    assert user_data_of("", "mine\n", spec={"amiFamily": "Custom"}) == "mine\n"


@pytest.mark.parametrize(("ca", "there"), [("Y2E=", True), (None, False)])
def test_windows_gets_the_certificate_if_it_is_known(ca: str | None, there: bool) -> None:
    text = user_data_of("windows2022@latest", "Write-Host 1", ca_bundle=ca)
    assert ("-Base64ClusterCA 'Y2E='" in text) is there is ("-Base64ClusterCA" in text)
    lines = text.split("\n")
    assert (lines[0], lines[1], lines[-1]) == ("<powershell>", "Write-Host 1", "</powershell>")
    assert lines[3].endswith("-DNSClusterIP '10.0.0.10'")
    assert "-DNSClusterIP" not in user_data_of("windows2022@latest", dns_ip=None)


def config(text: str) -> dict[str, Any]:
    """The part of AL2023 that Dovetail adds."""
    document = text.partition("# Karpenter Generated NodeConfig\n")[2].partition("--//")[0]
    found = yaml.safe_load(document)
    assert isinstance(found, dict)
    return found


def test_what_nodeadm_gets() -> None:
    text = user_data_of(
        "al2023@latest", spec={"instanceStorePolicy": "RAID0"}, labels={"team": "é" + "x" * 200}
    )
    spec = config(text)["spec"]
    assert spec["cluster"] == {
        "apiServerEndpoint": "https://demo",
        "certificateAuthority": "Y2E=",
        "cidr": "10.0.0.0/16",
        "name": "demo",
    }
    assert spec["instance"] == {"localStorage": {"strategy": "RAID0"}}
    assert spec["kubelet"]["config"]["clusterDNS"] == ["10.0.0.10"]
    (flag,) = spec["kubelet"]["flags"]
    assert f"team=é{'x' * 200}" in flag and f"team=é{'x' * 200}" in text  # on one line, as it is
    assert (
        "certificateAuthority" not in config(user_data_of("al2023@latest", ca_bundle=None))["spec"]["cluster"]
    )
    assert config(user_data_of("al2023@latest"))["spec"]["instance"] == {"localStorage": {}}
    with pytest.raises(InputError, match="resolving cluster CIDR"):
        user_data_of("al2023@latest", cidr=None)


def test_what_a_class_that_says_nothing_gets() -> None:
    kubelet = config(user_data_of("al2023@latest"))["spec"]["kubelet"]["config"]
    assert kubelet["maxPods"] == 29  # all network interfaces are for pods
    unknown = config(user_data_of("al2023@latest", kubelet={"clusterDNS": []}, dns_ip=None))
    assert "clusterDNS" not in unknown["spec"]["kubelet"]["config"]
    reserved = config(user_data_of("al2023@latest", kubelet={"kubeReserved": {"cpu": "vcpus * 20"}}))
    assert reserved["spec"]["kubelet"]["config"]["kubeReserved"] == {"cpu": "40m"}


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n", True),
        ("kind: NodeConfig\n  apiVersion: node.eks.aws/v1alpha1\nspec: [\n", True),
        ("apiVersion: v1\nkind: ConfigMap\n", False),
        ("# node.eks.aws/v1alpha1\n", False),
        ("#!/bin/bash\napiVersion: node.eks.aws/v1alpha1\n", False),
        ("", False),
    ],
)
def test_what_was_written_as_a_node_config(text: str, means: bool) -> None:
    assert means_document(text) is means


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n", "application/node.eks.aws"),
        ("a: b\n", "application/node.eks.aws"),
        ("# nothing\n", "application/node.eks.aws"),
        ("#!/bin/bash\nls\n", "application/node.eks.aws"),  # a comment, and then a text
        ("ls\n", 'text/x-shellscript; charset="us-ascii"'),
        ("- a\n", 'text/x-shellscript; charset="us-ascii"'),
        ("a: [\n", 'text/x-shellscript; charset="us-ascii"'),
        ("a: 2026-13-45\n", 'text/x-shellscript; charset="us-ascii"'),
    ],
)
def test_what_one_s_own_text_is_taken_for(text: str, kind: str) -> None:
    if text.startswith("#!"):
        kind = 'text/x-shellscript; charset="us-ascii"'
    assert f"--//\nContent-Type: {kind}\n\n{text}\n--//\n" in user_data_of("al2023@latest", text)


MOUNT = "000-mount-instance-storage"


@pytest.mark.parametrize(
    ("alias", "image", "named"),
    [
        ("bottlerocket@latest", "", False),
        ("bottlerocket@v1.46.0", "", False),
        ("bottlerocket@v1.46.1", "", False),
        ("bottlerocket@v1.45.9", "", True),
        ("bottlerocket@v0.99.0", "", True),
        ("bottlerocket@v2.0.0", "", False),
        ("bottlerocket@1.45.0", "", True),
        ("bottlerocket@latest", "bottlerocket-aws-k8s-1.33-x86_64-v1.40.0-abc", False),  # the alias decides
        ("", "bottlerocket-aws-k8s-1.33-x86_64-v1.40.0-abc", True),
        ("", "bottlerocket-aws-k8s-1.33-x86_64-v1.46.0-abc", False),
        ("", "mine", True),  # unknown which: as an old one
        ("", "", False),
    ],
)
def test_old_images_of_bottlerocket_get_the_folders_to_mount(alias: str, image: str, named: bool) -> None:
    spec = {"amiFamily": "Bottlerocket", "instanceStorePolicy": "RAID0"}
    document = tomllib.loads(user_data_of(alias, spec=spec, image=image))
    mount = document["settings"]["bootstrap-commands"][MOUNT]
    init, bind = mount.pop("commands")
    assert init == ["apiclient", "ephemeral-storage", "init"]
    folders = ["--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]
    assert bind == ["apiclient", "ephemeral-storage", "bind", *(folders if named else [])]
    assert mount == {"mode": "always", "essential": True}


def test_commands_of_ones_own_stand_in_order_with_what_the_image_knows() -> None:
    own = (
        "[settings.bootstrap-commands.z]\nzeal = 1\nalso = 2\nessential = false\n"
        'mode = "once"\ncommands = [["a"]]\n'
        '[settings.bootstrap-commands.b]\nmode = "off"\n[settings.kubernetes.node-labels]\nmine = "x"\n'
    )
    text = user_data_of("bottlerocket@latest", own, ca_bundle=None, dns_ip=None)
    commands = tomllib.loads(text)["settings"]["bootstrap-commands"]
    assert list(commands) == ["b", "z"]
    assert list(commands["z"].items()) == [("commands", [["a"]]), ("mode", "once"), ("essential", False)]
    assert commands["b"] == {"commands": [], "mode": "off", "essential": False}
    kubernetes = tomllib.loads(text)["settings"]["kubernetes"]
    assert kubernetes["node-labels"]["mine"] == "x"
    assert not {"cluster-certificate", "cluster-dns-ip", "eviction-hard"} & set(kubernetes)


# ------------------------------------------------------------------ archives


TYPE = "MIME-Version: 1.0\nContent-Type: "
HEAD = f'{TYPE}multipart/mixed; boundary="B"\n'


def parts_of(text: str) -> str:
    """What AL2 makes of an archive, without its own part."""
    return (
        user_data_of("al2@latest", text).partition('boundary="//"\n\n')[2].rpartition("--//\nContent-Type")[0]
    )


@pytest.mark.parametrize(
    ("archive", "parts"),
    [
        (f"{HEAD}\n--B\nContent-Type: a/b\n\nx\n--B--\n", "--//\nContent-Type: a/b\n\nx\n"),
        # Headers that go on, spaces after a boundary, text before and after: as in RFC 2046.
        (f"{HEAD}X-More: a,\n b,\n\tc\n\nnobody's\n--B \t\nContent-Type: a/b\n\nx\n--B--\nrest", None),
        (f"{HEAD}\n--B\n\nx\n--B--\n", "--//\n\nx\n"),
        (
            f"{HEAD}\n--B\ncontent-type: a/b\nCONTENT-TRANSFER-ENCODING: Quoted-Printable\n\na=3Db\n--B--\n",
            "--//\nContent-Type: a/b\n\na=b\n",
        ),
        (
            f"{HEAD}\n--B\nContent-Type: a/b\nContent-Transfer-Encoding: base64\n\neA==\n--B--\n",
            "--//\nContent-Transfer-Encoding: base64\nContent-Type: a/b\n\neA==\n",
        ),
        (f"{HEAD}\nnothing\n", ""),
        # What ends before the headers of a part do is no part; one that ends within its text is an error.
        (f"{HEAD}\n--B\n\nx\n--B\n", "--//\n\nx\n"),
        (f"{HEAD}\n--B\n\nx\n--B\nContent-Type: a/b\n", "--//\n\nx\n"),
        (f"{HEAD}\n--B\n\necho 5% %s\n--B--", "--//\n\necho 5% %s\n"),
        (
            f"{HEAD}\n--B\nContent-Type: a/b;\n  charset=c\n\nx\n--B--\n",
            "--//\nContent-Type: a/b; charset=c\n\nx\n",
        ),
    ],
)
def test_which_parts_an_archive_has(archive: str, parts: str | None) -> None:
    wanted = "--//\nContent-Type: a/b\n\nx\n" if parts is None else parts
    assert parts_of(archive) == wanted
    assert parts_of(archive.replace("\n", "\r\n")) == wanted


@pytest.mark.parametrize(
    ("archive", "line", "complaint"),
    [
        (f"{HEAD}broken\n\n", 3, "malformed header line: broken"),
        (f"{HEAD}X: a\n b\nbroken\n\n", 5, "malformed header line: broken"),
        (f"{HEAD}X: a\n\tb\nbroken\n\n", 5, "malformed header line: broken"),
        (
            "MIME-Version: 1.0\n\nx\n",
            None,
            "user data does not define a content-type header mime: no media type",
        ),
        (
            "MIME-Version: 1.0\nContent-Type: text/plain\n\n",
            None,
            "user data is not in multipart MIME format",
        ),
        (
            'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=""\n\n',
            None,
            "multipart: boundary is empty",
        ),
        (f"{TYPE}multipart/mixed; boundary=//\n\n", None, "mime: invalid media parameter"),
        (f'{TYPE}multipart/mixed; boundary="B\n\n', None, "mime: invalid media parameter"),
        (f"{TYPE}multipart/mixed; a=1; a=2\n\n", None, "mime: duplicate parameter name"),
        (f"{TYPE}a/b/c\n\n", None, "mime: unexpected content after media subtype"),
        (f"{TYPE}nonsense\n\n", None, "user data is not in multipart MIME format"),
        (" MIME-Version: 1.0\n\n", 1, "unreadable user data malformed initial line:  MIME-Version: 1.0"),
        (f'{HEAD}\n--B\nno "header"\n\n--B--', 5, r'malformed MIME header: missing colon: "no \"header\""'),
        (f"{HEAD}\n--B\n--B--\n", 5, 'malformed MIME header: missing colon: "--B--"'),
        ("MIME-Version: 1.0\nContent-Type: multipart/mixed\n\n", None, "multipart: boundary is empty"),
        (f"{HEAD}\n--B\nContent-Type: a/b\n\nx\n", 7, "unexpected EOF"),
    ],
)
def test_what_is_wrong_with_an_archive(archive: str, line: int | None, complaint: str) -> None:
    with pytest.raises(InputError) as raised:
        user_data_of("al2@latest", archive)
    assert complaint in raised.value.message
    assert (raised.value.line, raised.value.path) == (line, "spec.userData")
