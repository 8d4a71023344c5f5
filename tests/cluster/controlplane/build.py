"""Build the control plane for tests once, into a cache keyed by everything that goes into it.

    python tests/cluster/controlplane/build.py            prints the folder of the programs

Needs Go and its module proxy, for the first build; later runs find the programs in the cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
INPUTS = ("go.mod", "go.sum", "main.go")
GO_VERSION = (1, 26)
VERSION = "k8s.io/component-base/version"
KUBERNETES = "1.36.3"
LD_FLAGS = " ".join(
    (
        "-s -w",
        f"-X {VERSION}.gitVersion=v{KUBERNETES}",
        f"-X {VERSION}.gitMajor=1",
        f"-X {VERSION}.gitMinor=36",
        f"-X {VERSION}.gitTreeState=clean",
    )
)
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl", "helm")


class BuildError(Exception):
    """The programs cannot be built here; says what is missing and what to do."""


def build() -> Path:
    """The folder that holds the programs, built first when the cache does not have them."""
    go = find_go()
    folder = cache() / key(go)
    if (folder / "controlplane").exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # whoever comes second waits and finds it done
        if not (folder / "controlplane").exists():
            fill(go, folder)
    return folder


def find_go() -> str:
    """The go program: on the PATH, or where its own installer puts it."""
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if found is None:
        raise BuildError(
            "the tests on a real control plane need Go 1.26 or newer to build it, and there is no `go` on the"
            " PATH: install it from https://go.dev/dl/"
        )
    return found


def cache() -> Path:
    """Where built programs are kept, by key."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "dovetail" / "controlplane"


def key(go: str) -> str:
    """One name for all that goes into the programs."""
    version = _go(go, "env", "GOVERSION").strip()
    numbers = tuple(int(part) for part in version.removeprefix("go").split("-")[0].split(".")[:2])
    if numbers < GO_VERSION:
        raise BuildError(f"the control plane needs Go 1.26 or newer, {go} is {version}")
    digest = hashlib.sha256(f"{version}\0{LD_FLAGS}\0{PROGRAMS}".encode())
    for name in INPUTS:
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()[:16]


def fill(go: str, folder: Path) -> None:
    """Build aside and move into place, so that a folder in the cache is always whole."""
    print("building the control plane: once, about seven minutes on two cores", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        made, source = Path(name) / "made", Path(name) / "source"
        made.mkdir()
        source.mkdir()
        for item in INPUTS:  # a checkout of something else meanwhile must not disturb a build of minutes
            shutil.copy(HERE / item, source)
        program = made / "controlplane"
        _go(go, "build", "-trimpath", "-ldflags", LD_FLAGS, "-o", str(program), ".", folder=source)
        for link in PROGRAMS:
            (made / link).symlink_to(program.name)
        stages = subprocess.run([program, "kwok-stages"], check=True, capture_output=True, text=True)
        (made / "kwok-stages.yaml").write_text(stages.stdout)
        made.rename(folder)


def _go(go: str, *arguments: str, folder: Path = HERE) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
    done = subprocess.run([go, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise BuildError(
            f"`go {arguments[0]}` failed:\n{done.stderr.strip()[-2000:]}\n"
            "Go modules come from the proxy that `go env GOPROXY` names; it must be reachable for the first"
            " build"
        )
    return done.stdout


if __name__ == "__main__":
    try:
        print(build())
    except BuildError as error:
        sys.exit(f"error: {error}")
