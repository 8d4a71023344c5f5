"""The packages of the image by hash, complete and by the versions of constraints.txt."""

from __future__ import annotations

import re
from typing import Any

import pytest

from scripts import supply_chain

PINS = supply_chain.read_pins(supply_chain.PINS.read_text())


def test_every_package_that_the_image_needs_is_pinned_and_no_other() -> None:
    assert [pin.name for pin in PINS] == [name for name in supply_chain.needs() if name != "dovetail"]
    assert {"aiohttp", "botocore", "numpy", "highspy"} <= {pin.name for pin in PINS}


@pytest.mark.parametrize("pin", PINS, ids=lambda pin: pin.name)
def test_pins_have_the_version_of_constraints_and_hashes(pin: supply_chain.Pin) -> None:
    assert pin.version == supply_chain.constraints()[pin.name]
    assert pin.hashes
    assert list(pin.hashes) == sorted(set(pin.hashes))
    assert all(re.fullmatch("[0-9a-f]{64}", each) for each in pin.hashes)


def test_what_is_written_is_what_is_read() -> None:
    assert supply_chain.write_pins(PINS) == supply_chain.PINS.read_text()


@pytest.mark.parametrize(
    ("filename", "fits"),
    [
        ("x-1.0-py3-none-any.whl", True),
        ("x-1.0-py2.py3-none-any.whl", True),
        ("x-1.0-cp313-cp313-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl", True),
        ("x-1.0-cp311-cp311-manylinux2014_aarch64.whl", True),
        ("x-1.0-cp39-abi3-manylinux_2_28_x86_64.whl", True),
        ("x-1.0-cp314-abi3-manylinux_2_28_x86_64.whl", False),
        ("x-1.0-cp313-cp313t-manylinux_2_28_x86_64.whl", False),
        ("x-1.0-cp310-cp310-manylinux_2_28_x86_64.whl", False),
        ("x-1.0-cp313-cp313-musllinux_1_2_x86_64.whl", False),
        ("x-1.0-cp313-cp313-macosx_11_0_arm64.whl", False),
        ("x-1.0-cp313-cp313-manylinux_2_28_ppc64le.whl", False),
        ("x-1.0.tar.gz", False),
    ],
)
def test_files_that_are_pinned(filename: str, fits: bool) -> None:
    files: list[dict[str, Any]] = [{"filename": filename, "hashes": {"sha256": "a" * 64}}]
    assert bool(supply_chain.installable(files)) == fits
