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
from dovetail.cloud.aws.userdata import Cluster, Machine, bootstrap, render, toml
from dovetail.cloud.catalog import store

TEXTS = st.text(st.characters(exclude_categories=("Cs",)))
SCALARS = TEXTS | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=10)


@given(st.dictionaries(TEXTS, VALUES))
def test_toml_reads_back_as_it_was(document: dict[str, Any]) -> None:
    assert tomllib.loads(toml.write(document)) == document


def test_toml_has_no_null() -> None:
    with pytest.raises(TypeError, match="TOML has no NoneType"):
        toml.write({"a": None})


def user_data(alias: str, text: str = "", **kubelet: Any) -> str:
    """What an m5.large is told."""
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
