"""Where a disk is full, nothing is left half written, and what was there stays."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.clusters import cluster
from benchmarks.questions import write
from dovetail.base.writing import unwritten, whole_folder, write_whole
from dovetail.cli.main import BAD_INPUT


def test_what_is_there_is_replaced_with_its_mode_and_links_stay(tmp_path: Path) -> None:
    old, link = tmp_path / "old", tmp_path / "link"
    old.write_text("old")
    old.chmod(0o640)
    link.symlink_to(old)
    write_whole(link, "new")
    assert link.is_symlink() and old.read_text() == "new" and old.stat().st_mode & 0o777 == 0o640
    assert sorted(child.name for child in tmp_path.iterdir()) == ["link", "old"]


def test_what_is_no_ordinary_file_is_written_as_it_is(tmp_path: Path) -> None:
    write_whole(Path("/dev/null"), b"nothing")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, "said")
    assert os.read(reader, 9) == b"said"
    os.close(reader)


@pytest.mark.parametrize("deep", [False, True])
def test_a_folder_that_cannot_be_finished_goes_again(tmp_path: Path, *, deep: bool) -> None:
    folder = tmp_path / "new" / "below" if deep else tmp_path
    with pytest.raises(OSError, match="full"), whole_folder(folder):
        (folder / "sub").mkdir(parents=True)
        (folder / "sub" / "one").write_text("1")
        (folder / "two").write_text("2")
        raise OSError(28, "the disk is full")
    assert list(tmp_path.iterdir()) == []


def test_why_a_folder_cannot_be_copied_is_said(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "link").symlink_to("nowhere")
    with pytest.raises(shutil.Error) as caught:
        shutil.copytree(tmp_path / "from", tmp_path / "to")
    assert str(unwritten(caught.value, "to")).startswith("to: cannot be written: No such file or directory")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device"), "runs/a: cannot be written: No space left on device"),
        (OSError("the disk is odd"), "runs/a: cannot be written: the disk is odd"),
    ],
)
def test_what_is_not_written_is_said_with_its_reason(error: OSError, said: str) -> None:
    assert str(unwritten(error, Path("runs/a"))) == said
    assert unwritten(error, "x", "name another").remedy == "name another"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write("headroom", folder / "shop", 0.01)
    write("rollout", folder / "image", 0.01)
    items = cluster(0.01)
    (folder / "dump.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return folder


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        (0, "simulate {in}/shop --until 1m --report {out}/r.html"),
        (1, "simulate {in}/shop --until 1m --report {out}/r.html"),
        (1, "compare {in}/shop --set seeds=1 --seeds 1 --until 1m --jobs 1 --report {out}/r.html"),
        (1, "plan -f {in}/dump.json --work 1000 --report {out}/r.html"),
        (1, "replay {in}/dump.json --until 1m --keep {out}/kept/deep"),
        (1, "outage {in}/shop --zone us-east-1a --after 10s --watch 10s --keep {out}/kept"),
        (1, "headroom {in}/shop --workload shop/web --to 6 --over 10s --keep {out}/kept"),
        (0, "diff {in}/dump.json -f {in}/image/new --work 1000 --undo {out}/back.yaml"),
        (1, "rollout {in}/image -f {in}/image/new --after 10s --watch 10s --alone --keep {out}/kept"),
        (0, "crds -d {out}/crds"),
        (1, "crds -d {out}/crds"),
    ],
)
def test_a_full_disk_leaves_nothing_half_written(
    blocks: int, words: str, inputs: Path, tmp_path: Path
) -> None:
    """Files may have so many blocks of 512 bytes, and no more; standard output is a pipe."""
    out = tmp_path / "out"
    out.mkdir()
    given = words.replace("seeds=1", "settings.podMovesPerDay=3")
    given = given.replace("{in}", str(inputs)).replace("{out}", str(out))
    ended = _limited(blocks, given)
    assert ended.returncode == BAD_INPUT, ended.stderr
    assert "File too large" in ended.stderr and "Traceback" not in ended.stderr
    assert [path for path in out.rglob("*") if path.is_file()] == []
    assert not (out / "kept").exists()


def test_where_no_temporary_file_has_room_it_is_told(inputs: Path) -> None:
    ended = _limited(0, f"outage {inputs}/shop --zone us-east-1a --after 10s --watch 10s")
    assert ended.returncode == BAD_INPUT
    assert "No usable temporary directory found in ['/" in ended.stderr and "TMPDIR" in ended.stderr


def _limited(blocks: int, words: str) -> subprocess.CompletedProcess[str]:
    command = f'ulimit -f {blocks}; exec "{sys.executable}" -m dovetail {words}'
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True)


def test_a_manifest_that_cannot_be_mended_stays_as_it_was(tmp_path: Path) -> None:
    """A disk with room for a part of it: `check --fix` writes files of the user's anew."""
    path = tmp_path / "deployment.yaml"
    written = Path(__file__).parents[2] / "examples" / "post-002" / "as-written" / "02-deployment.yaml"
    text = written.read_text() + "# much is said here\n" * 500
    path.write_text(text)
    ended = _limited(8, f'check --fix "{path}"')
    assert ended.returncode == BAD_INPUT, ended.stdout + ended.stderr
    assert "cannot be written: File too large" in ended.stderr
    assert path.read_text() == text and list(tmp_path.iterdir()) == [path]
    _limited(999, f'check --fix "{path}"')
    assert path.read_text() != text and list(tmp_path.iterdir()) == [path]
