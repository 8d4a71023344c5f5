"""What the image is made of, what is known against it, and releases that can be verified.

    python -m scripts.supply_chain pin       write requirements-image.txt: `dovetail[aws]`, files by SHA-256
    python -m scripts.supply_chain sbom      print the list of components, CycloneDX 1.5
    python -m scripts.supply_chain audit     look for withdrawn releases and known vulnerabilities
    python -m scripts.supply_chain release --key KEY [--dist DIR]
                                             beside the wheel in DIR: SBOM, notes, sums and their signature

Exit code 1 is a finding of `audit`, 2 something that is missing. Versions are those of constraints.txt, needs
and licences what installed packages state. Packages are looked up where pip looks for them (its setting
index-url), by the simple API in JSON (PEP 691).

To verify a release, with the maintainers' public key in PUBLIC:

    echo "release@dovetail $(cat PUBLIC)" >allowed
    ssh-keygen -Y verify -f allowed -I release@dovetail -n dovetail-release -s SHA256SUMS.sig <SHA256SUMS
    sha256sum --check --strict SHA256SUMS
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from urllib.parse import quote

from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from dovetail import __version__
from scripts import image

ROOT = Path(__file__).parents[1]
PINS = ROOT / "requirements-image.txt"
# The image has the last one; the others are for those who install the file elsewhere.
PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
# Seconds: an index that has not answered by then does not hold up a check.
TIMEOUT = 10.0
# Requests at a time.
PARALLEL = 8
# What a signature is for, so that one made with the same key for something else does not pass.
NAMESPACE = "dovetail-release"


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
    """`dovetail` and all that `dovetail[aws]` needs on Linux -> the packages that each needs directly."""
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
    setting = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
        capture_output=True,
        text=True,
        check=False,
    )
    return (setting.stdout.strip() or "https://pypi.org/simple").rstrip("/")


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


# The list of components


def sbom(pins: list[Pin], debs: list[image.Deb]) -> str:
    """CycloneDX 1.5: the same text for the same pins, so without a time.

    Debian's packages state their licences within the image (`/usr/share/doc/*/copyright`), the list does not.
    """
    purls = {pin.name: f"pkg:pypi/{pin.name}@{pin.version}" for pin in pins}
    purls["dovetail"] = f"pkg:pypi/dovetail@{__version__}"
    own = {
        "type": "application",
        "bom-ref": purls["dovetail"],
        "name": "dovetail",
        "version": __version__,
        "licenses": _licences("dovetail"),
        "purl": purls["dovetail"],
    }
    components: list[dict[str, Any]] = [
        {
            "type": "library",
            "bom-ref": purls[pin.name],
            "name": pin.name,
            "version": pin.version,
            "hashes": [{"alg": "SHA-256", "content": each} for each in pin.hashes],
            "licenses": _licences(pin.name),
            "purl": purls[pin.name],
        }
        for pin in pins
    ]
    for deb in debs:
        known = f"pkg:deb/debian/{deb.name}@{quote(deb.version, safe='.-~')}"
        purl = f"{known}?arch={deb.machine}&distro={next(iter(image.SUITES))}"
        hashes = [{"alg": "SHA-256", "content": deb.sha256}]
        part = {"type": "library", "bom-ref": purl, "name": deb.name, "version": deb.version}
        components.append({**part, "hashes": hashes, "purl": purl})
    direct = [
        {"ref": purls[name], "dependsOn": [purls[each] for each in needed]}
        for name, needed in needs().items()
    ]
    direct += [{"ref": each["purl"], "dependsOn": []} for each in components[len(pins) :]]
    content = json.dumps([own, components, direct])
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {"component": own},
        "components": components,
        "dependencies": direct,
    }
    return json.dumps(document, indent=2) + "\n"


def _sbom() -> str:
    return sbom(read_pins(PINS.read_text()), image.read_pins(image.PINS.read_text()))


def _licences(name: str) -> list[dict[str, Any]]:
    metadata = distribution(name).metadata
    if expression := metadata.get("License-Expression"):
        return [{"expression": expression}]
    classes = [
        each.split(" :: ")[-1]
        for each in metadata.get_all("Classifier") or ()
        if each.startswith("License ::")
    ]
    # Free text: a name, or all of a licence; classifiers say it in one line.
    text = metadata.get("License") or ""
    names = classes or ([text] if text and "\n" not in text else [])
    return [{"license": {"name": each}} for each in names]


# What is known against them


@dataclass(frozen=True)
class Verdict:
    """What the index knows of one pin: findings, and what it did not know."""

    findings: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()


def judge(pin: Pin, files: list[dict[str, Any]] | None, newest: dict[str, Any] | None) -> Verdict:
    """By the pin's files (PEP 691) and the index's document of the newest release; None: no answer."""
    label = f"{pin.name} {pin.version}"
    findings, unchecked = [], []
    if files is None:
        unchecked.append(f"{label}: the index does not answer for it")
    else:
        by_hash = {each["hashes"].get("sha256"): each for each in files}
        for digest in pin.hashes:
            if digest not in by_hash:
                findings.append(f"{label}: the index no longer has the file with SHA-256 {digest}")
        for reason in sorted({str(each["yanked"]) for each in files if each.get("yanked")}):
            findings.append(f"{label}: withdrawn" + ("" if reason == "True" else f" ({reason})"))
    # The index lists vulnerabilities of the newest release only.
    answer = newest or {}
    if answer.get("info", {}).get("version") != pin.version or "vulnerabilities" not in answer:
        unchecked.append(f"{label}: vulnerabilities")
    else:
        for each in answer["vulnerabilities"]:
            if not each.get("withdrawn"):
                fixed = ", ".join(each.get("fixed_in") or ()) or "no release yet"
                findings.append(f"{label}: {each.get('id')}, mended in {fixed}")
    return Verdict(tuple(findings), tuple(unchecked))


def audit(pins: list[Pin]) -> int:
    """Prints what was found; 1 if that is anything. An index that does not answer is no finding."""
    index = index_url()
    documents = index.removesuffix("/simple") + "/pypi"

    def look_up(pin: Pin) -> Verdict:
        files, newest = None, None
        try:
            files = release_files(index, pin.name, pin.version)
            newest = _get(f"{documents}/{pin.name}/json", "application/json")
        except (OSError, ValueError):
            pass  # what has no answer is reported as unchecked
        return judge(pin, files, newest)

    with ThreadPoolExecutor(PARALLEL) as pool:
        verdicts = list(pool.map(look_up, pins))
    findings = [each for verdict in verdicts for each in verdict.findings]
    unchecked = [each for verdict in verdicts for each in verdict.unchecked]
    for each in findings:
        print(f"finding: {each}")
    for each in unchecked:
        print(f"not checked: {each}")
    print(f"{len(pins)} packages, {len(findings)} findings, {len(unchecked)} could not be checked")
    return 1 if findings else 0


# Releases


def notes(changelog: str, version: str) -> str:
    """The section of one version, its heading included."""
    found = re.search(rf"^## {re.escape(version)}\b.*?(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        raise Unusable(f"CHANGELOG.md has no section '## {version}'; give what is unreleased that heading")
    return found[0].rstrip() + "\n"


def release(dist: Path, key: Path, changelog: str, version: str) -> None:
    """Beside the wheel in `dist`: SBOM, notes, the sums of all three and the signature of the sums."""
    text = notes(changelog, version)
    wheel = dist / f"dovetail-{version}-py3-none-any.whl"
    if not wheel.is_file():
        raise Unusable(f"{wheel} is not there; `make release KEY={key}` builds it")
    if not key.is_file():
        raise Unusable(f"no key {key}; make one with `ssh-keygen -t ed25519 -f {key}`")
    listed = dist / f"dovetail-{version}.cdx.json"
    listed.write_text(_sbom())
    section = dist / f"dovetail-{version}.md"
    section.write_text(text)
    sums = dist / "SHA256SUMS"
    signature = dist / "SHA256SUMS.sig"
    signature.unlink(missing_ok=True)  # ssh-keygen asks before it overwrites
    sums.write_text(
        "".join(
            f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n"
            for each in (section, listed, wheel)
        )
    )
    done = subprocess.run(["ssh-keygen", "-Y", "sign", "-f", key, "-n", NAMESPACE, sums], check=False)
    if done.returncode:
        raise Unusable(f"ssh-keygen did not sign with {key}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.supply_chain")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("pin", "sbom", "audit"):
        commands.add_parser(name)
    releasing = commands.add_parser("release")
    releasing.add_argument("--key", type=Path, required=True)
    releasing.add_argument("--dist", type=Path, default=ROOT / "dist")
    args = parser.parse_args()
    try:
        if args.command == "pin":
            pin()
        elif args.command == "sbom":
            print(_sbom(), end="")
        elif args.command == "audit":
            return audit(read_pins(PINS.read_text()))
        else:
            release(args.dist, args.key, (ROOT / "CHANGELOG.md").read_text(), __version__)
    except (Unusable, OSError) as error:
        print(f"{args.command}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
