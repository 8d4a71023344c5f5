"""What the image is made of.

    python -m scripts.supply_chain pin      write requirements-image.txt: every file of `dovetail[aws]` by its SHA-256

Versions are those of constraints.txt, needs are what installed packages tell. Packages are looked up where pip
looks for them (its setting index-url), by the simple API in JSON (PEP 691).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).parents[1]
PINS = ROOT / "requirements-image.txt"
# The image has the last one; the others are for those who install the file elsewhere.
PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
# Seconds: an index that has not answered by then does not hold up a check.
TIMEOUT = 10.0
# Requests at a time.
PARALLEL = 8


@dataclass(frozen=True)
class Pin:
    """One package of the image: its version and the SHA-256 of each file that may be installed."""

    name: str
    version: str
    hashes: tuple[str, ...]


class Unusable(Exception):
    """Something is missing or wrong; the text says what to do."""


# What is needed


def needs() -> dict[str, tuple[str, ...]]:
    """`dovetail` and each package that `dovetail[aws]` needs on Linux -> the packages that it needs directly."""
    found: dict[str, set[str]] = {}
    todo = [("dovetail", "aws")]
    seen = set(todo)
    while todo:
        name, extra = todo.pop()
        direct = found.setdefault(name, set())
        for text in distribution(name).requires or ():
            requirement = Requirement(text)
            if not _applies(requirement, extra):
                continue
            needed = canonicalize_name(requirement.name)
            direct.add(needed)
            for step in [(needed, ""), *((needed, extra) for extra in sorted(requirement.extras))]:
                if step not in seen:
                    seen.add(step)
                    todo.append(step)
    return {name: tuple(sorted(found[name])) for name in sorted(found)}


def _applies(requirement: Requirement, extra: str) -> bool:
    if requirement.marker is None:
        return True
    linux = {
        "extra": extra,
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
    }
    return any(
        requirement.marker.evaluate(
            {
                **linux,
                "python_version": python,
                "python_full_version": f"{python}.0",
                "platform_machine": machine,
            }
        )
        for python in PYTHONS
        for machine in MACHINES
    )


def constraints() -> dict[str, str]:
    """Package -> version, as constraints.txt has them."""
    pairs = (line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    return {canonicalize_name(name): version.strip() for name, version in pairs}


# Pins


def read_pins(text: str) -> list[Pin]:
    """The pins of a requirements file as `write_pins` writes it."""
    pins = []
    for block in text.replace("\\\n", " ").splitlines():
        if block and not block.startswith("#"):
            package, *hashes = block.split()
            name, version = package.split("==")
            pins.append(Pin(name, version, tuple(each.removeprefix("--hash=sha256:") for each in hashes)))
    return pins


def write_pins(pins: list[Pin]) -> str:
    lines = [
        "# What the image installs, every file by its SHA-256: wheels for Linux, CPython "
        f"{', '.join(PYTHONS)}, {' and '.join(MACHINES)}.",
        "# `make upgrade` writes it, by the versions in constraints.txt.",
    ]
    for pin in pins:
        lines.append(
            " \\\n    ".join(
                [f"{pin.name}=={pin.version}", *(f"--hash=sha256:{each}" for each in pin.hashes)]
            )
        )
    return "\n".join(lines) + "\n"


def pin() -> None:
    versions = constraints()
    names = [name for name in needs() if name != "dovetail"]
    if unknown := [name for name in names if name not in versions]:
        raise Unusable(f"constraints.txt has no version of {', '.join(unknown)}; run `make upgrade`")
    index = index_url()

    def look_up(name: str) -> Pin:
        return Pin(name, versions[name], installable(release_files(index, name, versions[name])))

    with ThreadPoolExecutor(PARALLEL) as pool:
        pins = list(pool.map(look_up, names))
    if without := [each.name for each in pins if not each.hashes]:
        raise Unusable(f"the index has no wheel for Linux with a SHA-256 of {', '.join(without)}")
    PINS.write_text(write_pins(pins))


def installable(files: list[dict[str, Any]]) -> tuple[str, ...]:
    """The SHA-256 of each wheel that fits Linux and one of `PYTHONS`, sorted."""
    return tuple(
        sorted(
            each["hashes"]["sha256"]
            for each in files
            if "sha256" in each["hashes"] and any(_fits(tag) for tag in _tags(each["filename"]))
        )
    )


def _tags(filename: str) -> frozenset[Tag]:
    try:
        return parse_wheel_filename(filename)[3]
    except InvalidWheelFilename:
        return frozenset()


def _fits(tag: Tag) -> bool:
    platform = tag.platform == "any" or (
        tag.platform.startswith("manylinux") and tag.platform.endswith(tuple(f"_{each}" for each in MACHINES))
    )
    exact = {f"cp{each.replace('.', '')}" for each in PYTHONS}
    if tag.abi == "none":
        return platform and (tag.interpreter.startswith("py3") or tag.interpreter in exact)
    if tag.abi == "abi3":
        minor = re.fullmatch(r"cp3(\d+)", tag.interpreter)
        return platform and minor is not None and int(minor[1]) <= int(PYTHONS[-1].split(".")[1])
    return platform and tag.interpreter in exact and tag.abi == tag.interpreter


# The index


def index_url() -> str:
    """Where pip looks for packages."""
    if url := os.environ.get("PIP_INDEX_URL"):
        return url.rstrip("/")
    told = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
        capture_output=True,
        text=True,
        check=False,
    )
    return (told.stdout.strip() or "https://pypi.org/simple").rstrip("/")


def release_files(index: str, name: str, version: str) -> list[dict[str, Any]]:
    """The wheels of one release, as PEP 691 has them. Raises OSError if the index does not answer."""
    page = _get(f"{index}/{name}/", "application/vnd.pypi.simple.v1+json")
    return [each for each in page["files"] if _release(each["filename"]) == (name, version)]


def _release(filename: str) -> tuple[str, str] | None:
    try:
        name, version, *_ = parse_wheel_filename(filename)
    except InvalidWheelFilename:
        return None
    return name, str(version)


def _get(url: str, kind: str) -> Any:
    request = urllib.request.Request(url, headers={"Accept": kind})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        return json.load(answer)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.supply_chain")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("pin")
    told = parser.parse_args()
    try:
        if told.command == "pin":
            pin()
    except (Unusable, OSError) as error:
        print(f"{told.command}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
