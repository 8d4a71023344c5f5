"""The controller's image, without a container engine, a daemon or root.

    python -m scripts.image pin             write packages-image.txt: Debian packages, files by SHA-256
    python -m scripts.image build [--to DIR] write an OCI image layout to DIR (build/image)

Three layers: Debian's packages, Python's, Dovetail. The image is for the machine that builds it, x86_64 or
aarch64: its Python compiles the modules. Times and owners are fixed, for the same sources to give the same
bytes.

`pin` needs gpgv and dpkg, so it runs on Debian; `build` needs Linux. Both fetch from DEBIAN_MIRROR
(http://deb.debian.org), which drops old versions. `pin` verifies Debian's signature, `build` the sums.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import lzma
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dovetail import __version__

ROOT = Path(__file__).parents[1]
PINS = ROOT / "packages-image.txt"
CACHE = ROOT / "build" / "debs"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PYTHON = "3.13"
# Suite -> folder of the mirror; what is newer wins.
SUITES = {"trixie": "debian", "trixie-security": "debian-security"}
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
WANTED = (
    "base-files",  # the folders, and the release that scanners look for
    "ca-certificates",
    "libpython3.13-stdlib",
    "libstdc++6",  # of compiled wheels
    "python3.13-minimal",
)
# Needed by installation scripts, of which none runs, or by modules of Python that Dovetail does not use.
LEFT_OUT = {
    "awk": "base-files' scripts",
    "debconf": "ca-certificates' scripts",
    "openssl": "ca-certificates' scripts",
    "media-types": "module mimetypes, which has a table of its own",
    "netbase": "names of services",
    "tzdata": "the Python package of that name is there",
    "libdb5.3t64": "module dbm",
    "libncursesw6": "module curses",
    "libreadline8t64": "module readline",
    "libtinfo6": "modules curses and readline",
    "libsqlite3-0": "module sqlite3",
}
# Nothing at run time reads them. Copyright files stay: licences demand it.
DROPPED = ("usr/share/man/", "usr/share/info/", "usr/share/lintian/", "usr/share/locale/", "usr/share/bug/")
USER = 65532
CONFIG = {
    "User": f"{USER}:{USER}",  # by number, so that Kubernetes can see that it is not root
    "ExposedPorts": {"8080/tcp": {}, "8081/tcp": {}},  # metrics, probes
    "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1"],
    "Entrypoint": ["dovetail"],
    "Cmd": ["run"],
    "WorkingDir": "/",
    "Labels": {
        "org.opencontainers.image.title": "dovetail",
        "org.opencontainers.image.description": "A Kubernetes node autoscaler",
        "org.opencontainers.image.version": __version__,
        "org.opencontainers.image.licenses": "Apache-2.0",
    },
}
# Where Debian's Python looks for packages that are not Debian's.
MODULES = f"usr/local/lib/python{PYTHON}/dist-packages"
LAUNCHER = f"""#!/usr/bin/python{PYTHON} -P
import sys

from dovetail.cli.main import main

sys.exit(main())
"""
TIMEOUT = 60.0  # seconds of silence


class Unusable(Exception):
    """Something is missing or wrong; the text says what to do."""


@dataclass(frozen=True, order=True)
class Deb:
    """One file of Debian: the machine it is for (amd64, arm64), and where a mirror has it."""

    machine: str
    name: str
    version: str
    sha256: str
    path: str


def read_pins(text: str) -> list[Deb]:
    return [Deb(*line.split()) for line in text.splitlines() if line and not line.startswith("#")]


def write_pins(debs: list[Deb]) -> str:
    lines = [
        "# Debian's packages in the image: machine, name, version, SHA-256, path at a mirror.",
        "# `make pin-image` writes it, from lists that Debian has signed.",
        *(f"{each.machine} {each.name} {each.version} {each.sha256} {each.path}" for each in sorted(debs)),
    ]
    return "\n".join(lines) + "\n"


# Which packages


def pin() -> None:
    debs = []
    for machine in ARCHITECTURES.values():
        known: dict[str, dict[str, str]] = {}
        for suite, folder in SUITES.items():
            for fields in _paragraphs(_listed(suite, folder, machine)):
                held = known.get(fields["Package"])
                if held is None or _newer(fields["Version"], held["Version"]):
                    known[fields["Package"]] = {**fields, "Filename": f"{folder}/{fields['Filename']}"}
        debs += [
            Deb(machine, name, known[name]["Version"], known[name]["SHA256"], known[name]["Filename"])
            for name in closure(known)
        ]
    PINS.write_text(write_pins(debs))


def closure(known: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What is wanted and what that depends on, but for `LEFT_OUT`; of alternatives the first."""
    found: set[str] = set()
    todo = list(WANTED)
    while todo:
        name = todo.pop()
        if name in found or name in LEFT_OUT:
            continue
        if name not in known:
            raise Unusable(f"Debian has no package {name}; change WANTED or LEFT_OUT in {__file__}")
        found.add(name)
        for field in ("Pre-Depends", "Depends"):
            for part in known[name].get(field, "").split(","):
                if wanted := re.match(r"\s*([a-z0-9+.-]+)", part):
                    todo.append(wanted[1])
    return sorted(found)


def _listed(suite: str, folder: str, machine: str) -> str:
    """The list of packages of one suite, by the sum in its signed release file."""
    base = f"{folder}/dists/{suite}"
    with tempfile.TemporaryDirectory() as temporary:
        signed, plain = Path(temporary, "InRelease"), Path(temporary, "Release")
        signed.write_bytes(_fetch(f"{base}/InRelease"))
        done = subprocess.run(
            ["gpgv", "--quiet", "--keyring", KEYRING, "--output", plain, signed],
            capture_output=True,
            check=False,
            text=True,
        )
        if done.returncode:
            raise Unusable(f"the signature of {base}/InRelease is not Debian's: {done.stderr.strip()}")
        sums = plain.read_text().partition("\nSHA256:")[2]
    name = f"main/binary-{machine}/Packages.xz"
    found = re.search(rf"^ ([0-9a-f]{{64}}) +\d+ {re.escape(name)}$", sums, re.MULTILINE)
    if found is None:
        raise Unusable(f"{base}/InRelease does not list {name}")
    return lzma.decompress(_verified(f"{base}/{name}", found[1])).decode()


def _paragraphs(text: str) -> Iterator[dict[str, str]]:
    for block in text.split("\n\n"):
        fields = {
            name: value.strip()
            for name, mark, value in (line.partition(":") for line in block.splitlines())
            if mark and not name.startswith(" ")
        }
        if fields:
            yield fields


def _newer(one: str, other: str) -> bool:
    return subprocess.run(["dpkg", "--compare-versions", one, "gt", other], check=False).returncode == 0


def _fetch(path: str) -> bytes:
    url = f"{os.environ.get('DEBIAN_MIRROR', 'http://deb.debian.org').rstrip('/')}/{path}"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
            content: bytes = answer.read()
    except OSError as error:
        raise Unusable(
            f"{url}: {error}; if Debian has a newer version by now, `make pin-image` pins it"
        ) from error
    return content


def _verified(path: str, sha256: str) -> bytes:
    content = _fetch(path)
    if (got := hashlib.sha256(content).hexdigest()) != sha256:
        raise Unusable(f"{path} has the SHA-256 {got} instead of {sha256}")
    return content


# Folders of the layers


def debian(into: Path, debs: list[Deb]) -> None:
    """Unpack packages as their files are; instead of their scripts, what those would have written."""
    CACHE.mkdir(parents=True, exist_ok=True)
    status = into / "var/lib/dpkg/status.d"
    for deb in debs:
        kept = CACHE / deb.sha256
        if not kept.is_file() or hashlib.sha256(kept.read_bytes()).hexdigest() != deb.sha256:
            kept.write_bytes(_verified(deb.path, deb.sha256))
        control = unpack(kept.read_bytes(), into)
        status.mkdir(parents=True, exist_ok=True)
        (status / deb.name).write_text(control)  # where scanners look in images without dpkg
    for name in DROPPED:
        shutil.rmtree(into / name, ignore_errors=True)
    trusted = sorted((into / "usr/share/ca-certificates").rglob("*.crt"))
    if not trusted:
        raise Unusable("ca-certificates has no certificates any more")
    _write(into / "etc/ssl/certs/ca-certificates.crt", "".join(each.read_text() for each in trusted))
    (into / "usr/lib/ssl").mkdir(parents=True, exist_ok=True)
    (into / "usr/lib/ssl/cert.pem").unlink(missing_ok=True)
    (into / "usr/lib/ssl/cert.pem").symlink_to("/etc/ssl/certs/ca-certificates.crt")
    _write(
        into / "etc/passwd", f"root:x:0:0:root:/:/nologin\ndovetail:x:{USER}:{USER}:dovetail:/tmp:/nologin\n"
    )
    _write(into / "etc/group", f"root:x:0:\ndovetail:x:{USER}:\n")


def unpack(deb: bytes, into: Path) -> str:
    """Unpack a package's files; its control paragraph."""
    members = dict(_ar(deb))
    control = _tar(members, "control.tar").extractfile("./control")
    if control is None:
        raise Unusable("a package without control file")
    with _tar(members, "data.tar") as files:
        for member in files:
            # The builder need not be root, and must be able to remove it all again.
            member.mode |= 0o700 if member.isdir() else 0o600
            files.extract(member, into, filter="tar", set_attrs=not member.issym())
    return control.read().decode()


def _ar(content: bytes) -> Iterator[tuple[str, bytes]]:
    place = len(b"!<arch>\n")
    while place < len(content):
        head = content[place : place + 60]
        size = int(head[48:58])
        yield head[:16].decode().strip().rstrip("/"), content[place + 60 : place + 60 + size]
        place += 60 + size + size % 2


def _tar(members: Mapping[str, bytes], name: str) -> tarfile.TarFile:
    for suffix in (".xz", ".gz", ""):
        if name + suffix in members:
            return tarfile.open(fileobj=io.BytesIO(members[name + suffix]))
    raise Unusable(f"a package without {name} in a form that can be read: {', '.join(members)}")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def install(into: Path, *what: str | Path) -> None:
    """Python packages, as wheels for the image's Python whatever Python runs this."""
    modules = into / MODULES
    command: list[str | Path] = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"),
        *("--no-deps", "--only-binary=:all:", "--python-version", PYTHON, "--implementation", "cp"),
        *("--abi", f"cp{PYTHON.replace('.', '')}", "--abi", "abi3", "--abi", "none"),
        *(
            part
            for each in ("_2_28", "_2_27", "_2_17", "2014")
            for part in ("--platform", f"manylinux{each}_{platform.machine()}")
        ),
        *("--target", modules, *what),
    ]
    if subprocess.run(command, check=False).returncode:
        raise Unusable("pip did not install the packages; what it wrote says why")
    # Programs name the Python that installed them, and of all only `dovetail` is wanted. A wheel from
    # a folder is noted with the folder.
    shutil.rmtree(modules / "bin", ignore_errors=True)
    for note in modules.glob("*.dist-info/direct_url.json"):
        note.unlink()
        record = note.with_name("RECORD")
        lines = [each for each in record.read_text().splitlines(True) if "direct_url.json" not in each]
        record.write_text("".join(lines))


def compile_modules(base: Path, folder: Path, names: str) -> None:
    """By the image's own Python and C library; `names` is where the image has `folder`.

    By the hash of the source, never looked at again: the root is read-only. In one process and with a fixed
    seed, so that the same bytes come out.
    """
    (loader,) = (base / "usr/lib64").glob("ld-linux-*") or (base / "usr/lib").glob("ld-linux-*")
    library = base / "usr/lib" / f"{platform.machine()}-linux-gnu"
    # -B: what compiling imports would be written with the time of its source, which is that of the build.
    command: list[str | Path] = [
        *(loader, "--library-path", library, base / f"usr/bin/python{PYTHON}", "-Bm", "compileall", "-q"),
        *("-s", folder, "-p", names, "--invalidation-mode", "unchecked-hash", folder),
    ]
    environment = {"PYTHONHOME": str(base / "usr"), "PYTHONHASHSEED": "0", "PYTHONNOUSERSITE": "1"}
    if subprocess.run(command, env=environment, check=False).returncode:
        raise Unusable(f"{names} does not compile")


# Layers and the image


def layer(folder: Path, when: int) -> bytes:
    """A tar archive of a folder that says nothing of when and by which user it was built."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            entry = archive.gettarinfo(path, str(path.relative_to(folder)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = when
            if entry.islnk():  # twice in the archive, so that order does not matter
                entry.type, entry.size = tarfile.REGTYPE, path.stat().st_size
            private = entry.name == "tmp" or entry.name == "var/tmp"
            executable = entry.isdir() or entry.mode & 0o100
            entry.mode = 0o1777 if private else 0o755 if executable else 0o644
            if entry.isreg():
                with path.open("rb") as content:
                    archive.addfile(entry, content)
            else:
                archive.addfile(entry)
    return out.getvalue()


def write_layout(into: Path, layers: list[tuple[str, bytes]], machine: str, when: int) -> str:
    """The image as an OCI layout of layers with what made each; its digest."""
    shutil.rmtree(into, ignore_errors=True)
    blobs = into / "blobs/sha256"
    blobs.mkdir(parents=True)

    def blob(kind: str, content: bytes) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        media = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content)}

    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when))
    packed = [blob("layer.v1.tar+gzip", gzip.compress(content, 6, mtime=0)) for _, content in layers]
    config = {
        "created": made,
        "architecture": machine,
        "os": "linux",
        "config": CONFIG,
        "rootfs": {
            "type": "layers",
            "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}" for _, content in layers],
        },
        "history": [{"created": made, "created_by": by} for by, _ in layers],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("config.v1+json", _json(config)),
        "layers": packed,
    }
    described = blob("manifest.v1+json", _json(manifest))
    tagged = {**described, "annotations": {"org.opencontainers.image.ref.name": __version__}}
    (into / "index.json").write_bytes(
        _json(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.index.v1+json",
                "manifests": [tagged],
            }
        )
    )
    (into / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
    return str(described["digest"])


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def build(into: Path) -> None:
    """Dated as its newest change (SOURCE_DATE_EPOCH, or git's last commit, or 1980)."""
    started = time.monotonic()
    machine = ARCHITECTURES.get(platform.machine())
    if sys.platform != "linux" or machine is None:
        raise Unusable(
            f"images are built on Linux, {' or '.join(ARCHITECTURES)}: this is {platform.machine()}"
        )
    if not hasattr(tarfile, "tar_filter"):
        raise Unusable("this Python is too old to unpack safely; take 3.11.4 or newer")
    os.umask(0o022)
    when = _when()
    debs = [each for each in read_pins(PINS.read_text()) if each.machine == machine]
    with tempfile.TemporaryDirectory(prefix="dovetail-image-") as temporary:
        base, packages, own = (Path(temporary, each) for each in ("base", "packages", "own"))
        debian(base, debs)
        install(packages, "--require-hashes", "--requirement", ROOT / "requirements-image.txt")
        wheels = Path(temporary, "wheels")
        command = (
            "wheel",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--wheel-dir",
            wheels,
            ROOT,
        )
        if subprocess.run(
            [sys.executable, "-m", "pip", *command],
            env={**os.environ, "SOURCE_DATE_EPOCH": str(when)},
            check=False,
        ).returncode:
            raise Unusable("pip did not build Dovetail's wheel; what it wrote says why")
        install(own, *wheels.glob("*.whl"))
        program = own / "usr/local/bin/dovetail"
        _write(program, LAUNCHER)
        program.chmod(0o755)
        compile_modules(base, packages / MODULES, f"/{MODULES}")
        compile_modules(base, own / MODULES, f"/{MODULES}")
        compile_modules(base, base / f"usr/lib/python{PYTHON}", f"/usr/lib/python{PYTHON}")
        layers = [
            ("Debian's packages, packages-image.txt", layer(base, when)),
            ("Python's packages, requirements-image.txt", layer(packages, when)),
            (f"dovetail {__version__}", layer(own, when)),
        ]
    digest = write_layout(into, layers, machine, when)
    sent = sum(each.stat().st_size for each in (into / "blobs/sha256").iterdir())
    unpacked = sum(len(content) for _, content in layers)
    print(
        f"{into}: {digest}\n{machine}, {len(debs)} Debian packages, {sent / 2**20:.1f} MiB to send, "
        f"{unpacked / 2**20:.0f} MiB unpacked, {time.monotonic() - started:.0f} s"
    )


def _when() -> int:
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(epoch)
    done = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, check=False, text=True
    )
    return int(done.stdout) if done.returncode == 0 else 315_532_800


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.image")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("pin")
    building = commands.add_parser("build")
    building.add_argument("--to", type=Path, default=ROOT / "build" / "image")
    args = parser.parse_args()
    try:
        if args.command == "pin":
            pin()
        else:
            build(args.to)
    except (Unusable, OSError) as error:
        print(f"{args.command}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
