"""Bounds of the worker's memory, read from control groups as containers and machines have them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dovetail.runtime.planning.worker import NO_MEMORY, fault_of, limit_of

TOTAL = 1 << 34
V2 = "sys/fs/cgroup"
V1 = "sys/fs/cgroup/memory"


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, TOTAL),
        ({"proc/self/cgroup": "0::/\n", f"{V2}/memory.max": "1073741824\n"}, 1 << 30),
        ({"proc/self/cgroup": "0::/\n", f"{V2}/memory.max": "max\n"}, TOTAL),
        ({"proc/self/cgroup": "0::/\n"}, TOTAL),
        # Each group above bounds it as well.
        ({"proc/self/cgroup": "0::/a/b\n", f"{V2}/a/memory.max": "5", f"{V2}/a/b/memory.max": "9"}, 5),
        ({"proc/self/cgroup": "0::/a/b\n", f"{V2}/a/memory.max": "9", f"{V2}/a/b/memory.max": "5"}, 5),
        ({"proc/self/cgroup": "4:cpu:/x\n3:memory:/a\n", f"{V1}/a/memory.limit_in_bytes": "7"}, 7),
        # In a container, a group of version 1 may be named as the machine sees it and mounted as the root.
        ({"proc/self/cgroup": "3:memory:/pods/a\n", f"{V1}/memory.limit_in_bytes": "7"}, 7),
        ({"proc/self/cgroup": "3:memory:/\n", f"{V1}/memory.limit_in_bytes": "9223372036854771712"}, TOTAL),
    ],
)
def test_the_limit_of_control_groups(tmp_path: Path, files: dict[str, str], limit: int) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert limit_of(tmp_path, TOTAL) == limit


@pytest.mark.skipif(sys.platform != "linux", reason="bounds nothing elsewhere")
def test_a_bounded_process() -> None:
    program = """if True:
        import resource
        from pathlib import Path
        from dovetail.runtime.planning import worker
        def score(): return int(Path("/proc/self/oom_score_adj").read_text())
        before = score()
        worker.limit_of = lambda root, total: 300 << 20
        worker.bound_memory()
        assert score() == min(before + 500, 1000), score()
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] == 200 << 20
        try:
            bytes(210 << 20)
        except MemoryError:
            print("bounded")
    """
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("bounded\n", "")


@pytest.mark.skipif(sys.platform != "linux", reason="bounds nothing elsewhere")
def test_matrices_are_multiplied_where_there_is_no_memory_left() -> None:
    program = """if True:
        import resource
        from pathlib import Path
        import numpy as np
        from dovetail.runtime.planning import worker
        def data():
            lines = Path("/proc/self/status").read_text().splitlines()
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmData"))
        worker.bound_memory()
        large = np.ones((200, 200))
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (data() + (2 << 20), hard))
        print((large @ large)[0, 0])
    """
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("200.0\n", "")


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("one\ntwo"), "ValueError: one"),
        (ValueError("x" * 5_000), f"ValueError: {'x' * 200}"),
        (ValueError(), "ValueError"),
        (KeyError("a"), "KeyError: 'a'"),
        (
            MemoryError("Unable to allocate 586. KiB for an array"),
            "MemoryError: the problem does not fit the memory of the solver's process; "
            "give the controller more",
        ),
        (
            SystemError("error return without exception set"),  # a MemoryError that Python lost
            "MemoryError: the problem does not fit the memory of the solver's process; "
            "give the controller more",
        ),
        (SystemError("bad argument to internal function"), "SystemError: bad argument to internal function"),
    ],
)
def test_an_exception_is_shown_shortly_and_its_stack_without_data(error: Exception, text: str) -> None:
    fault = fault_of(raised(error))
    line = fault.message.removeprefix(text)
    assert line.startswith(" (raised, test_planning_memory.py:") and line.endswith(")")
    assert "xx" not in fault.stack and "raise error" in fault.stack


def test_an_exception_for_which_there_was_no_memory_for_a_frame_is_shown_without_its_place() -> None:
    fault = fault_of(MemoryError())
    assert fault.message == (
        "MemoryError: the problem does not fit the memory of the solver's process; give the controller more"
    )
    assert not fault.stack


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        ("MemoryError()", NO_MEMORY, ""),
        ("SystemError('error return without exception set')", NO_MEMORY, ""),
        ("OSError('no answers')", 1, "OSError: no answers"),
    ],
)
def test_a_failure_that_cannot_be_reported_ends_the_process_while_its_input_is_read(
    error: str, code: int, told: str
) -> None:
    program = f"""if True:
        from dovetail.runtime.planning import worker
        def write(target, parts):
            raise {error}
        worker._write = write
        worker.main()
    """
    worker = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert worker.stderr is not None
    with worker:  # its input stays open until it has ended
        assert worker.wait() == code
        lines = worker.stderr.read().splitlines()
    assert (lines[-1:] or [""])[0] == told
