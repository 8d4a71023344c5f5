"""Instance types from a file: what is read, and what is said about bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dovetail.base.errors import InputError
from dovetail.cloud.catalog.file import parse_instance_types, read_instance_types
from dovetail.model import labels


def entry(**changes: Any) -> dict[str, Any]:
    offering = {"price": 0.1, "requirements": {labels.ZONE: "a", labels.CAPACITY_TYPE: "spot"}}
    base = {
        "name": "m.large",
        "requirements": [{"key": labels.ARCH, "operator": "In", "values": ["arm64"]}],
        "offerings": [offering],
        "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"},
        "overhead": {"cpu": "70m", "memory": "1Gi"},
    }
    return {**base, **changes}


def test_a_type_is_read_exactly() -> None:
    (kind,) = parse_instance_types([entry()])
    assert kind.allocatable() == {"cpu": 1930, "memory": 7 * 2**30, "pods": 29}
    assert kind.requirements.get(labels.ARCH).has("arm64")
    (offering,) = kind.offerings
    assert (offering.price, offering.zone, offering.capacity_type) == (100_000_000, "a", "spot")
    assert offering.available


def test_reserved_capacity_is_read() -> None:
    reserved = {labels.ZONE: "a", labels.CAPACITY_TYPE: "reserved", "example.com/reservation-id": "r-1"}
    offering = {"price": 0.00001, "requirements": reserved, "reservationCapacity": 3}
    (kind,) = parse_instance_types([entry(offerings=[offering])])
    assert (kind.offerings[0].reservation_id, kind.offerings[0].reservation_capacity) == ("r-1", 3)


@pytest.mark.parametrize(
    ("document", "path", "words"),
    [
        ({}, "", "JSON list"),
        ([], "", "at least one"),
        ([entry(), entry()], "[1].name", "twice"),
        ([entry(capacity={"cpu": "two"})], "[0].capacity", "not a quantity"),
        ([entry(offerings=[{"price": 1, "requirements": {}}])], "[0].offerings[0].requirements", "lacks"),
        ([entry(offerings="none")], "[0].offerings", "Expected"),
        ([entry(requirements=[{"key": "a", "operator": "Near"}])], "[0].requirements", "operator"),
    ],
)
def test_bad_input_names_the_place(document: Any, path: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_instance_types(document, source="types.json")
    assert caught.value.source == "types.json"
    assert caught.value.path.startswith(path)
    assert words in caught.value.message


def test_a_file_is_read_and_its_name_is_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "types.json"
    path.write_text(json.dumps([entry()]), encoding="utf-8")
    assert read_instance_types(path)[0].name == "m.large"
    path.write_text("[", encoding="utf-8")
    with pytest.raises(InputError, match=r"types\.json"):
        read_instance_types(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_instance_types(tmp_path / "missing.json")
