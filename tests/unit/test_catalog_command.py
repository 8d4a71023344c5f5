"""`dovetail catalog`: filters, order, notes, and errors that help."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dovetail.base.errors import InputError
from dovetail.cli.catalog import show as catalog
from dovetail.cli.main import BAD_INPUT, OK, run

_Text = pytest.CaptureFixture[str]


def _json(capsys: _Text, *arguments: str) -> dict[str, Any]:
    assert run(["catalog", "-o", "json", *arguments]) == OK
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def _text(capsys: _Text, *arguments: str) -> str:
    assert run(["catalog", *arguments]) == OK
    return capsys.readouterr().out


def test_every_answer_says_where_its_prices_are_from(capsys: _Text) -> None:
    text = " ".join(_text(capsys, "--region", "ap-northeast-2").split())
    assert "ap-northeast-2 sells 754 types." in text
    assert "Prices of ap-northeast-2: ec2-instances-info of 2025-05-28 (496 types);" in text
    assert "258 estimated from relatives (~); spot estimated (~)." in text
    document = _json(capsys, "--region", "us-east-1", "--name", "m5.large")
    assert document["prices"]["date"] == "2026-07-20"
    assert sum(one["types"] for one in document["prices"]["lists"]) + document["withEstimatedPrice"] == 1366


def test_prices_that_no_list_has_are_marked(capsys: _Text) -> None:
    text = _text(capsys, "--name", "m8*.large", "--region", "eu-west-1")
    assert "~0.1180" in text
    assert " 0.1000" in text
    one = _text(capsys, "--name", "m8i.large", "--region", "eu-west-1")
    assert "it is estimated from the type's price elsewhere" in one
    (item,) = _json(capsys, "--name", "m8i.large", "--region", "eu-west-1")["types"]
    assert item["estimatedFrom"] == "the type's price elsewhere"
    assert all(offering["estimated"] for offering in item["offerings"])


def test_the_assumed_region_is_said(capsys: _Text) -> None:
    assert "Region us-east-1, as none was given" in _text(capsys, "--name", "m5.*")
    assert "as none was given" not in _text(capsys, "--name", "m5.*", "--region", "us-west-2")


def test_a_table_has_a_row_per_type_and_stops(capsys: _Text) -> None:
    text = _text(capsys, "--name", "m5.*", "--limit", "3")
    assert "3 of 9 matching types" in text
    assert "~0.0" in text
    assert len([line for line in text.splitlines() if "amd64" in line]) == 3


def test_one_type_is_shown_in_full(capsys: _Text) -> None:
    text = _text(capsys, "--name", "m5.large")
    for part in ("karpenter.k8s.aws/instance-category", "kube-reserved", "us-east-1f", "on-demand", "~0.03"):
        assert part in text


def test_nothing_matches(capsys: _Text) -> None:
    assert "None of the 1360 types" in _text(capsys, "--max-price", "0.0001")


def test_json_has_labels_room_and_offerings(capsys: _Text) -> None:
    document = _json(capsys, "--name", "m5.large", "--region", "ap-northeast-2")
    assert (document["typesInRegion"], document["withoutPrice"], document["matching"]) == (754, 0, 1)
    (item,) = document["types"]
    assert item["labels"]["karpenter.k8s.aws/instance-memory"] == "8192"
    assert item["allocatable"]["cpu"] == "1930m"
    assert item["overhead"]["evictionThreshold"]["memory"] == "100Mi"
    first = item["offerings"][0]
    assert first == {
        "zone": "ap-northeast-2a",
        "capacityType": "on-demand",
        "price": 0.118,
        "available": True,
        "estimated": False,
    }
    assert item["offerings"][-1]["estimated"]


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (["--family", "m5"], 9),
        (["--family", "m5", "--family", "m5a"], 17),
        (["--family", "m5", "--min-cpu", "8"], 7),
        (["--family", "m5", "--min-cpu", "4", "--max-cpu", "8"], 2),
        (["--family", "m5", "--min-memory", "16Gi", "--max-memory", "32"], 2),
        (["--family", "m5", "--arch", "arm64"], 0),
        (["--family", "m5", "--gpu"], 0),
        (["--family", "m5", "--no-gpu"], 9),
        (["--family", "m5", "--max-price", "$0.2", "--capacity-type", "on-demand"], 2),
        (["--name", "m5.?large"], 1),
    ],
)
def test_filters(capsys: _Text, arguments: list[str], count: int) -> None:
    assert _json(capsys, *arguments)["matching"] == count


def test_offerings_are_narrowed(capsys: _Text) -> None:
    (item,) = _json(capsys, "--name", "m5.large", "--zone", "us-east-1b", "--capacity-type", "spot")["types"]
    assert [(one["zone"], one["capacityType"]) for one in item["offerings"]] == [("us-east-1b", "spot")]


@pytest.mark.parametrize("by", ["price", "cpu", "memory", "name"])
def test_order(capsys: _Text, by: str) -> None:
    types = _json(capsys, "--category", "c", "--sort", by, "--capacity-type", "on-demand")["types"]
    if by == "name":
        keys = [item["name"] for item in types]
    elif by == "price":
        keys = [item["offerings"][0]["price"] or float("inf") for item in types]
    else:
        keys = [float(item["labels"][f"karpenter.k8s.aws/instance-{by}"]) for item in types]
    if by == "memory":  # arm64 holds a little back, so the sold size is only almost sorted
        keys = [round(key / 1024) for key in keys]
    assert keys == sorted(keys)


@pytest.mark.parametrize(
    ("arguments", "message", "remedy"),
    [
        ({"region": "us-esat-1"}, "no region 'us-esat-1'", "us-east-1"),
        ({"category": ("999",)}, "'999'", "valid: "),
        ({"family": ("m77i",)}, "'m77i'", "m7i"),
        ({"zone": ("us-east-1z",)}, "'us-east-1z'", "us-east-1f"),
        ({"name": "m5.larg"}, "'m5.larg'", "m5.large"),
        ({"min_cpu": "four"}, "'four' is not a quantity", ""),
        ({"min_memory": "16GB"}, "'16GB' is not a quantity", ""),
        ({"max_price": "-1"}, "below zero", ""),
        ({"limit": -1}, "below zero", "0 shows all"),
    ],
)
def test_bad_values_are_refused(arguments: dict[str, Any], message: str, remedy: str) -> None:
    with pytest.raises(InputError) as caught:
        catalog(**arguments)
    assert message in caught.value.message
    assert remedy in caught.value.remedy


def test_bad_values_exit_with_2_and_no_traceback(capsys: _Text) -> None:
    assert run(["catalog", "--region", "mars-1"]) == BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert "known regions" in captured.err
