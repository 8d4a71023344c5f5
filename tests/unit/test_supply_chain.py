"""The packages of the image: by hash and complete, listed, audited, and in a signed release."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import pytest

from scripts import image, supply_chain

PINS = supply_chain.read_pins(supply_chain.PINS.read_text())
DEBS = image.read_pins(image.PINS.read_text())


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


def test_the_list_of_components_has_what_cyclonedx_demands() -> None:
    text = supply_chain.sbom(PINS, DEBS)
    assert text == supply_chain.sbom(PINS, DEBS), "the same text each time"
    document = json.loads(text)
    assert set(document) == {
        *("bomFormat", "specVersion", "serialNumber", "version", "metadata", "components", "dependencies")
    }
    assert (document["bomFormat"], document["specVersion"], document["version"]) == ("CycloneDX", "1.5", 1)
    uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    assert re.fullmatch(f"urn:uuid:{uuid}", document["serialNumber"])
    own = document["metadata"]["component"]
    assert own["type"] == "application" and own["name"] == "dovetail"
    wheels, packages = document["components"][: len(PINS)], document["components"][len(PINS) :]
    assert [each["name"] for each in wheels] == [pin.name for pin in PINS]
    refs = {own["bom-ref"]}
    for each, deb in zip(packages, DEBS, strict=True):
        assert set(each) == {"type", "bom-ref", "name", "version", "hashes", "purl"}
        assert (each["name"], each["version"]) == (deb.name, deb.version)
        assert each["hashes"] == [{"alg": "SHA-256", "content": deb.sha256}]
        version = deb.version.replace("+", "%2B").replace(":", "%3A")
        assert each["purl"] == f"pkg:deb/debian/{deb.name}@{version}?arch={deb.machine}&distro=trixie"
        assert each["purl"] == each["bom-ref"] not in refs
        refs.add(each["bom-ref"])
    for each in wheels:
        assert set(each) == {"type", "bom-ref", "name", "version", "hashes", "licenses", "purl"}
        assert each["type"] == "library"
        assert each["purl"] == each["bom-ref"] == f"pkg:pypi/{each['name']}@{each['version']}"
        assert each["bom-ref"] not in refs
        refs.add(each["bom-ref"])
        assert each["version"] == installed(each["name"]), "the licence is that of this version"
        assert each["hashes"]
        for digest in each["hashes"]:
            assert digest["alg"] == "SHA-256" and re.fullmatch("[0-9a-f]{64}", digest["content"])
        # Either one expression, or names: never both.
        expressions = [one for one in each["licenses"] if set(one) == {"expression"}]
        named = [
            one for one in each["licenses"] if set(one) == {"license"} and set(one["license"]) == {"name"}
        ]
        assert each["licenses"] in (named, expressions)
        assert len(expressions) == 1 or named, f"{each['name']} states no licence"
    assert {each["ref"] for each in document["dependencies"]} == refs
    assert {ref for each in document["dependencies"] for ref in each["dependsOn"]} <= refs


_PIN = supply_chain.Pin("x", "1.0", ("a" * 64,))
_FILE = {"hashes": {"sha256": "a" * 64}, "yanked": False}
_NEWEST = {"info": {"version": "1.0"}, "vulnerabilities": []}
_HOLE = {"id": "GHSA-1", "fixed_in": ["1.1"]}


@pytest.mark.parametrize(
    ("files", "newest", "findings", "unchecked"),
    [
        ([_FILE], _NEWEST, [], []),
        ([{**_FILE, "yanked": "broken"}], _NEWEST, ["x 1.0: withdrawn (broken)"], []),
        ([{**_FILE, "yanked": True}], _NEWEST, ["x 1.0: withdrawn"], []),
        (
            [{"hashes": {"sha256": "b" * 64}}],
            _NEWEST,
            [f"x 1.0: the index no longer has the file with SHA-256 {'a' * 64}"],
            [],
        ),
        ([], _NEWEST, [f"x 1.0: the index no longer has the file with SHA-256 {'a' * 64}"], []),
        ([_FILE], {**_NEWEST, "vulnerabilities": [_HOLE]}, ["x 1.0: GHSA-1, mended in 1.1"], []),
        (
            [_FILE],
            {**_NEWEST, "vulnerabilities": [{"id": "GHSA-2"}]},
            ["x 1.0: GHSA-2, mended in no release yet"],
            [],
        ),
        ([_FILE], {**_NEWEST, "vulnerabilities": [{**_HOLE, "withdrawn": "2026-01-01"}]}, [], []),
        ([_FILE], {"info": {"version": "1.1"}, "vulnerabilities": [_HOLE]}, [], ["x 1.0: vulnerabilities"]),
        ([_FILE], {"info": {"version": "1.0"}}, [], ["x 1.0: vulnerabilities"]),
        (None, None, [], ["x 1.0: the index does not answer for it", "x 1.0: vulnerabilities"]),
    ],
)
def test_what_the_index_knows(
    files: list[dict[str, Any]] | None,
    newest: dict[str, Any] | None,
    findings: list[str],
    unchecked: list[str],
) -> None:
    assert supply_chain.judge(_PIN, files, newest) == supply_chain.Verdict(tuple(findings), tuple(unchecked))


def test_an_index_that_does_not_answer_is_no_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    assert supply_chain.audit(PINS) == 0
    assert (
        f"{len(PINS)} packages, 0 findings, {2 * len(PINS)} could not be checked" in capsys.readouterr().out
    )


_CHANGELOG = (
    "# Changelog\n\n## Unreleased\n- c\n\n## 1.10.0\n- b\n\n"
    "## 1.1.0, a day\n\n### Added\n- a\n\n## 1.0.0\n- z\n"
)


def test_notes_are_the_section_of_the_version() -> None:
    assert supply_chain.notes(_CHANGELOG, "1.1.0") == "## 1.1.0, a day\n\n### Added\n- a\n"
    assert supply_chain.notes(_CHANGELOG, "1.0.0") == "## 1.0.0\n- z\n"
    with pytest.raises(supply_chain.Unusable, match=r"no section '## 2\.0\.0'"):
        supply_chain.notes(_CHANGELOG, "2.0.0")


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen on this machine")
def test_a_release_is_verified_and_a_changed_one_is_not(tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    dist = tmp_path / "dist"
    dist.mkdir()
    wheel = dist / "dovetail-1.1.0-py3-none-any.whl"
    with pytest.raises(supply_chain.Unusable, match="is not there"):
        supply_chain.release(dist, key, _CHANGELOG, "1.1.0")
    wheel.write_bytes(b"a wheel")
    with pytest.raises(supply_chain.Unusable, match="no key"):
        supply_chain.release(dist, tmp_path / "none", _CHANGELOG, "1.1.0")
    for _ in range(2):  # once more over what is there
        supply_chain.release(dist, key, _CHANGELOG, "1.1.0")

    # By the commands that the module gives to users.
    how = (supply_chain.__doc__ or "").split("in PUBLIC:\n")[1].replace("PUBLIC", str(tmp_path / "key.pub"))

    def verified() -> bool:
        return subprocess.run(["sh", "-ec", how], cwd=dist, capture_output=True, check=False).returncode == 0

    assert verified()
    wheel.write_bytes(b"another wheel")
    assert not verified()
    wheel.write_bytes(b"a wheel")
    assert verified()
    sums = dist / "SHA256SUMS"
    sums.write_text(sums.read_text().replace(" dovetail", " d0vetail", 1))
    assert not verified()
